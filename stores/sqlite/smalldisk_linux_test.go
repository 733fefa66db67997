package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// A disk is a small file system of the test's own.
type disk struct{ dir string }

// onSmallDisks runs a test on new disks of so many bytes: one in memory, and
// one of a real file system, whose syncs are some. They go with the test.
func onSmallDisks(t *testing.T, size int64, f func(*testing.T, disk)) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("only root can mount a small disk")
			}
			d := disk{mountPoint(t)}
			if kind == "tmpfs" {
				if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
					t.Skipf("no small disk can be mounted here: %v", err)
				}
			} else {
				image := filepath.Join(t.TempDir(), "image")
				if err := os.WriteFile(image, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(image, size); err != nil {
					t.Fatal(err)
				}
				// SQLite takes the room for its shared memory by a byte in each 4 KiB. On
				// smaller blocks, which small disks have of themselves, the rest of them
				// may be missing when it is used, and the system ends the process.
				for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", image}, {"mount", "-o", "loop", image, d.dir}} {
					if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
						t.Skipf("no file system in a file can be mounted here: %s: %v, %s", args[0], err, out)
					}
				}
			}
			t.Cleanup(func() { unmount(t, d.dir) })
			f(t, d)
		})
	}
}

// mountPoint is a new folder, by the name that the system has for it.
func mountPoint(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// unmount fails where somebody still has a file open there, and leaves nothing
// mounted in any case.
func unmount(t *testing.T, dir string) {
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Errorf("unmount %s: %v", dir, err)
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("detach %s: %v", dir, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), " "+dir+" ") {
		t.Errorf("%s is still mounted (%v)", dir, err)
	}
}

// fill leaves not one page on the disk.
func (d disk) fill(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk ends with %v, want ENOSPC", err)
	}
}

func (d disk) empty(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		t.Fatal(err)
	}
}

func (d disk) filler() string { return filepath.Join(d.dir, "filler") }

// readOnly lets nobody write to the disk, or lets them again.
func (d disk) readOnly(t *testing.T, on bool) {
	t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if on {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("", d.dir, "", flags, ""); err != nil {
		t.Fatalf("remount: %v", err)
	}
}

// readOnlyView is the same disk at a place where nobody can write to it.
func (d disk) readOnlyView(t *testing.T) string {
	t.Helper()
	dir := mountPoint(t)
	if err := syscall.Mount(d.dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Fatalf("bind: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("remount: %v", err)
	}
	return dir
}

// copied is what a crash at this moment would leave: a copy of the files, made
// by another process, since who closes a file here gives up its locks.
func (d disk) copied(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	parts, err := filepath.Glob(file + "*")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", append(parts, dir)...).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v, %s", err, out)
	}
	return filepath.Join(dir, filepath.Base(file))
}

// A ledger is what a store and an event log have answered, against which both
// are checked. Its commits are numbered; each brings an input and a row, and a
// scope of its own.
type ledger struct {
	next    int
	version uint64 // of the scope that all commits write
	landed  []string
	events  []string
	removed string // the commit whose own scope was removed
	trimmed int    // how many of the oldest rows were
}

const snapshotSize = 20_000

// commit writes the next group. One that fails changes nothing here, so that
// anything it has left makes the next one a conflict.
func (l *ledger) commit(s attend.ScopeStore) error {
	id := fmt.Sprint(l.next)
	l.next++
	input := append([]byte(id+" "), make([]byte, 8000)...)
	out, err := s.Commit(context.Background(), []attend.Write{
		{Scope: "counter", Expect: l.version, Inputs: [][]byte{input},
			Rows: []attend.Row{{Scope: "counter", ID: attend.DecisionID(id), Type: attend.RowDecision, Body: make([]byte, 1000)}}},
		{Scope: attend.Scope("side/" + id), Snapshot: make([]byte, snapshotSize)},
	})
	if err != nil {
		return err
	}
	for _, o := range out {
		if o.Conflict() {
			return fmt.Errorf("commit %s is a conflict: something is left of one that failed", id)
		}
	}
	l.version, l.landed = out[0].Version, append(l.landed, id)
	return nil
}

// append writes an event. One that failed is sent again, as a source does.
func (l *ledger) append(log attend.EventLog) error {
	id := fmt.Sprint("event-", len(l.events))
	e := attend.Event{ID: id, Name: "n", Text: strings.Repeat("x", 20_000)}
	err := log.Append(context.Background(), "ops", []attend.Event{e})
	if err == nil {
		l.events = append(l.events, id)
	}
	return err
}

// check compares all of it.
func (l *ledger) check(s attend.ScopeStore, log attend.EventLog) error {
	ctx := context.Background()
	rec, err := s.Load(ctx, "counter")
	if err != nil {
		return err
	}
	var inputs, rows, events []string
	for _, in := range rec.Tail {
		id, _, _ := strings.Cut(string(in), " ")
		inputs = append(inputs, id)
	}
	for e, err := range s.Log().Read(ctx, attend.Query{}) {
		if err != nil {
			return err
		}
		rows = append(rows, string(e.ID))
	}
	for b, err := range log.Batches(ctx, "ops", "") {
		if err != nil {
			return err
		}
		for _, e := range b.Events {
			events = append(events, e.ID)
		}
	}
	for i := range l.next {
		id := fmt.Sprint(i)
		rec, err := s.Load(ctx, attend.Scope("side/"+id))
		if err != nil {
			return err
		}
		want := 0
		if slices.Contains(l.landed, id) && id != l.removed {
			want = snapshotSize
		}
		if len(rec.Snapshot) != want || want == 0 && rec.Version != 0 {
			return fmt.Errorf("the scope of commit %s has %d bytes at version %d, want %d bytes", id, len(rec.Snapshot), rec.Version, want)
		}
	}
	for _, x := range []struct {
		what      string
		got, want []string
	}{{"inputs", inputs, l.landed}, {"rows", rows, l.landed[l.trimmed:]}, {"events", events, l.events}} {
		if !slices.Equal(x.got, x.want) {
			return fmt.Errorf("the %s are %v, want %v", x.what, x.got, x.want)
		}
	}
	return nil
}
