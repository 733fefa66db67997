package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// pushTogether pushes to n scopes at one moment, a goroutine each, and waits
// for all of them.
func pushTogether(t *testing.T, e *engine.Engine, n int, events func(i int) []attend.Event) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := e.Push(t.Context(), attend.Scope(fmt.Sprintf("s-%d", i)), events(i)...); err != nil {
				t.Errorf("Push() = %v, want nil", err)
			}
		})
	}
	wg.Wait()
}

func one(name string) func(int) []attend.Event {
	return func(i int) []attend.Event { return []attend.Event{{ID: fmt.Sprint("e-", i), Name: name}} }
}

// E31: pushes to many scopes that arrive together are one group. The first
// commits at once; what comes meanwhile is the next group.
func TestE31PushesThatArriveTogetherAreOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond}
		cfg.Store = store
		e := newEngine(t, cfg)
		begun := time.Now()
		pushTogether(t, e, 500, one("consequence.x"))
		if got := store.sizes(); len(got) != 2 || got[0]+got[1] != 500 {
			t.Errorf("groups of %v, want those who came first, and all the others", got)
		}
		if d := time.Since(begun); d != 2*time.Millisecond {
			t.Errorf("all were committed after %v, want two commits of 1ms", d)
		}
	})
}

// E31: inputs of one scope that wait together are one write, and a scope has at
// most one write in flight.
func TestE31InputsOfOneScopeThatWaitTogetherAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond}
		cfg.Store = store
		e := newEngine(t, cfg)
		push(t, e, "repo", "first", "consequence.x")
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { push(t, e, "repo", fmt.Sprint("e-", i), "consequence.x") })
		}
		wg.Wait()
		if got := store.writes("repo"); len(got) != 3 {
			t.Errorf("%d writes, want the first, that of who came first, and one of all the others", len(got))
		}
		if store.overlapped() {
			t.Error("two writes of one scope were in flight")
		}
		if w, _ := e.Window(t.Context(), "repo"); len(w.Events) != 101 {
			t.Errorf("%d events, want 101", len(w.Events))
		}
	})
}

// The same under pushes, flushes and ends of many scopes, answers that come and
// go, and a store that is slow.
func TestE31AtMostOneWriteInFlightAScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: 3 * time.Millisecond}
		cfg.Store = store
		f := start(t, cfg)
		var wg sync.WaitGroup
		for i := range 20 {
			scope := attend.Scope(fmt.Sprintf("s-%d", i%5))
			wg.Go(func() {
				for k := range 20 {
					push(t, f.Engine, scope, fmt.Sprintf("%d-%d", i, k), []string{"closing.x", "flush.x", "consequence.x"}[k%3])
					time.Sleep(time.Duration(i+k) * time.Millisecond)
					if k%7 == 0 {
						f.Flush(t.Context(), scope)
					}
				}
			})
		}
		wg.Wait()
		sleep(time.Minute)
		if store.overlapped() {
			t.Error("two writes of one scope were in flight")
		}
		if n := store.lostRaces(); n != 0 {
			t.Errorf("%d conflicts in one process, want none", n)
		}
		events := 0
		for _, d := range f.sink.Delivered() {
			events += len(d.Window.Events)
		}
		if events != 400 {
			t.Errorf("%d events delivered, want 400", events)
		}
	})
}

// E31: a group that fails is written again write by write, so that no scope's
// bad write fails another's.
func TestE31OneBadWriteFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond}
		store.refuse = func(_ int, writes []attend.Write) error {
			for _, w := range writes {
				if w.Scope == "bad" {
					return errDown
				}
			}
			return nil
		}
		cfg.Store = store
		e := newEngine(t, cfg)
		var wg sync.WaitGroup
		errs := make([]error, 50)
		begun := time.Now()
		for i := range errs {
			wg.Go(func() {
				scope := attend.Scope(fmt.Sprintf("s-%d", i))
				if i == 25 {
					scope = "bad"
				}
				_, errs[i] = e.Push(t.Context(), scope, attend.Event{ID: "a", Name: "consequence.x"})
				if d := time.Since(begun); i != 25 && d > 100*time.Millisecond {
					t.Errorf("push %d took %v, want it not to wait for the bad one", i, d)
				}
			})
		}
		wg.Wait()
		for i, err := range errs {
			if i == 25 && !errors.Is(err, errDown) {
				t.Errorf("the bad scope's Push() = %v, want the store's error", err)
			} else if i != 25 && err != nil {
				t.Errorf("Push() = %v, want nil", err)
			}
		}
		if n := store.commits(); n < 50 {
			t.Errorf("%d commits, want one a scope after the group", n)
		}
		for i, n := range store.sizes() {
			if i > 1 && n != 1 {
				t.Errorf("commit %d after the failed group holds %d writes, want 1", i, n)
			}
		}
		// The bad scope works again as soon as the store takes it.
		store.change(func() { store.refuse = nil })
		push(t, e, "bad", "b", "consequence.x")
		if w, _ := e.Window(t.Context(), "bad"); len(w.Events) != 1 {
			t.Errorf("%d events in the bad scope, want b alone", len(w.Events))
		}
	})
}

