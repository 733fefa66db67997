package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
)

// A claim that was lost, and that looks like the one that landed after it since
// the scope's time is ahead of the clock, takes nothing back from that one.
func TestE34ALostClaimTakesNoLiveLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		p := machine.DefaultPolicy()
		in := machine.Arrive{At: time.Now().Add(time.Hour), Events: []attend.Event{{ID: "a", Name: "flush.x", Kind: attend.KindFlush}}}
		if _, _, err := engine.Apply(t.Context(), mem, "repo", &p, in); err != nil {
			t.Fatal(err)
		}
		store := &spy{ScopeStore: mem}
		cfg := config()
		cfg.Store = store
		var calls, most atomic.Int32
		cfg.Judge = attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
			if n := calls.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer calls.Add(-1)
			time.Sleep(5 * time.Second)
			return attend.Judgment{Route: attend.RouteSkip}, nil
		})
		f := start(t, cfg)
		store.change(func() {
			store.refuse = func(int, []attend.Write) error {
				store.change(func() { store.noLoad = func(attend.Scope) error { return errDown } })
				return errDown
			}
		})
		if _, err := f.Push(t.Context(), "repo", attend.Event{ID: "b", Name: "consequence.x"}); err == nil {
			t.Fatal("the push landed")
		}
		store.change(func() { store.noLoad, store.refuse = nil, nil })
		push(t, f.Engine, "repo", "b", "consequence.x")
		sleep(20 * time.Second)
		if n := most.Load(); n != 1 {
			t.Errorf("%d calls of the judge at once for one window, want 1", n)
		}
	})
}

// The last try lost a race, an earlier one may have landed all the same.
func TestE36AClaimThatIsLostBehindRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &spy{ScopeStore: memory.New()}
		cfg := config(route(attend.RouteQueue), route(attend.RouteQueue))
		sink := new(attendtest.Sink)
		sink.Fail(1)
		cfg.Store, cfg.Sink = store, sink
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Second - 500*time.Microsecond) // the delivery is tried again in half a millisecond
		lost := false
		store.change(func() {
			store.lose = func(int, []attend.Write) error {
				if lost {
					return nil
				}
				lost = true
				store.change(func() { store.lag = func(attend.Write) bool { return true } })
				return errDown
			}
		})
		go f.Push(t.Context(), "repo", attend.Event{ID: "b", Name: "flush.x"})
		sleep(4 * time.Second)
		store.change(func() { store.lag = nil })
		sleep(5 * time.Second)
		if n := len(f.judge.Calls()); n != 2 {
			t.Errorf("%d judge calls 5 s after the races ended, want 2", n)
		}
	})
}

// A store that is down holds up the end of Run by no more than a try.
func TestE35ALostClaimHoldsUpNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		cfg := config()
		cfg.Store = mem
		push(t, newEngine(t, cfg), "repo", "a", "flush.x")
		store := &spy{ScopeStore: mem.Reopen()}
		store.lose = func(int, []attend.Write) error {
			store.change(func() { store.noLoad = func(attend.Scope) error { return errDown } })
			return errDown
		}
		mine := config()
		mine.Store = store
		f := start(t, mine)
		sleep(4 * time.Second)
		begun := time.Now()
		f.stop()
		if d := time.Since(begun); d > 3*time.Second {
			t.Errorf("Run ended %v after its context, want two tries at the most", d)
		}
		if n := f.LostClaims(); n != 0 {
			t.Errorf("%d lost claims are kept that nobody tries any more, want 0", n)
		}
	})
}

// A cancelStore ends the context of those who push while they are answered.
type cancelStore struct {
	attend.ScopeStore
	cancel atomic.Pointer[context.CancelFunc]
}

func (s *cancelStore) Commit(ctx context.Context, w []attend.Write) ([]attend.Outcome, error) {
	time.Sleep(100 * time.Microsecond)
	out, err := s.ScopeStore.Commit(ctx, w)
	if c := s.cancel.Load(); c != nil {
		go (*c)()
	}
	return out, err
}

// A context that ends while the answer is given leaves the push to whoever
// answers it. The race detector sees it at once if not; without it, now and then.
func TestPushWhoseContextEndsWithTheAnswer(t *testing.T) {
	cfg := config()
	store := &cancelStore{ScopeStore: memory.New()}
	cfg.Store = store
	e := newEngine(t, cfg)
	for round := range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		store.cancel.Store(&cancel)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				// What becomes of it is not what this is about.
				_, _ = e.Push(ctx, attend.Scope(fmt.Sprint("s", i)), attend.Event{ID: fmt.Sprint(round), Name: "consequence.x"})
			})
		}
		wg.Wait()
		cancel()
	}
}
