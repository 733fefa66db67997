package mcpevents

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// status answers every delivery the same way.
func status(code int, header ...string) func(post) (int, http.Header, error) {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return func(post) (int, http.Header, error) { return code, h, nil }
}

func TestSE75HeadersAndSignature(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, mode := range []WebhookID{WebhookIDEvent, WebhookIDMessage} {
			w := newWorld(t, func(w *world) { w.w.ID = mode })
			sub := w.subscribe(nil)
			w.add("e1", "e2")
			settle()
			w.s.Withdraw("tick")
			settle()
			posts := w.e.all("*")
			if len(posts) != 4 { // verification, two events, terminated
				t.Fatalf("%s: %d requests, want 4", mode, len(posts))
			}
			seen := map[string]bool{}
			for _, p := range posts {
				id := p.header.Get(headerID)
				if id == "" || strings.Contains(id, ".") || seen[id] {
					t.Errorf("%s: webhook-id %q of %s%s is empty, has a dot or was there already", mode, id, p.body.Type, p.body.EventID)
				}
				seen[id] = true
				if p.body.EventID != "" && (id == p.body.EventID) != (mode == WebhookIDEvent) {
					t.Errorf("%s: webhook-id %q of event %q", mode, id, p.body.EventID)
				}
				if p.body.Type != "" && !strings.HasPrefix(id, "msg_"+p.body.Type+"_") {
					t.Errorf("%s: webhook-id %q of a %s", mode, id, p.body.Type)
				}
				if got := p.header.Get(headerSubscription); got != sub.ID {
					t.Errorf("%s: subscription id %q, want %q", mode, got, sub.ID)
				}
				if got := p.header.Get("Content-Type"); got != "application/json" {
					t.Errorf("%s: content type %q", mode, got)
				}
				if seconds(p) != p.at.Unix() {
					t.Errorf("%s: timestamp %d, want %d", mode, seconds(p), p.at.Unix())
				}
				if !signed(t, p, testSecret) {
					t.Errorf("%s: the signature of %s%s does not verify", mode, p.body.Type, p.body.EventID)
				}
				if signed(t, p, nextSecret) {
					t.Errorf("%s: the signature verifies with another secret", mode)
				}
			}
			w.end()
		}
	})
}

func TestSE76AttemptsDiffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, mode := range []WebhookID{WebhookIDEvent, WebhookIDMessage} {
			w := newWorld(t, func(w *world) { w.w.ID = mode })
			w.subscribe(nil)
			w.e.set(status(500))
			w.add("e1")
			after(20 * time.Second)
			w.end()
			w.start() // attempts of another process are of the same message
			after(time.Hour)
			posts := w.e.all("")
			if len(posts) != 5 {
				t.Fatalf("%s: %d attempts, want 5", mode, len(posts))
			}
			for i, p := range posts[1:] {
				a := posts[i]
				if p.header.Get(headerID) != a.header.Get(headerID) {
					t.Errorf("%s: webhook-id changed from %q to %q", mode, a.header.Get(headerID), p.header.Get(headerID))
				}
				if seconds(p) <= seconds(a) || p.header.Get(headerSignature) == a.header.Get(headerSignature) || !signed(t, p, testSecret) {
					t.Errorf("%s: attempt %d has no timestamp and signature of its own", mode, i+2)
				}
			}
			w.end()
		}
	})
}

func TestSE77Rotation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(nil)
		w.subscribe(map[string]any{"secret": nextSecret})
		check := func(when string, old, now bool) {
			t.Helper()
			w.e.clear()
			w.add("at " + when)
			settle()
			posts := w.e.all("")
			if len(posts) != 1 {
				t.Fatalf("%s: %d requests, want 1", when, len(posts))
			}
			if got := signed(t, posts[0], testSecret); got != old {
				t.Errorf("%s: the old secret verifies: %v, want %v", when, got, old)
			}
			if got := signed(t, posts[0], nextSecret); got != now {
				t.Errorf("%s: the new secret verifies: %v, want %v", when, got, now)
			}
		}
		check("at once", true, true)
		after(14 * time.Minute)
		check("in the grace time", true, true)
		w.subscribe(map[string]any{"secret": nextSecret}) // a refresh does not lengthen it
		after(time.Minute)
		check("after it", false, true)
		w.subscribe(nil) // back to the first
		check("rotated back", true, true)
		third := NewSecret().Reveal()
		w.subscribe(map[string]any{"secret": third})
		check("two secrets are the most", true, false)
		for _, p := range w.e.all("") {
			if !signed(t, p, third) {
				t.Errorf("the newest secret does not verify")
			}
		}
	})
}

