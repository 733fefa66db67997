package decisions_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/internal/decisions"
)

// However many wait, one waits for the log.
func TestOneWaiterOnTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		log := &spy{DecisionLog: r.log}
		r.log = log
		f := r.feed()
		now := r.newest()
		var woken sync.WaitGroup
		var n, quiet atomic.Int64
		for i := range 20 {
			woken.Go(func() {
				q := decisions.Query{After: now, Prefixes: []attend.Prefix{attend.Prefix(fmt.Sprint("s", i%2))}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				switch err := f.Wait(ctx, q); {
				case err == nil:
					n.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					quiet.Add(1)
				default:
					t.Errorf("Wait: %v", err)
				}
			})
		}
		synctest.Wait()
		if log.waiting.Load() != 1 {
			t.Errorf("%d wait for the log, want 1", log.waiting.Load())
		}
		r.decide("s1", attend.RouteQueue, "x")
		synctest.Wait()
		if n.Load() != 10 || log.reads.Load() > 2 {
			t.Errorf("%d of 10 were woken by what is for them, with %d reads", n.Load(), log.reads.Load())
		}
		if log.waiting.Load() != 1 {
			t.Errorf("%d wait for the log on behalf of the others, want 1", log.waiting.Load())
		}
		woken.Wait()
		if n.Load() != 10 || quiet.Load() != 10 || log.most.Load() > 1 {
			t.Errorf("%d woken, %d not, at most %d waited for the log", n.Load(), quiet.Load(), log.most.Load())
		}
	})
}

// In a bubble a lost wake-up is a deadlock, which ends the test: nobody looks at
// the log but when he is woken.
func TestNoWakeUpIsLost(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, attend.Retain{})
			log := &spy{DecisionLog: r.log}
			r.log = log
			if seed%2 > 0 {
				r.log = &moody{spy: log, rnd: rand.New(rand.NewPCG(seed, 98))}
			}
			f := r.feed()
			const rows = 60
			var readers sync.WaitGroup
			for i := range 12 {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)))
				q := decisions.Query{Prefixes: []attend.Prefix{attend.Prefix(fmt.Sprint("s", i%3))}}
				readers.Go(func() {
					time.Sleep(time.Duration(rnd.Int64N(50e6)))
					for got := 0; got < rows/3; {
						p, err := f.Read(t.Context(), q)
						if err != nil || p.Truncated {
							t.Errorf("Read: %v, truncated %v", err, p.Truncated)
							return
						}
						got += len(p.Items)
						q.After = p.Next
						if got == rows/3 || p.More {
							continue
						}
						ctx, cancel := t.Context(), context.CancelFunc(func() {})
						if i%4 == 3 { // some come and go, and hand the lead on
							ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.Int64N(3e6)))
						}
						if err := f.Wait(ctx, q); err != nil && i%4 != 3 && !errors.Is(err, errMood) {
							t.Errorf("Wait: %v", err)
						}
						cancel()
					}
				})
			}
			rnd := rand.New(rand.NewPCG(seed, 99))
			for i := range rows {
				if rnd.IntN(3) > 0 {
					time.Sleep(time.Duration(rnd.Int64N(4e6)))
				}
				r.decide(attend.Scope(fmt.Sprint("s", i%3)), attend.RouteQueue, "x")
			}
			readers.Wait()
			if log.most.Load() > 1 {
				t.Errorf("%d waited for the log at once", log.most.Load())
			}
		})
	}
}

// A moody log fails to wait now and then, and wakes for nothing.
type moody struct {
	*spy
	rnd *rand.Rand // of the one who waits
}

var errMood = errors.New("not now")

func (m *moody) Wait(ctx context.Context, q attend.Query) error {
	switch m.rnd.IntN(6) {
	case 0:
		return errMood
	case 1, 2:
		return nil
	}
	return m.spy.Wait(ctx, q)
}

