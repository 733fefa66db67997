package engine_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// E36: the work of a process that only pushes waits for one sweep of another
// and no more.
func TestE36WorkOfAProcessThatOnlyPushes(t *testing.T) {
	for _, row := range []struct {
		name string
		at   time.Duration // the deadline
	}{{"flush.x", 0}, {"closing.x", 500 * time.Millisecond}, {"passive.x", 4 * time.Second}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, other := pair(t, config())
				for i := range 20 {
					pushed := time.Now()
					push(t, other, attend.Scope(fmt.Sprint("s-", i)), "a", row.name)
					var late time.Duration
					for late == 0 && time.Since(pushed) < 30*time.Second {
						sleep(10 * time.Millisecond)
						if len(f.sink.Delivered()) > i {
							late = time.Since(pushed) - row.at
						}
					}
					if late < 0 || late > 1010*time.Millisecond {
						t.Errorf("settled %v late, want within one sweep of 1s", late)
					}
					time.Sleep(37 * time.Millisecond) // another place between two sweeps
				}
			})
		})
	}
}

// E36: a pure judge that could not be asked, an outbox of a process that only
// pushes: its decisions are delivered by another's sweep.
func TestE36DecisionsOfAProcessThatOnlyPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Judge = attend.RuleJudge
		f, other := pair(t, cfg)
		push(t, other, "repo", "a", "flush.x")
		sleep(1100 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered, want 1 within a sweep", n)
		}
	})
}

// E36: the work of a process that is gone comes with the grace and one sweep;
// its timers' work as well as its retries.
func TestE36WorkOfAProcessThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		gone := config()
		store := &attendtest.CrashStore{Store: mem}
		gone.Store = store
		g := start(t, gone)
		for i := range 250 {
			push(t, g.Engine, attend.Scope(fmt.Sprint("s-", i)), "a", "closing.x")
		}
		store.Reopen() // it is gone
		cfg := config()
		cfg.Store = mem.Reopen()
		o := observe()
		cfg.Observer = o.see
		f := start(t, cfg)
		sleep(2499 * time.Millisecond)
		if n := len(f.judge.Calls()); n != 0 {
			t.Errorf("%d windows were judged within the grace, want 0", n)
		}
		sleep(502 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 250 {
			t.Errorf("%d delivered after the grace and one sweep, want 250", n)
		}
		want := fmt.Sprint(3*time.Second, " swept 250 failed 0")
		if got := o.lines(""); len(got) != 1 || got[0] != want {
			t.Errorf("sweeps %q, want %q", got, want)
		}
	})
}

// E36: scopes that can't be loaded are passed over and retried with backoff,
// and hold up none behind them; the sweep goes to the end, page by page.
func TestE36ScopesThatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		cfg := config()
		cfg.Store = mem
		pusher := newEngine(t, cfg)
		for i := range 250 {
			push(t, pusher, attend.Scope(fmt.Sprintf("bad-%03d", i)), "a", "flush.x")
		}
		time.Sleep(time.Millisecond) // the bad ones are due first
		for i := range 50 {
			push(t, pusher, attend.Scope(fmt.Sprintf("good-%03d", i)), "a", "flush.x")
		}
		store := &spy{ScopeStore: mem.Reopen(), noLoad: func(scope attend.Scope) error {
			if strings.HasPrefix(string(scope), "bad") {
				return errDown
			}
			return nil
		}}
		mine := config()
		mine.Store = store
		f := start(t, mine)
		sleep(1100 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 50 {
			t.Errorf("%d delivered by the first sweep, want the 50 good ones", n)
		}
		sleep(5 * time.Minute)
		// Tried at 1 s, then 1, 2, 4, 8, 16, 32 and 60 s later, on a sweep each.
		if n := store.loaded("bad-007"); n < 8 || n > 11 {
			t.Errorf("a bad scope was tried %d times in 5 minutes, want some 10", n)
		}
		store.change(func() { store.noLoad = nil })
		sleep(62 * time.Second)
		if n := len(f.sink.Delivered()); n != 300 {
			t.Errorf("%d delivered once all can be loaded, want 300", n)
		}
	})
}

// The same for scopes whose writes the store refuses.
func TestE36ScopesThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		cfg := config()
		cfg.Store = mem
		pusher := newEngine(t, cfg)
		for i := range 120 {
			push(t, pusher, attend.Scope(fmt.Sprintf("bad-%03d", i)), "a", "flush.x")
		}
		time.Sleep(time.Millisecond)
		push(t, pusher, "good", "a", "flush.x")
		store := &spy{ScopeStore: mem.Reopen(), refuse: func(_ int, writes []attend.Write) error {
			for _, w := range writes {
				if strings.HasPrefix(string(w.Scope), "bad") {
					return errDown
				}
			}
			return nil
		}}
		mine := config()
		mine.Store = store
		f := start(t, mine)
		sleep(1500 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered, want the good one", n)
		}
		sleep(time.Minute)
		store.change(func() { store.refuse = nil })
		sleep(2 * time.Minute)
		if n := len(f.sink.Delivered()); n != 121 {
			t.Errorf("%d delivered once all can be written, want 121", n)
		}
	})
}

