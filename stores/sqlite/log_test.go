package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
	sqlite3 "github.com/mattn/go-sqlite3"
)

func newStoreIn(t testing.TB, file string, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), file, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newFileIn(t testing.TB) string { return filepath.Join(t.TempDir(), "attend.db") }

// add appends rows by a write of a scope of its own.
func add(t testing.TB, s *Store, rows ...attend.Row) {
	t.Helper()
	w := attend.Write{Scope: attend.Scope(fmt.Sprintf("writer-%x", rand.Uint64())), Rows: rows}
	if _, err := s.Commit(t.Context(), []attend.Write{w}); err != nil {
		t.Fatal(err)
	}
}

func readIDs(t testing.TB, s *Store, q attend.Query) []string {
	t.Helper()
	var out []string
	for e, err := range s.Log().Read(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(e.ID))
	}
	return out
}

func index(t testing.TB, s *Store, n int) {
	t.Helper()
	err := s.d.update(t.Context(), func(c *conn) error { _, err := indexRows(c, n); return err })
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever part of the log is in the index, a reader finds what Covers and
// Wants say, in order.
func TestNarrowedReads(t *testing.T) {
	s := newStoreIn(t, newFileIn(t), Config{})
	r := rand.New(rand.NewPCG(7, 7))
	parts := []string{"a", "b", "ab", "/", ":", "//", "é", "\xff", "\x00", "%", "'", "\n"}
	name := func() string {
		var b strings.Builder
		for range 1 + r.IntN(40) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		return b.String()
	}
	all := []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict, "other", ""}
	var rows []attend.Row
	for i := range 600 {
		rows = append(rows, attend.Row{
			Scope: attend.Scope(name()), ID: attend.DecisionID(fmt.Sprint(i, name())), Type: all[r.IntN(len(all))], Body: []byte(name()),
		})
		if i%3 > 0 { // short scopes, many of which share borders
			rows[i].Scope = attend.Scope(name()[:1]) + "/" + rows[i].Scope[:1]
		}
	}
	add(t, s, rows...)
	for part := range 4 {
		for range 200 {
			from := rows[r.IntN(len(rows))]
			q := attend.Query{Prefix: attend.Prefix(from.Scope[:r.IntN(len(from.Scope)+1)]), Types: all[:1+r.IntN(len(all))]}
			after := r.IntN(len(rows))
			b, err := s.Log().Bounds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			q.After = attend.LogCursor{Epoch: b.Epoch, Position: attend.Position(after)}
			var want []string
			for _, row := range rows[after:] {
				if q.Wants(row.Type) && q.Prefix.Covers(row.Scope) {
					want = append(want, string(row.ID))
				}
			}
			if got := readIDs(t, s, q); !slices.Equal(got, want) {
				t.Fatalf("with %d parts in the index: Read(%+v) = %q, want %q", part, q, got, want)
			}
			e, err := s.Log().Find(t.Context(), from.ID, from.Type)
			if from.Type == "" {
				if !errors.Is(err, attend.ErrNotFound) {
					t.Fatalf("Find(%q) among decisions = %v, want ErrNotFound", from.ID, err)
				}
				continue
			}
			if err != nil || e.Scope != from.Scope || string(e.Body) != string(from.Body) {
				t.Fatalf("Find(%q) = %+v, %v, want %+v", from.ID, e, err, from)
			}
		}
		index(t, s, 200)
	}
}

// Find takes the newest, be it in the index or not.
func TestFindNewest(t *testing.T) {
	s := newStoreIn(t, newFileIn(t), Config{})
	for i := range 4 {
		add(t, s, attend.Row{Scope: "ops", ID: "d", Type: attend.RowDecision, Body: []byte{byte(i)}})
		for range 2 {
			e, err := s.Log().Find(t.Context(), "d", "")
			if err != nil || e.Body[0] != byte(i) {
				t.Errorf("Find = %v, %v, want the newest, %d", e, err, i)
			}
			if i == 1 {
				index(t, s, 100)
			}
		}
	}
}

func TestRetention(t *testing.T) {
	at := func(i int) time.Time { return time.UnixMilli(int64(i) * 60_000) }
	for _, c := range []struct {
		name            string
		keep            attend.Retain
		rows            int
		acts, verdicts  int // that are left of each class, at most a little more
		slackA, slackVs int
	}{
		{"count", attend.Retain{Count: 40}, 200, 40, 100, 2, 0},
		{"verdicts", attend.Retain{Verdicts: 10}, 200, 100, 10, 0, 0},
		{"both", attend.Retain{Count: 1, Verdicts: 1}, 200, 1, 1, 0, 0},
		{"age", attend.Retain{Age: 50 * time.Minute}, 200, 26, 26, 16, 16},
		{"nothing", attend.Retain{}, 200, 100, 100, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStoreIn(t, newFileIn(t), Config{Retain: c.keep})
			var rows []attend.Row
			for i := range c.rows {
				typ := []attend.RowType{attend.RowDecision, attend.RowVerdict, attend.RowLetter, attend.RowVerdict}[i%4]
				rows = append(rows, attend.Row{Scope: "ops", ID: attend.DecisionID(fmt.Sprint(i)), Type: typ, At: at(i)})
			}
			add(t, s, rows...)
			acts := attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}
			verdicts := attend.Query{Types: []attend.RowType{attend.RowVerdict}}
			fits := func() bool {
				a, v := len(readIDs(t, s, acts)), len(readIDs(t, s, verdicts))
				return a >= c.acts && a <= c.acts+c.slackA && v >= c.verdicts && v <= c.verdicts+c.slackVs
			}
			for end := time.Now().Add(10 * time.Second); !fits(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d decisions and letters and %d verdict rows are left, want %d and %d",
						len(readIDs(t, s, acts)), len(readIDs(t, s, verdicts)), c.acts, c.verdicts)
				}
			}
			time.Sleep(100 * time.Millisecond) // it stops there
			if !fits() {
				t.Errorf("%d decisions and letters and %d verdict rows are left after a while", len(readIDs(t, s, acts)), len(readIDs(t, s, verdicts)))
			}
			if got := readIDs(t, s, verdicts); got[len(got)-1] != fmt.Sprint(c.rows-1) {
				t.Errorf("the newest row is gone")
			}
			// Of rows that are gone nothing is left.
			left, err := count(s, "SELECT (SELECT count(*) FROM attend_log_index WHERE pos NOT IN (SELECT pos FROM attend_log))")
			if err != nil || left != 0 {
				t.Errorf("%d entries of trimmed rows are in the index (%v), want none", left, err)
			}
		})
	}
}