func TestSE78RetriesAndRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			code, attempts int
		}{
			{200, 1}, {202, 1}, {204, 1}, {299, 1}, {410, 1}, {413, 1},
			{100, 5}, {301, 5}, {304, 5}, {400, 5}, {401, 5}, {404, 5}, {429, 5}, {500, 5}, {503, 5}, {599, 5},
		} {
			w := newWorld(t, nil)
			w.subscribe(nil)
			w.e.set(status(c.code))
			w.add("e1")
			after(time.Hour - time.Second)
			posts := w.e.all("")
			if len(posts) != c.attempts {
				t.Errorf("%d: %d attempts, want %d", c.code, len(posts), c.attempts)
			}
			if last := posts[len(posts)-1].at; last.Sub(posts[0].at) > 15*time.Minute {
				t.Errorf("%d: the last attempt came after %v", c.code, last.Sub(posts[0].at))
			}
			for i := 2; i < len(posts); i++ {
				if a, b := posts[i-1].at.Sub(posts[i-2].at), posts[i].at.Sub(posts[i-1].at); b < a {
					t.Errorf("%d: it waited %v after %v", c.code, b, a)
				}
			}
			w.end()

			w = newWorld(t, nil) // and the subscription lives on
			w.subscribe(nil)
			w.e.set(status(c.code))
			w.add("e1")
			after(30 * time.Minute)
			w.e.set(nil)
			w.e.clear()
			w.add("e2")
			after(time.Minute)
			if got := eventIDs(w.e.all("")); got != "e2" {
				t.Errorf("%d: afterwards %q is delivered, want e2", c.code, got)
			}
			w.end()
		}
	})
}

func TestRetryAfterIsHonouredWithinTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			header    string
			low, high time.Duration // of the second attempt
		}{
			{time.Now().Add(2 * time.Minute).UTC().Format(http.TimeFormat), 119 * time.Second, 122 * time.Second},
			{"60", 60 * time.Second, 62 * time.Second},
			{"1", 1500 * time.Millisecond, 3 * time.Second},
			{"86400", 15 * time.Minute, 15*time.Minute + time.Second},
			{"-5", 1500 * time.Millisecond, 3 * time.Second},
			{"soon", 1500 * time.Millisecond, 3 * time.Second},
		} {
			w := newWorld(t, nil)
			w.subscribe(map[string]any{"ttlMs": 86_400_000})
			w.e.set(status(429, "Retry-After", c.header))
			w.add("e1")
			settle()
			w.add("e2")
			after(time.Second)
			if d, err := strconv.Atoi(c.header); err == nil && d > 1 {
				if n := len(w.e.all("")); n != 1 {
					t.Errorf("%q: %d requests while the endpoint wants none, want 1", c.header, n)
				}
				got := w.subscribe(map[string]any{"ttlMs": 86_400_000}).Status
				want := int64(min(d, 900))*1000 - 1000
				if got == nil || !got.Throttled || got.RetryAfter == nil || *got.RetryAfter != want || *got.LastError != "http_4xx" {
					t.Errorf("%q: status %+v, want throttled for %d ms", c.header, got, want)
				}
			}
			after(20 * time.Minute)
			var at []time.Duration
			for _, p := range w.e.all("") {
				if p.body.EventID == "e1" {
					at = append(at, p.at.Sub(w.e.all("")[0].at))
				}
			}
			if len(at) < 2 || at[1] < c.low || at[1] > c.high {
				t.Errorf("%q: attempts at %v, want the second between %v and %v", c.header, at, c.low, c.high)
			}
			w.end()
		}
	})
}

// An endpoint that fails rather than being busy is asked for as late as it says,
// and the other events are not kept back.
func TestRetryAfterOfAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(nil)
		w.e.set(func(p post) (int, http.Header, error) {
			if p.body.EventID == "e1" {
				return 500, http.Header{"Retry-After": {"60"}}, nil
			}
			return 200, nil, nil
		})
		w.add("e1")
		settle()
		w.add("e2")
		after(59 * time.Second)
		if got := eventIDs(w.e.all("")); got != "e1 e2" {
			t.Errorf("within the minute %q is sent, want e1 and e2 once", got)
		}
		after(2 * time.Second)
		if got := eventIDs(w.e.all("")); got != "e1 e2 e1" {
			t.Errorf("after it %q is sent, want e1 again", got)
		}
	})
}

func TestSE80CursorNeverPassesUnsettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := w.subscribe(nil)
		w.e.set(func(p post) (int, http.Header, error) {
			if p.body.EventID == "e2" {
				return 500, nil, nil
			}
			return 200, nil, nil
		})
		w.add("e1", "e2", "e3", "e4", "e5")
		after(time.Minute)
		order := []Cursor{first.Cursor}
		page, err := w.log.Read(t.Context(), Subscription{}, Query{After: first.Cursor, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Events {
			order = append(order, v.Cursor)
		}
		check := func() {
			t.Helper()
			for _, p := range w.e.all("") {
				n := slices.Index(order, p.cursor())
				if n < 0 || n > 2 || p.body.EventID == "e1" && n > 1 {
					t.Errorf("%s has cursor %q, number %d: it passes e2", p.body.EventID, p.cursor(), n)
				}
			}
		}
		check()
		if got := len(w.e.all("")); got < 6 {
			t.Fatalf("%d requests, want all five events and retries of e2", got)
		}
		if got := w.subscribe(nil).Cursor; got != order[1] {
			t.Errorf("the refresh says %q, want behind e1, %q", got, order[1])
		}
		// A restart does not deliver again what was taken, and still minds e2.
		w.end()
		before := len(w.e.all(""))
		w.start()
		after(time.Minute)
		check()
		for _, p := range w.e.all("")[before:] {
			if p.body.EventID != "e2" {
				t.Errorf("%s came again after an orderly restart", p.body.EventID)
			}
		}
		w.e.set(nil)
		after(10 * time.Minute)
		if got := w.subscribe(nil).Cursor; got != order[5] {
			t.Errorf("when all is taken the refresh says %q, want %q", got, order[5])
		}
	})
}

func TestGivenUpMovesTheWatermarkAndTellsAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.Attempts = 2 })
		w.subscribe(nil)
		w.e.set(func(p post) (int, http.Header, error) {
			if p.body.EventID == "e1" {
				return 400, nil, nil
			}
			return 200, nil, nil
		})
		w.add("e1", "e2")
		after(time.Minute)
		head, _ := w.log.Head(t.Context(), Subscription{})
		gaps := w.e.all("gap")
		if len(gaps) != 1 || gaps[0].cursor() != head {
			t.Errorf("gaps %v, want one at the head %q", gaps, head)
		}
		if res := w.subscribe(nil); res.Cursor != head || res.Truncated {
			t.Errorf("refresh: %q, %v, want the head, and no gap that was told already", res.Cursor, res.Truncated)
		}
	})
}

func TestGapThatNobodyTakesIsToldAtTheRefresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, none := range []bool{false, true} {
			w := newWorld(t, func(w *world) { w.w.Attempts, w.w.NoEnvelopes = 2, none })
			w.subscribe(nil)
			w.e.set(status(400))
			w.add("e1")
			after(5 * time.Minute)
			if n := len(w.e.all("gap")); n > 0 == none {
				t.Errorf("NoEnvelopes %v: %d gaps were sent", none, n)
			}
			res := w.subscribe(nil)
			if !res.Truncated {
				t.Errorf("NoEnvelopes %v: the refresh is not truncated", none)
			}
			after(time.Minute)
			if w.subscribe(map[string]any{"cursor": string(res.Cursor)}).Truncated {
				t.Errorf("NoEnvelopes %v: the next refresh is truncated again", none)
			}
			w.end()
		}
	})
}

func TestGapAfterHistoryIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.log = NewLog(LogConfig{MaxEvents: 3})
			w.c.Types[0].Backend = w.log
			w.w.PerSubscription = 1
		})
		w.subscribe(nil)
		w.end() // nobody delivers
		w.add("e1", "e2", "e3", "e4", "e5")
		w.start()
		settle()
		if got := eventIDs(w.e.all("")); got != "e3 e4 e5" {
			t.Errorf("delivered %q, want what is left", got)
		}
		gaps := w.e.all("gap")
		if len(gaps) != 1 || gaps[0].cursor() == "" {
			t.Fatalf("%d gaps, want one with a cursor", len(gaps))
		}
		page, err := w.log.Read(t.Context(), Subscription{}, Query{After: gaps[0].cursor(), Limit: 9})
		if err != nil || page.Truncated {
			t.Errorf("the gap's cursor is %q: %v, truncated %v; want one to go on from", gaps[0].cursor(), err, page.Truncated)
		}
	})
}

func TestLargeEventIsSkippedWithAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.MaxBody = 1000 })
		w.subscribe(nil)
		w.add("e1")
		if err := w.log.Append(Event{ID: "large", Data: []byte(`{"x":"` + strings.Repeat("x", 1000) + `"}`)}); err != nil {
			t.Fatal(err)
		}
		w.add("e2")
		settle()
		posts := w.e.all("")
		slices.SortFunc(posts, func(a, b post) int { return strings.Compare(a.body.EventID, b.body.EventID) })
		if got := eventIDs(posts); got != "e1 e2" {
			t.Errorf("delivered %q, want e1 e2", got)
		}
		if n := len(w.e.all("gap")); n != 1 {
			t.Errorf("%d gaps, want 1", n)
		}
		for _, p := range w.e.all("*") {
			if len(p.raw) > 1000 {
				t.Errorf("a body has %d bytes", len(p.raw))
			}
		}
	})
}

func TestSE81ErrorsAreOfTheClosedList(t *testing.T) {
	closed := []string{failRefused, failTimeout, failTLS, failClient, failServer, failChallenge}
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			answer func(post) (int, http.Header, error)
			want   string
		}{
			{"100", status(100), failClient},
			{"302", status(302, "Location", "https://secret.example.net/"), failClient},
			{"404", status(404), failClient},
			{"410", status(410), failClient},
			{"500", status(500), failServer},
			{"hangs", status(0), failTimeout},
			{"error", func(post) (int, http.Header, error) { return 0, nil, errors.New("endpoint text") }, failRefused},
		} {
			w := newWorld(t, nil)
			w.subscribe(nil)
			w.e.set(c.answer)
			w.add("e1")
			after(10 * time.Second)
			s := w.subscribe(nil).Status
			if s == nil || s.LastError == nil || *s.LastError != c.want || !slices.Contains(closed, *s.LastError) {
				t.Errorf("%s: status %+v, want %s", c.name, s, c.want)
			} else if (s.Failing == nil) != (c.name == "410") {
				t.Errorf("%s: failedSince = %v", c.name, s.Failing)
			}
			w.e.set(nil)
			after(10 * time.Minute)
			w.add("e2")
			settle()
			s = w.subscribe(nil).Status
			if s.LastError != nil || s.Failing != nil || s.Accepted == nil || !s.Active {
				t.Errorf("%s: when it works again the status is %+v", c.name, s)
			}
			if strings.Contains(w.out.String(), "secret.example") || strings.Contains(w.out.String(), "endpoint text") {
				t.Errorf("%s: the log has text of the endpoint:\n%s", c.name, w.out.String())
			}
			w.end()
		}
	})
}

func TestSE83NoExpirySurvivesARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.NoExpiry = true })
		w.subscribe(map[string]any{"ttlMs": nil})
		w.end()
		time.Sleep(1000 * time.Hour)
		w.add("e1")
		w.start()
		settle()
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("after a restart %q is delivered, want e1", got)
		}
		w.subscribe(map[string]any{"ttlMs": nil})
		w.subscribe(map[string]any{"ttlMs": nil, "arguments": map[string]any{"a": 1}})
		if n := len(w.e.all("verification")); n != 1 {
			t.Errorf("%d challenges, want the first one alone", n)
		}
	})
}

func TestSE84RefreshReactivates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		day := map[string]any{"ttlMs": 86_400_000}
		w.subscribe(day)
		w.e.set(status(500))
		for i := range 200 {
			w.add(fmt.Sprint("e", i))
			after(20 * time.Second)
		}
		n := len(w.e.all("*"))
		after(time.Hour)
		w.add("last")
		after(time.Hour)
		if got := len(w.e.all("*")); got != n {
			t.Fatalf("%d requests in two hours of suspension, want none", got-n)
		}
		tried := map[string]bool{}
		for _, p := range w.e.all("") {
			tried[p.body.EventID] = true
		}
		w.e.set(nil)
		w.e.clear()
		s := w.subscribe(day).Status
		if s == nil || s.Active || s.LastError == nil || *s.LastError != failServer {
			t.Errorf("status = %+v, want not active, http_5xx", s)
		}
		after(10 * time.Minute)
		got := map[string]bool{}
		for _, p := range w.e.all("") {
			got[p.body.EventID] = true
		}
		if !got["last"] || !got["e199"] {
			t.Errorf("after the refresh %d events were delivered, the last ones missing", len(got))
		}
		// What was being retried when it was suspended is still retried.
		again := 0
		for id := range got {
			if tried[id] {
				again++
			}
		}
		if again == 0 {
			t.Errorf("no event that had been tried before was tried again")
		}
		if s := w.subscribe(day).Status; !s.Active {
			t.Errorf("the next refresh says that it is not active")
		}
	})
}
