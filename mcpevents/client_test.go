package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialOnce is a Dial that returns sessions one after the other, and then the last
// one again.
func dialOnce(sessions ...*Session) func(context.Context) (*Session, error) {
	var n atomic.Int64
	return func(context.Context) (*Session, error) {
		return sessions[min(int(n.Add(1)), len(sessions))-1], nil
	}
}

// A redialer dials a fake server, and counts.
type redialer struct {
	t     *testing.T
	f     *fakeServer
	mu    sync.Mutex
	at    []time.Time
	pipes []*fakePipe
}

func (r *redialer) dial(ctx context.Context) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, transport := r.f.pipe(r.t)
	r.at, r.pipes = append(r.at, time.Now()), append(r.pipes, p)
	return Connect(ctx, mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil), transport, SessionConfig{})
}

func TestCE13AndCE25AReopenedStreamHasANewIDAndTheLastCursor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			n++
			p.note(m, "events/active", fmt.Sprintf(`"cursor":%s`, orNull(m.Params["cursor"], `"c0"`)))
			p.note(m, "events/event", event(fmt.Sprint("e", n), fmt.Sprint("c", n)))
			p.result(m, `{}`)
		})}).connect(t, SessionConfig{})
		c := Client{Dial: dialOnce(s)}
		for b, err := range c.Follow(t.Context(), tick, FollowConfig{MaxAge: time.Minute}) {
			if err != nil || len(b.Events) > 0 && b.Events[0].ID == "e4" {
				break
			}
		}
		seen := map[string]bool{}
		for i, m := range p.messages("events/stream") {
			want := any(fmt.Sprint("c", i))
			if i == 0 {
				want = nil
			}
			if m.param("cursor") != want || seen[string(m.ID)] {
				t.Errorf("stream %d: id %s, cursor %v, want %v", i, m.ID, m.param("cursor"), want)
			}
			if (m.Params["maxAgeMs"] != nil) != (i > 0) {
				t.Errorf("stream %d: maxAgeMs %s", i, m.Params["maxAgeMs"])
			}
			seen[string(m.ID)] = true
		}
		if len(seen) != 4 {
			t.Errorf("%d streams, want 4", len(seen))
		}
	})
}

func orNull(raw []byte, other string) string {
	if string(raw) == "null" {
		return other
	}
	return string(raw)
}

func TestCE41ADeadServerSeesNoStorm(t *testing.T) {
	for name, script := range map[string]func(p *fakePipe, m message){
		"closing at once": func(p *fakePipe, m message) { p.result(m, `{}`) },
		"cutting":         func(p *fakePipe, m message) { _ = p.conn.Close() },
		"failing":         func(p *fakePipe, m message) { p.refuse(m, `{"code":-32603,"message":"x"}`) },
	} {
		bubble(t, func(t *testing.T) {
			r := &redialer{t: t, f: &fakeServer{list: listOf(pushType)}}
			var streams atomic.Int64
			r.f.serve = streamOf(func(p *fakePipe, m message) {
				streams.Add(1)
				script(p, m)
			})
			c := Client{Dial: r.dial}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			var wg sync.WaitGroup
			for range 2 { // both over one session
				wg.Go(func() {
					if _, err := collect(c.Follow(ctx, tick, FollowConfig{}), 1); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			wg.Wait()
			if n := streams.Load(); n < 30 || n > 2*35 {
				t.Errorf("%s: %d streams in 10 minutes, want some 50", name, n)
			}
			if n := len(r.at); name != "cutting" && n != 1 {
				t.Errorf("%s: %d sessions, want 1", name, n)
			}
		})
	}
}

func TestCE41TheBackoffGrowsAndStartsAnew(t *testing.T) {
	b := backoff{}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		want *= time.Second
		if d := b.next(0, ErrLost); d < want*3/4 || d > want*5/4 || d > maxBackoff || d < minBackoff {
			t.Errorf("pause %d: %v, want about %v", i, d, want)
		}
	}
	if d := b.next(29*time.Second, ErrLost); d < 20*time.Second {
		t.Errorf("after 29s of life: %v", d)
	}
	if d := b.next(30*time.Second, ErrLost); d > 2*time.Second {
		t.Errorf("after 30s of life: %v", d)
	}
	spread := map[time.Duration]bool{}
	for range 100 {
		spread[(&backoff{failures: 9}).next(0, nil)] = true
	}
	if len(spread) < 50 {
		t.Errorf("%d different pauses of 100: no jitter", len(spread))
	}
	if d := (&backoff{}).next(0, &StatusError{Status: 503, RetryAfter: 100 * time.Second}); d != 100*time.Second {
		t.Errorf("after Retry-After: %v, want 100s", d)
	}
}

func TestCE41NobodyAnswersTheDial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dials, troubles := 0, 0
		c := Client{Dial: func(ctx context.Context) (*Session, error) {
			dials++
			return nil, fmt.Errorf("dial: %w", ErrLost)
		}}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				f := FollowConfig{}
				if i == 0 {
					f.OnTrouble = func(error) { troubles++ }
				}
				if _, err := collect(c.Follow(ctx, tick, f), 1); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if dials < 10 || dials > 20 {
			t.Errorf("%d dials of 50 followers in 5 minutes, want some 15", dials)
		}
	})
}

