package journal_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// An older database is put in place under a handle, and somebody else commits
// as much as was lost before the handle looks.
func TestAnotherHistory(t *testing.T) {
	for _, since := range []int{0, 1, 2, 3} {
		b := newBackend()
		a := mustOpen(t, b, 0)
		commit := func(s *store, w attend.Write) (attend.Outcome, error) {
			out, err := s.Commit(t.Context(), []attend.Write{w})
			if err != nil {
				return attend.Outcome{}, err
			}
			return out[0], nil
		}
		must := func(s *store, w attend.Write) uint64 {
			t.Helper()
			out, err := commit(s, w)
			if err != nil || out.Conflict() {
				t.Fatalf("Commit(%q) = %v, %v", w.Scope, out, err)
			}
			return out.Version
		}
		x := must(a, attend.Write{Scope: "x", Snapshot: []byte("x")})
		copied := b.clone()
		y := must(a, attend.Write{Scope: "y", Snapshot: []byte("old life")})
		must(a, attend.Write{Scope: "x", Expect: x, Snapshot: []byte("old life")})
		b.restore(copied)
		o := mustOpen(t, b, 0)
		for i := range since {
			must(o, attend.Write{Scope: attend.Scope(fmt.Sprint("z-", i)), Snapshot: []byte("z"), Due: time.UnixMilli(int64(i))})
		}
		for _, s := range []*store{a, o} {
			if rec, err := s.Load(t.Context(), "y"); err != nil || rec.Version != 0 {
				t.Errorf("%d records since: Load(y) = %+v, %v, want nothing", since, rec, err)
			}
			if rec, err := s.Load(t.Context(), "x"); err != nil || string(rec.Snapshot) != "x" || rec.Version != x {
				t.Errorf("%d records since: Load(x) = %+v, %v, want x", since, rec, err)
			}
			if got, err := dueOf(t.Context(), s); err != nil || len(got) != since {
				t.Errorf("%d records since: Due = %v, %v", since, got, err)
			}
		}
		if out, err := commit(a, attend.Write{Scope: "y", Expect: y, Snapshot: []byte("y")}); err != nil || !out.Conflict() {
			t.Errorf("%d records since: Commit(y) at a version of the old life = %v, %v, want a conflict", since, out, err)
		}
		must(a, attend.Write{Scope: "x", Expect: x, Inputs: [][]byte{{1}}})
		for _, s := range []*store{o, a, mustOpen(t, b, 0)} {
			if rec, err := s.Load(t.Context(), "x"); err != nil || len(rec.Tail) != 1 {
				t.Errorf("%d records since: Load(x) = %+v, %v, want one input", since, rec, err)
			}
		}
	}
}

// The first that a handle does after the older database was put in place is to
// commit.
func TestAnotherHistoryMetByACommit(t *testing.T) {
	for since := range 4 {
		b := newBackend()
		a := mustOpen(t, b, 1) // all is folded at once
		add(t, a, 10, "x")
		copied := b.clone()
		add(t, a, 10, "y")
		add(t, a, 10, "y")
		y, err := a.Load(t.Context(), "y")
		if err != nil {
			t.Fatal(err)
		}
		b.restore(copied)
		o := mustOpen(t, b, 1)
		for range since {
			add(t, o, 10, "x")
		}
		out, err := a.Commit(t.Context(), []attend.Write{{Scope: "y", Expect: y.Version}, {Scope: "n"}})
		if err != nil || !out[0].Conflict() || out[1].Conflict() {
			t.Errorf("%d records since: Commit = %v, %v, want a conflict and a new scope", since, out, err)
		}
		if err := journal.Audit(a.Journal); err != nil {
			t.Error(err)
		}
		if got := tailOf(t, mustOpen(t, b, 1), "x"); got != 1+since {
			t.Errorf("x has %d inputs, want %d", got, 1+since)
		}
	}
}

