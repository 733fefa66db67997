package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// short is config with an expiry after a minute.
func short() engine.Config {
	cfg := config()
	cfg.IdleExpiry = time.Minute
	return cfg
}

// E42: a scope that holds no act, nothing held, in its slot or in its lanes
// forgets itself IdleExpiry after its last input.
func TestE42AnIdleScopeForgetsItself(t *testing.T) {
	for _, row := range []struct {
		name    string
		event   string
		settled time.Duration // when its last input is
	}{{"decided", "flush.x", 0}, {"output alone", "consequence.x", 0}, {"after a deadline", "passive.x", 4 * time.Second}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, short())
				push(t, f.Engine, "repo", "a", row.event)
				sleep(row.settled + time.Minute)
				if s, err := f.State(t.Context(), "repo"); err != nil || s.Scope() != "repo" {
					t.Errorf("the scope is gone (%v) when it is due, want the grace of the sweep", err)
				}
				sleep(4 * time.Second)
				rec, err := f.store.Load(t.Context(), "repo")
				if err != nil || rec.Version != 0 {
					t.Errorf("version %d (%v) after the expiry and a sweep, want the scope gone", rec.Version, err)
				}
				// It is as new as any.
				if r, err := f.Push(t.Context(), "repo", attend.Event{ID: "a", Name: row.event}); r.New != 1 || err != nil {
					t.Errorf("Push() = %+v, %v, want it new", r, err)
				}
			})
		})
	}
}

// E42: what is in use does not expire.
func TestE42WhatIsInUseDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := short()
		f := start(t, cfg)
		f.letters.Fail(1 << 20)
		push(t, f.Engine, "busy", "0", "consequence.x")
		f.sink.Fail(1 << 20)
		push(t, f.Engine, "letter", "0", "flush.x") // becomes a dead letter that nobody takes
		for i := range 10 {
			sleep(50 * time.Second)
			push(t, f.Engine, "busy", fmt.Sprint(i+1), "consequence.x")
		}
		for _, scope := range []attend.Scope{"busy", "letter"} {
			if s, err := f.State(t.Context(), scope); err != nil || s.Scope() != scope {
				t.Errorf("%s is gone (%v), want it kept", scope, err)
			}
		}
	})
}

// E42: a push at the same moment wins.
func TestE42APushAtTheSameMomentWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		cfg := short()
		store := &spy{ScopeStore: mem}
		cfg.Store = store
		f := start(t, cfg)
		other := short()
		other.Store = mem.Reopen()
		pusher := newEngine(t, other)
		push(t, pusher, "repo", "a", "flush.x")
		sleep(3 * time.Second) // judged and delivered here
		for _, w := range store.writes("repo") {
			if w.Forget {
				t.Fatal("the scope is forgotten already")
			}
		}
		// The write that forgets it takes a while, and a push comes first.
		pushed := false
		store.change(func() {
			store.refuse = func(_ int, writes []attend.Write) error {
				if writes[0].Forget && !pushed {
					pushed = true
					push(t, pusher, "repo", "b", "passive.x")
				}
				return nil
			}
		})
		sleep(90 * time.Second)
		if !pushed {
			t.Fatal("nobody tried to forget the scope, so the test shows nothing")
		}
		if got := f.sink.Delivered(); len(got) != 2 || got[1].Window.Events[0].ID != "b" {
			t.Errorf("delivered %v, want the push that came first", got)
		}
	})
}

// E42: source cursors stay, so that a source goes on where it was.
func TestE42CursorsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, short())
		if err := f.Attach(t.Context(), "repo", feedOf("feed", 3, "closing.x")); err != nil {
			t.Fatal(err)
		}
		sleep(10 * time.Minute)
		s, err := f.State(t.Context(), "repo")
		if err != nil || s.Cursor("feed") != "3" || len(s.Recent()) != 0 {
			t.Errorf("cursor %q, verdicts %v (%v), want the cursor alone", s.Cursor("feed"), s.Recent(), err)
		}
		src := feedOf("feed", 5, "closing.x")
		if err := f.Attach(t.Context(), "repo", src); err != nil {
			t.Fatal(err)
		}
		if got, _ := src.started(); got[0] != "3" {
			t.Errorf("started after %q, want 3", got[0])
		}
	})
}

// E42: after the expiry the store has not grown.
func TestE42TheStoreDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := short()
		cfg.OmitVerdicts = true
		f := start(t, cfg)
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				push(t, f.Engine, attend.Scope(fmt.Sprint("s-", i)), "a", []string{"flush.x", "consequence.x", "passive.x"}[i%3])
			})
		}
		wg.Wait()
		sleep(3 * time.Minute)
		for i := range 500 {
			if rec, err := f.store.Load(t.Context(), attend.Scope(fmt.Sprint("s-", i))); err != nil || rec.Version != 0 {
				t.Fatalf("s-%d is at version %d (%v), want it gone", i, rec.Version, err)
			}
		}
		for scope := range f.store.Due(t.Context(), time.Now().Add(1000*time.Hour)) {
			t.Errorf("%s is still due", scope)
		}
	})
}
