package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// noon is the time that most cases live in. It is long past, so that a store
// that reads a clock gives itself away.
var noon = time.UnixMilli(1_000_000_000_123)

func after(d time.Duration) time.Time { return noon.Add(d) }

// commit is Commit with an answer of the right length.
func commit(ctx context.Context, s attend.ScopeStore, writes ...attend.Write) ([]attend.Outcome, error) {
	out, err := s.Commit(ctx, writes)
	if err != nil {
		return nil, fmt.Errorf("Commit of %d writes: %w", len(writes), err)
	}
	if len(out) != len(writes) {
		return nil, fmt.Errorf("Commit of %d writes answered %d outcomes", len(writes), len(out))
	}
	return out, nil
}

// put commits w at the version that Load shows, whatever its Expect says.
func put(ctx context.Context, s attend.ScopeStore, w attend.Write) error {
	return putAll(ctx, s, w)
}

// putAll commits the writes in one call, each at the version that Load shows.
func putAll(ctx context.Context, s attend.ScopeStore, writes ...attend.Write) error {
	for i := range writes {
		rec, err := load(ctx, s, writes[i].Scope)
		if err != nil {
			return err
		}
		writes[i].Expect = rec.Version
	}
	out, err := commit(ctx, s, writes...)
	if err != nil {
		return err
	}
	for i, o := range out {
		if o.Conflict() {
			return fmt.Errorf("Commit at the version that Load had just shown: %q is a conflict", writes[i].Scope)
		}
	}
	return nil
}

// version commits w at the version that Load shows and returns the next one,
// again from Load.
func version(ctx context.Context, s attend.ScopeStore, w attend.Write) (uint64, error) {
	if err := put(ctx, s, w); err != nil {
		return 0, err
	}
	rec, err := load(ctx, s, w.Scope)
	return rec.Version, err
}

func load(ctx context.Context, s attend.ScopeStore, scope attend.Scope) (attend.Record, error) {
	rec, err := s.Load(ctx, scope)
	if err != nil {
		return rec, fmt.Errorf("Load(%.40q): %w", scope, err)
	}
	return rec, nil
}

// holds checks a scope's snapshot, and its tail in any order.
func holds(ctx context.Context, s attend.ScopeStore, scope attend.Scope, snapshot string, tail ...string) error {
	return content(ctx, s, scope, snapshot, slices.Sorted(slices.Values(tail)), slices.Sort[[]string])
}

// holdsInOrder checks a scope's snapshot and tail.
func holdsInOrder(ctx context.Context, s attend.ScopeStore, scope attend.Scope, snapshot string, tail ...string) error {
	return content(ctx, s, scope, snapshot, tail, func([]string) {})
}

func content(ctx context.Context, s attend.ScopeStore, scope attend.Scope, snapshot string, tail []string, arrange func([]string)) error {
	rec, err := load(ctx, s, scope)
	if err != nil {
		return err
	}
	var got []string
	for _, in := range rec.Tail {
		got = append(got, string(in))
	}
	arrange(got)
	if err := same(fmt.Sprintf("snapshot of %.40q", scope), snapshot, string(rec.Snapshot)); err != nil {
		return err
	}
	return same(fmt.Sprintf("tail of %.40q", scope), tail, got)
}

// unknown checks that the scope is.
func unknown(ctx context.Context, s attend.ScopeStore, scope attend.Scope) error {
	rec, err := load(ctx, s, scope)
	if err != nil {
		return err
	}
	return same(fmt.Sprintf("Load(%.40q) of an unknown scope", scope), attend.Record{}, rec)
}

// absent checks that the scope is unknown, and not in which way Load says so.
func absent(ctx context.Context, s attend.ScopeStore, scope attend.Scope) error {
	rec, err := load(ctx, s, scope)
	if err == nil && rec.Version != 0 {
		err = fmt.Errorf("Load(%.40q) has version %d, want no such scope", scope, rec.Version)
	}
	return err
}

// dueAt collects Due.
func dueAt(ctx context.Context, s attend.ScopeStore, now time.Time) ([]attend.Scope, error) {
	return collect("Due", s.Due(ctx, now))
}

// collect goes to the end even behind an error: a loop that is left early is a
// case of its own.
func collect[T any](what string, seq iter.Seq2[T, error]) ([]T, error) {
	var out []T
	var failed error
	for x, err := range seq {
		switch {
		case failed != nil:
		case err != nil:
			failed = fmt.Errorf("%s: %w", what, err)
		default:
			out = append(out, x)
		}
	}
	return out, failed
}

