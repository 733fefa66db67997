package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
	sqlite3 "github.com/mattn/go-sqlite3"
)

// logs are both logs of a file, that a reader follows.
type logs struct {
	store  *sqlite.Store
	events *sqlite.EventLog
	n      int
}

func openLogs(t testing.TB, file string) *logs {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := sqlite.OpenEventLog(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); l.Close() })
	return &logs{store: s, events: l}
}

func (l *logs) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(l.store.Close(), l.events.Close()); err != nil {
		t.Fatal(err)
	}
}

// add appends to both logs.
func (l *logs) add(t testing.TB, n int) {
	t.Helper()
	rec, err := l.store.Load(t.Context(), "ops")
	if err != nil {
		t.Fatal(err)
	}
	w := attend.Write{Scope: "ops", Expect: rec.Version}
	var events []attend.Event
	for range n {
		l.n++
		w.Rows = append(w.Rows, attend.Row{Scope: "ops", ID: attend.DecisionID(fmt.Sprint(l.n)), Type: attend.RowDecision})
		events = append(events, attend.Event{ID: fmt.Sprintf("%p-%d", l, l.n), Name: "e"})
	}
	put(t, l.store, w)
	if err := l.events.Append(t.Context(), "ops", events); err != nil {
		t.Fatal(err)
	}
}

// A place is where a reader is in both logs.
type place struct {
	log    attend.LogCursor
	events attend.Cursor
}

// end reads both logs to their ends.
func (l *logs) end(t testing.TB) (p place) {
	t.Helper()
	for e, err := range l.store.Log().Read(t.Context(), attend.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		p.log = e.Cursor
	}
	for b, err := range l.events.Batches(t.Context(), "ops", "") {
		if err != nil {
			t.Fatal(err)
		}
		p.events = b.Cursor
	}
	return p
}

