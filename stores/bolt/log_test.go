package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// addRows commits n rows a time, with ids that count up.
func addRows(t testing.TB, s attend.ScopeStore, typ attend.RowType, n, times int, scope func(i int) attend.Scope) {
	t.Helper()
	for i := range times {
		var rows []attend.Row
		for k := range n {
			rows = append(rows, rowOf(scope(i*n+k), fmt.Sprint(typ, "-", i*n+k), typ, int64(i*n+k)))
		}
		put(t, s, attend.Write{Scope: "rows", Snapshot: []byte("x"), Rows: rows})
	}
}

func at(scope attend.Scope) func(int) attend.Scope { return func(int) attend.Scope { return scope } }

// fastest is how long f takes when nothing gets in its way.
func fastest(f func()) time.Duration {
	best := time.Hour
	for range 5 {
		began := time.Now()
		f()
		best = min(best, time.Since(began))
	}
	return best
}

// A reader pays for what it finds, whatever else the log holds.
func TestNarrowReads(t *testing.T) {
	s := open(t, newFile(t), bolt.Config{})
	addRows(t, s, attend.RowDecision, 10, 1, at("ops/db"))
	addRows(t, s, attend.RowVerdict, 2000, 15, func(i int) attend.Scope { return attend.Scope(fmt.Sprint("web/", i%50)) })
	addRows(t, s, attend.RowDecision, 2000, 5, at("chat/x"))
	addRows(t, s, attend.RowLetter, 10, 1, at("ops/db"))
	// All of it comes into the index, in the background.
	until := time.Now().Add(30 * time.Second)
	for {
		rows, _, err := bolt.Indexed(s)
		if err != nil {
			t.Fatal(err)
		}
		if rows > 38_000 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d rows are in the index", rows)
		}
		time.Sleep(20 * time.Millisecond)
	}
	all := fastest(func() {
		if n := len(read(t, s, attend.Query{Types: []attend.RowType{attend.RowVerdict, attend.RowDecision, attend.RowLetter}})); n != 40_020 {
			t.Fatalf("%d rows, want 40020", n)
		}
	})
	for _, q := range []attend.Query{
		{Prefix: "ops"},
		{Prefix: "ops/db", Types: []attend.RowType{attend.RowDecision, attend.RowLetter}},
		{Types: []attend.RowType{attend.RowLetter}},
		{Prefix: "ops/", Types: []attend.RowType{attend.RowDecision}},
	} {
		found := 0
		took := fastest(func() { found = len(read(t, s, q)) })
		if found < 10 || found > 20 {
			t.Errorf("Read(%+v) finds %d rows, want 10 or 20", q, found)
		}
		if took > all/8 {
			t.Errorf("Read(%+v) takes %v for %d rows, and all 40,020 take %v: it reads more than it needs", q, took, found, all)
		}
	}
	id := attend.DecisionID("decision-3")
	took := fastest(func() {
		e, err := s.Log().Find(t.Context(), id, "")
		if err != nil || e.Scope != "chat/x" {
			t.Fatalf("Find = %q, %v, want the newest", e.Scope, err)
		}
	})
	if took > all/8 {
		t.Errorf("Find takes %v, and reading all takes %v", took, all)
	}
}

