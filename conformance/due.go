package conformance

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

func dueCases() []Case {
	return []Case{
		{"scope/due-boundary", "Due yields the scopes whose due time is at or before now, oldest first.", "v0.1", dueBoundary},
		{"scope/due-order", "Due yields the scopes whose due time is at or before now, oldest first.", "v0.1", dueOrder},
		{"scope/due-many", "Due yields the scopes whose due time is at or before now, oldest first.", "v0.1", dueMany},
		{"scope/due-never", "Zero: never.", "v0.1", dueNever},
		{"scope/due-moves", "Due is when the scope wants to be looked at, in whole milliseconds.", "v0.1", dueMoves},
		{"scope/due-keep", "KeepDue leaves the stored due time as it is; Due means nothing then", "v0.1", dueKeep},
		{"scope/due-clock", "No method reads a clock.", "v0.1", dueClock},
		{"scope/due-claims-nothing", "It reads and claims nothing", "v0.1", dueClaimsNothing},
		{"scope/due-holds-nothing", "any method may be called inside the loop", "v0.1", dueHoldsNothing},
		{"scope/due-consumed", "any method may be called inside the loop", "v0.1", dueConsumed},
		{"scope/due-left", "holds no lock, row or transaction while it yields", "v0.1", dueLeft},
		{"scope/due-error", "An error is its last pair.", "v0.1", dueError},
	}
}

// putDue commits many scopes at once, with their due times in ms after noon.
func putDue(ctx context.Context, s attend.ScopeStore, due map[attend.Scope]int) error {
	var writes []attend.Write
	for scope, ms := range due {
		writes = append(writes, attend.Write{Scope: scope, Inputs: in("a"), Due: after(time.Duration(ms) * time.Millisecond)})
	}
	for w := range slices.Chunk(writes, 200) {
		out, err := commit(ctx, s, w...)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(out, attend.Outcome.Conflict); i >= 0 {
			return fmt.Errorf("the first write of %q is a conflict", w[i].Scope)
		}
	}
	return nil
}

func dueBoundary(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a"), Due: noon}); err != nil {
		return err
	}
	if err := isDue(ctx, s, after(-time.Millisecond)); err != nil {
		return fmt.Errorf("one millisecond early: %w", err)
	}
	if err := isDue(ctx, s, noon, "ops"); err != nil {
		return fmt.Errorf("at its due time: %w", err)
	}
	if err := isDue(ctx, s, after(time.Millisecond), "ops"); err != nil {
		return fmt.Errorf("one millisecond late: %w", err)
	}
	return nil
}

func dueOrder(ctx context.Context, e Env) error {
	s := e.Store()
	const n = 250
	due := make(map[attend.Scope]int)
	var want []attend.Scope
	for i := range n {
		scope := attend.Scope(fmt.Sprintf("s-%03d", i*89%n)) // 89 and 250 have no common factor
		due[scope] = i
		want = append(want, scope)
	}
	if err := putDue(ctx, s, due); err != nil {
		return err
	}
	got, err := dueAt(ctx, s, after(n*time.Millisecond))
	if err != nil {
		return err
	}
	return same("order of the due scopes", want, got)
}

