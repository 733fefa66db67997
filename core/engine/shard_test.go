package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// small is a budget of a few scopes in each shard.
const small = 16 * 3 * 4096

// E37: scopes that are idle leave, the least recently used first, and the bytes
// stay within the budget.
func TestE37IdleScopesLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.ResidentBytes = small
		e := newEngine(t, cfg)
		for i := range 3000 {
			push(t, e, attend.Scope(fmt.Sprint("s-", i)), "a", "consequence.x")
		}
		cells, bytes := engine.Resident(e)
		if n := e.Resident(); n != cells {
			t.Errorf("Resident() = %d, want %d", n, cells)
		}
		// One scope a shard may be over the budget.
		if bytes > small+16*4096 || cells > 16*4 || cells < 16 {
			t.Errorf("%d scopes and %d bytes are resident, want a few in each of 16 shards", cells, bytes)
		}
		if engine.Holds(e, "s-0") || !engine.Holds(e, "s-2999") {
			t.Error("the oldest is resident or the newest is not")
		}
	})
}

// E37: the number of scopes in memory stays bounded however they are touched.
func TestE37EveryUseIsBounded(t *testing.T) {
	for _, row := range []struct {
		name string
		use  func(t *testing.T, e *engine.Engine, store *spy, scope attend.Scope)
	}{
		{"pushed", func(t *testing.T, e *engine.Engine, _ *spy, scope attend.Scope) {
			push(t, e, scope, "new", "consequence.x")
		}},
		{"duplicates", func(t *testing.T, e *engine.Engine, _ *spy, scope attend.Scope) {
			if r, err := e.Push(t.Context(), scope, attend.Event{ID: "a", Name: "consequence.x"}); r.Duplicates != 1 || err != nil {
				t.Fatalf("Push() = %+v, %v, want a duplicate", r, err)
			}
		}},
		{"read", func(t *testing.T, e *engine.Engine, _ *spy, scope attend.Scope) {
			if _, err := e.Window(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
		}},
		{"flushed for nothing", func(t *testing.T, e *engine.Engine, _ *spy, scope attend.Scope) {
			if err := e.Flush(t.Context(), scope+"-unknown"); err != nil {
				t.Fatal(err)
			}
		}},
		{"removed", func(t *testing.T, e *engine.Engine, _ *spy, scope attend.Scope) {
			if err := e.Remove(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
		}},
		{"not loaded", func(t *testing.T, e *engine.Engine, store *spy, scope attend.Scope) {
			store.change(func() { store.noLoad = unreadable })
			if _, err := e.Push(t.Context(), scope, attend.Event{ID: "b", Name: "consequence.x"}); !errors.Is(err, errDown) {
				t.Fatalf("Push() = %v, want the store's error", err)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				seed := newEngine(t, cfg)
				scopes := make([]attend.Scope, 1500)
				for i := range scopes {
					scopes[i] = attend.Scope(fmt.Sprint("s-", i))
					push(t, seed, scopes[i], "a", "consequence.x")
				}
				store := &spy{ScopeStore: cfg.Store}
				cfg.Store, cfg.ResidentBytes = store, small
				e := newEngine(t, cfg)
				for _, scope := range scopes {
					row.use(t, e, store, scope)
				}
				if cells, bytes := engine.Resident(e); cells > 16*6 || bytes > small+16*4096 {
					t.Errorf("%d scopes and %d bytes are resident, want a few in each of 16 shards", cells, bytes)
				}
			})
		})
	}
}

// E37: a scope whose deadline is pending leaves as well, and settles on time:
// the alarm finds its name in the store.
func TestE37ADeadlineOfAScopeThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.ResidentBytes = small
		f := start(t, cfg)
		for i := range 1000 {
			push(t, f.Engine, attend.Scope(fmt.Sprint("s-", i)), "a", "passive.x")
		}
		if engine.Holds(f.Engine, "s-0") {
			t.Fatal("the first scope is resident, want it evicted")
		}
		sleep(3999 * time.Millisecond)
		if n := len(f.judge.Calls()); n != 0 {
			t.Errorf("%d windows were judged early, want 0", n)
		}
		sleep(time.Millisecond)
		if n := len(f.sink.Delivered()); n != 1000 {
			t.Errorf("%d delivered on time, want 1,000", n)
		}
	})
}

// E37: one that left, came back by a push and was given another deadline settles
// by that one, and once.
func TestE37AScopeThatLeftAndCameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.ResidentBytes = 1
		f := start(t, cfg)
		crowd := func(k int) {
			for i := range 200 {
				push(t, f.Engine, attend.Scope(fmt.Sprint("other-", k, "-", i)), "a", "consequence.x")
			}
			if engine.Holds(f.Engine, "repo") {
				t.Fatal("the scope is resident, want it evicted")
			}
		}
		push(t, f.Engine, "repo", "a", "passive.x")
		crowd(0)
		sleep(3 * time.Second)
		push(t, f.Engine, "repo", "b", "passive.x")
		crowd(1)
		sleep(3999 * time.Millisecond)
		if n := len(f.judge.Calls()); n != 0 {
			t.Errorf("judged %d times at the first deadline, want 0", n)
		}
		sleep(time.Millisecond)
		if got := f.sink.Delivered(); len(got) != 1 || len(got[0].Window.Events) != 2 {
			t.Errorf("delivered %v, want one window of both", got)
		}
		sleep(time.Minute)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered in the end, want 1", n)
		}
	})
}

// Under a budget that holds nobody, pushes from all sides, deadlines, answers
// and retries still lose nothing.
func TestE37ABudgetThatHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		var m meter
		cfg.Judge = m.judge(50 * time.Millisecond)
		cfg.ResidentBytes = 1
		cfg.Store = &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond, loadTakes: time.Millisecond}
		f := start(t, cfg)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				for k := range 10 {
					push(t, f.Engine, attend.Scope(fmt.Sprint("s-", (i+k)%25)), fmt.Sprint(i, "-", k), []string{"closing.x", "passive.x", "flush.x"}[k%3])
					time.Sleep(time.Duration(i*k) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		sleep(2 * time.Minute)
		events := 0
		for _, d := range f.sink.Delivered() {
			events += len(d.Window.Events)
		}
		if events != 400 {
			t.Errorf("%d events delivered, want 400", events)
		}
		if cells, _ := engine.Resident(f.Engine); cells > 16 {
			t.Errorf("%d scopes are resident at rest, want at most one a shard", cells)
		}
	})
}

// Scopes that wait in line, and are not resident, cost little when they are due
// and nothing while they wait.
func TestE37ScopesInLineThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, loadTakes: time.Millisecond}
		cfg.Store, cfg.ResidentBytes, cfg.MaxCalls = store, 1, 1
		cfg.Judge = m.judge(10 * time.Second)
		f := start(t, cfg)
		for i := range 500 {
			push(t, f.Engine, attend.Scope(fmt.Sprint("s-", i)), "a", "closing.x")
		}
		before := store.allLoads()
		sleep(3 * time.Second)
		// One to settle it and one to look, and some that left in between.
		due := store.allLoads() - before
		if due > 2500 {
			t.Errorf("%d loads of 500 scopes that are due, want a few each", due)
		}
		sleep(6 * time.Second)
		if n := store.allLoads() - before - due; n > 0 {
			t.Errorf("%d loads in 6 s in which nothing happens, want none", n)
		}
	})
}
