package mcpsource_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// C1: auto streams where the type lists push, else polls; a mode that is asked for
// is kept to.
func TestC1Auto(t *testing.T) {
	for _, c := range []struct {
		name  string
		modes string
		mode  mcpevents.Mode
		want  string
	}{
		{"push and poll", `"poll","push"`, "", "events/stream"},
		{"push alone", `"push"`, "", "events/stream"},
		{"poll alone", `"poll"`, "", "events/poll"},
		{"something new and poll", `"carrier-pigeon","poll"`, "", "events/poll"},
		{"poll is asked for", `"poll","push"`, mcpevents.Poll, "events/poll"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := &peer{modes: c.modes, serve: func(p *peer, c call) {
					switch c.Method {
					case "events/stream":
						p.active(c, "a")
					case "events/poll":
						p.result(c, `"events":[],"cursor":"a"`)
					}
				}}
				detach := newRig(t, nil).attach(t, source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{Mode: c.mode}))
				time.Sleep(time.Second)
				_ = detach()
				if len(p.seen("events/list")) != 1 {
					t.Errorf("events/list was asked for %d times, want once", len(p.seen("events/list")))
				}
				for _, m := range []string{"events/stream", "events/poll"} {
					if got := len(p.seen(m)) > 0; got != (m == c.want) {
						t.Errorf("%s was asked for: %t, want %t", m, got, m == c.want)
					}
				}
			})
		})
	}
}

// C1: a type that comes in no mode that can be used here ends the source.
func TestC1NoMode(t *testing.T) {
	for _, modes := range []string{`"webhook"`, `"carrier-pigeon"`, ``} {
		bubble(t, func(t *testing.T) {
			p := &peer{modes: modes, serve: func(_ *peer, c call) { t.Errorf("%s was asked for", c.Method) }}
			err := newRig(t, nil).Attach(t.Context(), repo, source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{}))
			if _, ok := errors.AsType[*attend.PermanentError](err); !ok || !errors.Is(err, mcpevents.ErrNoMode) {
				t.Errorf("Attach() = %v with the modes [%s], want a PermanentError that is ErrNoMode", err, modes)
			}
		})
	}
}

// C1: a stream that is refused as Unsupported is polled instead, from the same
// cursor; old error numbers count too.
func TestC1AnUnsupportedStreamIsPolled(t *testing.T) {
	for _, refusal := range []string{
		`{"code":-32026,"message":"Unsupported","data":{"feature":"deliveryMode","value":"push"}}`,
		`{"code":-32026,"message":"Unsupported"}`,
		`{"code":-32014,"message":"Unsupported"}`,
		`{"code":-32601,"message":"Method not found"}`,
	} {
		bubble(t, func(t *testing.T) {
			p := &peer{modes: `"push","poll"`, serve: func(p *peer, c call) {
				switch c.Method {
				case "events/stream":
					p.refuse(c, refusal)
				case "events/poll":
					p.result(c, `"events":[{"eventId":"e","name":"alert","timestamp":"2026-11-03T09:15:02Z","data":{}}],"cursor":"b"`)
				}
			}}
			r := newRig(t, nil)
			src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{})
			detach := r.attach(t, src)
			time.Sleep(15 * time.Second)
			if err := detach(); !errors.Is(err, t.Context().Err()) && err.Error() != "context canceled" {
				t.Errorf("Attach() = %v after %s, want it to go on", err, refusal)
			}
			if got := r.heard(); !slices.Equal(got, []string{"e"}) {
				t.Errorf("heard %v after %s, want e once", got, refusal)
			}
			if n := len(p.seen("events/stream")); n != 1 {
				t.Errorf("%d streams were asked for after %s, want one", n, refusal)
			}
			if polls := p.seen("events/poll"); len(polls) != 2 || polls[1].cursor() != "b" {
				t.Errorf("%d polls after %s, want the second from b", len(polls), refusal)
			}
		})
	}
}

