package conformance

import (
	"context"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
)

func removeCases() []Case {
	return []Case{
		{"scope/remove-forgets", "Remove forgets the scope, work not yet done included.", "v0.1", removeForgets},
		{"scope/remove-keeps-rows", "Its log rows stay.", "v0.1", removeKeepsRows},
		{"scope/remove-unknown", "An unknown scope is no error.", "v0.1", removeUnknown},
		{"scope/forget-removes", "Forget removes the scope, at this version and with these Rows", "v0.1", forgetRemoves},
		{"scope/forget-stale", "Forget removes the scope, at this version and with these Rows", "v0.1", forgetStale},
		{"scope/forget-alone", "nothing else of the write means anything then", "v0.1", forgetAlone},
		{"scope/forget-outcome", "After Forget it is any number but 0.", "v0.1", forgetOutcome},
	}
}

// gone checks that nothing of ops is left, and that it can come back.
func gone(ctx context.Context, s attend.ScopeStore, old uint64) error {
	if err := absent(ctx, s, "ops"); err != nil {
		return err
	}
	if err := isDue(ctx, s, after(time.Hour), "other"); err != nil {
		return err
	}
	out, err := commit(ctx, s, attend.Write{Scope: "ops", Expect: old, Inputs: in("late")})
	if err != nil {
		return err
	}
	if !out[0].Conflict() {
		return fmt.Errorf("a write at the version from before was applied, want a conflict")
	}
	if out, err = commit(ctx, s, attend.Write{Scope: "ops", Inputs: in("again")}); err != nil {
		return err
	}
	if out[0].Conflict() {
		return fmt.Errorf("the first write of the scope's next life is a conflict")
	}
	if err := holds(ctx, s, "ops", "", "again"); err != nil {
		return fmt.Errorf("in its next life: %w", err)
	}
	if err := isDue(ctx, s, after(time.Hour), "other"); err != nil {
		return fmt.Errorf("in its next life: %w", err)
	}
	return holds(ctx, s, "other", "", "a")
}

// two makes ops, with everything that a scope has, and another one.
func two(ctx context.Context, s attend.ScopeStore) (uint64, error) {
	for _, w := range []attend.Write{
		{Scope: "other", Inputs: in("a"), Due: noon},
		{Scope: "ops", Snapshot: []byte("state"), Due: noon},
	} {
		if err := put(ctx, s, w); err != nil {
			return 0, err
		}
	}
	return version(ctx, s, attend.Write{Scope: "ops", Inputs: in("b"), Due: after(time.Second)})
}

func removeForgets(ctx context.Context, e Env) error {
	s := e.Store()
	v, err := two(ctx, s)
	if err != nil {
		return err
	}
	if err := s.Remove(ctx, "ops"); err != nil {
		return fmt.Errorf("Remove: %w", err)
	}
	return gone(ctx, s, v)
}

func removeKeepsRows(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "a", decision), row("ops", "b", letter), row("ops", "c", verdict)); err != nil {
		return err
	}
	if err := s.Remove(ctx, "ops"); err != nil {
		return fmt.Errorf("Remove: %w", err)
	}
	return readsSet(ctx, s, "log after Remove", attend.Query{Types: everything}, "a", "b", "c")
}

func removeUnknown(ctx context.Context, e Env) error {
	s := e.Store()
	if err := s.Remove(ctx, "nobody"); err != nil {
		return fmt.Errorf("Remove of an unknown scope: %v, want no error", err)
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
		return err
	}
	for range 2 {
		if err := s.Remove(ctx, "ops"); err != nil {
			return fmt.Errorf("Remove, twice: %v, want no error", err)
		}
	}
	return nil
}

func forgetRemoves(ctx context.Context, e Env) error {
	s := e.Store()
	v, err := two(ctx, s)
	if err != nil {
		return err
	}
	if _, err := commit(ctx, s, attend.Write{Scope: "ops", Expect: v, Forget: true, Rows: []attend.Row{row("ops", "d", verdict)}}); err != nil {
		return err
	}
	if err := reads(ctx, s, "rows of a write that forgets", attend.Query{Types: everything}, "d"); err != nil {
		return err
	}
	return gone(ctx, s, v)
}

// An event that came a moment before must not go with the scope.
func forgetStale(ctx context.Context, e Env) error {
	s := e.Store()
	stale, err := version(ctx, s, attend.Write{Scope: "ops", Inputs: in("a"), Due: noon})
	if err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("b"), Due: noon}); err != nil {
		return err
	}
	for _, w := range []attend.Write{
		{Scope: "ops", Expect: stale},
		{Scope: "ops", Expect: 0},
		{Scope: "nobody", Expect: stale},
	} {
		w.Forget, w.Rows = true, []attend.Row{row(w.Scope, "d", verdict)}
		out, err := commit(ctx, s, w)
		if err != nil {
			return err
		}
		if !out[0].Conflict() {
			return fmt.Errorf("a Forget of %q at a version that it isn't at was applied, want a conflict", w.Scope)
		}
	}
	if err := holds(ctx, s, "ops", "", "a", "b"); err != nil {
		return err
	}
	if err := isDue(ctx, s, after(time.Second), "ops"); err != nil {
		return err
	}
	return reads(ctx, s, "log after stale Forgets", attend.Query{Types: everything})
}

func forgetAlone(ctx context.Context, e Env) error {
	for what, w := range map[string]attend.Write{
		"inputs and a due time": {Inputs: in("c"), Due: after(time.Second)},
		"a snapshot":            {Snapshot: []byte("late"), Due: after(time.Second)},
		"KeepDue":               {KeepDue: true},
	} {
		s := e.Store()
		v, err := two(ctx, s)
		if err != nil {
			return err
		}
		w.Scope, w.Expect, w.Forget = "ops", v, true
		if _, err := commit(ctx, s, w); err != nil {
			return err
		}
		if err := gone(ctx, s, v); err != nil {
			return fmt.Errorf("a write that forgets, and carries %s: %w", what, err)
		}
	}
	return nil
}

func forgetOutcome(ctx context.Context, e Env) error {
	s := e.Store()
	v, err := version(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")})
	if err != nil {
		return err
	}
	out, err := commit(ctx, s, attend.Write{Scope: "ops", Expect: v, Forget: true})
	if err != nil {
		return err
	}
	if out[0].Conflict() {
		return fmt.Errorf("the outcome of a Forget at the scope's version is a conflict")
	}
	return nil
}
