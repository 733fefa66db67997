package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

var (
	_ attend.ScopeStore  = (*memory.Store)(nil)
	_ attend.EventLog    = (*memory.EventLog)(nil)
	_ attend.EventWaiter = (*memory.EventLog)(nil)
)

var noon = time.UnixMilli(1_767_268_800_000)

func commit(t testing.TB, s *memory.Store, w ...attend.Write) []attend.Outcome {
	t.Helper()
	out, err := s.Commit(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func row(scope attend.Scope, id string, typ attend.RowType, at time.Time) attend.Row {
	return attend.Row{Scope: scope, ID: attend.DecisionID(id), Type: typ, At: at, Body: []byte(`{"id":"` + id + `"}`)}
}

// ids reads the log as one string.
func ids(t testing.TB, s *memory.Store, q attend.Query) string {
	t.Helper()
	var out []string
	for e, err := range s.Log().Read(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(e.ID))
	}
	return strings.Join(out, " ")
}

func TestHandlesShareDataAndCloseApart(t *testing.T) {
	a := memory.New()
	commit(t, a, attend.Write{Scope: "ops", Inputs: [][]byte{[]byte("one")}, Rows: []attend.Row{row("ops", "d1", attend.RowDecision, noon)}})
	b := a.Reopen()
	a.Close()
	a.Close()
	if _, err := a.Load(t.Context(), "ops"); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Load on the closed handle: %v, want ErrClosed", err)
	}
	for _, s := range []*memory.Store{b, a.Reopen()} {
		rec, err := s.Load(t.Context(), "ops")
		if err != nil || len(rec.Tail) != 1 {
			t.Errorf("Load on another handle = %+v, %v, want the one input", rec, err)
		}
		if got := ids(t, s, attend.Query{}); got != "d1" {
			t.Errorf("its log holds %q, want d1", got)
		}
	}
}

func TestCloseEndsWaitsAndIterators(t *testing.T) {
	s := memory.New()
	var w []attend.Write
	for i := range 300 {
		scope := attend.Scope(fmt.Sprint("s", i))
		w = append(w, attend.Write{Scope: scope, Due: noon, Rows: []attend.Row{row(scope, "d", attend.RowDecision, noon)}})
	}
	commit(t, s, w...)
	newest, _ := s.Log().Bounds(t.Context())
	waited := make(chan error)
	go func() {
		waited <- s.Log().(attend.Waiter).Wait(context.Background(), attend.Query{After: attend.LogCursor{Epoch: newest.Epoch, Position: newest.Newest}})
	}()
	n, last := 0, error(nil)
	for _, err := range s.Due(t.Context(), noon) {
		if n, last = n+1, err; n == 1 {
			s.Close()
		}
	}
	if !errors.Is(last, attend.ErrClosed) || n > 101 {
		t.Errorf("a Due that was closed over yielded %d pairs and %v last, want the page it had and ErrClosed", n, last)
	}
	if err := <-waited; !errors.Is(err, attend.ErrClosed) {
		t.Errorf("the Wait that blocked returned %v, want ErrClosed", err)
	}
}

func TestRetainTrimsInStepsByCount(t *testing.T) {
	s := memory.NewWith(memory.Options{Retain: attend.Retain{Count: 3, Verdicts: 2}})
	types := []attend.RowType{attend.RowDecision, attend.RowVerdict, attend.RowLetter, attend.RowVerdict, attend.RowVerdict}
	for i := range 20 {
		commit(t, s, attend.Write{
			Scope: attend.Scope(fmt.Sprint("s", i)),
			Rows:  []attend.Row{row("s", fmt.Sprint(i), types[i%len(types)], noon)},
		})
	}
	if got, want := ids(t, s, attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}), "12 15 17"; got != want {
		t.Errorf("decisions and letters kept: %s, want %s", got, want)
	}
	if got, want := ids(t, s, attend.Query{Types: []attend.RowType{attend.RowVerdict}}), "18 19"; got != want {
		t.Errorf("verdict rows kept: %s, want %s", got, want)
	}
	// A log that is far over its count shrinks by a few rows a commit.
	big := memory.NewWith(memory.Options{Retain: attend.Retain{Count: 100}})
	var rows []attend.Row
	for i := range 1000 {
		rows = append(rows, row("s", fmt.Sprint(i), attend.RowDecision, noon))
	}
	commit(t, big, attend.Write{Scope: "s", Rows: rows})
	if n := len(strings.Fields(ids(t, big, attend.Query{}))); n != 100 {
		t.Errorf("a group of 1000 rows leaves %d, want 100", n)
	}
}

func TestRetainByAgeCountsFromTheNewestRow(t *testing.T) {
	s := memory.NewWith(memory.Options{Retain: attend.Retain{Age: time.Hour}})
	long := noon.AddDate(-10, 0, 0)
	for i, after := range []time.Duration{0, 30 * time.Minute, time.Hour, 80 * time.Minute} {
		commit(t, s, attend.Write{
			Scope: attend.Scope(fmt.Sprint("s", i)),
			Rows:  []attend.Row{row("s", fmt.Sprint(i), attend.RowDecision, long.Add(after))},
		})
	}
	if got, want := ids(t, s, attend.Query{}), "1 2 3"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
}