// Many are due in the same millisecond, so that a page ends among them.
func dueMany(ctx context.Context, e Env) error {
	s := e.Store()
	due := make(map[attend.Scope]int)
	for i := range 1100 {
		due[attend.Scope(fmt.Sprint("s-", i))] = i / 500
	}
	due["later"] = 10
	if err := putDue(ctx, s, due); err != nil {
		return err
	}
	got, err := dueAt(ctx, s, after(5*time.Millisecond))
	if err != nil {
		return err
	}
	seen := make(map[attend.Scope]int)
	for _, scope := range got {
		seen[scope]++
	}
	missing, twice := 0, 0
	for scope, ms := range due {
		switch n := seen[scope]; {
		case ms > 5 && n > 0:
			return fmt.Errorf("Due yields %q, which is not due", scope)
		case ms <= 5 && n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	if missing > 0 || twice > 0 {
		return fmt.Errorf("of 1100 scopes that are due, %d are left out and %d come twice", missing, twice)
	}
	return nil
}

func dueNever(ctx context.Context, e Env) error {
	s := e.Store()
	if err := putAll(ctx, s,
		attend.Write{Scope: "stops", Inputs: in("a"), Due: noon},
		attend.Write{Scope: "never", Inputs: in("a")},
	); err != nil {
		return err
	}
	if err := isDue(ctx, s, after(time.Hour), "stops"); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "stops", Inputs: in("b")}); err != nil {
		return err
	}
	if err := isDue(ctx, s, after(time.Hour)); err != nil {
		return fmt.Errorf("after a write with no due time: %w", err)
	}
	return nil
}

func dueMoves(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a"), Due: noon}); err != nil {
		return err
	}
	for _, ms := range []time.Duration{5, 2, 9, 1} {
		if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("b"), Due: after(ms * time.Millisecond)}); err != nil {
			return err
		}
		if err := isDue(ctx, s, after((ms-1)*time.Millisecond)); err != nil {
			return fmt.Errorf("after its due time moved to noon%+d ms: %w", ms, err)
		}
		if err := isDue(ctx, s, after(20*time.Millisecond), "ops"); err != nil {
			return fmt.Errorf("after its due time moved to noon%+d ms: %w", ms, err)
		}
	}
	return nil
}

func dueKeep(ctx context.Context, e Env) error {
	s := e.Store()
	if err := putAll(ctx, s,
		attend.Write{Scope: "due", Inputs: in("a"), Due: noon},
		attend.Write{Scope: "never", Inputs: in("a")},
	); err != nil {
		return err
	}
	for _, due := range []time.Time{{}, after(-time.Hour), after(time.Hour)} {
		for _, scope := range []attend.Scope{"due", "never"} {
			if err := put(ctx, s, attend.Write{Scope: scope, Inputs: in("b"), KeepDue: true, Due: due}); err != nil {
				return err
			}
		}
		if err := isDue(ctx, s, after(-time.Millisecond)); err != nil {
			return fmt.Errorf("after a write with KeepDue: %w", err)
		}
		if err := isDue(ctx, s, after(time.Minute), "due"); err != nil {
			return fmt.Errorf("after a write with KeepDue: %w", err)
		}
	}
	return nil
}

func dueClock(ctx context.Context, e Env) error {
	s := e.Store()
	past := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	future := time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := putAll(ctx, s,
		attend.Write{Scope: "past", Inputs: in("a"), Due: past},
		attend.Write{Scope: "future", Inputs: in("a"), Due: future},
	); err != nil {
		return err
	}
	for _, c := range []struct {
		now  time.Time
		want []attend.Scope
	}{
		{past.AddDate(-1, 0, 0), nil},
		{past.AddDate(1, 0, 0), []attend.Scope{"past"}},
		{future.AddDate(-1, 0, 0), []attend.Scope{"past"}},
		{future.AddDate(1, 0, 0), []attend.Scope{"past", "future"}},
	} {
		if err := isDue(ctx, s, c.now, c.want...); err != nil {
			return fmt.Errorf("in %d: %w", c.now.Year(), err)
		}
	}
	return nil
}

func dueClaimsNothing(ctx context.Context, e Env) error {
	s := e.Store()
	if err := putDue(ctx, s, map[attend.Scope]int{"a": 1, "b": 2, "c": 3}); err != nil {
		return err
	}
	before, err := load(ctx, s, "a")
	if err != nil {
		return err
	}
	for try := range 3 {
		if err := isDue(ctx, s, after(time.Second), "a", "b", "c"); err != nil {
			return fmt.Errorf("the %d. time: %w", try+1, err)
		}
	}
	rec, err := load(ctx, s, "a")
	if err != nil {
		return err
	}
	return same("a scope before and after Due", before, rec)
}

