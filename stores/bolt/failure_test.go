package bolt_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// made is a file that has a store with a bit of everything.
func made(t testing.TB) (file string, content []byte) {
	t.Helper()
	file = newFile(t)
	s := open(t, file, bolt.Config{Budget: 2000})
	fill(t, s)
	put(t, s, attend.Write{Scope: "huge", Snapshot: make([]byte, 50_000)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0) // of what is in use
	if err := db.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	content, err = os.ReadFile(file)
	if err == nil {
		content = content[:size]
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file, content
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	_, good := made(t)
	foreign := filepath.Join(dir, "foreign.db")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	write := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, c := range []struct {
		name, file string
		is         error
		says       string
	}{
		{"no path", "", attend.ErrInvalid, "file"},
		{"a folder", dir, nil, "no regular file"},
		{"a folder that isn't there", filepath.Join(dir, "no", "x.db"), os.ErrNotExist, "x.db"},
		{"a path through a file", filepath.Join(foreign, "x.db"), nil, "x.db"},
		{"text", write("text", []byte(strings.Repeat("not a database\n", 2000))), attend.ErrCorrupt, "no bbolt database"},
		{"a few bytes", write("few", []byte("x")), attend.ErrCorrupt, "few"},
		{"zeros", write("zeros", make([]byte, 1<<16)), attend.ErrCorrupt, "no bbolt database"},
		{"a database of something else", foreign, nil, "none of attend's buckets"},
		{"a file cut to one page", write("page", good[:4096]), attend.ErrCorrupt, "too small"},
		{"a file cut to two pages", write("pages", good[:2*4096]), attend.ErrCorrupt, "cut off"},
		{"a file cut in the middle", write("middle", good[:len(good)/2]), attend.ErrCorrupt, "cut off"},
	} {
		for what, f := range map[string]func() error{
			"Open":         func() error { _, err := bolt.Open(t.Context(), c.file, bolt.Config{}); return err },
			"OpenEventLog": func() error { _, err := bolt.OpenEventLog(t.Context(), c.file, bolt.Config{}); return err },
		} {
			err := f()
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.file) ||
				!strings.HasPrefix(err.Error(), "bolt: open: ") {
				t.Errorf("%s of %s: %v, want an error that is %v and says %q and the file", what, c.name, err, c.is, c.says)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bolt.Open(ctx, filepath.Join(dir, "new.db"), bolt.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a context that ended: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new.db")); err == nil {
		t.Error("and the file is there")
	}
}

// Wrong bytes anywhere in the file are an error that names it, or do no harm;
// they never end the process or a call that doesn't come back.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	_, good := made(t)
	used := len(good)
	failed := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		bad := append([]byte{}, good...)
		for range 1 + r.IntN(4) {
			at := r.IntN(used)
			if r.IntN(2) == 0 {
				at = at &^ 4095 // in a page's head and elements
				at += r.IntN(64)
			}
			switch r.IntN(3) {
			case 0:
				bad[at] ^= 1 << r.IntN(8)
			case 1:
				bad[at] = byte(r.Uint32())
			default:
				binary.NativeEndian.PutUint32(bad[at&^3:], r.Uint32())
			}
		}
		if r.IntN(8) == 0 { // a page in the place of another one
			copy(bad[r.IntN(used/4096)*4096:][:4096], good[r.IntN(used/4096)*4096:])
		}
		file := filepath.Join(dir, fmt.Sprint(seed, ".db"))
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- use(file) }()
		select {
		case err := <-done:
			if err != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("seed %d: an error that does not name the file: %v", seed, err)
			}
			if err != nil {
				failed++
			}
			os.Remove(file)
		case <-time.After(20 * time.Second):
			t.Fatalf("seed %d: it hangs", seed)
		}
	}
	if failed < 100 {
		t.Errorf("%d of 400 damaged files are noticed", failed)
	}
}

// use does all that a store does, until there is an error.
func use(file string) (err error) {
	ctx := context.Background()
	s, err := bolt.Open(ctx, file, bolt.Config{Budget: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for i := range 25 {
		scope := attend.Scope(fmt.Sprint("ops/", i))
		if i == 24 {
			scope = "huge"
		}
		rec, err := s.Load(ctx, scope)
		if err != nil {
			return err
		}
		_, err = s.Commit(ctx, []attend.Write{{Scope: scope, Expect: rec.Version, Inputs: [][]byte{make([]byte, 100)}, Due: time.UnixMilli(int64(i)),
			Rows: []attend.Row{rowOf(scope, "d", attend.RowDecision, 1)}}})
		if err != nil {
			return err
		}
	}
	for _, err := range s.Due(ctx, time.UnixMilli(1<<40)) {
		if err != nil {
			return err
		}
	}
	for _, q := range []attend.Query{decisions, verdicts} {
		for _, err := range s.Log().Read(ctx, q) {
			if err != nil {
				return err
			}
		}
	}
	if _, err := s.Log().Find(ctx, "d3", ""); err != nil && !errors.Is(err, attend.ErrNotFound) {
		return err
	}
	return s.Log().Trim(ctx, attend.Retain{Count: 3, Verdicts: 3}, time.UnixMilli(0))
}

// A file that loses its end while it is open is an error as well.
func TestCutWhileOpen(t *testing.T) {
	file, _ := made(t)
	s := open(t, file, bolt.Config{})
	if err := os.Truncate(file, 3*4096); err != nil {
		t.Fatal(err)
	}
	var err error
	for _, err = range s.Log().Read(t.Context(), decisions) {
	}
	if !errors.Is(err, attend.ErrCorrupt) || !strings.Contains(err.Error(), file) {
		t.Errorf("Read: %v, want ErrCorrupt with the file's name", err)
	}
	_, err = s.Commit(t.Context(), []attend.Write{{Scope: "new", Inputs: [][]byte{nil}}})
	if !errors.Is(err, attend.ErrCorrupt) || !strings.Contains(err.Error(), file) {
		t.Errorf("Commit: %v, want ErrCorrupt with the file's name", err)
	}
	_, again := s.Commit(t.Context(), []attend.Write{{Scope: "new", Inputs: [][]byte{nil}}})
	if !errors.Is(again, attend.ErrCorrupt) {
		t.Errorf("another Commit: %v, want ErrCorrupt", again)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := bolt.Open(t.Context(), file, bolt.Config{}); !errors.Is(err, attend.ErrCorrupt) {
		t.Errorf("Open afterwards: %v, want ErrCorrupt: no lock is held any more", err)
	}
}

func TestNewer(t *testing.T) {
	file, _ := made(t)
	setVersion := func(v []byte) {
		t.Helper()
		db, err := bbolt.Open(file, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("attend/meta")).Put([]byte("version"), v) }); err != nil {
			t.Fatal(err)
		}
	}
	setVersion([]byte{0, 0, 0, 0, 0, 0, 0, 9})
	_, err := bolt.Open(t.Context(), file, bolt.Config{})
	if !errors.Is(err, attend.ErrNewer) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("Open of version 9: %v, want ErrNewer with the file and the version", err)
	}
	setVersion([]byte("x"))
	if _, err := bolt.Open(t.Context(), file, bolt.Config{}); !errors.Is(err, attend.ErrCorrupt) {
		t.Errorf("Open without a version: %v, want ErrCorrupt", err)
	}
}

