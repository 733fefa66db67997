package decisions_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/decisions"
)

func read(t *testing.T, f *decisions.Feed, q decisions.Query) decisions.Page {
	t.Helper()
	p, err := f.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadInPages(t *testing.T) {
	r := newRig(t, attend.Retain{})
	var want []attend.DecisionID
	for range 7 {
		want = append(want, r.decide("ops/db", attend.RouteQueue, "x"))
	}
	f, q := r.feed(), decisions.Query{Prefixes: all, Limit: 3}
	var got []attend.DecisionID
	for i, n := range []int{3, 3, 1} {
		p := read(t, f, q)
		if len(p.Items) != n || p.More != (n == 3) || p.Truncated {
			t.Fatalf("page %d has %d items, more %v, truncated %v", i, len(p.Items), p.More, p.Truncated)
		}
		got = append(got, ids(p)...)
		q.After = p.Next
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if p := read(t, f, q); len(p.Items) != 0 || p.More || p.Next != r.newest() {
		t.Errorf("behind the newest: %+v", p)
	}
}

func TestReadWhatIsAskedFor(t *testing.T) {
	r := newRig(t, attend.Retain{})
	a := r.decide("ops/a", attend.RouteInterrupt, "x")
	b := r.decide("ops/b", attend.RouteNote, "x")
	ab := r.decide("ops/ab", attend.RouteInterrupt, "x")
	dev := r.decide("dev", attend.RouteInterrupt, "x")
	r.decide("devx", attend.RouteInterrupt, "x")
	for _, c := range []struct {
		name string
		q    decisions.Query
		want []attend.DecisionID
	}{
		{"one prefix", decisions.Query{Prefixes: []attend.Prefix{"ops/"}}, []attend.DecisionID{a, b, ab}},
		{"two with a common beginning", decisions.Query{Prefixes: []attend.Prefix{"ops/a", "ops/b"}}, []attend.DecisionID{a, b}},
		{"two that have nothing in common", decisions.Query{Prefixes: []attend.Prefix{"dev", "ops/ab"}}, []attend.DecisionID{ab, dev}},
		{"a route", decisions.Query{Prefixes: []attend.Prefix{"ops"}, Routes: []attend.Route{attend.RouteNote}}, []attend.DecisionID{b}},
		{"no prefix", decisions.Query{}, nil},
	} {
		p := read(t, r.feed(), c.q)
		if !slices.Equal(ids(p), c.want) || p.More || p.Next != r.newest() {
			t.Errorf("%s: read %q, more %v, next %v, want %q", c.name, ids(p), p.More, p.Next, c.want)
		}
	}
}

// What a reader is not asking for moves its cursor all the same: else retention
// would overtake it, and it would be told that something is missing.
func TestReadMovesOn(t *testing.T) {
	r := newRig(t, attend.Retain{})
	empty := read(t, r.feed(), decisions.Query{Prefixes: all})
	if c, err := attend.ParseLogCursor(empty.Next.String()); err != nil || c != empty.Next || c == (attend.LogCursor{}) {
		t.Errorf("the cursor behind an empty log is %v: %v", c, err)
	}
	r.verdict("ops")
	r.decide("dev", attend.RouteQueue, "x")
	if p := read(t, r.feed(), decisions.Query{After: empty.Next, Prefixes: []attend.Prefix{"ops"}}); len(p.Items) > 0 || p.Next != r.newest() || p.Truncated {
		t.Errorf("behind rows of others: %+v", p)
	}
}

func TestReadLooksAtSoManyRows(t *testing.T) {
	r := newRig(t, attend.Retain{})
	for range 2 * decisions.MaxLimit {
		r.decide("foreign", attend.RouteQueue, "x")
	}
	want := r.decide("b", attend.RouteQueue, "x")
	f, q := r.feed(), decisions.Query{Prefixes: []attend.Prefix{"a", "b"}}
	for i := range 2 {
		p := read(t, f, q)
		if len(p.Items) > 0 || !p.More || p.Next.Position != attend.Position(decisions.MaxLimit*(i+1)) {
			t.Fatalf("page %d: %d items, more %v, next %v", i, len(p.Items), p.More, p.Next)
		}
		q.After = p.Next
	}
	if p := read(t, f, q); !slices.Equal(ids(p), []attend.DecisionID{want}) || p.More {
		t.Errorf("the last page: %v", p)
	}
}

func TestReadStopsAtSoManyBytes(t *testing.T) {
	r := newRig(t, attend.Retain{})
	big := strings.Repeat("x", 1_000_000)
	for range 10 {
		r.decide("a", attend.RouteQueue, big)
	}
	p := read(t, r.feed(), decisions.Query{Prefixes: all})
	if n := len(p.Items); n != 9 || !p.More || p.Next != p.Items[n-1].Cursor {
		t.Errorf("a page of %d big items, more %v", n, p.More)
	}
}

// M6, S2.
func TestM6Truncated(t *testing.T) {
	r := newRig(t, attend.Retain{})
	old := read(t, r.feed(), decisions.Query{Prefixes: all}).Next
	var kept []attend.DecisionID
	for i := range 10 {
		id := r.decide("a", attend.RouteQueue, "x")
		if i >= 6 {
			kept = append(kept, id)
		}
	}
	if err := r.log.Trim(t.Context(), attend.Retain{Count: 4}, noon); err != nil {
		t.Fatal(err)
	}
	at := r.newest()
	for _, c := range []struct {
		name      string
		after     attend.LogCursor
		want      []attend.DecisionID
		truncated bool
	}{
		{"no cursor", attend.LogCursor{}, kept, false},
		{"behind retention", old, kept, true},
		{"another epoch", attend.LogCursor{Epoch: "another", Position: at.Position}, kept, true},
		{"ahead of the log", attend.LogCursor{Epoch: at.Epoch, Position: at.Position + 1}, kept, true},
		{"the oldest that is not", attend.LogCursor{Epoch: at.Epoch, Position: 6}, kept, false},
		{"the newest", at, nil, false},
	} {
		q := decisions.Query{After: c.after, Prefixes: all}
		p := read(t, r.feed(), q)
		if p.Truncated != c.truncated || !slices.Equal(ids(p), c.want) || p.Next != at {
			t.Errorf("%s: truncated %v, %q, next %v, want %v, %q", c.name, p.Truncated, ids(p), p.Next, c.truncated, c.want)
		}
		q.Prefixes = nil
		if p := read(t, r.feed(), q); p.Truncated != c.truncated || len(p.Items) > 0 || p.Next != at {
			t.Errorf("%s, for one who may read nothing: %+v", c.name, p)
		}
	}
}

// A row that can't be read makes nobody deaf, and is told of.
func TestReadPassesOverBadRows(t *testing.T) {
	r := newRig(t, attend.Retain{})
	a := r.decide("a", attend.RouteQueue, "x")
	for id, body := range map[attend.DecisionID]string{"broken": `{"id":`, "foreign": `{"id":"foreign","scope":"b"}`, "other": `{"id":"x","scope":"a"}`} {
		r.rows(attend.Row{Scope: "a", ID: id, Type: attend.RowDecision, At: noon, Body: []byte(body)})
	}
	b := r.decide("a", attend.RouteQueue, "x")
	p := read(t, r.feed(), decisions.Query{Prefixes: all})
	if !slices.Equal(ids(p), []attend.DecisionID{a, b}) || len(p.Unreadable) != 3 || p.Unreadable[0].Scope != "a" || p.Unreadable[0].Cursor.Position != 2 {
		t.Errorf("read %q, unreadable %v", ids(p), p.Unreadable)
	}
}

func TestReadFails(t *testing.T) {
	r := newRig(t, attend.Retain{})
	r.store.Close()
	if _, err := r.feed().Read(t.Context(), decisions.Query{Prefixes: all}); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Read of a closed log: %v", err)
	}
	if _, err := r.feed().Now(t.Context()); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Now of a closed log: %v", err)
	}
}

