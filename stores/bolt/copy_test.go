package bolt_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// logs are both logs of a file, that a reader follows.
type logs struct {
	db     *bbolt.DB
	store  *bolt.Store
	events *bolt.EventLog
	n      int
}

func openLogs(t testing.TB, file string) *logs {
	t.Helper()
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := bolt.NewEventLog(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { errors.Join(s.Close(), l.Close(), db.Close()) })
	return &logs{db: db, store: s, events: l}
}

func (l *logs) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(l.store.Close(), l.events.Close(), l.db.Close()); err != nil {
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
		w.Rows = append(w.Rows, rowOf("ops", fmt.Sprint(l.n), attend.RowDecision, 0))
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A copy that is put in the file's place has other rows at positions that
// readers have read past: they must hear that.
func TestCopyIsAnotherLife(t *testing.T) {
	for _, c := range []struct {
		name string
		put  func(kept, file string)
	}{
		{"renamed into place", func(kept, file string) { must(t, os.Rename(kept, file)) }},
		{"copied into place", func(kept, file string) { must(t, os.Remove(file)); copyFile(t, kept, file) }},
		{"written over the file", func(kept, file string) { copyFile(t, kept, file) }},
		{"copied into place with the mark gone", func(kept, file string) {
			must(t, errors.Join(os.Remove(file), os.Remove(file+"-mark")))
			copyFile(t, kept, file)
		}},
	} {
		file, kept := newFile(t), newFile(t)
		l := openLogs(t, file)
		l.add(t, 50)
		before := l.end(t)
		must(t, l.db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(kept, 0o600) }))
		l.add(t, 50)
		at := l.end(t)
		l.close(t)
		c.put(kept, file)
		l = openLogs(t, file)
		l.add(t, 60)
		for name, p := range map[string]place{"rows that are lost": at, "rows of the copy": before} {
			if got := l.holds(t, p); got != [2]bool{} {
				t.Errorf("%s: cursors behind %s hold: %v, want them truncated", c.name, name, got)
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

// A copy beside the file goes its own way, and what is no copy keeps its
// readers.
func TestSameLife(t *testing.T) {
	dir, beside := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "attend.db")
	l := openLogs(t, file)
	l.add(t, 5)
	at := l.end(t)
	l.close(t)
	for _, end := range []string{"", "-mark"} {
		copyFile(t, file+end, filepath.Join(beside, "attend.db"+end))
	}
	if runtime.GOOS != "windows" {
		if got := openLogs(t, filepath.Join(beside, "attend.db")).holds(t, at); got != [2]bool{} {
			t.Errorf("cursors hold in a copy: %v, want them truncated", got)
		}
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"opened again", func() {}},
		{"without a mark", func() { os.Remove(file + "-mark") }},
		{"with a damaged mark", func() { must(t, os.WriteFile(file+"-mark", []byte("attend x 1"), 0o600)) }},
		{"renamed", func() {
			must(t, os.Rename(file, file+"-now"))
			file += "-now"
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

// A handle whose file is gone, or another one, says so: what it wrote would be
// in no file.
func TestReplacedWhileOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can't be deleted")
	}
	for name, replace := range map[string]func(file string){
		"deleted":    func(file string) { must(t, os.Remove(file)) },
		"moved away": func(file string) { must(t, os.Rename(file, file+"-old")) },
		"replaced": func(file string) {
			other := newFile(t)
			must(t, open(t, other, bolt.Config{}).Close())
			must(t, os.Rename(other, file))
		},
	} {
		file := newFile(t)
		s := open(t, file, bolt.Config{})
		put(t, s, attend.Write{Scope: "mine"})
		mark, err := os.ReadFile(file + "-mark")
		must(t, err)
		replace(file)
		time.Sleep(150 * time.Millisecond) // readers look now and then
		_, load := s.Load(t.Context(), "mine")
		_, commit := s.Commit(t.Context(), []attend.Write{{Scope: "new"}})
		for what, err := range map[string]error{"Load": load, "Commit": commit} {
			if !errors.Is(err, bolt.ErrReplaced) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: %s = %v, want ErrReplaced with the file's name", name, what, err)
			}
		}
		must(t, s.Close())
		if now, err := os.ReadFile(file + "-mark"); err != nil || string(now) != string(mark) {
			t.Errorf("%s: the mark is %q (%v), want it as it was", name, now, err)
		}
	}
}
