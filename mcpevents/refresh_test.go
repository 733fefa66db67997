package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A change that breaks reaches also who was suspended, or not delivered to, then.
func TestBreakReachesWhoIsNotDelivered(t *testing.T) {
	for _, suspended := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.w.Attempts, w.w.TTL = 1, 24*time.Hour })
			w.subscribe(nil)
			settle()
			if suspended {
				w.e.set(status(500))
				for i := range 150 {
					w.add(fmt.Sprint("e", i))
					after(time.Second)
				}
				w.e.set(nil)
			} else {
				w.stop()
			}
			w.e.clear()
			broken := w.c.Types[0]
			broken.Payload = json.RawMessage(`{"type":"object","properties":{"n":{"type":"string"}}}`)
			if err := w.s.Replace(broken, BreaksPayload); err != nil {
				t.Fatal(err)
			}
			broken.Description = "as it is now"
			if err := w.s.Replace(broken, BreaksNothing); err != nil {
				t.Fatal(err)
			}
			if suspended {
				if s := w.subscribe(nil).Status; s == nil || s.Active {
					t.Fatalf("status %+v, want suspended", s)
				}
			} else {
				w.stop = w.run(w.s)
			}
			settle()
			if err := w.log.Append(Event{ID: "new", Data: json.RawMessage(`{"n":"x"}`)}); err != nil {
				t.Fatal(err)
			}
			after(time.Minute)
			if n, got := len(w.e.all("terminated")), eventIDs(w.e.all("")); n != 1 || got != "" {
				t.Errorf("suspended %v: %d terminated and the events %q, want one and none", suspended, n, got)
			}
			w.subscribe(nil) // with the schema as it is
			if err := w.log.Append(Event{ID: "newer", Data: json.RawMessage(`{"n":"x"}`)}); err != nil {
				t.Fatal(err)
			}
			after(time.Minute)
			if got := eventIDs(w.e.all("")); got != "newer" {
				t.Errorf("suspended %v: subscribed anew, %q is delivered, want newer", suspended, got)
			}
		})
	}
}

// Two that follow one subscription would each lose what the other takes.
func TestASubscriptionIsFollowedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, nil)
		s := connectTo(t, w.s)
		first := w.hear(s, r, FollowConfig{}, false)
		settle()
		second := w.hear(s, r, FollowConfig{}, false)
		settle()
		select {
		case err := <-second.done:
			if !errors.Is(err, ErrNoMode) || !Permanent(err) {
				t.Errorf("the second ended with %v, want ErrNoMode", err)
			}
		default:
			t.Fatal("the second follows, too")
		}
		w.add("e1")
		settle()
		if got, _ := first.heard(); got != "e1" {
			t.Errorf("the first heard %q, want e1", got)
		}
		first.stop()
		<-first.done
		settle()
		third := w.hear(s, r, FollowConfig{}, false)
		settle()
		w.add("e2")
		settle()
		if got, _ := third.heard(); got != "e2" {
			t.Errorf("after the first one %q is heard, want e2", got)
		}
	})
}

// A server that has another id for the subscription sends its challenge for that.
func TestChallengeWithANewID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.TTL, w.w.MaxTTL = 10*time.Minute, 10*time.Minute })
		var gone atomic.Bool
		w.e.handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			if gone.Load() {
				http.NotFound(rw, req)
				return
			}
			r.ServeHTTP(rw, req)
		})
		var who atomic.Value
		who.Store("ann")
		w.s.config.Principal = func(context.Context) string { return who.Load().(string) }
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		settle()
		who.Store("ann@example.org")
		after(10 * time.Minute)
		w.add("e1")
		settle()
		if got, _ := h.heard(); got != "e1" {
			t.Errorf("under its new id %q is heard, want e1", got)
		}
		// One that fails all the same leaves the id as it was.
		b := boxes(r)[0]
		id := webhookKey(Subscription{Principal: "ann@example.org", Name: "tick", Arguments: []byte("{}")}, testURL)
		who.Store("carol")
		gone.Store(true)
		after(4 * time.Minute)
		if !b.knows(id) {
			t.Errorf("the id is forgotten, though the server gave no other")
		}
	})
}

