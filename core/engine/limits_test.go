package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/memory"
)

// largest is how many bytes the largest commit brought.
func (s *spy) largest() (bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, group := range s.groups {
		n := 0
		for _, w := range group {
			n += len(w.Snapshot)
			for _, b := range w.Inputs {
				n += len(b)
			}
			for _, r := range w.Rows {
				n += len(r.Body)
			}
		}
		bytes = max(bytes, n)
	}
	return bytes
}

// E31, E2: what is refused of a batch counts into its limit like the rest.
func TestE31RejectedEventsAreLimitedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store, cfg.DeadLetter = store, attend.LogLetters
		e := newEngine(t, cfg)
		var events []attend.Event
		for i := range 60 {
			events = append(events, attend.Event{ID: fmt.Sprint(i), Name: "nokind.x", Text: strings.Repeat("x", 900_000)})
		}
		if err := e.Attach(t.Context(), "repo", &feed{key: "ci", batches: []attend.Batch{{Events: events}}}); err != nil {
			t.Fatal(err)
		}
		// Each part is at most 16 MiB, and its rows hold it once more.
		if got := store.largest(); got > 36<<20 {
			t.Errorf("the largest commit has %d bytes, want at most twice 16 MiB and a little", got)
		}
	})
}

// E31: snapshots and rows count into the limit of a group.
func TestE31AGroupIsLimitedWithItsSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(route(attend.RouteQueue))
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store, cfg.Sink, cfg.ResidentBytes, cfg.MaxCalls = store, attend.LogOnly, 1<<30, 1000
		f := start(t, cfg)
		for i := range 50 {
			v := attend.Event{ID: "1", Name: "closing.x", Text: strings.Repeat("x", 900_000)}
			if _, err := f.Push(t.Context(), attend.Scope(fmt.Sprint("s", i)), v); err != nil {
				t.Fatal(err)
			}
		}
		sleep(time.Second)
		// One write alone may be over the limit, two together may not.
		if got := store.largest(); got > 4<<20 {
			t.Errorf("the largest group has %d bytes, want no more than one window and its decision", got)
		}
	})
}

// E3: a repeat is no answer from what is known of a scope that somebody else
// has removed.
func TestE3ARepeatAfterARemoveElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		cfg := config()
		cfg.Store = store
		a := newEngine(t, cfg)
		cfg = config()
		cfg.Store = store.Reopen()
		b := newEngine(t, cfg)
		push(t, a, "repo", "e1", "closing.x")
		if err := b.Remove(t.Context(), "repo"); err != nil {
			t.Fatal(err)
		}
		r, err := a.Push(t.Context(), "repo", attend.Event{ID: "e1", Name: "closing.x"})
		if err != nil || r.New != 1 {
			t.Errorf("Push() = %+v, %v, want one new event", r, err)
		}
		if w, err := a.Window(t.Context(), "repo"); err != nil || len(w.Events) != 1 {
			t.Errorf("Window() = %d events, %v, want 1", len(w.Events), err)
		}
	})
}

// E36: a process that took work over has its timers, whoever pushed.
func TestE36RetriesOfWorkTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		cfg := config()
		cfg.Store = store
		pusher := newEngine(t, cfg)

		var at []time.Duration
		var begun time.Time
		cfg = config()
		cfg.Store = store.Reopen()
		cfg.Judge = attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
			if at == nil {
				begun = time.Now()
			}
			at = append(at, time.Since(begun))
			return attend.Judgment{}, attendtest.ErrScripted
		})
		start(t, cfg)
		push(t, pusher, "repo", "e1", "flush.x")
		sleep(time.Minute)
		want := []time.Duration{0, time.Second, 5 * time.Second, 21 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
	})
}

// E36: one scope that is slow to load holds up nobody.
func TestE36ASlowLoadHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		cfg := config()
		cfg.Store = store
		pusher := newEngine(t, cfg)
		push(t, pusher, "slow", "e1", "closing.x")

		slow := &spy{ScopeStore: store.Reopen()}
		slow.noLoad = func(scope attend.Scope) error {
			if scope == "slow" {
				time.Sleep(5 * time.Minute)
			}
			return nil
		}
		var heard time.Time
		cfg = config(route(attend.RouteQueue))
		cfg.Store = slow
		cfg.Sink = attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			if d.Scope() == "other" {
				heard = time.Now()
			}
			return nil
		})
		start(t, cfg)
		sleep(5 * time.Second)
		begun := time.Now()
		push(t, pusher, "other", "e1", "closing.x")
		sleep(10 * time.Minute)
		if d := heard.Sub(begun); heard.IsZero() || d > 15*time.Second {
			t.Errorf("work behind a slow load was done after %v, want some seconds", d)
		}
	})
}

// E35: a store that is down keeps Run no longer than the grace.
func TestE35ShutdownInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(attendtest.Hang())
		down := false
		store := &spy{ScopeStore: cfg.Store}
		store.refuse = func(int, []attend.Write) error {
			if down {
				return errDown
			}
			return nil
		}
		cfg.Store, cfg.ShutdownGrace = store, time.Second
		f := start(t, cfg)
		push(t, f.Engine, "repo", "e1", "flush.x")
		sleep(time.Second)
		store.change(func() { down = true })
		begun := time.Now()
		f.stop()
		if d := time.Since(begun); d > 2*time.Second {
			t.Errorf("Run returned after %v, want the grace of 1s and one more try", d)
		}
	})
}

// E31: a push that nobody waits for any more is not taken in later.
func TestE31AnAbandonedPushIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: time.Second}
		cfg.Store = store
		e := newEngine(t, cfg)
		go push(t, e, "repo", "first", "closing.x")
		sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := e.Push(ctx, "repo", attend.Event{ID: "second", Name: "closing.x"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Push() = %v, want DeadlineExceeded", err)
		}
		sleep(5 * time.Second)
		if w, err := e.Window(t.Context(), "repo"); err != nil || len(w.Events) != 1 {
			t.Errorf("Window() = %d events, %v, want the first alone", len(w.Events), err)
		}
	})
}
