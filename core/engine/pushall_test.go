package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

func parts(n int, kind string) []engine.ScopePush {
	list := make([]engine.ScopePush, n)
	for i := range list {
		list[i] = engine.ScopePush{
			Scope:  attend.Scope(fmt.Sprint("s-", i)),
			Events: []attend.Event{{ID: "a", Name: kind}, {ID: fmt.Sprint("b-", i), Name: kind}},
		}
	}
	return list
}

// E31: what is pushed together is one group, and each push has a receipt of its
// own.
func TestE31PushAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, loadTakes: time.Millisecond}
		cfg.Store = store
		e := newEngine(t, cfg)
		begun := time.Now()
		list := parts(160, "consequence.x")
		e.PushAll(t.Context(), list)
		if d := time.Since(begun); d > 20*time.Millisecond {
			t.Errorf("160 scopes took %v to load, one after the other", d)
		}
		if n := store.commits(); n != 1 {
			t.Errorf("%d commits, want one group", n)
		}
		list = append(list,
			engine.ScopePush{Scope: "s-7", Events: []attend.Event{{ID: "c", Name: "consequence.x"}}},
			engine.ScopePush{Scope: "\n", Events: []attend.Event{{ID: "c", Name: "consequence.x"}}},
			engine.ScopePush{Scope: "s-8", Events: []attend.Event{{ID: "ok", Name: "consequence.x"}, {Name: "consequence.x"}}},
			engine.ScopePush{Scope: "s-9"})
		e.PushAll(t.Context(), list)
		for i, x := range list {
			want := engine.Receipt{Duplicates: 2}
			switch i {
			case 160:
				want = engine.Receipt{New: 1}
			case 161, 162, 163:
				want = engine.Receipt{}
			}
			if failed := i == 161 || i == 162; x.Receipt != want || (x.Err != nil) != failed {
				t.Errorf("push %d = %+v, %v, want %+v", i, x.Receipt, x.Err, want)
			}
		}
		if err := list[162].Err; !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("a push without an id: %v, want ErrInvalid", err)
		}
		if w, err := e.Window(t.Context(), "s-7"); err != nil || len(w.Events) != 3 || w.Events[2].ID != "c" {
			t.Errorf("s-7 holds %v, %v, want its three events in order", w.Events, err)
		}
	})
}

// Each push of a list lands or fails by itself, and a full lane refuses its own.
func TestE31PushAllPartly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, noLoad: func(s attend.Scope) error {
			if s == "s-3" {
				return errDown
			}
			return nil
		}}
		cfg.Store = store
		e := newEngine(t, cfg)
		list := parts(10, "closing.x")
		e.PushAll(t.Context(), list)
		for i, x := range list {
			if i == 3 && !errors.Is(x.Err, errDown) || i != 3 && (x.Err != nil || x.Receipt.New != 2) {
				t.Errorf("push %d = %+v, %v", i, x.Receipt, x.Err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e.PushAll(ctx, list)
		for i, x := range list {
			if !errors.Is(x.Err, context.Canceled) || x.Receipt != (engine.Receipt{}) {
				t.Errorf("push %d = %+v, %v, want a cancelled context's error", i, x.Receipt, x.Err)
			}
		}
	})
}

// E2, E9, E31: a lenient push goes without its bad events, and flush and end
// take their place among the pushes to their scope.
func TestE31PushAllLeavesOutAndSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		e := newEngine(t, cfg)
		event := func(id string) attend.Event { return attend.Event{ID: id, Name: "consequence.x"} }
		list := []engine.ScopePush{
			{Scope: "s", Lenient: true, Events: []attend.Event{{}, event("a"), {ID: "no kind", Name: "what"}, event("b")}},
			{Scope: "s", Flush: true},
			{Scope: "s", Events: []attend.Event{event("c")}},
			{Scope: "s", End: true},
			{Scope: "s", Lenient: true, Events: []attend.Event{event("d")}},
			{Scope: "t", Lenient: true, Events: []attend.Event{{}}},
			{Scope: "t", Flush: true, End: true},
			{Scope: "t", End: true, Events: []attend.Event{event("e")}},
			{Scope: "", Flush: true},
		}
		e.PushAll(t.Context(), list)
		for i, want := range []engine.Receipt{{New: 2}, {}, {New: 1}, {}, {New: 1}, {}, {}, {}, {}} {
			if x := list[i]; x.Receipt != want || (x.Err != nil) != (i >= 6) || i >= 6 && !errors.Is(x.Err, attend.ErrInvalid) {
				t.Errorf("entry %d = %+v, %v, want %+v", i, x.Receipt, x.Err, want)
			}
		}
		if l := list[0].Left; len(l) != 2 || l[0].Index != 0 || l[1].Index != 2 || !errors.Is(l[0], attend.ErrInvalid) {
			t.Errorf("left out: %v, want the events 0 and 2", l)
		}
		if l := list[5].Left; len(l) != 1 {
			t.Errorf("left out: %v, want the only event", l)
		}
		s, err := e.State(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		slot, ok := s.Slot()
		if !ok || len(slot.Window.Events) != 2 || slot.Window.Reason != attend.ReasonForced {
			t.Errorf("in the slot: %+v, want a and b, forced", slot)
		}
	})
}