// Refreshes that nobody answers are told of, and end the attempt.
func TestRefreshesWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var silent atomic.Bool
		w, r := hooked(t, func(w *world) {
			w.w.NoExpiry = true
			w.c.Types[0].Check = func(ctx context.Context, _ Subscription) error {
				if silent.Load() { // past all patience, the server's too
					<-t.Context().Done()
				}
				return ctx.Err()
			}
		})
		r.c.TTL = -1
		s := connectTo(t, w.s)
		var trouble []error
		h := w.hear(s, r, FollowConfig{OnTrouble: func(err error) { trouble = append(trouble, err) }}, false)
		settle()
		silent.Store(true)
		after(2 * time.Hour)
		select {
		case err := <-h.done:
			if !errors.Is(err, ErrTimeout) || Permanent(err) {
				t.Errorf("it ended with %v, want ErrTimeout", err)
			}
		default:
			t.Fatal("it still waits for the session")
		}
		if len(trouble) != refreshTries-1 {
			t.Errorf("%d errors were told before, want %d", len(trouble), refreshTries-1)
		}
	})
}

// A consumer that works for long does not keep its subscription from being renewed.
func TestASlowConsumerDoesNotLapse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.TTL, w.w.MaxTTL = 2*time.Minute, 2*time.Minute })
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, true)
		settle()
		<-h.batches
		h.next <- true
		w.add("e1")
		settle()
		<-h.batches // and now it works
		after(10 * time.Minute)
		w.add("e2")
		after(time.Second)
		h.slow = false
		h.next <- true
		after(15 * time.Minute)
		if got, _ := h.heard(); got != "e2" {
			t.Errorf("afterwards %q is heard, want e2", got)
		}
		if n := len(w.e.all("verification")); n != 1 {
			t.Errorf("%d challenges: the subscription lapsed", n)
		}
	})
}

// A gap that is told in an answer is told again where that answer may have been
// lost: not when the next refresh shows that it came, and not for ever.
func TestAGapIsToldUntilItIsHeard(t *testing.T) {
	for _, c := range []struct {
		name   string
		next   func(asked, answered Cursor) Cursor // of each refresh
		before bool                                // it is told by what made the subscription
		want   int                                 // times that it is told
	}{
		{"heard", func(_, answered Cursor) Cursor { return answered }, false, 1},
		{"lost", func(asked, _ Cursor) Cursor { return asked }, false, maxTold},
		{"moved", func(Cursor, Cursor) Cursor { return "elsewhere" }, false, maxTold},
		{"heard at the beginning", func(_, answered Cursor) Cursor { return answered }, true, 1},
		{"lost at the beginning", func(asked, _ Cursor) Cursor { return asked }, true, maxTold},
	} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.w.NoEnvelopes, w.w.MaxBody = true, 400 })
			at, told := Cursor("unknown"), 0
			if !c.before {
				at = w.subscribe(nil).Cursor
				settle()
				if err := w.log.Append(Event{ID: "large", Data: []byte(`{"x":"` + strings.Repeat("x", 400) + `"}`)}); err != nil {
					t.Fatal(err)
				}
				after(time.Minute)
			}
			for range 6 {
				res := w.subscribe(map[string]any{"cursor": string(at)})
				if res.Truncated {
					told++
				}
				at = c.next(at, res.Cursor)
				settle()
			}
			if told != c.want {
				t.Errorf("%s: the gap is told %d times, want %d", c.name, told, c.want)
			}
			// A later one is a new one.
			if err := w.log.Append(Event{ID: "larger", Data: []byte(`{"x":"` + strings.Repeat("x", 500) + `"}`)}); err != nil {
				t.Fatal(err)
			}
			after(time.Minute)
			if !w.subscribe(map[string]any{"cursor": string(at)}).Truncated {
				t.Errorf("%s: the next gap is not told", c.name)
			}
		})
	}
}

// Arguments come back from the store byte for byte: they tell which subscription
// is which.
func TestArgumentsOfAnyTextAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		same := map[string]any{"arguments": map[string]any{"q": "a<b> & \u2028\u2029\x7f\"\\ü"}}
		first := w.subscribe(same).ID
		settle()
		if res := w.subscribe(same); res.ID != first || res.Status == nil {
			t.Errorf("the refresh is of %s, status %v, want %s and one", res.ID, res.Status, first)
		}
		if _, err := w.s.webhooks.unsubscribe(as("ann"), ask(same)); err != nil {
			t.Errorf("unsubscribe: %v", err)
		}
	})
}

// A server that is away costs one new secret, however long that is.
func TestSecretsThatAreNotHeardOfDoNotGrow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newInbox(1)
		for range 100 {
			time.Sleep(time.Hour)
			b.secret(time.Minute)
		}
		if n := len(b.secrets()); n != 2 {
			t.Errorf("%d secrets are good, want the first and one new one", n)
		}
		known := b.secret(time.Minute)
		if b.confirm(known); b.secret(time.Minute).Equal(known) {
			t.Errorf("once the server has it there is no other one")
		}
	})
}