// The moment between two leaders: what lands there wakes whom it is for, though
// somebody comes who has read it already.
func TestRowBetweenTwoLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		log := &hooked{spy: &spy{DecisionLog: r.log}}
		r.log = log
		f := r.feed()
		now := r.newest()
		leader, stop := context.WithCancel(t.Context())
		late, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Wait(leader, decisions.Query{After: now, Prefixes: []attend.Prefix{"none"}}) }()
		synctest.Wait()
		go func() { done <- f.Wait(t.Context(), decisions.Query{After: now, Prefixes: []attend.Prefix{"a"}}) }()
		synctest.Wait()
		log.waited = func() { // as the first leader's wait ends
			r.decide("a", attend.RouteQueue, "x")
			go func() { done <- f.Wait(late, decisions.Query{After: r.newest(), Prefixes: all}) }()
			synctest.Wait()
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the first leader: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("the second: %v", err)
		}
		end()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("who had read all: %v", err)
		}
	})
}

// Who comes with a cursor behind which others were told already does not wait.
func TestWaitBehindWhatWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		f := r.feed()
		now := r.newest()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.Wait(ctx, decisions.Query{After: now, Prefixes: []attend.Prefix{"none"}})
		synctest.Wait()
		r.decide("a", attend.RouteQueue, "x")
		synctest.Wait()
		if err := f.Wait(t.Context(), decisions.Query{After: now, Prefixes: []attend.Prefix{"a"}}); err != nil {
			t.Errorf("Wait behind what is there = %v", err)
		}
	})
}

// The last waiter was woken, and its lead is not over: who comes now, from
// further behind, is told of what lies between.
func TestWaitWhileALeaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		log := &hooked{spy: &spy{DecisionLog: r.log}}
		r.log = log
		f := r.feed()
		behind := r.newest()
		r.decide("a", attend.RouteQueue, "x")
		done := make(chan error)
		go func() {
			done <- f.Wait(t.Context(), decisions.Query{After: r.newest(), Prefixes: []attend.Prefix{"b"}})
		}()
		synctest.Wait()
		log.yielded = func() {
			go func() { done <- f.Wait(t.Context(), decisions.Query{After: behind, Prefixes: []attend.Prefix{"a"}}) }()
			synctest.Wait()
		}
		r.rows( // in one write, so that the leader reads both at once
			r.decision("b", attend.RouteQueue, "x"), r.decision("b", attend.RouteQueue, "x"))
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("Wait: %v", err)
			}
		}
	})
}

// Whoever comes when nobody waits is not measured by those who waited before:
// their log may have been another one of the same epoch, from before a restore.
func TestWaitAfterOthersHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		f := r.feed()
		before := r.newest()
		r.decide("a", attend.RouteQueue, "x")
		for _, after := range []attend.LogCursor{r.newest(), before} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := f.Wait(ctx, decisions.Query{After: after, Prefixes: []attend.Prefix{"b"}}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait behind %v = %v, want that there is nothing", after, err)
			}
			cancel()
		}
	})
}

// A hooked log calls a function once: as a Wait ends, or behind the first row
// that a Read yields.
type hooked struct {
	*spy
	waited, yielded func()
}

func (h *hooked) Wait(ctx context.Context, q attend.Query) error {
	err := h.spy.Wait(ctx, q)
	if f := h.waited; f != nil {
		h.waited = nil
		f()
	}
	return err
}

func (h *hooked) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		for e, err := range h.spy.Read(ctx, q) {
			if !yield(e, err) {
				return
			}
			if f := h.yielded; f != nil {
				h.yielded = nil
				f()
			}
		}
	}
}

func TestWaitForALogThatCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		r.log = deaf{r.log}
		f := r.feed()
		began, now := time.Now(), r.newest()
		time.AfterFunc(10*time.Second, func() { r.decide("a", attend.RouteQueue, "x") })
		if err := f.Wait(t.Context(), decisions.Query{After: now, Prefixes: []attend.Prefix{"a"}}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("woken after %v, want a second more than 10 s at most", d)
		}
	})
}

// A log may wake for nothing, as often as it likes. It is not read without a pause
// for that, and what comes is heard soon.
func TestWaitForALogThatWakesForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		log := &restless{spy: &spy{DecisionLog: r.log}}
		r.log = log
		f := r.feed()
		began, now := time.Now(), r.newest()
		time.AfterFunc(10*time.Second, func() { r.decide("a", attend.RouteQueue, "x") })
		if err := f.Wait(t.Context(), decisions.Query{After: now, Prefixes: []attend.Prefix{"a"}}); err != nil {
			t.Fatalf("Wait after %d waits of the log: %v", log.waits.Load(), err)
		}
		if d := time.Since(began); d > 10*time.Second+50*time.Millisecond {
			t.Errorf("woken %v after the start, want 50 ms more than 10 s at most", d)
		}
		if n := log.reads.Load(); n > 250 {
			t.Errorf("%d reads of the log in 10 s in which nothing came, want 250 at most", n)
		}
	})
}