// C2: the cursor commits in the write of its events, and a restart goes on there.
func TestC2TheCursorIsCommittedWithItsBatch(t *testing.T) {
	for _, mode := range []mcpevents.Mode{mcpevents.Push, mcpevents.Poll} {
		t.Run(string(mode), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, mcpevents.ServerConfig{}, nil)
				store := memory.New()
				src := source(t, w.session(mcpevents.SessionConfig{}), mcpsource.Config{Mode: mode})
				r := newRig(t, store)
				detach := r.attach(t, src)
				time.Sleep(time.Second)
				w.append(0, 5)
				time.Sleep(10 * time.Second)
				first := r.cursor(t, src)
				_ = detach()
				r.stop()

				w.append(5, 9) // while nobody listens
				next := newRig(t, store)
				again := source(t, w.session(mcpevents.SessionConfig{}), mcpsource.Config{Mode: mode}) // another process
				if got := next.cursor(t, again); got != first || got == "" {
					t.Fatalf("cursor %q after the restart, want %q", got, first)
				}
				detach = next.attach(t, again)
				time.Sleep(10 * time.Second)
				_ = detach()
				if got := append(r.heard(), next.heard()...); !slices.Equal(got, ids(0, 9)) {
					t.Errorf("heard %v, want each once", got)
				}
				if r.gaps()+next.gaps() != 0 {
					t.Error("a window has a gap, and nothing is missing")
				}
			})
		})
	}
}

// C2: where the server has looked and found nothing for us, the cursor moves by a
// batch without events; it is committed before the next is asked for.
func TestC2AHeartbeatIsAnEmptyBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method == "events/stream" {
				p.active(c, "c0")
				p.note(c, "heartbeat", `"cursor":"c1"`)
				p.note(c, "heartbeat", `"cursor":"c1"`)
				p.note(c, "heartbeat", `"cursor":null`)
			}
		}}
		src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{})
		var got []attend.Cursor
		for b, err := range src.Batches(t.Context(), "") {
			if err != nil || len(b.Events) != 0 || b.Gap {
				t.Fatalf("Batches() = %+v, %v, want an empty batch", b, err)
			}
			if got = append(got, b.Cursor); len(got) == 2 {
				break
			}
		}
		if !slices.Equal(got, []attend.Cursor{"c0", "c1"}) {
			t.Errorf("cursors %q, want c0 and c1", got)
		}
		r := newRig(t, nil)
		detach := r.attach(t, src)
		time.Sleep(time.Second)
		_ = detach()
		if got := r.cursor(t, src); got != "c1" {
			t.Errorf("committed cursor %q, want c1", got)
		}
		if s := p.seen("events/stream"); len(s) != 2 {
			t.Errorf("%d streams, want one a run", len(s))
		}
	})
}

// C2: whatever commit the process dies at, before it or after, each event is in
// one decision, and in one alone.
func TestC2ACrashAtEveryCommit(t *testing.T) {
	for _, fault := range []attendtest.Fault{attendtest.FaultBefore, attendtest.FaultAfter, attendtest.FaultLost} {
		t.Run(string(fault), func(t *testing.T) {
			for at := 1; ; at++ {
				if done := crashAt(t, fault, at); done {
					if at < 5 {
						t.Errorf("the whole story has %d commits", at-1)
					}
					return
				}
			}
		})
	}
}

// crashAt runs a story that dies at a commit, and reports whether it had fewer.
func crashAt(t *testing.T, fault attendtest.Fault, at int) (done bool) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.ServerConfig{}, nil)
		durable := memory.New()
		store := &attendtest.CrashStore{Store: durable, At: at, Fault: fault}
		run := func(store attend.ScopeStore) {
			r := newRig(t, store)
			detach := r.attach(t, source(t, w.session(mcpevents.SessionConfig{}), mcpsource.Config{}))
			time.Sleep(time.Minute)
			_ = detach()
			r.stop()
		}
		var wg sync.WaitGroup
		wg.Go(func() { // the server's life goes on
			for i := range 6 {
				time.Sleep(7 * time.Second)
				w.append(i, i+1)
			}
		})
		time.Sleep(time.Second)
		run(store)
		if fault != attendtest.FaultLost && store.Commits() < at || fault == attendtest.FaultLost && store.Commits() <= at {
			done = true
		}
		run(durable)
		wg.Wait()
		var got []string
		for row, err := range durable.Log().Read(t.Context(), attend.Query{}) {
			if err != nil {
				t.Fatalf("Read: %v", err)
			}
			if row.Type != attend.RowDecision {
				continue
			}
			var d attend.Decision
			if err := d.UnmarshalJSON(row.Body); err != nil {
				t.Fatalf("a decision: %v", err)
			}
			for _, v := range d.Window.Events {
				got = append(got, v.ID)
			}
		}
		want := ids(0, 6)
		if fault == attendtest.FaultBefore && at == 1 {
			want = want[max(0, len(want)-len(got)):] // it died before there was any cursor: from now on is later
		}
		if !slices.Equal(got, want) {
			t.Errorf("crash %s commit %d: decisions with %v, want each event once", fault, at, got)
		}
	})
	return done
}

