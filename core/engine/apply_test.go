package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
)

func arrive(id string, kind attend.Kind) machine.Arrive {
	at := time.UnixMilli(1_767_225_600_000)
	return machine.Arrive{At: at, Events: []attend.Event{{ID: id, At: at, Name: "x", Kind: kind}}}
}

// Apply loads, steps and commits, all over again where somebody else was first.
func TestApplyStartsOverOnAConflict(t *testing.T) {
	lost := 0
	store := &spy{ScopeStore: memory.New(), lag: func(attend.Write) bool { lost++; return lost < 3 }}
	p := machine.DefaultPolicy()
	s, eff, err := engine.Apply(t.Context(), store, "repo", &p, arrive("a", attend.KindClosing))
	if err != nil || eff.Fresh != 1 || len(s.Window().Events) != 1 {
		t.Errorf("Apply() = %+v, %v, want one event", eff, err)
	}
	if n := store.commits(); n != 3 {
		t.Errorf("%d commits, want 3", n)
	}
}

func TestApplyWritesNothingForNothing(t *testing.T) {
	store := &spy{ScopeStore: memory.New()}
	p := machine.DefaultPolicy()
	for range 2 {
		if _, _, err := engine.Apply(t.Context(), store, "repo", &p, arrive("a", attend.KindClosing)); err != nil {
			t.Fatal(err)
		}
	}
	if _, eff, err := engine.Apply(t.Context(), store, "empty", &p, machine.Flush{At: time.Now()}); err != nil || eff.Changed {
		t.Errorf("Apply(Flush) on nothing = %+v, %v, want no change", eff, err)
	}
	if n := store.commits(); n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
}

func TestApplyTellsTheStoresErrors(t *testing.T) {
	p := machine.DefaultPolicy()
	for _, row := range []struct {
		name  string
		store *spy
		want  error
	}{
		{"load", &spy{ScopeStore: memory.New(), noLoad: unreadable}, errDown},
		{"commit", &spy{ScopeStore: memory.New(), refuse: refused}, errDown},
	} {
		if _, _, err := engine.Apply(t.Context(), row.store, "repo", &p, arrive("a", attend.KindClosing)); !errors.Is(err, row.want) {
			t.Errorf("Apply() with a bad %s = %v, want %v", row.name, err, row.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := engine.Apply(ctx, memory.New(), "repo", &p, arrive("a", attend.KindClosing)); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply() with a context that has ended = %v, want Canceled", err)
	}
}

// A store that forgets to answer for a write is at fault; nothing is taken for
// committed.
func TestAStoreThatAnswersTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Store = mute{cfg.Store}
		e := newEngine(t, cfg)
		if _, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "closing.x"}); err == nil {
			t.Error("Push() = nil, want an error")
		}
		p := machine.DefaultPolicy()
		if _, _, err := engine.Apply(t.Context(), cfg.Store, "repo", &p, arrive("a", attend.KindClosing)); err == nil {
			t.Error("Apply() = nil, want an error")
		}
	})
}

// mute is a store that answers for no write, and does none.
type mute struct{ attend.ScopeStore }

func (mute) Commit(context.Context, []attend.Write) ([]attend.Outcome, error) { return nil, nil }
