package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// E35: what is in flight finishes within the grace, and its answer counts.
func TestE35WhatIsInFlightFinishesWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		f := start(t, config(attendtest.Answer{Route: attend.RouteQueue, Until: until}))
		push(t, f.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		time.AfterFunc(9*time.Second, func() { close(until) })
		begun := time.Now()
		f.stop()
		if d := time.Since(begun); d != 9*time.Second {
			t.Errorf("Run took %v to end, want the judge's 9s", d)
		}
		s, err := f.State(t.Context(), "repo")
		if got := s.Decisions(); err != nil || len(got) != 1 {
			t.Errorf("decisions %v (%v), want the judge's answer committed", got, err)
		}
		// Nothing new starts: the decision waits for the next Run.
		if n := len(f.sink.Attempts()); n != 0 {
			t.Errorf("%d deliveries after the end, want 0", n)
		}
	})
}

// E35: after the grace the contexts end, and the leases are given back without
// an attempt: the next Run judges at once.
func TestE35AfterTheGraceLeasesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(attendtest.Fail(), attendtest.Hang(), route(attend.RouteQueue))
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Second) // the second attempt hangs
		begun := time.Now()
		f.stop()
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("Run took %v to end, want the grace of 10s", d)
		}
		s, _ := f.State(t.Context(), "repo")
		if slot, ok := s.Slot(); !ok || slot.Attempts != 1 || !slot.Leased.IsZero() {
			t.Errorf("slot %+v, want one failed attempt and no lease", slot)
		}
		again := start(t, cfg)
		synctest.Wait()
		if got := again.sink.Delivered(); len(got) > 1 {
			t.Errorf("delivered %v, want at most one", got)
		}
		sleep(2 * time.Second)
		if n := len(f.judge.Calls()); n != 3 {
			t.Errorf("judged %d times, want a third time by the next process's first sweeps", n)
		}
	})
}

// E35: the same engine may run again, and goes on at once.
func TestE35RunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(attendtest.Hang(), route(attend.RouteQueue))
		cfg.ShutdownGrace = time.Second
		e := newEngine(t, cfg)
		judge := cfg.Judge.(*attendtest.Judge)
		run := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			if err := e.Run(ctx); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
		}
		push(t, e, "repo", "a", "flush.x")
		run(time.Second)
		if n := len(judge.Calls()); n != 1 {
			t.Fatalf("judged %d times, want once", n)
		}
		push(t, e, "repo", "b", "passive.x")
		run(time.Millisecond)
		if n := len(judge.Calls()); n != 2 {
			t.Errorf("judged %d times, want again at once", n)
		}
		run(10 * time.Second)
		if n := len(cfg.Sink.(*attendtest.Sink).Delivered()); n != 2 {
			t.Errorf("%d delivered, want 2", n)
		}
	})
}

// A Run whose context has ended takes no work.
func TestE35RunOfAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		e := newEngine(t, cfg)
		push(t, e, "repo", "a", "flush.x")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Run(ctx); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if n := len(cfg.Judge.(*attendtest.Judge).Calls()); n != 0 || store.commits() != 1 {
			t.Errorf("judged %d times with %d commits, want 0 and the push's", n, store.commits())
		}
	})
}

func TestE35OneRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config())
		if err := f.Run(t.Context()); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("a second Run() = %v, want ErrInvalid", err)
		}
		push(t, f.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered after it, want 1: the first Run goes on", n)
		}
	})
}