func count(s *Store, q string) (n int64, err error) {
	err = s.d.view(context.Background(), func(c *conn) error { n, err = c.number(q); return err })
	return n, err
}

// Processes that live for one commit leave the index behind, but not far.
func TestShortLives(t *testing.T) {
	file := newFileIn(t)
	rows := make([]attend.Row, 1000)
	for i := range rows {
		rows[i] = attend.Row{Scope: "ops", ID: "d", Type: attend.RowDecision}
	}
	var m journal.Marks
	for range 8 {
		d, err := openFile(t.Context(), file, Config{}) // and nobody keeps the log
		if err != nil {
			t.Fatal(err)
		}
		err = d.update(t.Context(), func(c *conn) error { _, _, err := appendRows(c, rows); return err })
		if err == nil {
			err = d.view(t.Context(), func(c *conn) (err error) { m, err = readMarks(c); return err })
		}
		if err := errors.Join(err, d.close()); err != nil {
			t.Fatal(err)
		}
	}
	if m.Newest != 8000 || m.Newest-m.Indexed > 4*journal.IndexBehind+1000 {
		t.Errorf("%d of %d rows are not in the index, want at most %d of 8000", m.Newest-m.Indexed, m.Newest, 4*journal.IndexBehind+1000)
	}
}

// A poller that meets a lock looks again, and not only after the next commit.
func TestPollerMeetsALock(t *testing.T) {
	file := newFileIn(t)
	a, b := newStoreIn(t, file, Config{}), newStoreIn(t, file, Config{})
	busy := make(chan struct{}, 1)
	b.rows.wait.news = func(c *conn, after attend.Position) ([]journal.Topic, attend.Position, error) {
		topics, newest, err := newRows(c, after)
		if newest > after {
			select {
			case busy <- struct{}{}:
				return nil, 0, sqlite3.Error{Code: sqlite3.ErrBusy}
			default:
			}
		}
		return topics, newest, err
	}
	at, err := b.Log().Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	done := make(chan error)
	go func() {
		done <- b.Log().(attend.Waiter).Wait(ctx, attend.Query{After: attend.LogCursor{Epoch: at.Epoch}})
	}()
	for polling := false; !polling; time.Sleep(time.Millisecond) {
		b.rows.wait.mu.Lock()
		polling = b.rows.wait.polling
		b.rows.wait.mu.Unlock()
	}
	add(t, a, attend.Row{Scope: "ops", ID: "d", Type: attend.RowDecision})
	if err := <-done; err != nil {
		t.Errorf("Wait = %v, want to be told of the row", err)
	}
	if len(busy) != 1 {
		t.Error("the poller has met no lock")
	}
}

// The poller works while somebody waits, and ends then.
func TestPoller(t *testing.T) {
	file := newFileIn(t)
	a, b := newStoreIn(t, file, Config{}), newStoreIn(t, file, Config{})
	polling := func() bool {
		b.rows.wait.mu.Lock()
		defer b.rows.wait.mu.Unlock()
		return b.rows.wait.polling
	}
	for i := range 5 {
		at, err := b.Log().Bounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		woken := make(chan error)
		q := attend.Query{Prefix: "ops", After: attend.LogCursor{Epoch: at.Epoch, Position: at.Newest}}
		go func() { woken <- b.log.Wait(t.Context(), q) }()
		for end := time.Now().Add(5 * time.Second); !polling(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody polls while somebody waits")
			}
		}
		add(t, a, attend.Row{Scope: "other", ID: "no", Type: attend.RowDecision}, attend.Row{Scope: "ops", ID: "no", Type: attend.RowVerdict})
		select {
		case err := <-woken:
			t.Fatalf("Wait = %v for rows that it is not about", err)
		case <-time.After(5 * pollPause):
		}
		start := time.Now()
		add(t, a, attend.Row{Scope: "ops/db", ID: attend.DecisionID(fmt.Sprint(i)), Type: attend.RowDecision})
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("Wait heard of another handle's row after %v", took)
		}
		for end := time.Now().Add(5 * time.Second); i == 2 && polling(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("somebody polls, and nobody waits")
			}
		}
	}
}