func TestCE42ABrokenPipeIsMadeAnewWithAllItsStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &redialer{t: t, f: &fakeServer{list: listOf(pushType, `{"name":"tock","delivery":["push"]}`)}}
		r.f.serve = func(p *fakePipe, m message) {
			if m.Method != "events/stream" {
				return
			}
			n := len(p.messages("events/stream"))
			name := fmt.Sprint(m.param("name"))
			p.note(m, "events/active", `"cursor":`+orNull(m.Params["cursor"], `"c0"`))
			r.mu.Lock()
			round := len(r.pipes)
			r.mu.Unlock()
			p.note(m, "events/event", strings.Replace(event(fmt.Sprint(name, round), fmt.Sprint("c", round)), `"tick"`, `"`+name+`"`, 1))
			if n == 2 { // both are open: the process dies
				p.wg.Go(func() {
					time.Sleep(time.Second)
					_ = p.conn.Close()
				})
			}
		}
		c := Client{Dial: r.dial}
		var wg sync.WaitGroup
		for _, name := range []string{"tick", "tock"} {
			wg.Go(func() {
				got, err := collect(c.Follow(t.Context(), Subscription{Name: name}, FollowConfig{}), 8)
				if len(strings.Fields(idsOf(got))) < 4 || err != nil {
					t.Errorf("%s: %s, %v", name, idsOf(got), err)
				}
			})
		}
		wg.Wait()
		if len(r.pipes) < 4 {
			t.Errorf("%d processes, want 4 at least", len(r.pipes))
		}
		last := map[any]any{}
		for i, p := range r.pipes {
			for _, m := range p.messages("events/stream") {
				if name := m.param("name"); m.param("cursor") != last[name] {
					t.Errorf("process %d: %s from cursor %v, want %v", i, name, m.param("cursor"), last[name])
				}
				last[m.param("name")] = fmt.Sprint("c", i+1)
			}
		}
	})
}

func TestCE51ExhaustedResourcesAreWaitedFor(t *testing.T) {
	for _, code := range []string{`-32025`, `-32013`} {
		bubble(t, func(t *testing.T) {
			refusal := `{"code":` + code + `,"message":"ResourceExhausted","data":{"limit":"streams","max":1}}`
			_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(
				func(p *fakePipe, m message) { p.refuse(m, refusal) },
				func(p *fakePipe, m message) { p.note(m, "events/event", event("e1", "c1")) },
			)}).connect(t, SessionConfig{})
			c := Client{Dial: dialOnce(s)}
			start := time.Now()
			got, err := collect(c.Follow(t.Context(), tick, FollowConfig{}), 1)
			if d := time.Since(start); idsOf(got) != "e1" || err != nil || d < 30*time.Second || d > 38*time.Second {
				t.Errorf("%s: %v, %v after %v, want e1 after some 30s", code, got, err, d)
			}
		})
	}
}

func TestCE52ForbiddenEndsTheSubscription(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, types := range []string{pushType, pollType} {
			p, s := (&fakeServer{list: listOf(types), serve: func(p *fakePipe, m message) {
				p.refuse(m, `{"code":-32024,"message":"Forbidden","data":{"reason":"no"}}`)
			}}).connect(t, SessionConfig{})
			c := Client{Dial: dialOnce(s)}
			_, err := collect(c.Follow(t.Context(), tick, FollowConfig{}), 1)
			if !errors.Is(err, ErrForbidden) || len(p.messages("events/stream"))+len(p.messages("events/poll")) != 1 {
				t.Errorf("%s: %v", types, err)
			}
		}
	})
}

func TestTheLastFollowerClosesTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &redialer{t: t, f: &fakeServer{list: listOf(pushType), serve: streamOf(active(`"c0"`))}}
		c := Client{Dial: r.dial}
		for range 2 {
			if got, err := collect(c.Follow(t.Context(), tick, FollowConfig{}), 1); err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
		}
		synctest.Wait()
		if len(r.pipes) != 2 || c.current != nil {
			t.Errorf("%d sessions, want 2, and none is left: %v", len(r.pipes), c.current)
		}
	})
}

func TestAnotherNotionOfPermanent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(
			func(p *fakePipe, m message) { p.note(m, "events/terminated", `"error":{"code":7,"message":"later"}`) },
			func(p *fakePipe, m message) { p.note(m, "events/event", event("e1", "c1")) },
		)}).connect(t, SessionConfig{})
		c := Client{Dial: dialOnce(s), Permanent: func(error) bool { return false }}
		if got, err := collect(c.Follow(t.Context(), tick, FollowConfig{}), 1); idsOf(got) != "e1" {
			t.Errorf("%v, %v", got, err)
		}
	})
}
