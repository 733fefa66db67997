package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// plain opens a file as some other program would.
func plain(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func runSQL(t testing.TB, db *sql.DB, queries ...string) {
	t.Helper()
	for _, q := range queries {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// made is a file that has a store with one scope and some rows.
func made(t testing.TB) string {
	t.Helper()
	file := newFile(t)
	s, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		put(t, s, attend.Write{Scope: attend.Scope(filepath.Join("ops", string(rune('a'+i)))), Inputs: [][]byte{make([]byte, 500)},
			Rows: []attend.Row{{Scope: "ops", ID: "d", Type: attend.RowDecision, Body: make([]byte, 500)}}})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func put(t testing.TB, s attend.ScopeStore, writes ...attend.Write) []attend.Outcome {
	t.Helper()
	out, err := s.Commit(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if o.Conflict() {
			t.Fatalf("write %d of %d is a conflict", i, len(writes))
		}
	}
	return out
}

// What can't be a store says so, with the file's name.
func TestOpenFails(t *testing.T) {
	for _, c := range []struct {
		name string
		file func(t *testing.T) string
		is   error // nil: any
		text string
	}{
		{"a newer schema", func(t *testing.T) string {
			file := made(t)
			runSQL(t, plain(t, file), "UPDATE attend_meta SET value = 1000 WHERE name = 'version'")
			return file
		}, attend.ErrNewer, "version 1000"},
		{"no schema version", func(t *testing.T) string {
			file := made(t)
			runSQL(t, plain(t, file), "DELETE FROM attend_meta WHERE name = 'version'")
			return file
		}, attend.ErrCorrupt, "no version"},
		{"no epoch", func(t *testing.T) string {
			file := made(t)
			runSQL(t, plain(t, file), "DELETE FROM attend_meta WHERE name = 'epoch'")
			return file
		}, attend.ErrCorrupt, "no epoch"},
		{"a truncated file", func(t *testing.T) string {
			file := made(t)
			if err := os.Truncate(file, 8192); err != nil {
				t.Fatal(err)
			}
			return file
		}, attend.ErrCorrupt, ""},
		{"a file cut in its first page", func(t *testing.T) string {
			file := made(t)
			if err := os.Truncate(file, 1000); err != nil {
				t.Fatal(err)
			}
			return file
		}, nil, ""},
		{"a text", func(t *testing.T) string {
			file := newFile(t)
			if err := os.WriteFile(file, []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}, nil, "no SQLite database"},
		{"a database of something else", func(t *testing.T) string {
			file := newFile(t)
			runSQL(t, plain(t, file), "CREATE TABLE songs(name)")
			return file
		}, nil, "something else"},
		{"a folder", func(t *testing.T) string { return t.TempDir() }, nil, "can't be opened"},
		{"a folder that is not there", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none", "attend.db") }, nil, "can't be opened"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.file(t)
			before, _ := os.ReadFile(file)
			s, err := sqlite.Open(t.Context(), file, sqlite.Config{Patience: 100 * time.Millisecond})
			if err == nil {
				s.Close()
				t.Fatal("Open = nil, want an error")
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Open = %v, want an error that is %v and has %q and the file's name", err, c.is, c.text)
			}
			after, _ := os.ReadFile(file)
			if string(before) != string(after) {
				t.Error("Open changed the file")
			}
		})
	}
}

func TestOpenRefusesPaths(t *testing.T) {
	for _, file := range []string{"", ":memory:", "file:x.db", "file::memory:", "a\x00b"} {
		if s, err := sqlite.Open(t.Context(), file, sqlite.Config{}); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("Open(%q) = %v, want ErrInvalid", file, err)
			if err == nil {
				s.Close()
			}
		}
	}
}

func TestOpenRefusesSettings(t *testing.T) {
	file := newFile(t)
	for _, c := range []sqlite.Config{{Patience: -1}, {Budget: -1}} {
		if s, err := sqlite.Open(t.Context(), file, c); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("Open with %+v = %v, want ErrInvalid", c, err)
			if err == nil {
				s.Close()
			}
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
}

// A path may have any character.
func TestOddPath(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"a b?c=d&mode=memory#e%20.db", "-x'\"\n\\.db", "\xff\xfe.db", "é.db"} {
		s := openStore(t, file, sqlite.Config{})
		put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("x")})
		if st, err := os.Stat(file); err != nil || st.Size() == 0 {
			t.Errorf("after Open(%q): Stat = %v, %v, want a file", file, st, err)
		}
	}
}

// A transaction that somebody leaves open is waited for, but not for ever.
func TestLocked(t *testing.T) {
	file := made(t)
	s := openStore(t, file, sqlite.Config{Patience: 200 * time.Millisecond})
	l := openEvents(t, file, sqlite.Config{Patience: 200 * time.Millisecond})
	other, err := plain(t, file).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	write := []attend.Write{{Scope: "new", Inputs: [][]byte{[]byte("x")}}}
	appends := 0
	calls := map[string]func(context.Context) error{
		"Commit": func(ctx context.Context) error { _, err := s.Commit(ctx, write); return err },
		"Remove": func(ctx context.Context) error { return s.Remove(ctx, "ops/a") },
		"Trim":   func(ctx context.Context) error { return s.Log().Trim(ctx, attend.Retain{Count: 1}, time.Now()) },
		"Append": func(ctx context.Context) error {
			appends++
			return l.Append(ctx, "ops", []attend.Event{{ID: fmt.Sprint(appends), Name: "n"}})
		},
		"Open": func(ctx context.Context) error {
			s, err := sqlite.Open(ctx, file, sqlite.Config{Patience: 200 * time.Millisecond})
			if err == nil {
				s.Close()
			}
			return err
		},
	}
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, sqlite.ErrLocked) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s while somebody holds the lock = %v, want ErrLocked and the file's name", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s with a context that ends while it waits = %v, want DeadlineExceeded", name, err)
		}
		cancel()
	}
	// Readers are not held up.
	if rec, err := s.Load(t.Context(), "ops/a"); err != nil || rec.Version == 0 {
		t.Errorf("Load while somebody holds the lock = %v, %v, want the scope", rec, err)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	put(t, s, write...)
	if err := calls["Append"](t.Context()); err != nil {
		t.Errorf("Append after the lock is gone = %v", err)
	}
	for b, err := range l.Batches(t.Context(), "ops", "") {
		if err != nil || len(b.Events) != 1 {
			t.Errorf("Batches = %v, %v, want the event of the one append that succeeded", b, err)
		}
	}
}

