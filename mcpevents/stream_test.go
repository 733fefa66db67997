package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A rawOpener opens a stream; the result is read message by message.
type rawOpener func(id any, params string) rawNext

// overStreams runs a test against one log, over both transports.
func overStreams(t *testing.T, c ServerConfig, lc LogConfig, test func(t *testing.T, s *Server, l *Log, open rawOpener)) {
	t.Run("pipe", func(t *testing.T) {
		l := rawLog(lc)
		s, m := rawServer(t, c, rawType(l))
		test(t, s, l, func(id any, params string) rawNext {
			p := rawDial(t, t.Context(), s, m)
			p.send(rawCall(id, methodStream, params))
			return p
		})
	})
	t.Run("http", func(t *testing.T) {
		l := rawLog(lc)
		s, m := rawServer(t, c, rawType(l))
		h := rawListen(t, s, m, HandlerConfig{})
		test(t, s, l, func(id any, params string) rawNext { return rawPost(t, h.URL, rawCall(id, methodStream, params)) })
	})
}

// cursorOfText is a message's cursor; empty for null.
func (m rawMessage) cursor() Cursor {
	var c Cursor
	_ = json.Unmarshal(m.Params.Cursor, &c)
	return c
}

// follow takes n events and returns their ids.
func follow(t testing.TB, p rawNext, n int) string {
	t.Helper()
	var got []string
	for range n {
		got = append(got, want(t, p, noteEvent).Params.ID)
	}
	return strings.Join(got, " ")
}

// live is how many streams the server has.
func (s *Server) live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// gone waits until the server has no streams, which SE-45 gives it a second for.
func gone(t testing.TB, s *Server) {
	t.Helper()
	for range 100 {
		if s.live() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d streams after a second, want none", s.live())
}

func TestSE34RefusedStreamSendsNothingElse(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{}, rawType(l), Type{Name: "broken", Backend: canned{err: errors.New("down")}})
	rawAppend(t, l, 0, 1)
	p := rawDial(t, t.Context(), s, m)
	h := rawListen(t, s, m, HandlerConfig{})
	for params, code := range map[string]int64{
		`"name":"nope",`: -32023,
		`"name":"alert","arguments":{"min":"x"},`:      -32602,
		`"name":"alert","cursor":7,`:                   -32602,
		`"name":"broken",`:                             -32603,
		`"name":"broken","cursor":"x",`:                -32603,
		`"name":"alert","arguments":{},"maxAgeMs":"",`: -32602,
	} {
		p.send(rawCall("x", methodStream, params))
		wantError(t, p.next(), code, "")
		p.quiet(20 * time.Millisecond)
		st := rawPost(t, h.URL, rawCall("x", methodStream, params))
		if got := st.resp.Header.Get("Content-Type"); got != "application/json" || st.resp.StatusCode != 200 {
			t.Errorf("%s: %d %s, want 200 application/json", params, st.resp.StatusCode, got)
		}
		wantError(t, st.answer(), code, "")
	}
	if s.live() != 0 {
		t.Errorf("%d streams, want none", s.live())
	}
}

func TestSE35FirstMessageIsActive(t *testing.T) {
	overStreams(t, ServerConfig{}, LogConfig{}, func(t *testing.T, _ *Server, l *Log, open rawOpener) {
		rawAppend(t, l, 0, 3)
		p := open("s", `"name":"alert","cursor":"nonsense",`)
		m := want(t, p, noteActive)
		if m.cursor() == "" || m.Params.Truncated == nil || !*m.Params.Truncated {
			t.Errorf("active = %s, want a cursor and truncated", m.Text)
		}
		if got := follow(t, p, 3); got != "e0 e1 e2" {
			t.Errorf("backlog = %s", got)
		}
		// a client that comes back with the cursor of that active misses nothing
		p = open("again", fmt.Sprintf(`"name":"alert","cursor":%q,`, m.cursor()))
		if m = want(t, p, noteActive); *m.Params.Truncated {
			t.Errorf("active = %s, want no gap", m.Text)
		}
		if got := follow(t, p, 3); got != "e0 e1 e2" {
			t.Errorf("backlog = %s", got)
		}
	})
}

func TestSE36ActiveCursorIsTheStart(t *testing.T) {
	overStreams(t, ServerConfig{}, LogConfig{}, func(t *testing.T, _ *Server, l *Log, open rawOpener) {
		start, _ := l.Head(t.Context(), Subscription{})
		rawAppend(t, l, 0, 3)
		head, _ := l.Head(t.Context(), Subscription{})
		for params, want3 := range map[string]Cursor{`"cursor":null,`: head, "": head, fmt.Sprintf(`"cursor":%q,`, start): start} {
			m := want(t, open(params, `"name":"alert",`+params), noteActive)
			if m.cursor() != want3 || *m.Params.Truncated {
				t.Errorf("%s: active = %s, want cursor %s", params, m.Text, want3)
			}
		}
	})
}

