package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
)

// pure makes a judge that is asked inside the commit.
type pure struct{ attend.JudgeFunc }

func (pure) Pure() {}

// size is what an event of this name and an id of three bytes counts.
func size(name string) int {
	v := attend.Event{ID: "a-0", Name: name, Kind: kinds(attend.Event{Name: name})}
	return v.Size()
}

// E45: from push to delivery there are two commits, with a pure judge one, and
// never three.
func TestE45CommitsFromPushToDelivery(t *testing.T) {
	facts := func(context.Context, attend.Scope) (json.RawMessage, error) { return json.RawMessage(`1`), nil }
	images := func(context.Context, attend.Scope) ([]attend.Image, error) { return nil, nil }
	for _, how := range []struct {
		name string
		pure bool
		set  func(*engine.Config)
		want int
	}{
		{"leased", false, func(*engine.Config) {}, 2},
		{"pure", true, func(*engine.Config) {}, 1},
		{"pure with Facts", true, func(c *engine.Config) { c.Facts = facts }, 2},
		{"pure with Capture", true, func(c *engine.Config) { c.Capture = images }, 2},
	} {
		for _, row := range []struct {
			name   string
			before []attend.Event // in the window already
			settle func(t *testing.T, e *engine.Engine) error
			reason attend.Reason
			bytes  int
		}{
			{"a flush event", nil, func(t *testing.T, e *engine.Engine) error {
				_, err := e.Push(t.Context(), "repo", attend.Event{ID: "hi", Name: "flush.x"})
				return err
			}, attend.ReasonFlush, 0},
			{"Flush", numbered("a", "passive.x", 1), func(t *testing.T, e *engine.Engine) error { return e.Flush(t.Context(), "repo") }, attend.ReasonForced, 0},
			{"End", numbered("a", "passive.x", 1), func(t *testing.T, e *engine.Engine) error { return e.End(t.Context(), "repo") }, attend.ReasonClosing, 0},
			{"too many", numbered("a", "passive.x", 9), func(t *testing.T, e *engine.Engine) error {
				_, err := e.Push(t.Context(), "repo", numbered("b", "passive.x", 2)...)
				return err
			}, attend.ReasonOverflow, 0},
			{"a full window", numbered("a", "passive.x", 3), func(t *testing.T, e *engine.Engine) error {
				_, err := e.Push(t.Context(), "repo", attend.Event{ID: "b-0", Name: "passive.x"})
				return err
			}, attend.ReasonSize, 3*size("passive.x") + size("passive.x")/2},
		} {
			t.Run(how.name+"/"+row.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := config()
					store := &spy{ScopeStore: cfg.Store}
					cfg.Store = store
					cfg.Settle.MaxEvents, cfg.Settle.MaxWindowBytes = 10, row.bytes
					how.set(&cfg)
					if how.pure {
						cfg.Judge = attend.RuleJudge
					}
					commits, reason := 0, attend.Reason("")
					cfg.Sink = attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
						commits, reason = store.commits()-commits, d.Window.Reason
						return nil
					})
					f := start(t, cfg)
					if len(row.before) > 0 {
						if _, err := f.Push(t.Context(), "repo", row.before...); err != nil {
							t.Fatal(err)
						}
					}
					commits = store.commits()
					if err := row.settle(t, f.Engine); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if commits != how.want || reason != row.reason {
						t.Errorf("%d commits up to the delivery of a window settled %q, want %d and %q", commits, reason, how.want, row.reason)
					}
				})
			})
		}
	}
}

// E45, E47: the lease is in the input's own commit if Run is active here and a
// call can start, and else it is not taken.
func TestE45TheLeaseIsInTheInputsCommit(t *testing.T) {
	for _, row := range []struct {
		name     string
		run      bool
		occupied bool
		want     bool
	}{
		{"running", true, false, true},
		{"not running", false, false, false},
		{"running, no call can start", true, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(attendtest.Hang())
				cfg.MaxCalls = 1
				cfg.ShutdownGrace = time.Second
				e := newEngine(t, cfg)
				if row.run {
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() {
						defer close(done)
						e.Run(ctx)
					}()
					defer func() { cancel(); <-done }()
					synctest.Wait()
				}
				if row.occupied {
					push(t, e, "other", "a", "flush.x")
				}
				push(t, e, "repo", "a", "flush.x")
				s, err := e.State(t.Context(), "repo")
				slot, ok := s.Slot()
				if err != nil || !ok {
					t.Fatalf("no slot (%v), want the window settled", err)
				}
				if got := !slot.Leased.IsZero(); got != row.want {
					t.Errorf("leased: %v, want %v", got, row.want)
				}
				if row.want && !slot.Leased.Equal(time.Now().Add(30*time.Second)) {
					t.Errorf("leased until %v, want twice the judge's timeout", slot.Leased)
				}
			})
		})
	}
}