// isDue checks which scopes are due, in any order.
func isDue(ctx context.Context, s attend.ScopeStore, now time.Time, want ...attend.Scope) error {
	got, err := dueAt(ctx, s, now)
	if err != nil {
		return err
	}
	slices.Sort(got)
	slices.Sort(want)
	return same(fmt.Sprintf("due at noon%+d ms, sorted", now.Sub(noon).Milliseconds()), want, got)
}

// A decision, dead letter or verdict row whose body tells it from others of its
// id.
func row(scope attend.Scope, id string, t attend.RowType) attend.Row {
	return rowAt(scope, id, t, noon)
}

func rowAt(scope attend.Scope, id string, t attend.RowType, at time.Time) attend.Row {
	return attend.Row{Scope: scope, ID: attend.DecisionID(id), Type: t, At: at, Body: []byte(`{"id":"` + id + `"}`)}
}

const (
	decision = attend.RowDecision
	letter   = attend.RowLetter
	verdict  = attend.RowVerdict
)

// everything asks for all types.
var everything = []attend.RowType{decision, letter, verdict}

// decisions asks for them by name. What a query that names none asks for is a
// case of its own.
var decisions = only(decision)

func only(t attend.RowType) attend.Query { return attend.Query{Types: []attend.RowType{t}} }

func from(t attend.RowType, after attend.LogCursor) attend.Query {
	return attend.Query{Types: []attend.RowType{t}, After: after}
}

// add appends each row by a write of its own.
func add(ctx context.Context, s attend.ScopeStore, rows ...attend.Row) error {
	for _, r := range rows {
		if err := put(ctx, s, attend.Write{Scope: r.Scope, Rows: []attend.Row{r}}); err != nil {
			return err
		}
	}
	return nil
}

// read collects Read.
func read(ctx context.Context, s attend.ScopeStore, q attend.Query) ([]attend.Entry, error) {
	return collect("Read", s.Log().Read(ctx, q))
}

// reads checks the ids that q finds, in order.
func reads(ctx context.Context, s attend.ScopeStore, what string, q attend.Query, want ...string) error {
	got, err := read(ctx, s, q)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return same(what, want, ids(got))
}

// readsSet checks the ids that q finds, in any order.
func readsSet(ctx context.Context, s attend.ScopeStore, what string, q attend.Query, want ...string) error {
	got, err := read(ctx, s, q)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	sorted := ids(got)
	slices.Sort(sorted)
	want = slices.Sorted(slices.Values(want))
	return same(what+", sorted", want, sorted)
}

func ids(entries []attend.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, string(e.ID))
	}
	return out
}

// positions are the places of all rows, by id.
func positions(ctx context.Context, s attend.ScopeStore) (map[string]attend.LogCursor, error) {
	all, err := read(ctx, s, attend.Query{Types: everything})
	out := make(map[string]attend.LogCursor, len(all))
	for _, e := range all {
		out[string(e.ID)] = e.Cursor
	}
	return out, err
}

// same compares, and treats nil and empty slices alike.
func same(what string, want, got any) error {
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty())
	if diff == "" {
		return nil
	}
	if len(diff) > 2000 {
		diff = diff[:2000] + "\n…"
	}
	return fmt.Errorf("%s (-want +got):\n%s", what, diff)
}

// closer closes a store or a log, or says why it can't.
func closer(s any) error {
	c, ok := s.(io.Closer)
	if !ok {
		return skip("it is no io.Closer")
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	return nil
}

// A call is one method, for cases that go through all of them.
type call struct {
	name string
	do   func(ctx context.Context) error
}

// closed checks that every call answers ErrClosed.
func closed(ctx context.Context, calls []call) error {
	for _, c := range calls {
		var err error
		hung := within(ctx, c.name+" on a closed one", func(ctx context.Context) error {
			err = c.do(ctx)
			return nil
		})
		if hung != nil {
			return hung
		}
		if !errors.Is(err, attend.ErrClosed) {
			return fmt.Errorf("%s on a closed one: %v, want an error that is ErrClosed", c.name, err)
		}
	}
	return nil
}

// cancelled is a context that is over.
func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// lastPair walks through an iterator whose context ends at the n-th pair, and
// checks that nothing follows an error.
func lastPair[T any](ctx context.Context, n int, what string, seq func(context.Context) iter.Seq2[T, error]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, failed := 0, false
	for _, err := range seq(ctx) {
		if failed {
			return fmt.Errorf("%s goes on behind an error", what)
		}
		if failed = err != nil; failed {
			continue
		}
		if seen++; seen == n {
			cancel()
		}
	}
	return nil
}
