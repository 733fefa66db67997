package sqlite_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	attend "github.com/attend-go/attend/core"
)

// rowTables is the plain design that the journal is measured against: a row a
// scope and a row an input, prepared statements on the driver, one transaction
// a group, and the log written back on a second connection.
type rowTables struct {
	c     *sqlite3.SQLiteConn
	stmts map[string]*sqlite3.SQLiteStmt
}

func newRowTables(b testing.TB, file string) *rowTables {
	open := func() *sqlite3.SQLiteConn {
		c, err := new(sqlite3.SQLiteDriver).Open("file:" + file + "?_mutex=no&_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_cache_size=-65536")
		if err != nil {
			b.Fatal(err)
		}
		return c.(*sqlite3.SQLiteConn)
	}
	r := &rowTables{c: open(), stmts: make(map[string]*sqlite3.SQLiteStmt)}
	for _, q := range []string{
		"PRAGMA wal_autocheckpoint=0",
		"CREATE TABLE scopes(scope TEXT PRIMARY KEY, version INTEGER NOT NULL, due INTEGER) WITHOUT ROWID",
		"CREATE TABLE snaps(scope TEXT PRIMARY KEY, snap BLOB NOT NULL) WITHOUT ROWID",
		"CREATE INDEX scopes_due ON scopes(due) WHERE due IS NOT NULL",
		"CREATE TABLE inputs(scope TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY(scope, version)) WITHOUT ROWID",
		"CREATE TABLE decisions(pos INTEGER PRIMARY KEY, scope TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL)",
	} {
		if _, err := r.c.Exec(q, nil); err != nil {
			b.Fatal(err)
		}
	}
	back, stop, gone := open(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if rows, err := back.Query("PRAGMA wal_checkpoint(PASSIVE)", nil); err == nil {
				rows.Close()
			}
		}
	}()
	b.Cleanup(func() {
		close(stop)
		<-gone
		back.Close()
		r.c.Close()
	})
	return r
}

func (r *rowTables) exec(q string, args ...driver.Value) (int64, error) {
	s := r.stmts[q]
	if s == nil {
		x, err := r.c.Prepare(q)
		if err != nil {
			return 0, err
		}
		s = x.(*sqlite3.SQLiteStmt)
		r.stmts[q] = s
	}
	res, err := s.Exec(args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (r *rowTables) Commit(_ context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	out := make([]attend.Outcome, len(writes))
	if _, err := r.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	for i := range writes {
		if err := r.write(&writes[i], &out[i]); err != nil {
			_, e := r.exec("ROLLBACK")
			return nil, errors.Join(err, e)
		}
	}
	_, err := r.exec("COMMIT")
	return out, err
}

func (r *rowTables) write(w *attend.Write, o *attend.Outcome) error {
	scope, expect := string(w.Scope), int64(w.Expect)
	var n int64
	var err error
	switch {
	case w.Expect == 0:
		n, err = r.exec("INSERT INTO scopes VALUES(?1, 1, ?2) ON CONFLICT DO NOTHING", scope, w.Due.UnixMilli())
	case w.KeepDue:
		n, err = r.exec("UPDATE scopes SET version = version + 1 WHERE scope = ?1 AND version = ?2", scope, expect)
	default:
		n, err = r.exec("UPDATE scopes SET version = version + 1, due = ?3 WHERE scope = ?1 AND version = ?2", scope, expect, w.Due.UnixMilli())
	}
	if err != nil || n == 0 {
		return err
	}
	o.Version = w.Expect + 1
	if w.Snapshot != nil {
		if _, err := r.exec("DELETE FROM inputs WHERE scope = ?1", scope); err != nil {
			return err
		}
		if _, err := r.exec("INSERT INTO snaps VALUES(?1, ?2) ON CONFLICT DO UPDATE SET snap = excluded.snap", scope, w.Snapshot); err != nil {
			return err
		}
	}
	for _, in := range w.Inputs {
		if _, err := r.exec("INSERT INTO inputs VALUES(?1, ?2, ?3)", scope, int64(o.Version), in); err != nil {
			return err
		}
	}
	for _, row := range w.Rows {
		if _, err := r.exec("INSERT INTO decisions(scope, id, body) VALUES(?1, ?2, ?3)", string(row.Scope), string(row.ID), row.Body); err != nil {
			return err
		}
	}
	return nil
}

// The peer does what it is said to do.
func TestRowTables(t *testing.T) {
	r, l := newRowTables(t, newFile(t)), newLoad(50)
	for range 20 {
		out, err := r.Commit(t.Context(), l.group(50))
		if err != nil {
			t.Fatal(err)
		}
		l.landed(t, out)
	}
	stale := l.group(50)
	for i := range stale {
		stale[i].Expect--
	}
	out, err := r.Commit(t.Context(), stale)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if !o.Conflict() {
			t.Fatalf("stale write %d landed", i)
		}
	}
	rows, err := r.c.Query("SELECT count(*), (SELECT count(*) FROM decisions) FROM scopes", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]driver.Value, 2)
	if err := rows.Next(got); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if got[0] != int64(50) || got[1] != int64(50) {
		t.Errorf("%d scopes and %d decisions, want 50 and 50", got[0], got[1])
	}
}