// E45: a pure judge that errs falls back to a lease, so that its failures count.
func TestE45APureJudgeThatErrs(t *testing.T) {
	for _, row := range []struct {
		name string
		fail func() (attend.Judgment, error)
	}{
		{"an error", func() (attend.Judgment, error) { return attend.Judgment{}, errDown }},
		{"a route that was not offered", func() (attend.Judgment, error) { return attend.Judgment{Route: "shout"}, nil }},
		{"a panic", func() (attend.Judgment, error) { panic("no") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32 // the next attempt is another goroutine's
				cfg := config()
				cfg.Judge = pure{func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
					if calls.Add(1) <= 3 {
						return row.fail()
					}
					return attend.Judgment{Route: attend.RouteNote}, nil
				}}
				f := start(t, cfg)
				push(t, f.Engine, "repo", "a", "flush.x")
				// Asked in the commit and under the lease at 0 s; at 1 s again in both.
				sleep(999 * time.Millisecond)
				if n := len(f.sink.Attempts()); n != 0 || calls.Load() != 2 {
					t.Errorf("%d deliveries after %d questions, want 0 after 2", n, calls.Load())
				}
				sleep(20 * time.Second)
				if got := f.sink.Delivered(); len(got) != 1 || got[0].Route != attend.RouteNote {
					t.Errorf("delivered %v, want one note", got)
				}
				if n := len(f.letters.Attempts()); n != 0 {
					t.Errorf("%d dead letters, want none", n)
				}
			})
		})
	}
}

// E45: a pure judge that never answers is given up like any other.
func TestE45APureJudgeThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Judge = pure{func(context.Context, attend.JudgeInput) (attend.Judgment, error) { return attend.Judgment{}, errDown }}
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Minute)
		if got := f.letters.Taken(); len(got) != 1 || got[0].Stage != attend.StageJudge || got[0].Attempts != 4 {
			t.Errorf("dead letters %+v, want one of stage judge after 4 attempts", got)
		}
	})
}

// A process that only pushes asks a pure judge too: its decision is in the log
// with the push.
func TestE45APureJudgeWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Judge, cfg.Sink = attend.RuleJudge, attend.LogOnly
		e := newEngine(t, cfg)
		push(t, e, "repo", "a", "flush.x")
		if got := decisions(t, e.Log()); len(got) != 1 {
			t.Errorf("decisions %v, want one", got)
		}
	})
}

// E10, E45: a chain of windows that the last one's answer frees is worked in
// one commit.
func TestE45AChainOfWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		cfg.Judge, cfg.Sink = attend.RuleJudge, attend.LogOnly
		e := newEngine(t, cfg)
		if _, err := e.Push(t.Context(), "repo", numbered("a", "closing.x", 1000)...); err != nil {
			t.Fatal(err)
		}
		if got := decisions(t, e.Log()); len(got) != 3 || store.commits() != 1 {
			t.Errorf("%d decisions in %d commits, want three full windows in one", len(got), store.commits())
		}
		if w, _ := e.Window(t.Context(), "repo"); len(w.Events) != 250 {
			t.Errorf("%d events are open, want the last 250", len(w.Events))
		}
	})
}

