package conformance

import (
	"context"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
)

func scopeCases() []Case {
	return []Case{
		{"scope/load-unknown", "For an unknown scope it returns the zero Record and no error.", "v0.1", loadUnknown},
		{"scope/load-tail", "Load returns the scope's snapshot and every input committed after it, oldest first.", "v0.1", loadTail},
		{"scope/snapshot-replaces", "Snapshot replaces snapshot and tail.", "v0.1", snapshotReplaces},
		{"scope/snapshot-empty", "Nil: there is none in this write.", "v0.1", snapshotEmpty},
		{"scope/write-cancelled", "What one write brings lands together or not at all", "v0.1", writeCancelled},
		{"scope/closed", "A closed store answers every call with an error that is ErrClosed.", "v0.1", storeClosed},
	}
}

func in(s ...string) [][]byte {
	var out [][]byte
	for _, x := range s {
		out = append(out, []byte(x))
	}
	return out
}

func loadUnknown(ctx context.Context, e Env) error {
	s := e.Store()
	if err := unknown(ctx, s, "nobody"); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "somebody", Inputs: in("a"), Due: noon}); err != nil {
		return err
	}
	return unknown(ctx, s, "nobody")
}

func loadTail(ctx context.Context, e Env) error {
	s := e.Store()
	for _, inputs := range [][][]byte{in("a", "b"), in("c"), in("d", "e", "f")} {
		if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: inputs}); err != nil {
			return err
		}
	}
	if err := holdsInOrder(ctx, s, "ops", "", "a", "b", "c", "d", "e", "f"); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "new", Snapshot: []byte("state")}); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "new", Inputs: in("a", "b")}); err != nil {
		return err
	}
	return holdsInOrder(ctx, s, "new", "state", "a", "b")
}

func snapshotReplaces(ctx context.Context, e Env) error {
	s := e.Store()
	steps := []struct {
		w        attend.Write
		snapshot string
		tail     []string
	}{
		{attend.Write{Inputs: in("a")}, "", []string{"a"}},
		{attend.Write{Snapshot: []byte("one")}, "one", nil},
		{attend.Write{Inputs: in("b")}, "one", []string{"b"}},
		{attend.Write{Snapshot: []byte("two")}, "two", nil},
		{attend.Write{Snapshot: []byte("three")}, "three", nil},
	}
	for _, step := range steps {
		step.w.Scope = "ops"
		if err := put(ctx, s, step.w); err != nil {
			return err
		}
		if err := holds(ctx, s, "ops", step.snapshot, step.tail...); err != nil {
			return err
		}
	}
	return nil
}

func snapshotEmpty(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
		return err
	}
	if rec, err := load(ctx, s, "ops"); err != nil || rec.Snapshot != nil {
		return fmt.Errorf("Load before the first snapshot = %q, %v, want nil", rec.Snapshot, err)
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Snapshot: []byte{}}); err != nil {
		return err
	}
	rec, err := load(ctx, s, "ops")
	if err != nil {
		return err
	}
	if len(rec.Tail) > 0 {
		return fmt.Errorf("a snapshot of no bytes left a tail of %d, want it replaced", len(rec.Tail))
	}
	if rec.Snapshot == nil {
		return fmt.Errorf("a snapshot of no bytes is loaded as nil, which says that there is none")
	}
	return nil
}

// A call whose context is over may do its work or not, and leaves the store as
// usable as before.
func writeCancelled(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
		return err
	}
	before, err := load(ctx, s, "ops")
	if err != nil {
		return err
	}
	w := attend.Write{Scope: "ops", Expect: before.Version, Inputs: in("b"), Due: noon, Rows: []attend.Row{row("ops", "d", decision)}}
	out, cerr := s.Commit(cancelled(ctx), []attend.Write{w})
	rec, err := load(ctx, s, "ops")
	if err != nil {
		return err
	}
	due, err := dueAt(ctx, s, after(time.Second))
	if err != nil {
		return err
	}
	rows, err := read(ctx, s, decisions)
	if err != nil {
		return err
	}
	landed := rec.Version != before.Version
	if cerr == nil && (len(out) != 1 || out[0].Conflict() == landed) {
		return fmt.Errorf("Commit under a cancelled context answered %v, but landed: %v", out, landed)
	}
	if (len(rec.Tail) == 2) != landed || (len(due) == 1) != landed || (len(rows) == 1) != landed {
		return fmt.Errorf("a Commit under a cancelled context landed in part: version changed %v, %d inputs, %d due, %d rows",
			landed, len(rec.Tail), len(due), len(rows))
	}
	for _, c := range storeCalls(s) {
		if err := within(ctx, c.name+" under a cancelled context", func(ctx context.Context) error {
			c.do(cancelled(ctx)) // its error is its own affair
			return nil
		}); err != nil {
			return err
		}
	}
	return put(ctx, s, attend.Write{Scope: "ops", Inputs: in("c")})
}

func storeClosed(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a"), Due: noon}); err != nil {
		return err
	}
	if err := closer(s); err != nil {
		return err
	}
	return closed(ctx, storeCalls(s))
}

func storeCalls(s attend.ScopeStore) []call {
	return []call{
		{"Load", func(ctx context.Context) error { _, err := s.Load(ctx, "ops"); return err }},
		{"Commit", func(ctx context.Context) error {
			_, err := s.Commit(ctx, []attend.Write{{Scope: "new", Inputs: in("a")}})
			return err
		}},
		{"Due", func(ctx context.Context) error { _, err := dueAt(ctx, s, noon); return err }},
		{"Remove", func(ctx context.Context) error { return s.Remove(ctx, "ops") }},
	}
}