func TestE31TheLimitsOfAGroup(t *testing.T) {
	for _, row := range []struct {
		name   string
		scopes int
		events func(i int) []attend.Event
		want   func(sizes []int) bool
		say    string
	}{
		{
			"1,024 writes", 3000, one("consequence.x"),
			func(s []int) bool { return len(s) == 4 && slices.Max(s) == 1024 }, "some, twice 1,024, and the rest",
		},
		{
			"4,096 events", 101, func(i int) []attend.Event { return numbered("a", "consequence.x", 200) },
			func(s []int) bool { return len(s) == 6 && slices.Max(s) == 20 }, "20 of 200 events each",
		},
		{
			"1 MiB", 41, func(i int) []attend.Event {
				return []attend.Event{{ID: "a", Name: "consequence.x", Text: strings.Repeat("x", 100_000)}}
			},
			func(s []int) bool { return len(s) == 5 && slices.Max(s) == 10 }, "10 of 100 kB each",
		},
		{
			"one bigger than all", 3, func(i int) []attend.Event { return numbered("a", "consequence.x", 10_000) },
			func(s []int) bool { return slices.Equal(s, []int{1, 1, 1}) }, "each by itself",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				store := &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond}
				cfg.Store = store
				pushTogether(t, newEngine(t, cfg), row.scopes, row.events)
				if got := store.sizes(); !row.want(got) {
					t.Errorf("groups of %v, want %s", got, row.say)
				}
			})
		})
	}
}

// The most that one scope brings into a group is bounded too: what waits behind
// it goes with the next.
func TestE31TheLimitsOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond}
		cfg.Store = store
		e := newEngine(t, cfg)
		push(t, e, "repo", "first", "consequence.x")
		var wg sync.WaitGroup
		for i := range 11 {
			wg.Go(func() {
				if _, err := e.Push(t.Context(), "repo", numbered(fmt.Sprint(i), "consequence.x", 1000)...); err != nil {
					t.Errorf("Push() = %v, want nil", err)
				}
			})
		}
		wg.Wait()
		// 1 alone, and then 5 of 1,000 events each, since the fifth fills it.
		if n := len(store.writes("repo")); n != 4 {
			t.Errorf("%d writes, want 4: the first push, one, and twice five", n)
		}
	})
}

// E31, B25: a scope that brings 5,000 events at a time does not keep single
// pushes to other scopes waiting for more than the group before and its own.
func TestE31ABigScopeIsFairToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: 10 * time.Millisecond}
		cfg.Store = store
		e := newEngine(t, cfg)
		done := make(chan struct{})
		var wg sync.WaitGroup
		for k := range 3 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
					}
					if _, err := e.Push(t.Context(), "big", numbered(fmt.Sprint(k, "-", i), "consequence.x", 5000)...); err != nil {
						t.Errorf("Push() = %v, want nil", err)
					}
				}
			})
		}
		for i := range 5 {
			time.Sleep(7 * time.Millisecond)
			begun := time.Now()
			push(t, e, attend.Scope(fmt.Sprint("small-", i)), "a", "consequence.x")
			if d := time.Since(begun); d > 30*time.Millisecond {
				t.Errorf("a single push took %v, want at most three commits", d)
			}
		}
		close(done)
		wg.Wait()
	})
}

// E32: a snapshot replaces the tail once that is larger.
func TestE32SnapshotsReplaceATailThatIsLarger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		e := newEngine(t, cfg)
		for i := range 400 {
			push(t, e, "repo", fmt.Sprint(i), "consequence.x")
			rec, err := store.ScopeStore.Load(t.Context(), "repo")
			if err != nil {
				t.Fatal(err)
			}
			tail := 0
			for _, in := range rec.Tail {
				tail += len(in)
			}
			if limit := max(len(rec.Snapshot), 1<<10); tail > limit {
				t.Fatalf("a tail of %d bytes behind a snapshot of %d, want at most %d", tail, len(rec.Snapshot), limit)
			}
		}
		snapshots := 0
		for _, w := range store.writes("repo") {
			if w.Snapshot != nil {
				snapshots++
				if len(w.Inputs) != 0 {
					t.Error("a write has both a snapshot and inputs")
				}
			}
		}
		if snapshots < 2 || snapshots > 40 {
			t.Errorf("%d snapshots in 400 writes, want a few", snapshots)
		}
	})
}

// E48: settings are written beside the next input that changes something, never
// alone.
func TestE48SettingsAreNeverWrittenAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		push(t, newEngine(t, cfg), "repo", "a", "consequence.x")
		cfg.Settle.ClosingGrace = 2 * time.Second
		f := start(t, cfg)
		if r, err := f.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "consequence.x"}); r.Duplicates != 1 || err != nil {
			t.Errorf("Push() = %+v, %v, want a duplicate", r, err)
		}
		if n := len(store.writes("repo")); n != 1 {
			t.Errorf("%d writes after a duplicate under other settings, want 1", n)
		}
		push(t, f.Engine, "repo", "b", "closing.x")
		if got := store.writes("repo"); len(got) != 2 || len(got[1].Inputs) != 2 {
			t.Errorf("writes %+v, want a second one of settings and event", got)
		}
		sleep(1999 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 0 {
			t.Errorf("%d delivered before the new grace, want 0", n)
		}
		sleep(time.Millisecond)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered after the new grace, want 1", n)
		}
	})
}
