package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestCE13AndCE14PollsGoOnFromTheLastCursor(t *testing.T) {
	cursors := []string{"c1", " ", "null", `"`, "a\nb\x00", "<&>\u2028", "é\U0001f600", strings.Repeat("x", 4<<10)}
	bubble(t, func(t *testing.T) {
		results := []string{}
		for i, c := range cursors {
			quoted, _ := json.Marshal(c)
			results = append(results, fmt.Sprintf(`{"events":[%s],"cursor":%s}`, polled(fmt.Sprint("e", i)), quoted))
		}
		p, s := (&fakeServer{list: listOf(pollType), serve: pollOf(results...)}).connect(t, SessionConfig{})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), len(cursors))
		if err != nil || len(got) != len(cursors) {
			t.Fatalf("%d batches, %v", len(got), err)
		}
		for i, m := range p.messages("events/poll") {
			var want any
			if i > 0 {
				want = cursors[i-1]
			}
			if m.param("cursor") != want {
				t.Errorf("poll %d: cursor %.20q, want %.20q", i, m.param("cursor"), want)
			}
		}
	})
}

func TestCE30AnIdleStreamIsOpenedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		var again time.Duration
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(
			func(p *fakePipe, m message) { // and nothing more
				p.note(m, "events/active", `"cursor":"c0"`)
				p.note(m, "events/event", event("e1", "c1"))
			},
			func(p *fakePipe, m message) {
				again = time.Since(start)
				p.note(m, "events/active", `"cursor":"c1"`)
				p.note(m, "events/event", event("e2", "c2"))
			},
		)}).connect(t, SessionConfig{})
		c := Client{Dial: dialOnce(s)}
		got, err := collect(c.Follow(t.Context(), tick, FollowConfig{}), 3)
		if idsOf(got) != "e1 e2" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		if again < time.Minute || again > time.Minute+2*time.Second {
			t.Errorf("opened again after %v, want a minute and the first pause", again)
		}
		synctest.Wait()
		streams, cancels := p.messages("events/stream"), p.messages("notifications/cancelled")
		if len(streams) != 2 || streams[1].param("cursor") != "c1" || len(cancels) == 0 || string(cancels[0].Params["requestId"]) != string(streams[0].ID) {
			t.Errorf("streams %v, cancelled %v, want the silent one cancelled and another from c1", streams, cancels)
		}
	})
}

func TestCE34ATerminatedSubscriptionIsNotOpenedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(bothType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			p.note(m, "events/terminated", `"error":{"code":-32024,"message":"Forbidden"}`)
			p.result(m, `{"resultType":"complete"}`)
		})}).connect(t, SessionConfig{})
		c := Client{Dial: dialOnce(s)}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		_, err := collect(c.Follow(ctx, tick, FollowConfig{}), 9)
		if _, ok := errors.AsType[*TerminatedError](err); !ok || !errors.Is(err, ErrForbidden) {
			t.Errorf("%v, want terminated, Forbidden", err)
		}
		if n, polls := len(p.messages("events/stream")), len(p.messages("events/poll")); n != 1 || polls != 0 {
			t.Errorf("%d streams and %d polls, want 1 and 0", n, polls)
		}
	})
}

func TestCE43AStaleCatalogueIsReadAgain(t *testing.T) {
	for _, one := range []struct {
		ttl  string
		want string // how many lists there were after each follower, 0 s, 9 s and 11 s after the start
	}{
		{`,"ttlMs":10000`, "1 1 2"},
		{`,"ttlMs":0`, "1 2 3"},
		{``, "1 2 3"},
	} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{list: func(message) string { return `{"events":[` + pollType + `]` + one.ttl + `}` }, serve: pollOf(`{"events":[],"cursor":"c1"}`)}).connect(t, SessionConfig{})
			var lists []string
			for _, wait := range []time.Duration{0, 9 * time.Second, 2 * time.Second} {
				time.Sleep(wait)
				if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); err != nil {
					t.Fatal(err)
				}
				lists = append(lists, fmt.Sprint(len(p.messages("events/list"))))
			}
			if got := strings.Join(lists, " "); got != one.want {
				t.Errorf("%q: lists %s, want %s", one.ttl, got, one.want)
			}
		})
	}
}