// A later release brings a file up to date, all of it or nothing.
func TestMigrate(t *testing.T) {
	file, _ := made(t)
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	extra := []byte("attend/extra")
	step := func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(extra); return err }
	broken := errors.New("broken")
	if err := bolt.Migrate(db, step, func(*bbolt.Tx) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("a step that fails: %v", err)
	}
	s, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatalf("after a step that failed: %v", err)
	}
	s.Close()
	for range 2 {
		if err := bolt.Migrate(db, step); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bolt.New(t.Context(), db, bolt.Config{}); !errors.Is(err, attend.ErrNewer) {
		t.Errorf("New after it was migrated: %v, want ErrNewer", err)
	}
}

// A commit that is written but not synced is not shown; nobody may act on it.
func TestReadsWaitForTheDisk(t *testing.T) {
	db := database(t)
	s, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("x")})
	writer, err := db.Begin(true) // as if the newest transaction were not over
	if err != nil {
		t.Fatal(err)
	}
	bolt.Unsynced(s)
	loaded := make(chan error, 1)
	go func() {
		_, err := s.Load(context.Background(), "ops")
		loaded <- err
	}()
	select {
	case err := <-loaded:
		t.Errorf("Load shows what may not be on the disk: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	writer.Rollback()
	if err := <-loaded; err != nil {
		t.Errorf("Load: %v", err)
	}
}

// After a sync that failed nobody knows what the disk has.
func TestFailedSync(t *testing.T) {
	file := newFile(t)
	s := open(t, file, bolt.Config{})
	put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("x")})
	if err := bolt.Fail(s, false); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a transaction that nobody sees: %v", err)
	}
	put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("y")}) // that one left nothing
	if err := bolt.Fail(s, true); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a transaction that is seen and not synced: %v", err)
	}
	_, load := s.Load(t.Context(), "ops")
	_, commit := s.Commit(t.Context(), []attend.Write{{Scope: "new"}})
	_, bounds := s.Log().Bounds(t.Context())
	for _, err := range []error{load, commit, bounds} {
		if err == nil || !strings.Contains(err.Error(), "opened anew") || !strings.Contains(err.Error(), file) {
			t.Errorf("afterwards: %v, want an error that says so", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	again := open(t, file, bolt.Config{})
	if rec, err := again.Load(t.Context(), "ops"); err != nil || string(rec.Snapshot) != "y" {
		t.Errorf("opened again, Load = %q, %v", rec.Snapshot, err)
	}
}

func TestPanic(t *testing.T) {
	file := newFile(t)
	s := open(t, file, bolt.Config{})
	fail := func(*bbolt.Tx) error { panic("page 7: assertion failed") }
	for what, err := range map[string]error{"a write": bolt.Update(t.Context(), s, fail), "a read": bolt.View(t.Context(), s, fail)} {
		if !errors.Is(err, attend.ErrCorrupt) || !strings.Contains(err.Error(), "page 7") || !strings.Contains(err.Error(), file) {
			t.Errorf("a panic of bbolt's in %s: %v, want ErrCorrupt with the file's name", what, err)
		}
		put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{nil}}) // it holds no lock
	}
}

// A commit that is too large says so with the file's name, and that nothing of
// it was written.
func TestTooLarge(t *testing.T) {
	file := newFile(t)
	s := open(t, file, bolt.Config{})
	big := make([]byte, 8<<20) // the same one for each, so that nobody needs the memory
	var writes []attend.Write
	for i := range 65 {
		writes = append(writes, attend.Write{Scope: attend.Scope(rune('a' + i)), Snapshot: big})
	}
	_, err := s.Commit(t.Context(), writes)
	if !errors.Is(err, attend.ErrTooLarge) || !strings.Contains(err.Error(), file) {
		t.Errorf("Commit of 520 MiB = %v, want ErrTooLarge with the file's name", err)
	}
	if rec, err := s.Load(t.Context(), "a"); err != nil || rec.Version != 0 {
		t.Errorf("Load = %d, %v, want nothing", rec.Version, err)
	}
}