func TestSubscribers(t *testing.T) {
	f := newRig(t, attend.Retain{}).feed()
	if f.Stalest(time.Now()) != 0 || len(f.Subscribers()) > 0 {
		t.Error("a new feed has subscribers")
	}
	a, b := f.Join("sse"), f.Join("mcp")
	if n := f.Subscribers(); n["sse"] != 1 || n["mcp"] != 1 {
		t.Errorf("Subscribers = %v", n)
	}
	if age := f.Stalest(time.Now().Add(time.Minute)); age < time.Minute || age > 2*time.Minute {
		t.Errorf("Stalest = %v, want a minute", age)
	}
	a.Leave()
	b.Leave()
	if n := f.Subscribers(); len(n) > 0 {
		t.Errorf("Subscribers = %v, want none", n)
	}
}

// Rows that are trimmed while they are read end the page, and the next one is
// told. What is trimmed before the first one is looked at is read again.
func TestReadIsTrimmedMeanwhile(t *testing.T) {
	r := newRig(t, attend.Retain{})
	for range 6 {
		r.decide("a", attend.RouteQueue, "x")
	}
	behind := attend.LogCursor{Epoch: r.newest().Epoch, Position: 1}
	trims := &trimming{DecisionLog: r.log, cut: 3}
	r.log = trims
	f := r.feed()
	p := read(t, f, decisions.Query{After: behind, Prefixes: all})
	if len(p.Items) != 2 || p.Truncated || !p.More || p.Next.Position != 3 {
		t.Fatalf("cut at 3: %d items, truncated %v, more %v, next %v", len(p.Items), p.Truncated, p.More, p.Next)
	}
	p = read(t, f, decisions.Query{After: p.Next, Prefixes: all})
	if !p.Truncated || len(p.Items) != 2 || p.Items[0].Cursor.Position != 5 || p.More {
		t.Errorf("and then: %d items, truncated %v, more %v", len(p.Items), p.Truncated, p.More)
	}
	trims.always = true // faster than one can read
	p = read(t, f, decisions.Query{After: behind, Prefixes: all})
	if !p.Truncated || len(p.Items) != 0 || !p.More {
		t.Errorf("behind a log that is trimmed all the time: %d items, truncated %v, more %v", len(p.Items), p.Truncated, p.More)
	}
}

// A trimming log has lost two rows behind a position, and says so where it comes to
// them.
type trimming struct {
	attend.DecisionLog
	cut    attend.Position
	always bool
}

func (l *trimming) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		lost := &attend.TruncatedError{Oldest: attend.LogCursor{Epoch: q.After.Epoch, Position: l.cut + 1}}
		if l.always {
			yield(attend.Entry{}, lost)
			return
		}
		for e, err := range l.DecisionLog.Read(ctx, q) {
			if e.Cursor.Position == l.cut+1 && q.After.Position <= l.cut {
				yield(attend.Entry{}, lost)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