// E35: once Run has returned, the engine calls neither store, judge nor sink
// any more, but for its callers' own calls.
func TestE35NothingOfRunIsLeft(t *testing.T) {
	for _, row := range []struct {
		name string
		at   time.Duration
	}{{"in the middle", 2500 * time.Millisecond}, {"in a commit", 501 * time.Millisecond}, {"at once", 0}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var over atomic.Bool
				inner := memory.New()
				cfg := config(attendtest.Answer{Route: attend.RouteQueue}, attendtest.Hang())
				cfg.Store = &guard{ScopeStore: &spy{ScopeStore: inner, commitTakes: 5 * time.Millisecond, loadTakes: time.Millisecond}, t: t, over: &over}
				cfg.MaxCalls, cfg.ResidentBytes = 3, 1
				cfg.ShutdownGrace = time.Second
				cfg.Sink = &attendtest.Sink{Handle: func(context.Context, attend.Decision) error {
					if over.Load() {
						t.Error("a delivery after Run")
					}
					time.Sleep(700 * time.Millisecond)
					return nil
				}}
				other := cfg
				other.Store = inner.Reopen()
				pusher := newEngine(t, other) // a process that only pushes
				for i := range 50 {
					push(t, pusher, attend.Scope(fmt.Sprint("late-", i)), "a", "flush.x")
				}
				f := start(t, cfg)
				pushTogether(t, f.Engine, 200, func(i int) []attend.Event {
					return []attend.Event{{ID: "a", Name: []string{"closing.x", "flush.x", "passive.x"}[i%3]}}
				})
				sleep(row.at)
				f.stop()
				over.Store(true)
				sleep(5 * time.Minute)
			})
		})
	}
}

// A guard is a store that nobody may call once it is over.
type guard struct {
	attend.ScopeStore
	t    *testing.T
	over *atomic.Bool
}

func (g *guard) check(what string) {
	if g.over.Load() {
		g.t.Errorf("%s after Run", what)
	}
}

func (g *guard) Commit(ctx context.Context, w []attend.Write) ([]attend.Outcome, error) {
	g.check("Commit")
	return g.ScopeStore.Commit(ctx, w)
}

func (g *guard) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	g.check("Load")
	return g.ScopeStore.Load(ctx, scope)
}

func (g *guard) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	g.check("Due")
	return g.ScopeStore.Due(ctx, now)
}

// E35, E36: two engines share the work of one store, and no window is judged
// twice.
func TestE35TwoEnginesShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		var mu sync.Mutex
		by := [2]int{}
		windows := map[string]int{}
		var engines []*fixture
		for i := range 2 {
			cfg := config()
			cfg.Store = mem.Reopen()
			cfg.Judge = attend.JudgeFunc(func(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				by[i]++
				windows[fmt.Sprint(in.Window.Scope, in.Window.Events[0].ID)]++
				return attend.Judgment{Route: attend.RouteQueue}, nil
			})
			engines = append(engines, start(t, cfg))
		}
		// A third process only pushes: 300 scopes are overdue for both.
		cfg := config()
		cfg.Store = mem.Reopen()
		pushTogether(t, newEngine(t, cfg), 300, one("closing.x"))
		sleep(time.Minute)
		if len(windows) != 300 {
			t.Errorf("%d windows were judged, want 300", len(windows))
		}
		for w, n := range windows {
			if n != 1 {
				t.Errorf("%s was judged %d times, want once", w, n)
			}
		}
		if by[0] == 0 || by[1] == 0 {
			t.Errorf("judged %v by each, want both to share", by)
		}
		if n := len(engines[0].sink.Delivered()) + len(engines[1].sink.Delivered()); n != 300 {
			t.Errorf("%d delivered, want 300", n)
		}
	})
}

// E47: a process dies in a judge call: another takes over once the lease has
// ended, and the attempt counts.
func TestE47AProcessThatDiesInAJudgeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		until := make(chan struct{})
		store := &attendtest.CrashStore{Store: mem}
		dead := deadConfig(until)
		dead.Store = store
		d := start(t, dead)
		push(t, d.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		store.Reopen() // it dies

		next := config(route(attend.RouteQueue))
		next.Store = mem.Reopen()
		f := start(t, next)
		takeOver(t, f)
		sleep(time.Second)
		if got := f.sink.Delivered(); len(got) != 1 || got[0].Route != attend.RouteQueue {
			t.Errorf("delivered %v, want one queue", got)
		}
		s, _ := f.State(t.Context(), "repo")
		if v := s.Recent(); len(v) != 1 {
			t.Errorf("verdicts %v, want one", v)
		}
		close(until)
	})
}