func TestSE37EveryMessageHasTheRequestID(t *testing.T) {
	overStreams(t, ServerConfig{Heartbeat: 100 * time.Millisecond}, LogConfig{}, func(t *testing.T, s *Server, l *Log, open rawOpener) {
		for _, id := range []any{"text", 5, -7, "5", 1 << 52, `q"\ü`} {
			raw, _ := json.Marshal(id)
			p := open(id, `"name":"alert",`)
			want(t, p, noteActive)
			rawAppend(t, l, 0, 1)
			seen := map[string]bool{}
			for !seen[noteHeartbeat] || !seen[noteEvent] {
				m := p.next()
				if seen[m.Method] = true; string(m.Params.Meta.ID) != string(raw) {
					t.Fatalf("id %s: %s", raw, m.Text)
				}
			}
		}
	})
}

func TestSE37LargeIDKeepsItsDigits(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, rawType(rawLog(LogConfig{})))
	h := rawListen(t, s, m, HandlerConfig{})
	st := rawPost(t, h.URL, strings.Replace(rawCall("ID", methodStream, `"name":"alert",`), `"ID"`, "9007199254740993", 1))
	if m := want(t, st, noteActive); string(m.Params.Meta.ID) != "9007199254740993" {
		t.Errorf("active = %s", m.Text)
	}
}

func TestSE39EachEventHasItsCursor(t *testing.T) {
	overStreams(t, ServerConfig{}, LogConfig{}, func(t *testing.T, _ *Server, l *Log, open rawOpener) {
		start, _ := l.Head(t.Context(), Subscription{})
		rawAppend(t, l, 0, 3)
		p := open("a", fmt.Sprintf(`"name":"alert","cursor":%q,`, start))
		want(t, p, noteActive)
		var cursors []Cursor
		for i := range 5 {
			if i == 3 {
				rawAppend(t, l, 3, 5) // live ones after the replayed
			}
			m := want(t, p, noteEvent)
			if m.Params.ID != fmt.Sprint("e", i) || m.cursor() == "" {
				t.Fatalf("event %d = %s", i, m.Text)
			}
			cursors = append(cursors, m.cursor())
		}
		for i, c := range cursors[:4] {
			q := open(fmt.Sprint("resume", i), fmt.Sprintf(`"name":"alert","cursor":%q,`, c))
			want(t, q, noteActive)
			if got := want(t, q, noteEvent).Params.ID; got != fmt.Sprint("e", i+1) {
				t.Errorf("behind the cursor of e%d came %s", i, got)
			}
		}
	})
}

func TestSE40Heartbeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{}, rawType(l))
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert","arguments":{"min":100},`))
		want(t, p, noteActive)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { // events that are not for this stream do not keep it silent
			for range 50 { // 350 s of them
				time.Sleep(7*time.Second + time.Millisecond)
				_ = l.Append(rawEvent("x", 1))
			}
		})
		last, before := time.Now(), Cursor("")
		for beat := range 30 {
			h := want(t, p, noteHeartbeat)
			if gap := time.Since(last); gap > 20*time.Second || gap < time.Second {
				t.Fatalf("heartbeat after %v, want 15 s", gap)
			}
			last = time.Now()
			head, _ := l.Head(t.Context(), Subscription{})
			if h.cursor() != head || string(h.Params.Meta.ID) != `"s"` || beat < 20 && h.cursor() == before {
				t.Fatalf("heartbeat = %s, want cursor %s, which moved from %s", h.Text, head, before)
			}
			before = h.cursor()
		}
	})
}

func TestSE40HeartbeatsDuringHiccups(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &hiccuping{Log: rawLog(LogConfig{})}
		s, m := rawServer(t, ServerConfig{}, rawType(b))
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		synctest.Wait() // the stream has read and waits
		b.fail.Store(true)
		rawAppend(t, b.Log, 0, 1)
		last, beats, errs := time.Now(), 0, 0
		for time.Since(last) < 20*time.Second && beats < 10 {
			switch m := p.next(); m.Method {
			case noteHeartbeat:
				beats, last = beats+1, time.Now()
			case noteError:
				errs++
			default:
				t.Fatalf("got %s", m.Text)
			}
		}
		if beats < 10 {
			t.Errorf("heartbeats stopped after %d", beats)
		}
		if errs > 100 {
			t.Errorf("%d errors in %d heartbeats, want them to back off", errs, beats)
		}
	})
}

// A hiccuping backend fails while it is told to.
type hiccuping struct {
	*Log
	fail atomic.Bool
	hang atomic.Bool
}

func (b *hiccuping) Read(ctx context.Context, sub Subscription, q Query) (Page, error) {
	if b.hang.Load() {
		<-ctx.Done()
		return Page{}, ctx.Err()
	}
	if b.fail.Load() {
		return Page{}, &Error{Kind: Internal, Data: json.RawMessage(`{"reason":"journal busy"}`)}
	}
	return b.Log.Read(ctx, sub, q)
}

func TestSE42HeartbeatNeverPassesAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{Heartbeat: time.Millisecond}, rawType(l))
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert","arguments":{"min":3},`))
		want(t, p, noteActive)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for i := range 2000 { // one in two is for the stream
				_ = l.Append(rawEvent(strconv.Itoa(i+1), 2+i%2))
				if i%7 == 0 {
					time.Sleep(3 * time.Millisecond / 2)
				}
			}
		})
		sequence := func(c Cursor) int {
			n, err := strconv.Atoi(strings.TrimPrefix(string(c), l.epoch+":"))
			if err != nil {
				t.Fatalf("cursor %q", c)
			}
			return n
		}
		written, beats := 0, 0 // event n has sequence n, and the even ones are ours
		for written < 2000 {
			switch m := p.next(); m.Method {
			case noteEvent:
				if n := sequence(m.cursor()); n != written+2 || m.Params.ID != strconv.Itoa(n) {
					t.Fatalf("event %s behind %d", m.Text, written)
				}
				written += 2
			case noteHeartbeat:
				beats++
				if n := sequence(m.cursor()); n >= written+2 || n < written {
					t.Fatalf("heartbeat at %d, the last event written was %d", n, written)
				}
			default:
				t.Fatalf("got %s", m.Text)
			}
			if written%20 == 0 {
				time.Sleep(time.Millisecond) // a slow reader
			}
		}
		if beats == 0 {
			t.Error("no heartbeat came between the events")
		}
	})
}

func TestSE43HiccupLeavesTheStream(t *testing.T) {
	for name, arm := range map[string]func(b *hiccuping, on bool){
		"error": func(b *hiccuping, on bool) { b.fail.Store(on) },
		"hang":  func(b *hiccuping, on bool) { b.hang.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := &hiccuping{Log: rawLog(LogConfig{})}
				s, m := rawServer(t, ServerConfig{}, rawType(b))
				p := rawDial(t, t.Context(), s, m)
				p.send(rawCall("s", methodStream, `"name":"alert",`))
				want(t, p, noteActive)
				synctest.Wait() // the stream has read and waits
				arm(b, true)
				rawAppend(t, b.Log, 0, 2)
				e := p.next()
				for e.Method == noteHeartbeat {
					e = p.next()
				}
				if e.Method != noteError || e.Params.Error == nil || e.Params.Error.Code != -32603 {
					t.Fatalf("got %s, want an error", e.Text)
				}
				if name == "error" && string(e.Params.Error.Data) != `{"reason":"journal busy"}` {
					t.Errorf("error = %s, want the backend's data", e.Text)
				}
				arm(b, false)
				rawAppend(t, b.Log, 2, 3)
				var got []string
				for len(got) < 3 {
					if m := p.next(); m.Method == noteEvent {
						got = append(got, m.Params.ID)
					}
				}
				if fmt.Sprint(got) != "[e0 e1 e2]" {
					t.Errorf("after the hiccup came %v", got)
				}
			})
		})
	}
}

func TestSE43WaitFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &waitless{Log: rawLog(LogConfig{})}
		s, m := rawServer(t, ServerConfig{}, rawType(b))
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		errs := 0
		for began := time.Now(); time.Since(began) < 5*time.Minute; {
			if p.next().Method == noteError {
				errs++
			}
		}
		if errs == 0 || errs > 100 {
			t.Errorf("%d errors in 5 minutes, want some that back off", errs)
		}
		rawAppend(t, b.Log, 0, 1)
		for {
			if m := p.next(); m.Method == noteEvent {
				break
			}
		}
	})
}

// A waitless backend panics when it is to wait.
type waitless struct{ *Log }

func (waitless) Wait(context.Context, Subscription, Cursor) error { panic("no waiting here") }

// A restless backend always says that there is more.
type restless struct {
	*Log
	reads atomic.Int64
}

func (b *restless) Wait(context.Context, Subscription, Cursor) error { return nil }
func (b *restless) Read(ctx context.Context, sub Subscription, q Query) (Page, error) {
	b.reads.Add(1)
	p, err := b.Log.Read(ctx, sub, q)
	p.More = true
	return p, err
}

func TestRestlessBackendIsPaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &restless{Log: rawLog(LogConfig{})}
		s, m := rawServer(t, ServerConfig{}, rawType(b))
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		for range 4 { // a minute
			want(t, p, noteHeartbeat)
		}
		if n := b.reads.Load(); n > 200 {
			t.Errorf("%d reads in a minute", n)
		}
		rawAppend(t, b.Log, 0, 1)
		if got := follow(t, p, 1); got != "e0" {
			t.Errorf("got %s", got)
		}
	})
}