// holds reports of each log whether a reader may go on at p.
func (l *logs) holds(t testing.TB, p place) [2]bool {
	t.Helper()
	holds := [2]bool{true, true}
	for _, err := range l.store.Log().Read(t.Context(), attend.Query{After: p.log}) {
		if _, cut := errors.AsType[*attend.TruncatedError](err); cut {
			holds[0] = false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for b, err := range l.events.Batches(t.Context(), "ops", p.events) {
		if err != nil {
			t.Fatal(err)
		}
		holds[1] = holds[1] && !b.Gap
	}
	return holds
}

// copyFile writes over what is at to, if there is something.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// restoreInto writes over a database with SQLite's own means.
func restoreInto(t testing.TB, from, to string) {
	t.Helper()
	dial := func(file string) *sqlite3.SQLiteConn {
		c, err := new(sqlite3.SQLiteDriver).Open(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*sqlite3.SQLiteConn)
	}
	in, out := dial(from), dial(to)
	b, err := out.Backup("main", in, "main")
	if err == nil {
		_, err = b.Step(-1)
	}
	if err := errors.Join(err, b.Finish(), in.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// A copy that is put in the file's place has other rows at positions that
// readers have read past: they must hear that.
func TestCopyIsAnotherLife(t *testing.T) {
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		put  func(kept, file string)
	}{
		{"renamed into place", func(kept, file string) { remove(t, file); rename(kept, file) }},
		{"copied into place", func(kept, file string) { remove(t, file); copyFile(t, kept, file) }},
		{"written over the file", func(kept, file string) { copyFile(t, kept, file) }},
		{"written over the file in a transaction", func(kept, file string) { restoreInto(t, kept, file) }},
		{"copied into place with the mark gone", func(kept, file string) {
			remove(t, file)
			os.Remove(file + "-mark")
			copyFile(t, kept, file)
		}},
	} {
		for _, whole := range []bool{false, true} {
			if whole && runtime.GOOS == "windows" {
				continue
			}
			file, kept := newFile(t), newFile(t)
			l := openLogs(t, file)
			l.add(t, 50)
			before := l.end(t)
			if whole { // the file as it is, and not what SQLite makes of it
				l.close(t)
				copyFile(t, file, kept)
				l = openLogs(t, file)
			} else {
				db := plain(t, file)
				runSQL(t, db, "VACUUM INTO '"+kept+"'")
				db.Close() // the last one to do so takes the log away
			}
			l.add(t, 50)
			at := l.end(t)
			l.close(t)
			c.put(kept, file)
			l = openLogs(t, file)
			l.add(t, 60)
			for name, p := range map[string]place{"rows that are lost": at, "rows of the copy": before} {
				if got := l.holds(t, p); got != [2]bool{} {
					t.Errorf("%s, of the whole file: %v: cursors behind %s hold: %v, want them truncated", c.name, whole, name, got)
				}
			}
			// And that was it.
			at = l.end(t)
			l.close(t)
			l = openLogs(t, file)
			if got := l.holds(t, at); got != [2]bool{true, true} {
				t.Errorf("%s: opened again cursors hold: %v", c.name, got)
			}
			l.close(t)
		}
	}
}

// A copy beside the file goes its own way.
func TestCopyBesideTheFile(t *testing.T) {
	dir, beside := t.TempDir(), t.TempDir()
	l := openLogs(t, filepath.Join(dir, "attend.db"))
	l.add(t, 5)
	at := l.end(t)
	l.close(t)
	for _, end := range []string{"", "-mark"} {
		copyFile(t, filepath.Join(dir, "attend.db"+end), filepath.Join(beside, "attend.db"+end))
	}
	other := openLogs(t, filepath.Join(beside, "attend.db"))
	l = openLogs(t, filepath.Join(dir, "attend.db"))
	if runtime.GOOS != "windows" {
		if got := other.holds(t, at); got != [2]bool{} {
			t.Errorf("cursors hold in a copy: %v, want them truncated", got)
		}
	}
	if got := l.holds(t, at); got != [2]bool{true, true} {
		t.Errorf("cursors hold in the file that was copied: %v", got)
	}
}

// What is no copy keeps its readers.
func TestSameLife(t *testing.T) {
	file := newFile(t)
	l := openLogs(t, file)
	l.add(t, 5)
	at := l.end(t)
	l.close(t)
	mark, err := os.ReadFile(file + "-mark")
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) func() {
		return func() {
			if err := os.WriteFile(file+"-mark", b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"opened again", func() {}},
		{"without a mark", func() { os.Remove(file + "-mark") }},
		{"with an empty mark", write(nil)},
		{"with half a mark", write(mark[:len(mark)/2])},
		{"with a mark that is something else", write([]byte("attend\n"))},
		{"renamed, with its mark", func() {
			to := newFile(t)
			for _, end := range []string{"", "-mark"} {
				if err := os.Rename(file+end, to+end); err != nil {
					t.Fatal(err)
				}
			}
			file = to
		}},
		{"renamed", func() {
			to := newFile(t)
			if err := os.Rename(file, to); err != nil {
				t.Fatal(err)
			}
			file = to
		}},
	} {
		c.do()
		l := openLogs(t, file)
		if got := l.holds(t, at); got != [2]bool{true, true} {
			t.Errorf("%s: cursors hold: %v", c.name, got)
		}
		l.add(t, 1)
		l.close(t)
	}
}

// A crash leaves a mark that is behind the file, or not far: it tells nothing
// wrong.
func TestMarkIsBehind(t *testing.T) {
	file := newFile(t)
	l := openLogs(t, file)
	l.add(t, 5)
	l.close(t)
	old, err := os.ReadFile(file + "-mark")
	if err != nil {
		t.Fatal(err)
	}
	l = openLogs(t, file)
	l.add(t, 5)
	at := l.end(t)
	l.close(t)
	if now, err := os.ReadFile(file + "-mark"); err != nil || slices.Equal(now, old) {
		t.Fatalf("the mark is %q (%v), as it was before five rows", now, err)
	}
	if err := os.WriteFile(file+"-mark", old, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := openLogs(t, file).holds(t, at); got != [2]bool{true, true} {
		t.Errorf("behind an older mark cursors hold: %v", got)
	}
}

// An older database is written over the file under a running handle: it does
// not mix the two, also where others have committed as much again meanwhile.
func TestRestoredUnderAHandle(t *testing.T) {
	file, kept := newFile(t), newFile(t)
	open := func() *sqlite.Store {
		s, err := sqlite.Open(t.Context(), file, sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	one := func(s *sqlite.Store, w attend.Write) attend.Outcome {
		t.Helper()
		out, err := s.Commit(t.Context(), []attend.Write{w})
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	a := open()
	one(a, attend.Write{Scope: "x", Snapshot: []byte("x")})
	runSQL(t, plain(t, file), "VACUUM INTO '"+kept+"'")
	v := one(a, attend.Write{Scope: "y", Snapshot: []byte("old life")}).Version
	restoreInto(t, kept, file)
	o := open()
	one(o, attend.Write{Scope: "z", Snapshot: []byte("z")})
	one(o, attend.Write{Scope: "w", Snapshot: []byte("w")})
	if rec, err := a.Load(t.Context(), "y"); err != nil || rec.Version != 0 {
		t.Errorf("Load(y) = %+v, %v, want nothing", rec, err)
	}
	if out := one(a, attend.Write{Scope: "y", Expect: v, Snapshot: []byte("y")}); !out.Conflict() {
		t.Errorf("Commit(y) at a version of the old life = %+v, want a conflict", out)
	}
	for _, s := range []*sqlite.Store{a, o, open()} {
		for _, scope := range []attend.Scope{"x", "z", "w"} {
			if rec, err := s.Load(context.Background(), scope); err != nil || string(rec.Snapshot) != string(scope) {
				t.Errorf("Load(%s) = %+v, %v, want what is in the file", scope, rec, err)
			}
		}
	}
}