// A sweep's claim whose answer is lost, and whose scope can't be loaded after
// it, is given up. The lease it may have is given back once the store answers,
// and the attempt does not count.
func TestE36AClaimThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		cfg := config()
		cfg.Store = mem
		push(t, newEngine(t, cfg), "repo", "a", "flush.x")
		store := &spy{ScopeStore: mem.Reopen()}
		store.lose = func(n int, _ []attend.Write) error {
			if n > 1 {
				return nil
			}
			store.change(func() { store.noLoad = func(attend.Scope) error { return errDown } })
			return errDown
		}
		mine := config()
		mine.Store = store
		f := start(t, mine)
		sleep(4 * time.Second)
		if s, err := newEngine(t, cfg).State(t.Context(), "repo"); err != nil || s.Work(time.Now()).Judge != 0 {
			t.Fatalf("the window can be claimed (%v): its lease did not land", err)
		}
		store.change(func() { store.noLoad = nil })
		sleep(2 * time.Second)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Fatalf("%d delivered 2 s after the store answers again, want 1", n)
		}
		for _, r := range rows(t, f.Engine, attend.RowVerdict) {
			var m attend.Mark
			if err := m.UnmarshalJSON(r.Body); err != nil || m.Step == attend.StepDelivered && m.Attempts != 1 {
				t.Errorf("%s after %d attempts (%v), want 1", m.Step, m.Attempts, err)
			}
		}
	})
}

// A sweep that loads scopes from a slow store keeps no push waiting.
func TestE36ASweepKeepsNoPushWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		cfg := config()
		cfg.Store = mem
		pushTogether(t, newEngine(t, cfg), 100, one("flush.x"))
		mine := config()
		mine.Store = &spy{ScopeStore: mem.Reopen(), loadTakes: 100 * time.Millisecond}
		f := start(t, mine)
		push(t, f.Engine, "repo", "0", "consequence.x")
		sleep(1100 * time.Millisecond) // in the middle of the sweep
		if n := len(f.sink.Delivered()); n > 50 {
			t.Fatalf("%d delivered already, so the test shows nothing", n)
		}
		begun := time.Now()
		push(t, f.Engine, "repo", "1", "consequence.x")
		if d := time.Since(begun); d != 0 {
			t.Errorf("a push took %v beside a sweep, want no time", d)
		}
		sleep(10 * time.Second)
		if n := len(f.sink.Delivered()); n != 100 {
			t.Errorf("%d delivered, want 100", n)
		}
	})
}

// More scopes are overdue than a page holds: one sweep works them all.
func TestE36MoreThanAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.SweepLimit = 7
		f, other := pair(t, cfg)
		pushTogether(t, other, 500, one("flush.x"))
		sleep(1100 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 500 {
			t.Errorf("%d delivered by one sweep, want 500", n)
		}
	})
}

// E36: a listing that fails is tried again by the next sweep.
func TestE36AListingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		mem := cfg.Store.(*memory.Store)
		pusher := newEngine(t, cfg)
		push(t, pusher, "repo", "a", "flush.x")
		cfg.Store = &badDue{ScopeStore: mem.Reopen(), failing: 3}
		f := start(t, cfg)
		sleep(3500 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 0 {
			t.Errorf("%d delivered while due scopes can't be listed, want 0", n)
		}
		sleep(time.Second)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered, want 1", n)
		}
	})
}

// badDue is a store whose listing fails for a while.
type badDue struct {
	attend.ScopeStore
	mu      sync.Mutex
	failing int
}

func (b *badDue) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing > 0 {
		b.failing--
		return func(yield func(attend.Scope, error) bool) { yield("", errDown) }
	}
	return b.ScopeStore.Due(ctx, now)
}

// traffic pushes to scopes, each by the engine that has it, for a while.
func traffic(t *testing.T, engines []*fixture, scopes int, every, lasts time.Duration, names []string) int {
	t.Helper()
	n := 0
	for at := time.Duration(0); at < lasts; at += every {
		i := n % scopes
		push(t, engines[i%len(engines)].Engine, attend.Scope(fmt.Sprint("s-", i)), fmt.Sprint(n), names[n%len(names)])
		n++
		time.Sleep(every)
	}
	return n
}