// Calls that wait behind each other for the lock are not as patient as all of
// them together.
func TestLockedTogether(t *testing.T) {
	const patience = 300 * time.Millisecond
	file := made(t)
	s := openStore(t, file, sqlite.Config{Patience: patience})
	other, err := plain(t, file).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			began := time.Now()
			_, err := s.Commit(t.Context(), []attend.Write{{Scope: attend.Scope(fmt.Sprint("new-", i)), Snapshot: []byte("x")}})
			if !errors.Is(err, sqlite.ErrLocked) || !strings.Contains(err.Error(), file) {
				t.Errorf("Commit while somebody holds the lock = %v, want ErrLocked and the file's name", err)
			}
			if took := time.Since(began); took > 3*patience {
				t.Errorf("one of 8 Commits has waited %v, want %v", took, patience)
			}
		})
	}
	wg.Wait()
}

// A handle that waits for the lock can be closed.
func TestCloseWhileLocked(t *testing.T) {
	file := made(t)
	s := openStore(t, file, sqlite.Config{Patience: time.Minute})
	other, err := plain(t, file).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		_, err := s.Commit(t.Context(), []attend.Write{{Scope: "new", Inputs: [][]byte{[]byte("x")}}})
		got <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Commit, while the store is closed = %v, want ErrClosed", err)
	}
}

// A release that runs meets the tables of a newer one.
func TestMigratedMeanwhile(t *testing.T) {
	file := made(t)
	s := openStore(t, file, sqlite.Config{})
	runSQL(t, plain(t, file), "UPDATE attend_meta SET value = 1000 WHERE name = 'version'")
	if _, err := s.Commit(t.Context(), []attend.Write{{Scope: "new", Inputs: [][]byte{nil}}}); !errors.Is(err, attend.ErrNewer) {
		t.Errorf("Commit = %v, want ErrNewer", err)
	}
	if _, err := s.Load(t.Context(), "ops/a"); !errors.Is(err, attend.ErrNewer) {
		t.Errorf("Load = %v, want ErrNewer", err)
	}
}

// small makes connections to a file that may have so many pages.
type small struct {
	file  string
	pages *string
}

func (c small) Driver() driver.Driver { return new(sqlite3.SQLiteDriver) }

func (c small) Connect(context.Context) (driver.Conn, error) {
	d := &sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		_, err := conn.Exec("PRAGMA max_page_count="+*c.pages, nil)
		return err
	}}
	return d.Open("file:" + c.file)
}

func TestDatabaseFull(t *testing.T) {
	file, pages := newFile(t), "200"
	db := sql.OpenDB(small{file, &pages})
	defer db.Close()
	s, err := sqlite.New(t.Context(), db, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	version, landed := uint64(0), 0
	write := func() error {
		out, err := s.Commit(t.Context(), []attend.Write{{Scope: "ops", Expect: version, Inputs: [][]byte{make([]byte, 10_000)},
			Rows: []attend.Row{{Scope: "ops", ID: "d", Type: attend.RowDecision, Body: make([]byte, 10_000)}}}})
		if err != nil {
			return err
		}
		if out[0].Conflict() {
			return errors.New("a conflict: something landed of a write that failed")
		}
		version, landed = out[0].Version, landed+1
		return nil
	}
	for range 200 {
		if err = write(); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("Commit in a full database = %v, want an error that names %s and says so", err, file)
	}
	if e, ok := errors.AsType[sqlite3.Error](err); !ok || !errors.Is(e.Code, sqlite3.ErrFull) {
		t.Errorf("Commit in a full database = %v, want SQLite's own error within", err)
	}
	if err := write(); err == nil {
		t.Error("Commit in a full database = nil after it had failed")
	}
	rec, err := s.Load(t.Context(), "ops")
	if err != nil || len(rec.Tail) != landed || landed == 0 {
		t.Errorf("Load from a full database has %d inputs (%v), want %d", len(rec.Tail), err, landed)
	}
	pages = "100000"
	for range 10 {
		if err := write(); err != nil {
			t.Fatalf("Commit with room again = %v", err)
		}
	}
}

// A commit that is too large says so with the file's name, and that nothing of
// it was written.
func TestTooLarge(t *testing.T) {
	file := newFile(t)
	s, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	big := make([]byte, 8<<20) // the same one for each, so that nobody needs the memory
	var writes []attend.Write
	for i := range 65 {
		writes = append(writes, attend.Write{Scope: attend.Scope(rune('a' + i)), Snapshot: big})
	}
	_, err = s.Commit(t.Context(), writes)
	if !errors.Is(err, attend.ErrTooLarge) || !strings.Contains(err.Error(), file) {
		t.Errorf("Commit of 520 MiB = %v, want ErrTooLarge with the file's name", err)
	}
	if rec, err := s.Load(t.Context(), "a"); err != nil || rec.Version != 0 {
		t.Errorf("Load = %d, %v, want nothing", rec.Version, err)
	}
}
