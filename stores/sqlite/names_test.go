package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// A store takes any bytes for a name, and tells any two apart: folded or not,
// in the log and in its index, and in an event log.
func TestAnyNames(t *testing.T) {
	names := []string{
		"a", "A", "a ", " a", "a\x00", "a\x00b", "\x00", "\x00\x00", "\xff", "\xff\xff", "\xc3\x28", "a\nb", "a\r\nb", "'", "''", `"`, "\\", "%", "_", "a%",
		"a/b", "a//b", "/", "//", "a:", ";DROP TABLE attend_scopes", "é", "e\u0301", "日本", "1", "01", "1.0", "NULL", "x'41'",
		strings.Repeat("long/", 100), strings.Repeat("x", 100_000), strings.Repeat("x", 100_001), "",
	}
	for _, budget := range []int{0, 1} {
		file := newFile(t)
		s := openStore(t, file, sqlite.Config{Budget: budget})
		l := openEvents(t, file, sqlite.Config{})
		for i, n := range names {
			scope := attend.Scope(n)
			put(t, s, attend.Write{Scope: scope, Snapshot: []byte(fmt.Sprint(i)), Due: noon.Add(-time.Duration(i) * time.Minute),
				Rows: []attend.Row{{Scope: scope, ID: attend.DecisionID(n), Type: attend.RowType(n), Body: []byte(fmt.Sprint(i))}}})
			if err := l.Append(t.Context(), scope, []attend.Event{{ID: "same", Name: "n", Text: fmt.Sprint(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // what is still in the journal is folded
			fillers := make([]attend.Write, 100)
			for i := range fillers {
				fillers[i] = attend.Write{Scope: attend.Scope(fmt.Sprintf("filler-%d-%d", time.Now().UnixNano(), i)), Inputs: [][]byte{nil}}
			}
			put(t, s, fillers...)
		}
		other := openStore(t, file, sqlite.Config{})
		for i, n := range names {
			scope, want := attend.Scope(n), fmt.Sprint(i)
			for _, s := range []*sqlite.Store{s, other} {
				if rec, err := s.Load(t.Context(), scope); err != nil || string(rec.Snapshot) != want {
					t.Errorf("Load(%.20q) = %q, %v, want %q", n, rec.Snapshot, err, want)
				}
				if n == "" { // names the type of decisions
					continue
				}
				if e, err := s.Log().Find(t.Context(), attend.DecisionID(n), attend.RowType(n)); err != nil || string(e.Body) != want || e.Scope != scope {
					t.Errorf("Find(%.20q) = %q, %v, want %q", n, e.Body, err, want)
				}
			}
			for b, err := range l.Batches(t.Context(), scope, "") {
				if err != nil || len(b.Events) != 1 || b.Events[0].Text != want {
					t.Errorf("Batches(%.20q) = %d events, %v, want the one with %q", n, len(b.Events), err, want)
				}
			}
		}
		var due []string
		for scope, err := range other.Due(t.Context(), noon) {
			if err != nil {
				t.Fatal(err)
			}
			due = append(due, string(scope))
		}
		slices.Reverse(due)
		if !slices.Equal(due, names) {
			t.Errorf("Due has other names, or another order: %.40q", due)
		}
		for _, n := range names {
			if err := s.Remove(t.Context(), attend.Scope(n)); err != nil {
				t.Errorf("Remove(%.20q) = %v", n, err)
			}
			if rec, err := other.Load(t.Context(), attend.Scope(n)); err != nil || rec.Version != 0 {
				t.Errorf("Load(%.20q) after Remove = %v, %v, want nothing", n, rec.Version, err)
			}
		}
	}
}

// Appends that come together share transactions, of which none is too large,
// and each answers for its own events.
func TestAppendTogether(t *testing.T) {
	const producers, each = 32, 10
	file := newFile(t)
	l := openEvents(t, file, sqlite.Config{})
	var wg sync.WaitGroup
	gave := make([][]string, producers) // up
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprint(p, "-", i)
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 2 {
					time.AfterFunc(time.Duration(p)*50*time.Microsecond, cancel)
				}
				e := attend.Event{ID: id, Name: "n", Text: strings.Repeat("x", 200_000)}
				err := l.Append(ctx, "ops", []attend.Event{e, {ID: id + "+", Name: "n"}})
				cancel()
				switch {
				case errors.Is(err, context.Canceled):
					gave[p] = append(gave[p], id)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var got []string
	for b, err := range l.Batches(t.Context(), "ops", "") {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			got = append(got, e.ID)
		}
	}
	var want []string
	for p := range producers {
		for i := range each {
			if id := fmt.Sprint(p, "-", i); !slices.Contains(gave[p], id) {
				want = append(want, id, id+"+")
			}
		}
	}
	for i := 0; i < len(got); i += 2 {
		if i+1 == len(got) || got[i+1] != got[i]+"+" {
			t.Fatalf("event %d, %s, has not its own append's behind it", i, got[i])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d events are kept, want the %d of the appends that succeeded", len(got), len(want))
	}
}