// E47: a process that stood still for longer than its lease has an answer: it
// counts, once, though another has taken over.
func TestE47ALateAnswerCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		until := make(chan struct{})
		still := deadConfig(until)
		store := &spy{ScopeStore: mem}
		still.Store = store
		d := start(t, still)
		push(t, d.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		store.change(func() { store.refuse = func(int, []attend.Write) error { <-until; return nil } })

		next := config(attendtest.Hang(), route(attend.RouteSkip))
		next.Store = mem.Reopen()
		f := start(t, next)
		takeOver(t, f)
		s, _ := f.State(t.Context(), "repo")
		if slot, ok := s.Slot(); !ok || slot.Attempts != 1 {
			t.Errorf("slot %+v, want the attempt that ran out counted", slot)
		}
		close(until) // it goes on
		sleep(2 * time.Minute)
		if got := append(d.sink.Delivered(), f.sink.Delivered()...); len(got) != 1 || got[0].Route != attend.RouteInterrupt {
			t.Errorf("delivered %v, want the late answer once", got)
		}
		if n := len(f.judge.Calls()); n != 1 {
			t.Errorf("the other judged %d times, want once", n)
		}
	})
}

// deadConfig is of a process whose judge heeds nothing until a channel closes.
func deadConfig(until <-chan struct{}) engine.Config {
	cfg := config()
	cfg.Judge = attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
		<-until
		return attend.Judgment{Route: attend.RouteInterrupt}, nil
	})
	return cfg
}

// takeOver waits until f judges what another process had claimed at the start
// of the bubble.
func takeOver(t *testing.T, f *fixture) {
	t.Helper()
	begun := time.Now()
	for len(f.judge.Calls()) == 0 && time.Since(begun) < time.Minute {
		sleep(100 * time.Millisecond)
	}
	if d := time.Since(begun); d < 32*time.Second || d > 34*time.Second {
		t.Errorf("taken over after %v, want the lease of 30s, the grace of 2s and a sweep", d)
	}
}

// A crash at each commit of a session, just before and just after it lands:
// whatever the crash, the next process delivers the same.
func TestACrashAtEachCommit(t *testing.T) {
	for _, fault := range []attendtest.Fault{attendtest.FaultBefore, attendtest.FaultAfter} {
		var want []attend.DecisionID
		for n, commits := 0, 1; n <= commits; n++ {
			t.Run(fmt.Sprint(fault, " ", n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := memory.New()
					store := &attendtest.CrashStore{Store: mem, At: n, Fault: fault}
					sink := new(attendtest.Sink)
					cfg := config()
					cfg.Store, cfg.Sink, cfg.ShutdownGrace = store, sink, time.Millisecond
					f := start(t, cfg)
					for i, name := range []string{"closing.x", "flush.x", "passive.x"} {
						v := attend.Event{ID: fmt.Sprint(i), Name: name}
						for {
							_, err := f.Push(t.Context(), "repo", v)
							if err == nil {
								break
							}
							// The process is dead: a new one, and the producer sends again.
							f.stop()
							sleep(40 * time.Second) // its answer is tried until the lease ends
							store = store.Reopen()
							cfg.Store = store
							f = start(t, cfg)
						}
						sleep(time.Minute)
						if store.Crashed() {
							f.stop()
							store = store.Reopen()
							cfg.Store = store
							f = start(t, cfg)
							sleep(time.Minute)
						}
					}
					got := decisions(t, mem.Log())
					if n == 0 {
						want, commits = got, store.Commits()
						if len(want) != 3 {
							t.Fatalf("%d decisions, want 3", len(want))
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("decisions %v, want %v", got, want)
					}
					heard := map[attend.DecisionID]bool{}
					for _, d := range sink.Delivered() {
						heard[d.ID] = true
					}
					if len(heard) != 3 {
						t.Errorf("%d decisions heard, want 3", len(heard))
					}
				})
			})
		}
	}
}