func dueHoldsNothing(ctx context.Context, e Env) error {
	s := e.Store()
	if err := putDue(ctx, s, map[attend.Scope]int{"a": 1, "b": 2, "c": 3}); err != nil {
		return err
	}
	n := 0
	for scope, err := range s.Due(ctx, after(time.Second)) {
		if err != nil {
			return fmt.Errorf("Due: %w", err)
		}
		n++
		for _, c := range []call{
			{"Load", func(ctx context.Context) error { _, err := load(ctx, s, scope); return err }},
			{"Commit of the scope that was yielded", func(ctx context.Context) error {
				return put(ctx, s, attend.Write{Scope: scope, Inputs: in("b"), Due: after(time.Hour)})
			}},
			{"Commit of another scope", func(ctx context.Context) error {
				return put(ctx, s, attend.Write{Scope: "new-" + scope, Inputs: in("a"), Due: after(time.Hour)})
			}},
			{"Remove", func(ctx context.Context) error { return s.Remove(ctx, "new-"+scope) }},
			{"Due", func(ctx context.Context) error { _, err := dueAt(ctx, s, noon); return err }},
			{"Read", func(ctx context.Context) error { _, err := read(ctx, s, decisions); return err }},
		} {
			if err := within(ctx, c.name+" inside the loop", c.do); err != nil {
				return err
			}
		}
	}
	if n != 3 {
		return fmt.Errorf("Due yielded %d of 3 scopes, with calls inside the loop", n)
	}
	return nil
}

// What a sweep does: each scope that is yielded is worked, and due no more.
func dueConsumed(ctx context.Context, e Env) error {
	s := e.Store()
	due := make(map[attend.Scope]int)
	for i := range 350 {
		due[attend.Scope(fmt.Sprint("s-", i))] = i
	}
	if err := putDue(ctx, s, due); err != nil {
		return err
	}
	for scope, err := range s.Due(ctx, after(time.Second)) {
		if err != nil {
			return fmt.Errorf("Due: %w", err)
		}
		if _, ok := due[scope]; !ok {
			return fmt.Errorf("Due yields %q twice", scope)
		}
		delete(due, scope)
		if err := put(ctx, s, attend.Write{Scope: scope, Inputs: in("b")}); err != nil {
			return err
		}
	}
	if len(due) > 0 {
		return fmt.Errorf("of 350 scopes, each made not due as it was yielded, %d were left out", len(due))
	}
	return nil
}

func dueLeft(ctx context.Context, e Env) error {
	s := e.Store()
	due := make(map[attend.Scope]int)
	for i := range 120 {
		due[attend.Scope(fmt.Sprint("s-", i))] = i
	}
	if err := putDue(ctx, s, due); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
		return err
	}
	for range 20 { // as often as a pool has connections
		for range s.Due(ctx, after(time.Second)) {
			break
		}
	}
	for _, c := range append(storeCalls(s), logCalls(s)...) {
		if c.name == "Find" || c.name == "Wait" {
			continue // which find nothing, and wait for it
		}
		if err := within(ctx, c.name+" after the loop was left", c.do); err != nil {
			return err
		}
	}
	return nil
}

func dueError(ctx context.Context, e Env) error {
	s := e.Store()
	due := make(map[attend.Scope]int)
	for i := range 350 {
		due[attend.Scope(fmt.Sprint("s-", i))] = i
	}
	if err := putDue(ctx, s, due); err != nil {
		return err
	}
	for _, n := range []int{1, 100, 150} {
		if err := lastPair(ctx, n, "Due", func(ctx context.Context) iter.Seq2[attend.Scope, error] {
			return s.Due(ctx, after(time.Second))
		}); err != nil {
			return err
		}
	}
	return nil
}
