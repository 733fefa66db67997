package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

func commitCases() []Case {
	return []Case{
		{"scope/expect-zero", "Commit applies each write whose Expect is the scope's stored version (0: there is no such scope).", "v0.1", expectZero},
		{"scope/expect-unknown", "Commit applies each write whose Expect is the scope's stored version (0: there is no such scope).", "v0.1", expectUnknown},
		{"scope/expect-stale", "Commit applies each write whose Expect is the scope's stored version (0: there is no such scope).", "v0.1", expectStale},
		{"scope/conflict-changes-nothing", "0: a conflict, nothing of the write was applied.", "v0.1", conflictChangesNothing},
		{"scope/write-whole", "What one write brings lands together or not at all", "v0.1", writeWhole},
		{"scope/group-partial", "Commit applies each write whose Expect is the scope's stored version (0: there is no such scope).", "v0.1", groupPartial},
		{"scope/group-empty", "The answer has one Outcome a write, in the same order.", "v0.1", groupEmpty},
		{"scope/group-large", "The answer has one Outcome a write, in the same order.", "v0.1", groupLarge},
		{"scope/outcome-order", "The answer has one Outcome a write, in the same order.", "v0.1", outcomeOrder},
		{"scope/outcome-version", "Version is the scope's new version.", "v0.1", outcomeVersion},
	}
}

// shapes are the kinds of writes that an engine makes for a scope that exists.
func shapes() map[string]attend.Write {
	return map[string]attend.Write{
		"inputs":          {Inputs: in("late"), Due: noon},
		"inputs, KeepDue": {Inputs: in("late"), KeepDue: true},
		"a snapshot":      {Snapshot: []byte("late"), KeepDue: true},
		"a due time":      {Due: after(time.Second)},
		"rows":            {KeepDue: true, Rows: []attend.Row{row("ops", "late", decision)}},
	}
}

// refused checks that Commit finds a conflict in each shape of write.
func refused(ctx context.Context, s attend.ScopeStore, what string, scope attend.Scope, expect uint64) error {
	for shape, w := range shapes() {
		if w.KeepDue && expect == 0 {
			w.KeepDue = false
		}
		w.Scope, w.Expect = scope, expect
		out, err := commit(ctx, s, w)
		if err != nil {
			return err
		}
		if !out[0].Conflict() {
			return fmt.Errorf("a write of %s %s was applied, want a conflict", shape, what)
		}
	}
	return nil
}

func expectZero(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
		return err
	}
	if err := refused(ctx, s, "with Expect 0 on a scope that exists", "ops", 0); err != nil {
		return err
	}
	return holds(ctx, s, "ops", "", "a")
}

func expectUnknown(ctx context.Context, e Env) error {
	s := e.Store()
	for _, n := range []uint64{1, 2, 1 << 40, 1<<63 - 1} {
		if err := refused(ctx, s, fmt.Sprintf("with Expect %d on an unknown scope", n), "ops", n); err != nil {
			return err
		}
	}
	return absent(ctx, s, "ops")
}

func expectStale(ctx context.Context, e Env) error {
	s := e.Store()
	first, err := version(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")})
	if err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("b")}); err != nil {
		return err
	}
	if err := refused(ctx, s, "at the version before the stored one", "ops", first); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("c")}); err != nil {
		return err
	}
	if err := refused(ctx, s, "at a version two writes old", "ops", first); err != nil {
		return err
	}
	rec, err := load(ctx, s, "ops")
	if err != nil {
		return err
	}
	if err := refused(ctx, s, "at a version that is not there yet", "ops", rec.Version+1); err != nil {
		return err
	}
	return holds(ctx, s, "ops", "", "a", "b", "c")
}

func conflictChangesNothing(ctx context.Context, e Env) error {
	s := e.Store()
	stale, err := version(ctx, s, attend.Write{Scope: "ops", Inputs: in("a"), Due: after(time.Second)})
	if err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("b"), Due: noon}); err != nil {
		return err
	}
	for i, w := range []attend.Write{
		{Scope: "ops", Expect: stale, Inputs: in("x"), Due: after(-time.Second), Rows: []attend.Row{row("ops", "x", decision)}},
		{Scope: "ops", Expect: 0, Inputs: in("x"), Rows: []attend.Row{row("ops", "x", verdict)}},
		{Scope: "new", Expect: 7, Inputs: in("x"), Due: after(-time.Second), Rows: []attend.Row{row("new", "x", decision)}},
	} {
		if _, err := commit(ctx, s, w); err != nil {
			return err
		}
		if err := holds(ctx, s, "ops", "", "a", "b"); err != nil {
			return fmt.Errorf("after conflict %d: %w", i+1, err)
		}
		if err := absent(ctx, s, "new"); err != nil {
			return fmt.Errorf("after conflict %d: %w", i+1, err)
		}
		if err := isDue(ctx, s, after(-time.Millisecond)); err != nil {
			return fmt.Errorf("after conflict %d: %w", i+1, err)
		}
		if err := isDue(ctx, s, after(time.Millisecond), "ops"); err != nil {
			return fmt.Errorf("after conflict %d: %w", i+1, err)
		}
		if err := reads(ctx, s, fmt.Sprintf("log after conflict %d", i+1), attend.Query{Types: everything}); err != nil {
			return err
		}
	}
	return nil
}