// A reader whose moment was before the older database was put in place comes
// to an end with what was there then, and confuses nobody.
func TestAnotherHistoryUnderAReader(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 0)
	add(t, s, 10, "x")
	copied := b.clone()
	add(t, s, 10, "x")
	b.viewed = func() {
		b.viewed = nil
		b.restore(copied)
		add(t, s, 10, "x") // the handle goes on with the other history
		add(t, s, 10, "y")
		b.restore(copied)
		add(t, s, 10, "y")
	}
	tailOf(t, s, "x")
	add(t, s, 10, "x")
	again := mustOpen(t, b, 0)
	for _, scope := range []attend.Scope{"x", "y"} {
		if got, want := tailOf(t, s, scope), tailOf(t, again, scope); got != want || got == 0 {
			t.Errorf("%s has %d inputs, want %d", scope, got, want)
		}
	}
}

func dueOf(ctx context.Context, s *store) (scopes []attend.Scope, err error) {
	for scope, err := range s.Due(ctx, time.UnixMilli(1<<40)) {
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, scope)
	}
	return scopes, nil
}

// Commits that never pause hold up nobody who reads: after a few tries a reader
// keeps them out.
func TestReadersComeToAnEnd(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 0)
	add(t, s, 10, "x")
	views := 0
	b.viewed = func() {
		if views++; views > 100 {
			t.Fatal("a reader has begun 100 times")
		}
		hook := b.viewed
		b.viewed = nil
		defer func() { b.viewed = hook }()
		add(t, s, 10, "x")
	}
	rec, err := s.Load(t.Context(), "x")
	if err != nil || len(rec.Tail) != 1+views {
		t.Errorf("Load = %d inputs, %v, want %d", len(rec.Tail), err, 1+views)
	}
	if got, err := dueOf(t.Context(), s); err != nil || !slices.Equal(got, []attend.Scope{"x"}) {
		t.Errorf("Due = %q, %v, want x", got, err)
	}
	b.viewed = nil
	add(t, s, 10, "x")
	if got := tailOf(t, s, "x"); got != 2+views {
		t.Errorf("x has %d inputs after all, want %d", got, 2+views)
	}
}

// A handle that only reads keeps about what is in the journal, and not what
// others have folded and dropped.
func TestReaderForgets(t *testing.T) {
	const budget = 200_000
	b := newBackend()
	w, r := mustOpen(t, b, budget), mustOpen(t, b, budget)
	for i := range 400 {
		scopes := []attend.Scope{"big"}
		for k := range 64 {
			scopes = append(scopes, attend.Scope(fmt.Sprint("s-", k)))
		}
		var writes []attend.Write
		for k, scope := range scopes {
			rec, err := w.Load(t.Context(), scope)
			if err != nil {
				t.Fatal(err)
			}
			wr := attend.Write{Scope: scope, Expect: rec.Version, Inputs: [][]byte{make([]byte, 10)}}
			switch {
			case k == 0:
				wr.Snapshot = make([]byte, 10_000)
			case (i+k)%64 == 0:
				wr.Snapshot = []byte("snapshot")
			}
			writes = append(writes, wr)
		}
		if out, err := w.Commit(t.Context(), writes); err != nil || slices.ContainsFunc(out, attend.Outcome.Conflict) {
			t.Fatalf("Commit = %v, %v", out, err)
		}
		if rec, err := r.Load(t.Context(), "nobody"); err != nil || rec.Version != 0 {
			t.Fatalf("Load = %+v, %v", rec, err)
		}
		for name, s := range map[string]*store{"reads": r, "writes": w} {
			if err := journal.Audit(s.Journal); err != nil {
				t.Fatalf("commit %d: %v", i, err)
			}
			if records, others := journal.Pinned(s.Journal); others > records {
				t.Fatalf("commit %d: the handle that %s keeps %d records in memory beside the journal's %d", i, name, others, records)
			}
		}
	}
	if b.drops == 0 {
		t.Error("no record was dropped")
	}
	for k := range 64 {
		scope := attend.Scope(fmt.Sprint("s-", k))
		if got, want := tailOf(t, r, scope), tailOf(t, w, scope); got != want || got == 0 {
			t.Errorf("%s has %d inputs for the reader, want %d", scope, got, want)
		}
	}
}