// A restless log waits for nothing, and fails where it is asked without end.
type restless struct{ *spy }

func (r *restless) Wait(context.Context, attend.Query) error {
	if r.waits.Add(1) > 10_000 {
		return errors.New("it is asked without a pause")
	}
	return nil
}

// Whoever has a cursor of a log that is gone, or ahead of it, is woken, and
// takes the others along.
func TestWaitIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		f := r.feed()
		r.decide("a", attend.RouteQueue, "x")
		at := r.newest()
		for _, after := range []attend.LogCursor{{}, {Epoch: "gone", Position: 1}, {Epoch: at.Epoch, Position: at.Position + 9}} {
			if err := f.Wait(t.Context(), decisions.Query{After: after, Prefixes: []attend.Prefix{"b"}}); err != nil {
				t.Errorf("Wait at %v: %v", after, err)
			}
		}
		done := make(chan error)
		go func() { done <- f.Wait(t.Context(), decisions.Query{After: at, Prefixes: []attend.Prefix{"b"}}) }()
		synctest.Wait()
		if err := f.Wait(t.Context(), decisions.Query{After: attend.LogCursor{Epoch: "gone", Position: 1}, Prefixes: []attend.Prefix{"b"}}); err != nil {
			t.Errorf("Wait with another epoch: %v", err)
		}
		if err := <-done; err != nil { // for nothing, which is allowed
			t.Errorf("the one who waited: %v", err)
		}
	})
}

// However many wait, a log that fails is asked once a second, and who waits hears of
// what comes once it works.
func TestWaitForALogThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		log := &spy{DecisionLog: r.log}
		r.log = log
		f := r.feed()
		down := errors.New("down")
		q := decisions.Query{After: r.newest(), Prefixes: all}
		log.fails.Store(&down)
		var waiting sync.WaitGroup
		for range 50 {
			waiting.Go(func() {
				for f.Wait(t.Context(), q) != nil {
					time.Sleep(time.Second) // as its readers do
				}
			})
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if n := log.waits.Load(); n < 5 || n > 15 {
			t.Errorf("a log that fails was asked %d times in 10 s, want about 10", n)
		}
		log.fails.Store(nil)
		r.decide("a", attend.RouteQueue, "x")
		began := time.Now()
		waiting.Wait()
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("those who wait heard %v after the log worked again, want 2 s at most", d)
		}
	})
}

// A store that panics ends the one who asked it. The others go on.
func TestWaitPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		log := &hooked{spy: &spy{DecisionLog: r.log}, waited: func() { panic("a fault of the store") }}
		r.log = log
		f := r.feed()
		q := decisions.Query{After: r.newest(), Prefixes: all}
		first := make(chan any)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer func() { first <- recover() }()
			_ = f.Wait(ctx, q)
		}()
		synctest.Wait()
		second := make(chan error)
		go func() { second <- f.Wait(t.Context(), q) }()
		synctest.Wait()
		cancel()
		if <-first == nil {
			t.Fatal("it did not panic: this proves nothing")
		}
		r.decide("a", attend.RouteQueue, "x")
		if err := <-second; err != nil {
			t.Errorf("Wait of another = %v, want what came", err)
		}
	})
}

func TestWaitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		log := &spy{DecisionLog: store.Log()}
		f := decisions.NewFeed(log, nil)
		now, err := f.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q := decisions.Query{After: now, Prefixes: all}
		down := errors.New("down")
		log.fails.Store(&down)
		for range 2 { // the lead is handed on by who fails, too
			if err := f.Wait(t.Context(), q); !errors.Is(err, down) {
				t.Errorf("Wait = %v, want the store's error", err)
			}
		}
		log.fails.Store(nil)
		done := make(chan error)
		for range 2 {
			go func() { done <- f.Wait(t.Context(), q) }()
		}
		synctest.Wait()
		store.Close()
		for range 2 {
			if err := <-done; !errors.Is(err, attend.ErrClosed) {
				t.Errorf("Wait = %v, want that the log is closed", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Wait(ctx, decisions.Query{After: now}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait of one who may read nothing = %v", err)
		}
	})
}