// Prefixes that the index has a hash for, and others.
func TestPrefixes(t *testing.T) {
	s := open(t, newFile(t), bolt.Config{})
	scopes := []attend.Scope{"ops", "ops/db", "ops/db/x", "opsx", "ops:x", "/a", "/", "//a", ":", "a", "ops//x", "é/ü",
		"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18", "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/19"}
	for i, scope := range scopes {
		put(t, s, attend.Write{Scope: "rows", Snapshot: []byte("x"), Rows: []attend.Row{rowOf(scope, fmt.Sprint(i), attend.RowDecision, 1)}})
	}
	prefixes := []attend.Prefix{"", "/", ":", "//", "x", "ops//", "o"}
	for _, scope := range scopes {
		for n := range len(scope) + 1 {
			prefixes = append(prefixes, attend.Prefix(scope[:n]), attend.Prefix(scope[:n]+"/"), attend.Prefix(scope[:n]+":"))
		}
	}
	check := func(when string) {
		t.Helper()
		for _, p := range prefixes {
			var want []string
			for i, scope := range scopes {
				if p.Covers(scope) {
					want = append(want, fmt.Sprint(i))
				}
			}
			if got := read(t, s, attend.Query{Prefix: p}); !slices.Equal(got, want) {
				t.Errorf("%s, Read of prefix %q = %v, want %v", when, p, got, want)
			}
		}
	}
	check("before the rows are in the index")
	if err := s.Log().Trim(t.Context(), attend.Retain{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := bolt.Indexed(s); rows != len(scopes) || err != nil {
		t.Fatalf("%d rows are in the index, want %d (%v)", rows, len(scopes), err)
	}
	check("afterwards")

	// Rows that lie in the same list and are not covered fill more than a page.
	addRows(t, s, attend.RowDecision, 250, 1, at("deep:x"))
	addRows(t, s, attend.RowDecision, 1, 1, at("deep/y"))
	if err := s.Log().Trim(t.Context(), attend.Retain{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, attend.Query{Prefix: "deep/"}); len(got) != 1 {
		t.Errorf("Read of prefix deep/ behind 250 rows of deep:x = %v, want one", got)
	}
}

// count is how many rows there are, or -1 where some were trimmed while it read.
func count(t testing.TB, s attend.ScopeStore, q attend.Query) (n int) {
	t.Helper()
	for _, err := range s.Log().Read(t.Context(), q) {
		if errors.Is(err, attend.ErrTruncated) {
			return -1
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// holds waits until there are low to high rows.
func holds(t testing.TB, s attend.ScopeStore, what string, q attend.Query, low, high int) {
	t.Helper()
	n := 0
	for until := time.Now().Add(20 * time.Second); n < low || n > high; time.Sleep(10 * time.Millisecond) {
		if n = count(t, s, q); time.Now().After(until) {
			t.Fatalf("%s: there are %d, want %d to %d", what, n, low, high)
		}
	}
}

func TestRetain(t *testing.T) {
	file := newFile(t)
	s := open(t, file, bolt.Config{Retain: attend.Retain{Count: 40, Verdicts: 10}})
	addRows(t, s, attend.RowDecision, 30, 1, at("ops"))
	addRows(t, s, attend.RowVerdict, 100, 20, at("ops"))
	holds(t, s, "verdict rows", verdicts, 10, 11)
	if n := len(read(t, s, decisions)); n != 30 {
		t.Errorf("%d of 30 decisions are left, beside 2000 verdict rows and with room for 40", n)
	}
	addRows(t, s, attend.RowDecision, 20, 3, at("ops"))
	holds(t, s, "decisions", decisions, 40, 42)
	ids := read(t, s, decisions)
	if ids[len(ids)-1] != "decision-59" || len(ids) < 40 {
		t.Errorf("%d decisions are left up to %s, want 40 up to decision-59", len(ids), ids[len(ids)-1])
	}
	// Another process wants less of it, and by age, and begins at once.
	s.Close()
	s = open(t, file, bolt.Config{Retain: attend.Retain{Age: 10 * time.Millisecond}})
	holds(t, s, "decisions of 10 ms", decisions, 11, 11)
	// What comes later is counted before much of it is there.
	var rows []attend.Row
	for i := range 60 {
		rows = append(rows, rowOf("ops", fmt.Sprint("late-", i), attend.RowDecision, int64(1000+i)))
	}
	put(t, s, attend.Write{Scope: "rows", Snapshot: []byte("x"), Rows: rows[:30]})
	put(t, s, attend.Write{Scope: "rows", Snapshot: []byte("x"), Rows: rows[30:]})
	holds(t, s, "the later decisions of 10 ms", decisions, 11, 11)
	left := 11 + len(read(t, s, verdicts))
	if left < 11+10 || left > 11+11 {
		t.Errorf("%d verdict rows are left, want 10 or 11", left-11)
	}
	// A row has four: of its class, its id, and two prefixes.
	if rows, entries, err := bolt.Indexed(s); err != nil || rows > left || entries != 4*rows {
		t.Errorf("the index has %d rows with %d entries (%v), want at most %d with 4 each", rows, entries, err, left)
	}
}

// Rows of which many have one id, in the index and not.
func TestFindNewest(t *testing.T) {
	s := open(t, newFile(t), bolt.Config{})
	find := func(want int64) {
		t.Helper()
		e, err := s.Log().Find(t.Context(), "d", "")
		if err != nil || e.At.UnixMilli() != want {
			t.Errorf("Find = the row of %d, %v, want that of %d", e.At.UnixMilli(), err, want)
		}
	}
	for i := range 5 {
		put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("x"), Rows: []attend.Row{
			rowOf("ops", "d", attend.RowDecision, int64(i)), rowOf("ops", "d", attend.RowVerdict, 77)}})
		find(int64(i))
		if i == 2 {
			if err := s.Log().Trim(t.Context(), attend.Retain{}, time.Now()); err != nil {
				t.Fatal(err)
			}
			find(2)
		}
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	find(4)
}

// Waiting for what another handle of the process commits.
func TestWaitForOtherHandle(t *testing.T) {
	db := database(t)
	a, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	waited := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() { waited <- b.Log().(attend.Waiter).Wait(ctx, attend.Query{Prefix: "ops"}) }()
	put(t, a, attend.Write{Scope: "web", Snapshot: []byte("x"), Rows: []attend.Row{rowOf("web", "no", attend.RowDecision, 1)}})
	select {
	case err := <-waited:
		t.Fatalf("Wait returns %v before there is a row", err)
	case <-time.After(300 * time.Millisecond):
	}
	put(t, a, attend.Write{Scope: "ops", Snapshot: []byte("x"), Rows: []attend.Row{rowOf("ops/db", "yes", attend.RowDecision, 1)}})
	if err := <-waited; err != nil {
		t.Errorf("Wait: %v", err)
	}
}