// E10: one judge call a scope at a time; what comes meanwhile is the next
// window.
func TestE10OneCallAScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		var mu sync.Mutex
		running, most := map[attend.Scope]int{}, 0
		cfg.Judge = attend.JudgeFunc(func(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
			scope := in.Window.Scope
			mu.Lock()
			running[scope]++
			most = max(most, running[scope])
			mu.Unlock()
			time.Sleep(2 * time.Second)
			mu.Lock()
			running[scope]--
			mu.Unlock()
			return attend.Judgment{Route: attend.RouteQueue}, nil
		})
		f := start(t, cfg)
		for i := range 20 {
			for k := range 3 {
				push(t, f.Engine, attend.Scope(fmt.Sprint("s-", k)), fmt.Sprint(i), "flush.x")
			}
			sleep(300 * time.Millisecond)
		}
		sleep(time.Minute)
		if most != 1 {
			t.Errorf("%d calls of one scope at a time, want 1", most)
		}
		events := 0
		for _, d := range f.sink.Delivered() {
			events += len(d.Window.Events)
		}
		if events != 60 {
			t.Errorf("%d events delivered, want 60", events)
		}
	})
}

// E23: effects start only for state that is committed: while the claim's write
// is refused, neither judge nor sink is called.
func TestE23EffectsStartOnlyForCommittedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, refuse: refused}
		cfg.Store = store
		f := start(t, cfg)
		if _, err := f.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "flush.x"}); !errors.Is(err, errDown) {
			t.Fatalf("Push() = %v, want the store's error", err)
		}
		sleep(10 * time.Second)
		if n := len(f.judge.Calls()); n != 0 {
			t.Errorf("judged %d times, want 0", n)
		}
		store.change(func() { store.refuse = nil })
		push(t, f.Engine, "repo", "b", "flush.x")
		synctest.Wait()
		if got := f.sink.Delivered(); len(got) != 1 || len(got[0].Window.Events) != 1 {
			t.Errorf("delivered %v, want b alone", got)
		}
	})
}

// E47: a process starts no effect whose lease is over: a claim whose answer was
// lost, and known only after the lease's end, is not worked.
func TestE47NoEffectAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		f := start(t, cfg)
		push(t, f.Engine, "repo", "log", "consequence.x")
		store.change(func() {
			store.lose = func(int, []attend.Write) error { return errDown }
			store.noLoad = unreadable
		})
		go f.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "flush.x"})
		sleep(31 * time.Second)
		if n := len(f.judge.Calls()); n != 0 {
			t.Errorf("judged %d times while nothing is known, want 0", n)
		}
		store.change(func() { store.lose, store.noLoad = nil, nil })
		sleep(10 * time.Second)
		s, _ := f.State(t.Context(), "repo")
		if v := s.Recent(); len(f.judge.Calls()) != 1 || len(v) != 1 {
			t.Errorf("judged %d times with verdicts %v, want once, by a later claim", len(f.judge.Calls()), v)
		}
		if got := f.sink.Delivered(); len(got) != 1 {
			t.Errorf("delivered %v, want one", got)
		}
	})
}

// The same where the claim's commit itself takes longer than the lease.
func TestE47NoEffectOfACommitThatTakesLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: 31 * time.Second}
		cfg.Store = store
		cfg.Judge = attend.JudgeFunc(func(ctx context.Context, _ attend.JudgeInput) (attend.Judgment, error) {
			calls.Add(1)
			if end, ok := ctx.Deadline(); !ok || time.Until(end) != 15*time.Second {
				t.Errorf("the judge has %v, want its 15s: a later claim's", time.Until(end))
			}
			return attend.Judgment{Route: attend.RouteQueue}, nil
		})
		f := start(t, cfg)
		go push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Second)
		store.change(func() { store.commitTakes = 0 })
		sleep(2 * time.Minute)
		if n := calls.Load(); n != 1 || len(f.sink.Delivered()) != 1 {
			t.Errorf("judged %d times, %d delivered, want once each", n, len(f.sink.Delivered()))
		}
	})
}

// E44, E47: a claim whose answer was lost is known again, and worked without
// another attempt.
func TestE47ALeaseIsKnownAgainAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(fail(), route(attend.RouteQueue))
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(500 * time.Millisecond)
		n := store.commits()
		store.change(func() {
			store.lose = func(k int, _ []attend.Write) error {
				if k == n+1 { // the claim of the second attempt
					return errDown
				}
				return nil
			}
		})
		sleep(600 * time.Millisecond)
		if n := len(f.judge.Calls()); n != 2 {
			t.Errorf("judged %d times, want a second time at once", n)
		}
		if got := f.sink.Delivered(); len(got) != 1 {
			t.Errorf("delivered %v, want one", got)
		}
	})
}