// E36: replicas don't race for the same scope. An hour of traffic with deadlines,
// retries and deliveries that fail, over three processes, each scope's events
// through one of them.
func TestE36ReplicasDoNotRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		var spies []*spy
		var engines []*fixture
		for range 3 {
			store := &spy{ScopeStore: mem.Reopen(), commitTakes: time.Millisecond}
			spies = append(spies, store)
			cfg := config(route(attend.RouteQueue), fail(), route(attend.RouteWait), route(attend.RouteSkip), fail(), fail(), route(attend.RouteNote))
			cfg.Judge = &loop{answers: cfg.Judge.(*attendtest.Judge).Script}
			cfg.Store = store
			calls := 0
			cfg.Sink = attend.SinkFunc(func(context.Context, attend.Decision) error {
				if calls++; calls%5 == 0 {
					return errDown
				}
				return nil
			})
			engines = append(engines, start(t, cfg))
		}
		n := traffic(t, engines, 60, 700*time.Millisecond, time.Hour, []string{"closing.x", "passive.x", "continuous.x", "flush.x", "consequence.x"})
		sleep(2 * time.Minute)
		writes, conflicts := 0, 0
		for _, s := range spies {
			for _, k := range s.sizes() {
				writes += k
			}
			conflicts += s.lostRaces()
		}
		t.Logf("%d pushes, %d writes, %d conflicts", n, writes, conflicts)
		if conflicts > writes/1000 {
			t.Errorf("%d conflicts in %d writes, want nearly none", conflicts, writes)
		}
	})
}

// A loop is a judge that goes through its answers again and again.
type loop struct {
	mu      sync.Mutex
	answers []attendtest.Answer
	n       int
}

func (l *loop) Judge(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	l.mu.Lock()
	a := l.answers[l.n%len(l.answers)]
	l.n++
	l.mu.Unlock()
	return (&attendtest.Judge{Script: []attendtest.Answer{a}}).Judge(ctx, in)
}

// E36: a scope whose events come through another process now is left to that
// one: the timers of the one before do nothing.
func TestE36TheLastWriterHasTheFirstGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		var engines []*fixture
		var spies []*spy
		for range 2 {
			cfg := config()
			store := &spy{ScopeStore: mem.Reopen()}
			cfg.Store = store
			spies, engines = append(spies, store), append(engines, start(t, cfg))
		}
		for i := range 20 {
			scope := attend.Scope(fmt.Sprint("s-", i))
			push(t, engines[0].Engine, scope, "a", "passive.x")
			sleep(100 * time.Millisecond)
			push(t, engines[1].Engine, scope, "b", "passive.x")
			sleep(100 * time.Millisecond)
		}
		before := spies[1].lostRaces()
		sleep(time.Minute)
		if n := len(engines[1].sink.Delivered()); n != 20 {
			t.Errorf("%d delivered by the last writer, want all 20", n)
		}
		// One lost race a scope, where the timer of the one before shows it that
		// the scope has moved on.
		if a, b := spies[0].lostRaces(), spies[1].lostRaces()-before; a > 20 || b != 0 {
			t.Errorf("%d and %d conflicts, want at most one a scope, and none for the last writer", a, b)
		}
	})
}

// E46, B20: sweeps leave a busy scope alone: a continuous event each 900 ms, and
// four replicas that sweep.
func TestE46SweepsLeaveABusyScopeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		var spies []*spy
		var first *fixture
		for i := range 5 {
			cfg := config()
			cfg.Settle.MaxWindow = time.Hour
			cfg.Settle.MaxEvents = 10_000
			store := &spy{ScopeStore: mem.Reopen()}
			cfg.Store = store
			f := start(t, cfg)
			if spies = append(spies, store); i == 0 {
				first = f
			}
		}
		n := 0
		for at := time.Duration(0); at < 10*time.Minute; at += 900 * time.Millisecond {
			push(t, first.Engine, "repo", fmt.Sprint(n), "continuous.x")
			n++
			sleep(900 * time.Millisecond)
		}
		for i, s := range spies[1:] {
			if got := s.loaded("repo"); got != 0 {
				t.Errorf("replica %d loaded the scope %d times, want 0", i+1, got)
			}
		}
		if got := spies[0].loaded("repo"); got != 1 {
			t.Errorf("its own process loaded the scope %d times, want once", got)
		}
		dues, writes := 0, spies[0].writes("repo")
		for _, w := range writes {
			if !w.KeepDue {
				dues++
			}
		}
		t.Logf("%d pushes, %d writes, %d of them move the due time", n, len(writes), dues)
		if len(writes) != n || dues > n/2+1 {
			t.Errorf("%d writes with %d due times for %d pushes, want no write of its own and every second due time", len(writes), dues, n)
		}
		sleep(2 * time.Second)
		if got := first.sink.Delivered(); len(got) != 1 || len(got[0].Window.Events) != n {
			t.Errorf("%d windows delivered, want one of all %d events", len(got), n)
		}
	})
}

// A process without a Run writes due times that are earlier by the grace.
func TestE36DueTimesOfAProcessWithoutARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, running := range []bool{false, true} {
			cfg := config()
			store := &spy{ScopeStore: cfg.Store}
			cfg.Store = store
			var e *engine.Engine
			if running {
				e = start(t, cfg).Engine
			} else {
				e = newEngine(t, cfg)
			}
			push(t, e, "repo", "a", "passive.x")
			want := time.Now().Add(4 * time.Second)
			if !running {
				want = want.Add(-2 * time.Second)
			}
			if w := store.writes("repo"); len(w) != 1 || !w[0].Due.Equal(want) {
				t.Errorf("running %v: due %v, want %v", running, w[0].Due, want)
			}
		}
	})
}
