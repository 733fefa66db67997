package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// remove deletes a database's files.
func remove(t testing.TB, file string) {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + end); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// A handle whose file is gone, or another one, says so: what it wrote would be
// in no file, and what it read might be somebody else's.
func TestReplacedWhileOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can't be deleted")
	}
	for _, c := range []struct {
		name    string
		replace func(file string)
		now     bool // there is a file in the end
	}{
		{"deleted", func(file string) { remove(t, file) }, false},
		{"moved away", func(file string) {
			if err := os.Rename(file, file+"-old"); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"replaced", func(file string) {
			other := made(t)
			remove(t, file)
			if err := os.Rename(other, file); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		file := newFile(t)
		s, err := sqlite.Open(t.Context(), file, sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := sqlite.OpenEventLog(t.Context(), file, sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, attend.Write{Scope: "mine", Snapshot: []byte("x")})
		c.replace(file)
		check := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, sqlite.ErrReplaced) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: %s = %v, want ErrReplaced with the file's name", c.name, what, err)
			}
		}
		_, err = s.Commit(t.Context(), []attend.Write{{Scope: "new"}})
		check("Commit", err)
		check("Append", l.Append(t.Context(), "ops", []attend.Event{{ID: "e", Name: "e"}}))
		time.Sleep(150 * time.Millisecond) // readers look now and then
		for range 2 {
			_, err = s.Load(t.Context(), "mine")
			check("Load", err)
			_, err = s.Log().Bounds(t.Context())
			check("Bounds", err)
		}
		if _, err := os.Stat(file); err == nil != c.now {
			t.Errorf("%s: there is a file in its place (%v), want that to be %v", c.name, err, c.now)
		}
		if err := errors.Join(s.Close(), l.Close()); err != nil {
			t.Errorf("%s: Close = %v", c.name, err)
		}
	}
}

// A connection that is made after the file was replaced does not read the other
// one.
func TestReplacedBeforeItIsRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can't be deleted")
	}
	file, other := newFile(t), made(t)
	var reading []*sqlite.Store
	for range 2 {
		s, err := sqlite.Open(t.Context(), file, sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		reading = append(reading, s)
	}
	remove(t, file)
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	// More at a time than there are connections.
	errs := make(chan error)
	for i := range 16 {
		go func() {
			q := attend.Query{Prefix: "ops"}
			for _, err := range reading[i%2].Log().Read(context.Background(), q) {
				if err == nil {
					err = errors.New("a row")
				}
				errs <- err
				return
			}
			errs <- nil
		}()
	}
	for range 16 {
		if err := <-errs; err != nil && !errors.Is(err, sqlite.ErrReplaced) {
			t.Errorf("Read in a store whose file was replaced yields %v of the other one", err)
		}
	}
}

// The handle of the file that was there before leaves the log of the new one
// alone.
func TestReplacedIsLeftAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can't be deleted")
	}
	file := newFile(t)
	old, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, old, attend.Write{Scope: "old"})
	remove(t, file)
	now, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer now.Close()
	put(t, now, attend.Write{Scope: "new"})
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	for _, end := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(file + end); err != nil {
			t.Errorf("after Close of the old handle: %v", err)
		}
	}
	again, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	put(t, now, attend.Write{Scope: "newer"})
	for _, scope := range []attend.Scope{"new", "newer"} {
		if rec, err := again.Load(t.Context(), scope); err != nil || rec.Version == 0 {
			t.Errorf("Load(%q) = %+v, %v, want what was committed", scope, rec, err)
		}
	}
	if files, err := filepath.Glob(file + "*"); err != nil || len(files) != 4 {
		t.Errorf("files are %q (%v), want the file, its log of two, and the mark", files, err)
	}
}
