package bolt_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// A pair is a store and an event log, in files of their own beside each other.
type pair struct {
	file, events string
	s            *bolt.Store
	log          *bolt.EventLog
}

func openPair(t *testing.T, file string, c bolt.Config) *pair {
	t.Helper()
	p := &pair{file: file, events: file + "-events", s: open(t, file, c)}
	var err error
	if p.log, err = bolt.OpenEventLog(t.Context(), p.events, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.log.Close() })
	return p
}

func (p *pair) close() error { return errors.Join(p.s.Close(), p.log.Close()) }

// A disk without room, several times over. An error says so and names the file;
// what was answered is there, and nothing else, for the handle, for who opens
// the file, and after a crash at that moment; and the same handles go on when
// there is room.
func TestSmallDisk(t *testing.T) {
	for name, budget := range map[string]int{"journal": 0, "folds": 1, "folds some": 200_000} {
		t.Run(name, func(t *testing.T) {
			onSmallDisks(t, 16<<20, func(t *testing.T, d disk) { testSmallDisk(t, d, bolt.Config{Budget: budget}) })
		})
	}
}

func testSmallDisk(t *testing.T, d disk, c bolt.Config) {
	p := openPair(t, filepath.Join(d.dir, "attend.db"), c)
	var l ledger
	commit, append := func() error { return l.commit(p.s) }, func() error { return l.append(p.log) }
	goOn := func(when string) {
		t.Helper()
		for range 5 {
			if err := errors.Join(commit(), append()); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
		if err := l.check(p.s, p.log); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	goOn("on a new disk")
	for round := range 3 {
		d.fill(t)
		for range 4 {
			noRoom(t, p.file, "Commit", commit)
			noRoom(t, p.events, "Append", append)
		}
		if err := l.check(p.s, p.log); err != nil {
			t.Fatalf("round %d, on a full disk: %v", round, err)
		}
		crashed := openPair(t, d.copied(t, p.file), c)
		if err := l.check(crashed.s, crashed.log); err != nil {
			t.Fatalf("round %d, after a crash on a full disk: %v", round, err)
		}
		d.empty(t)
		goOn("with room again")
	}
	d.fill(t)
	noRoom(t, p.file, "Commit", commit)
	// What is closed and opened now loses nothing.
	if err := p.close(); err != nil {
		t.Errorf("Close on a full disk: %v", err)
	}
	if s, err := bolt.Open(t.Context(), p.file, c); err == nil {
		s.Close()
	} else if !strings.Contains(err.Error(), p.file) {
		t.Errorf("Open on a full disk: %v, want an error that names %s", err, p.file)
	}
	d.empty(t)
	p = openPair(t, p.file, c)
	goOn("opened again")
}

// noRoom repeats a call until it fails for want of room.
func noRoom(t *testing.T, file, what string, call func() error) {
	t.Helper()
	for range 2000 {
		err := call()
		if err == nil {
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), file+":") || !strings.Contains(err.Error(), "no room is left") {
			t.Fatalf("%s on a full disk: %v, want an error that says so, names %s and is ENOSPC", what, err, file)
		}
		return
	}
	t.Fatalf("%s: the disk never gets full", what)
}

// Retention and Remove need a little room before they make some. They fail as
// commits do, or don't, and succeed with room.
func TestSmallDiskDeletes(t *testing.T) { onSmallDisks(t, 40<<20, testSmallDiskDeletes) }

func testSmallDiskDeletes(t *testing.T, d disk) {
	p := openPair(t, filepath.Join(d.dir, "attend.db"), bolt.Config{Budget: 1})
	var l ledger
	for range 50 {
		if err := l.commit(p.s); err != nil {
			t.Fatal(err)
		}
	}
	d.fill(t)
	noRoom(t, p.file, "Commit", func() error { return l.commit(p.s) })
	remove := func() error {
		err := p.s.Remove(t.Context(), "side/0")
		if err == nil {
			l.removed = "0"
		}
		return err
	}
	trim := func() error {
		err := p.s.Log().Trim(t.Context(), attend.Retain{Count: 10}, time.UnixMilli(0))
		if err == nil {
			l.trimmed = len(l.landed) - 10
		}
		return err
	}
	for what, call := range map[string]func() error{"Remove": remove, "Trim": trim} {
		if err := call(); err != nil && (!strings.Contains(err.Error(), p.file) || !strings.Contains(err.Error(), "no room is left")) {
			t.Errorf("%s on a full disk: %v, want an error that says so and names %s", what, err, p.file)
		}
		if err := l.check(p.s, p.log); err != nil {
			t.Errorf("after %s on a full disk: %v", what, err)
		}
	}
	d.empty(t)
	if err := errors.Join(remove(), trim(), l.commit(p.s)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	l.trimmed = len(l.landed) - 1 - 10
	if err := l.check(p.s, p.log); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// On a disk that can't be written to, or seen through a folder that can't,
// nothing opens and nothing is changed; root is let through no more than others.
func TestReadOnlyDisk(t *testing.T) { onSmallDisks(t, 16<<20, testReadOnlyDisk) }

func testReadOnlyDisk(t *testing.T, d disk) {
	file := filepath.Join(d.dir, "attend.db")
	var l ledger
	p := openPair(t, file, bolt.Config{})
	write := func(when string) {
		t.Helper()
		if err := errors.Join(l.commit(p.s), l.append(p.log), l.check(p.s, p.log)); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	refused := func(when, dir string, existing error) {
		t.Helper()
		for name, want := range map[string]error{"attend.db": existing, "new.db": syscall.EROFS} {
			file := filepath.Join(dir, name)
			for what, open := range map[string]func() error{
				"Open":         func() error { _, err := bolt.Open(t.Context(), file, bolt.Config{}); return err },
				"OpenEventLog": func() error { _, err := bolt.OpenEventLog(t.Context(), file, bolt.Config{}); return err },
			} {
				if err := open(); !errors.Is(err, want) || !strings.Contains(err.Error(), file) {
					t.Errorf("%s of %s %s: %v, want %v and its name", what, name, when, err, want)
				}
			}
		}
	}
	write("on a new disk")
	refused("through a read-only folder, while it is open", d.readOnlyView(t), bolt.ErrLocked)
	write("after somebody tried to open it through a read-only folder")
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	before := content(t, d.dir)
	d.readOnly(t, true)
	refused("on a read-only disk", d.dir, syscall.EROFS)
	d.readOnly(t, false)
	if after := content(t, d.dir); !maps.Equal(after, before) {
		t.Error("what can't be written to is not as it was")
	}
	p = openPair(t, file, bolt.Config{})
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
