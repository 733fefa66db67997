package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// No statement goes through a whole table or sorts what it finds: what a call
// costs does not depend on what else there is.
func TestPlans(t *testing.T) {
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "attend.db")
	keep := attend.Retain{Count: 10, Verdicts: 10, Age: time.Hour}
	s, err := Open(ctx, file, Config{Budget: 1, Retain: keep})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := OpenEventLog(ctx, file, Config{Retain: keep})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict}
	scope := attend.Scope("ops/db")
	var version uint64
	for i := range 30 {
		w := attend.Write{Scope: scope, Expect: version, Inputs: [][]byte{[]byte("x")}, Due: time.UnixMilli(int64(i))}
		w.Rows = []attend.Row{{Scope: scope, ID: "d", Type: all[i%3], At: time.UnixMilli(int64(i))}}
		out, err := s.Commit(ctx, []attend.Write{w, {Scope: attend.Scope(fmt.Sprint(i)), Inputs: [][]byte{nil}}})
		if err != nil {
			t.Fatal(err)
		}
		version = out[0].Version
		if err := l.Append(ctx, scope, []attend.Event{{ID: fmt.Sprint(i), Name: "n"}}); err != nil {
			t.Fatal(err)
		}
	}
	// It is kept in the background.
	for b, until := (attend.Bounds{}), time.Now().Add(10*time.Second); b.Trimmed == 0; time.Sleep(time.Millisecond) {
		if b, err = s.Log().Bounds(ctx); err != nil || time.Now().After(until) {
			t.Fatalf("nothing is trimmed (%v)", err)
		}
	}
	for range s.Due(ctx, time.Now()) {
	}
	for range l.Batches(ctx, scope, "") {
	}
	for range s.Log().Read(ctx, attend.Query{Prefix: "ops", Types: all}) {
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	end, err := s.Log().Bounds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tail := attend.Query{After: attend.LogCursor{Epoch: end.Epoch, Position: end.Newest}}
	_, err = s.Log().Find(ctx, "d", "")
	err = errors.Join(err, s.Remove(ctx, scope), s.Log().Trim(ctx, attend.Retain{Count: 1, Age: time.Second}, time.Now()))
	if _, e := s.Load(ctx, scope); err != nil || e != nil {
		t.Fatal(err, e)
	}
	if err := s.log.Wait(short, tail); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := l.WaitEvents(short, "none", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}

	seen := make(map[string]bool)
	for _, d := range []*database{s.d, l.d} {
		for _, kind := range []chan *conn{d.writer, d.readers} {
			for range cap(kind) {
				c := <-kind
				if c != nil {
					for q := range maps.Clone(c.stmts) {
						seen[q] = true
						plan(t, c, q)
					}
				}
				kind <- c
			}
		}
		c, err := d.connect(ctx, time.Now().Add(time.Second), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, log := range []*waiters{&s.rows.wait, &l.wait} {
			if _, _, err := log.news(c, 0); err != nil {
				t.Fatal(err)
			}
		}
		for q := range maps.Clone(c.stmts) {
			seen[q] = true
			plan(t, c, q)
		}
		c.close()
	}
	if len(seen) < 40 {
		t.Errorf("the test has met %d statements, want all of them, which are more than 40", len(seen))
	}
}

func plan(t *testing.T, c *conn, q string) {
	t.Helper()
	if !strings.Contains(q, "attend_") || strings.HasPrefix(q, "EXPLAIN") {
		return
	}
	for row, err := range c.rows("EXPLAIN QUERY PLAN "+q, make([]driver.Value, strings.Count(q, "?"))[:params(q)]...) {
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		detail := fmt.Sprint(row[3])
		switch {
		case strings.HasPrefix(detail, "SCAN attend_marks"), strings.HasPrefix(detail, "SCAN attend_meta"): // of few rows
			continue
		case strings.Contains(detail, "sqlite_schema"), strings.Contains(detail, "VALUES CLAUSE"), strings.Contains(detail, "CONSTANT"):
			continue
		}
		if strings.Contains(detail, "SCAN") || strings.Contains(detail, "TEMP") {
			t.Errorf("%s\n\t%s", q, detail)
		}
	}
}

// params is how many parameters q has.
func params(q string) int {
	if n := strings.Count(q, "?") - strings.Count(q, "?1"); n > 0 && !strings.Contains(q, "?1") {
		return n
	}
	for n := 9; n > 0; n-- {
		if strings.Contains(q, fmt.Sprint("?", n)) {
			return n
		}
	}
	return 0
}