func writeWhole(ctx context.Context, e Env) error {
	for _, c := range []struct {
		name     string
		w        attend.Write
		snapshot string
		tail     []string
	}{
		{"inputs", attend.Write{Inputs: in("b")}, "old", []string{"b"}},
		{"a snapshot", attend.Write{Snapshot: []byte("state")}, "state", nil},
		{"no bytes", attend.Write{}, "old", nil},
	} {
		s := e.Store()
		if err := put(ctx, s, attend.Write{Scope: "ops", Snapshot: []byte("old"), Due: after(time.Hour)}); err != nil {
			return err
		}
		c.w.Scope, c.w.Due = "ops", noon
		c.w.Rows = []attend.Row{row("ops", "d", decision), row("ops", "v", verdict)}
		if err := put(ctx, s, c.w); err != nil {
			return err
		}
		if err := holds(ctx, s, "ops", c.snapshot, c.tail...); err != nil {
			return fmt.Errorf("after a write of %s, a due time and rows: %w", c.name, err)
		}
		if err := isDue(ctx, s, after(time.Millisecond), "ops"); err != nil {
			return fmt.Errorf("after a write of %s, a due time and rows: %w", c.name, err)
		}
		what := fmt.Sprintf("log after a write of %s, a due time and rows", c.name)
		if err := readsSet(ctx, s, what, attend.Query{Types: everything}, "d", "v"); err != nil {
			return err
		}
	}
	return nil
}

func groupPartial(ctx context.Context, e Env) error {
	s := e.Store()
	for _, scope := range []attend.Scope{"b", "c", "d"} {
		if err := put(ctx, s, attend.Write{Scope: scope, Inputs: in("old")}); err != nil {
			return err
		}
	}
	c, err := load(ctx, s, "c")
	if err != nil {
		return err
	}
	out, err := commit(ctx, s,
		attend.Write{Scope: "a", Inputs: in("new")},
		attend.Write{Scope: "b", Expect: 0, Inputs: in("new")},
		attend.Write{Scope: "c", Expect: c.Version, Inputs: in("new")},
		attend.Write{Scope: "d", Expect: 1, Inputs: in("new")},
		attend.Write{Scope: "e", Inputs: in("new")},
	)
	if err != nil {
		return err
	}
	var got []bool
	for _, o := range out {
		got = append(got, o.Conflict())
	}
	if err := same("conflicts in a group of five", []bool{false, true, false, true, false}, got); err != nil {
		return err
	}
	for scope, tail := range map[attend.Scope][]string{"a": {"new"}, "b": {"old"}, "c": {"old", "new"}, "d": {"old"}, "e": {"new"}} {
		if err := holds(ctx, s, scope, "", tail...); err != nil {
			return err
		}
	}
	return nil
}

func groupEmpty(ctx context.Context, e Env) error {
	_, err := commit(ctx, e.Store())
	return err
}

func groupLarge(ctx context.Context, e Env) error {
	s := e.Store()
	const n = 1024
	var writes []attend.Write
	for i := range n {
		scope := attend.Scope(fmt.Sprintf("s-%04d", i))
		writes = append(writes, attend.Write{
			Scope: scope, Inputs: in(strings.Repeat("x", 200)), Due: noon,
			Rows: []attend.Row{row(scope, fmt.Sprint("d-", i), decision)},
		})
	}
	out, err := commit(ctx, s, writes...)
	if err != nil {
		return err
	}
	for i, o := range out {
		if o.Conflict() {
			return fmt.Errorf("write %d of a group of %d is a conflict", i, n)
		}
		if i%32 == 0 || i == n-1 {
			if err := holds(ctx, s, writes[i].Scope, "", strings.Repeat("x", 200)); err != nil {
				return err
			}
		}
	}
	for _, w := range writes {
		if _, err := s.Log().Find(ctx, w.Rows[0].ID, decision); err != nil {
			return fmt.Errorf("Find of a row of a group of %d writes: %w", n, err)
		}
	}
	return nil
}

func outcomeOrder(ctx context.Context, e Env) error {
	s := e.Store()
	var writes []attend.Write
	for _, scope := range []attend.Scope{"m", "z", "a", "k", "b", "y"} {
		writes = append(writes, attend.Write{Scope: scope, Inputs: in("a")})
	}
	out, err := commit(ctx, s, writes...)
	if err != nil {
		return err
	}
	for i, o := range out {
		rec, err := load(ctx, s, writes[i].Scope)
		if err != nil {
			return err
		}
		if o.Version != rec.Version {
			return fmt.Errorf("outcome %d of 6 names version %d, but its scope %q is at %d", i, o.Version, writes[i].Scope, rec.Version)
		}
	}
	return nil
}

func outcomeVersion(ctx context.Context, e Env) error {
	for shape, w := range shapes() {
		s := e.Store()
		if err := put(ctx, s, attend.Write{Scope: "ops", Snapshot: []byte("old"), Due: after(time.Hour)}); err != nil {
			return err
		}
		rec, err := load(ctx, s, "ops")
		if err != nil {
			return err
		}
		w.Scope, w.Expect = "ops", rec.Version
		out, err := commit(ctx, s, w)
		if err != nil {
			return err
		}
		if rec, err = load(ctx, s, "ops"); err != nil {
			return err
		}
		if out[0].Version != rec.Version {
			return fmt.Errorf("after a write of %s the outcome names version %d, Load %d", shape, out[0].Version, rec.Version)
		}
	}
	return nil
}