// C2: a type without cursors starts from now each time; what may be missing
// between two runs of one process shows as a gap.
func TestC2WithoutCursors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method == "events/stream" {
				p.note(c, "active", `"cursor":null,"truncated":false`)
				n++
				p.note(c, "event", fmt.Sprintf(`"eventId":"e%d","name":"alert","timestamp":"2026-11-03T09:15:02Z","data":{}`, n))
				p.end(c)
			}
		}}
		r := newRig(t, nil)
		src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{})
		detach := r.attach(t, src)
		time.Sleep(2500 * time.Millisecond)
		_ = detach()
		got := r.sink.Delivered()
		if len(got) != 3 || got[0].Window.Gap || !got[1].Window.Gap || !got[2].Window.Gap {
			t.Errorf("%d decisions %v, want three, with a gap in all but the first", len(got), got)
		}
		if c := r.cursor(t, src); c != "" {
			t.Errorf("cursor %q, want none", c)
		}
	})
}

// C2: the same where nothing came while the first run was there.
func TestC2WithoutCursorsAndWithoutEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method != "events/stream" {
				return
			}
			if n++; n == 3 {
				p.note(c, "event", `"eventId":"e","name":"alert","timestamp":"2026-11-03T09:15:02Z","data":{}`)
				return
			}
			if n == 2 { // from now on what happens is ours
				p.note(c, "active", `"cursor":null,"truncated":false`)
			}
			p.end(c)
		}}
		src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{})
		for run := 1; run <= 3; run++ {
			got, err := first(t, src)
			if want := run == 3; (len(got) > 0 && got[0].Gap) != want || !want && (len(got) != 0 || !errors.Is(err, mcpevents.ErrEnded)) {
				t.Errorf("run %d: %+v, %v, want a gap in the third alone", run, got, err)
			}
		}
	})
}

// first returns the first batch of a run, or how it ended without one.
func first(t *testing.T, s *mcpsource.Source) (got []attend.Batch, err error) {
	t.Helper()
	for b, err := range s.Batches(t.Context(), "") {
		if err != nil {
			return got, err
		}
		return append(got, b), nil
	}
	return got, nil
}

// An event that comes again is dropped, in one run and after a break, and also
// where the server replays it as truncated.
func TestC2WhatComesAgainIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method != "events/stream" {
				return
			}
			p.note(c, "active", `"cursor":"c","truncated":true`)
			for i := range 900 { // more than a scope remembers
				p.event(c, id(i), fmt.Sprint("c", i))
			}
			p.end(c)
		}}
		r := newRig(t, nil)
		detach := r.attach(t, source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{}))
		time.Sleep(10 * time.Second)
		_ = detach()
		if n := len(p.seen("events/stream")); n < 3 {
			t.Fatalf("%d streams, want several", n)
		}
		if got := r.heard(); !slices.Equal(got, ids(0, 900)) {
			t.Errorf("heard %d events, want 900, each once", len(got))
		}
	})
}

// Two scopes may attach one source: neither takes what is the other's.
func TestC2OneSourceInTwoScopes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.ServerConfig{}, nil)
		src := source(t, w.session(mcpevents.SessionConfig{}), mcpsource.Config{})
		a, b := newRig(t, nil), newRig(t, nil)
		stopA, stopB := a.attach(t, src), b.attach(t, src)
		time.Sleep(time.Second)
		w.append(0, 3)
		time.Sleep(time.Second)
		_ = stopA()
		w.append(3, 5)
		time.Sleep(time.Second)
		stopA = a.attach(t, src)
		time.Sleep(time.Second)
		_, _ = stopA(), stopB()
		for name, r := range map[string]*rig{"a": a, "b": b} {
			if got := r.heard(); !slices.Equal(got, ids(0, 5)) {
				t.Errorf("%s heard %v, want each once", name, got)
			}
		}
	})
}

// A cursor that attend can't keep ends the source, with the reason.
func TestC2ACursorThatIsTooLong(t *testing.T) {
	s := &script{batches: []mcpevents.Batch{{Events: []mcpevents.Event{{ID: "1", Name: "alert"}}, Cursor: mcpevents.Cursor(make([]byte, 4097))}}}
	got, err := all(t, source(t, s, mcpsource.Config{}), "")
	if _, ok := errors.AsType[*attend.PermanentError](err); len(got) != 0 || !ok || !errors.Is(err, attend.ErrInvalid) {
		t.Errorf("Batches() = %v, %v, want a PermanentError that is ErrInvalid", got, err)
	}
}
