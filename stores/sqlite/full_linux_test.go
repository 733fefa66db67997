package sqlite_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// A disk without room, several times over, in all that SQLite writes: its log,
// the index of it, and the file that the log is written back to. An error says
// so and names the file; what was answered is there, and nothing else, for
// the handle, for who opens the file, and after a crash at that moment; and the
// same handles go on when there is room.
func TestSmallDisk(t *testing.T) {
	for name, budget := range map[string]int{"journal": 0, "folds": 1, "folds some": 200_000} {
		t.Run(name, func(t *testing.T) {
			onSmallDisks(t, 16<<20, func(t *testing.T, d disk) { testSmallDisk(t, d, sqlite.Config{Budget: budget}) })
		})
	}
}

func testSmallDisk(t *testing.T, d disk, c sqlite.Config) {
	file := filepath.Join(d.dir, "attend.db")
	s, log := openStore(t, file, c), openEvents(t, file, c)
	var l ledger
	goOn := func(when string) {
		t.Helper()
		for range 5 {
			if err := l.commit(s); err != nil {
				t.Fatalf("Commit %s: %v", when, err)
			}
			if err := l.append(log); err != nil {
				t.Fatalf("Append %s: %v", when, err)
			}
		}
		if err := l.check(s, log); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	goOn("on a new disk")
	for round := range 3 {
		d.fill(t)
		noRoom(t, file, "Commit", func() error { return l.commit(s) })
		noRoom(t, file, "Append", func() error { return l.append(log) })
		// The log is written back in the background, which finds no room either.
		time.Sleep(300 * time.Millisecond)
		for range 3 {
			noRoom(t, file, "another Commit", func() error { return l.commit(s) })
			noRoom(t, file, "another Append", func() error { return l.append(log) })
		}
		if err := l.check(s, log); err != nil {
			t.Fatalf("round %d, on a full disk: %v", round, err)
		}
		crashed := d.copied(t, file)
		if err := l.check(openStore(t, crashed, c), openEvents(t, crashed, c)); err != nil {
			t.Fatalf("round %d, after a crash on a full disk: %v", round, err)
		}
		d.empty(t)
		goOn("with room again")
	}
	d.fill(t)
	noRoom(t, file, "Commit", func() error { return l.commit(s) })
	// What is closed and opened now loses nothing.
	if err := errors.Join(s.Close(), log.Close()); err != nil {
		t.Errorf("Close on a full disk: %v", err)
	}
	if s, err := sqlite.Open(t.Context(), file, c); err == nil {
		s.Close()
	} else if !strings.Contains(err.Error(), file) {
		t.Errorf("Open on a full disk: %v, want an error that names %s", err, file)
	}
	d.empty(t)
	s, log = openStore(t, file, c), openEvents(t, file, c)
	goOn("opened again")
}

// Retention and Remove need a little room before they make some. They fail as
// commits do, or don't, and succeed with room.
func TestSmallDiskDeletes(t *testing.T) { onSmallDisks(t, 40<<20, testSmallDiskDeletes) }

func testSmallDiskDeletes(t *testing.T, d disk) {
	file := filepath.Join(d.dir, "attend.db")
	c := sqlite.Config{Budget: 1}
	s, log := openStore(t, file, c), openEvents(t, file, c)
	var l ledger
	for range 50 {
		if err := l.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	d.fill(t)
	noRoom(t, file, "Commit", func() error { return l.commit(s) })
	remove := func() error {
		err := s.Remove(t.Context(), "side/0")
		if err == nil {
			l.removed = "0"
		}
		return err
	}
	trim := func() error {
		err := s.Log().Trim(t.Context(), attend.Retain{Count: 10}, time.UnixMilli(0))
		if err == nil {
			l.trimmed = len(l.landed) - 10
		}
		return err
	}
	for what, call := range map[string]func() error{"Remove": remove, "Trim": trim} {
		if err := call(); err != nil && (!strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "no room is left")) {
			t.Errorf("%s on a full disk: %v, want an error that says so and names %s", what, err, file)
		}
		if err := l.check(s, log); err != nil {
			t.Errorf("after %s on a full disk: %v", what, err)
		}
	}
	d.empty(t)
	if err := errors.Join(remove(), trim(), l.commit(s)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	l.trimmed = len(l.landed) - 1 - 10
	if err := l.check(s, log); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// noRoom repeats a call until it fails for want of room.
func noRoom(t *testing.T, file, what string, call func() error) {
	t.Helper()
	for range 2000 {
		err := call()
		if err == nil {
			continue
		}
		if e, ok := errors.AsType[sqlite3.Error](err); !ok || !errors.Is(e.Code, sqlite3.ErrFull) ||
			!strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "no room is left") {
			t.Fatalf("%s on a full disk: %v, want an error that says so, names %s and has SQLite's own", what, err, file)
		}
		return
	}
	t.Fatalf("%s: the disk never gets full", what)
}

// On a disk that can't be written to, or seen through a folder that can't,
// nothing opens and nothing is changed; root is let through no more than others.
func TestReadOnlyDisk(t *testing.T) { onSmallDisks(t, 16<<20, testReadOnlyDisk) }

func testReadOnlyDisk(t *testing.T, d disk) {
	file := filepath.Join(d.dir, "attend.db")
	var l ledger
	s, log := openStore(t, file, sqlite.Config{}), openEvents(t, file, sqlite.Config{})
	write := func(when string) {
		t.Helper()
		if err := errors.Join(l.commit(s), l.append(log), l.check(s, log)); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	refused := func(when, dir string) {
		t.Helper()
		for _, name := range []string{"attend.db", "new.db"} {
			file := filepath.Join(dir, name)
			for what, open := range map[string]func() error{
				"Open":         func() error { _, err := sqlite.Open(t.Context(), file, sqlite.Config{}); return err },
				"OpenEventLog": func() error { _, err := sqlite.OpenEventLog(t.Context(), file, sqlite.Config{}); return err },
			} {
				err := open()
				if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), file+": it can't be") || strings.Contains(err.Error(), "no such file") {
					t.Errorf("%s of %s %s: %v, want an error that names it, says that the disk is read-only, and not that there is no such file",
						what, name, when, err)
				}
			}
		}
	}
	write("on a new disk")
	refused("through a read-only folder, while it is open", d.readOnlyView(t))
	write("after somebody tried to open it through a read-only folder")
	if err := errors.Join(s.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	before := content(t, d.dir)
	d.readOnly(t, true)
	refused("on a read-only disk", d.dir)
	d.readOnly(t, false)
	if after := content(t, d.dir); !maps.Equal(after, before) {
		t.Error("what can't be written to is not as it was")
	}
	s, log = openStore(t, file, sqlite.Config{}), openEvents(t, file, sqlite.Config{})
	write("opened again")
}

// content is what the files of a folder hold.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() { // lost+found
			continue
		}
		b, rerr := os.ReadFile(filepath.Join(dir, e.Name()))
		files[e.Name()], err = string(b), errors.Join(err, rerr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}