// overDials runs a test of both ends, over a pipe and over HTTP.
func overDials(t *testing.T, c ServerConfig, types func() []Type, test func(t *testing.T, s *Server, session *Session)) {
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "0"}, nil)
	run := func(name string, dial func(t *testing.T, s *Server, m *mcp.Server) (*Session, error)) {
		t.Run(name, func(t *testing.T) {
			s, m := rawServer(t, c, types()...)
			session, err := dial(t, s, m)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Close() })
			test(t, s, session)
		})
	}
	run("pipe", func(t *testing.T, s *Server, m *mcp.Server) (*Session, error) {
		here, there := mcp.NewInMemoryTransports()
		if _, err := m.Connect(t.Context(), s.Transport(there), nil); err != nil {
			return nil, err
		}
		return Connect(t.Context(), client, here, SessionConfig{})
	})
	run("http", func(t *testing.T, s *Server, m *mcp.Server) (*Session, error) {
		h := rawListen(t, s, m, HandlerConfig{})
		return Connect(t.Context(), client, &mcp.StreamableClientTransport{Endpoint: h.URL, MaxRetries: -1}, SessionConfig{})
	})
}

func TestCE44AndSE56OurClientHearsOfChangesAtOurServer(t *testing.T) {
	l := rawLog(LogConfig{})
	overDials(t, ServerConfig{}, func() []Type { return nil }, func(t *testing.T, s *Server, session *Session) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		heard, over := make(chan struct{}, 9), make(chan error, 1)
		go func() {
			var last error
			for _, last = range session.Listen(ctx) {
				if last == nil {
					heard <- struct{}{}
				}
			}
			over <- last
		}()
		watched(t, s, 1)
		for i, change := range []func(){
			func() { _ = s.Offer(rawType(l)) },
			func() { _ = s.Replace(rawType(l), BreaksNothing) },
			func() { s.Withdraw("alert") },
		} {
			change()
			select {
			case <-heard:
			case err := <-over:
				t.Fatalf("change %d: the listen ended with %v", i, err)
			case <-ctx.Done():
				t.Fatalf("change %d is not heard of", i)
			}
		}
		stop()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen ended with %v, want Canceled", err)
		}
		watched(t, s, 0)
	})
	overDials(t, ServerConfig{NoListChanged: true}, alerts, func(t *testing.T, s *Server, session *Session) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		for _, err := range session.Listen(ctx) {
			t.Errorf("Listen yields %v where nothing is announced", err)
		}
		if ctx.Err() != nil {
			t.Error("Listen did not end where nothing is announced")
		}
	})
}

func TestCE43AndSE56AFollowerGoesOverToAModeThatIsNew(t *testing.T) {
	var l *Log
	typ := func(modes ...Mode) Type {
		t := rawType(l)
		t.Modes = modes
		return t
	}
	c := ServerConfig{NextPoll: time.Hour} // only a stream brings an event in time
	overDials(t, c, func() []Type { l = rawLog(LogConfig{}); return []Type{typ(Poll)} }, func(t *testing.T, s *Server, session *Session) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		batches := 0
		for b, err := range session.Follow(ctx, Subscription{Name: "alert"}, FollowConfig{}) {
			if err != nil {
				t.Fatal(err)
			}
			if batches++; len(b.Events) > 0 {
				if b.Events[0].ID != "e0" || s.live() != 1 {
					t.Errorf("%v, %d streams, want e0 by one", b, s.live())
				}
				return
			}
			if batches > 1 {
				continue
			}
			watched(t, s, 1)
			if err := s.Replace(typ(Push, Poll), BreaksNothing); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(50*time.Millisecond, func() { _ = l.Append(rawEvent("e0", 1)) })
		}
	})
}