func TestTrimmedRowsLeaveNothingBehind(t *testing.T) {
	s := memory.New()
	for i := range 2500 {
		scope := attend.Scope(fmt.Sprintf("team-%d/repo-%d", i%7, i))
		commit(t, s, attend.Write{Scope: scope, Rows: []attend.Row{row(scope, fmt.Sprint(i), attend.RowDecision, noon)}})
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: 10}, noon); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s, attend.Query{}); len(strings.Fields(got)) != 10 {
		t.Errorf("kept %s, want the newest 10", got)
	}
	if got, want := ids(t, s, attend.Query{Prefix: "team-0"}), "2492 2499"; got != want {
		t.Errorf("kept of team-0: %s, want %s", got, want)
	}
	// Empty, a team, a team with its border, a repository: for 10 rows.
	if n, max := memory.Lists(s), 1+7+7+10; n > max {
		t.Errorf("%d lists are left, want at most %d", n, max)
	}
}

func TestDeepPrefixes(t *testing.T) {
	s := memory.New()
	deep := attend.Scope(strings.Repeat("a/", 200))
	for i, scope := range []attend.Scope{deep, deep + "b", deep[:100], deep[:100] + "b"} {
		commit(t, s, attend.Write{Scope: scope, Rows: []attend.Row{row(scope, fmt.Sprint(i), attend.RowDecision, noon)}})
	}
	for _, c := range []struct {
		prefix attend.Prefix
		want   string
	}{
		{"", "0 1 2 3"}, {"a", "0 1 2 3"},
		{attend.Prefix(deep), "0 1"}, {attend.Prefix(deep) + "b", "1"}, {attend.Prefix(deep[:102]), "0 1"},
	} {
		if got := ids(t, s, attend.Query{Prefix: c.prefix}); got != c.want {
			t.Errorf("Read with a prefix of %d bytes = %s, want %s", len(c.prefix), got, c.want)
		}
	}
	if n := memory.Lists(s); n > 4*16 {
		t.Errorf("%d lists for four scopes, want at most 16 each", n)
	}
	// Rows of other scopes in the list that is read are no reason to wake up.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Log().(attend.Waiter).Wait(ctx, attend.Query{Prefix: attend.Prefix(deep) + "c"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v, want it to block", err)
	}
}

func TestWaitersAreTakenOut(t *testing.T) {
	s := memory.New()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	q := attend.Query{Prefix: "ops/", Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}
	for range 5 {
		go func() { done <- s.Log().(attend.Waiter).Wait(ctx, q) }()
	}
	for memory.Waiting(s) < 10 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	for range 5 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v, want context.Canceled", err)
		}
	}
	if w, l := memory.Waiting(s), memory.Lists(s); w != 0 || l != 0 {
		t.Errorf("%d waiters and %d lists are left, want none", w, l)
	}
}

func TestCommitAllocatesLittle(t *testing.T) {
	s := memory.New()
	inputs, snap := [][]byte{make([]byte, 200)}, make([]byte, 1600)
	version := commit(t, s, attend.Write{Scope: "ops", Snapshot: snap})[0].Version
	w := []attend.Write{{Scope: "ops"}}
	n := 0
	perRun := testing.AllocsPerRun(1000, func() {
		w[0].Expect, w[0].Inputs, w[0].Snapshot = version, inputs, nil
		if n++; n%8 == 0 {
			w[0].Inputs, w[0].Snapshot = nil, snap
		}
		w[0].Due = noon.Add(time.Duration(n) * time.Millisecond)
		out, _ := s.Commit(t.Context(), w)
		version = out[0].Version
	})
	if perRun > 1 {
		t.Errorf("a commit of one write allocates %v times, want its answer alone", perRun)
	}
}

func TestIdleScopeGivesBigMemoryBack(t *testing.T) {
	s := memory.New()
	v := commit(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{make([]byte, 1<<20)}})[0].Version
	commit(t, s, attend.Write{Scope: "ops", Expect: v, Snapshot: make([]byte, 100)})
	if n := memory.Kept(s, "ops"); n > 1000 {
		t.Errorf("a snapshot of 100 bytes keeps %d, want under 1000", n)
	}
}

func TestFirstVersionsAreRandom(t *testing.T) {
	s := memory.New()
	var seen []uint64
	for range 100 {
		v := commit(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{nil}})[0].Version
		if v == 0 || v >= 1<<62 || slices.Contains(seen, v) {
			t.Fatalf("version %d, want a new one from 1 to 1<<62", v)
		}
		seen = append(seen, v)
		if err := s.Remove(t.Context(), "ops"); err != nil {
			t.Fatal(err)
		}
	}
}
