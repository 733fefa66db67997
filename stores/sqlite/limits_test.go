//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// What may not be written to can only be seen by who is not root.
func TestReadOnly(t *testing.T) {
	for _, c := range []struct {
		name         string
		folder, file os.FileMode
		why          string
	}{
		{"file", 0o777, 0o444, "it can't be written to: attempt"},
		{"folder", 0o555, 0o666, "no file can be made in its folder: permission denied"},
		{"empty folder", 0o555, 0, "no file can be made in its folder: permission denied"},
		{"secret file", 0o777, 0, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "attend-readonly")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "attend.db")
			t.Cleanup(func() {
				os.Chmod(dir, 0o777)
				os.RemoveAll(dir)
			})
			if c.name != "empty folder" {
				s, err := sqlite.Open(t.Context(), file, sqlite.Config{})
				if err == nil {
					err = errors.Join(s.Close(), os.Chmod(file, c.file))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, c.folder); err != nil {
				t.Fatal(err)
			}
			r := start(t, job{Do: "readonly", File: file}).wait(t)
			if !strings.Contains(r.Err, file) || !strings.Contains(r.Err, c.why) || strings.Contains(r.Err, "no such file") {
				t.Errorf("Open = %q, want an error that names %s and says %q", r.Err, file, c.why)
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
				t.Errorf("it leaves %q (%v)", left, err)
			}
		})
	}
}

func readonlyJob(ctx context.Context, j job) ([]string, error) {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			return nil, err
		}
	}
	s, err := sqlite.Open(ctx, j.File, sqlite.Config{})
	if err == nil {
		err = s.Close()
	}
	return nil, err
}

// A disk that is full is one that a process may not write more to.
func TestDiskFull(t *testing.T) {
	file := newFile(t)
	done := start(t, job{Do: "full", File: file}).ok(t)
	t.Log(done)
	// The next process finds what was acknowledged, and nothing else.
	s := openStore(t, file, sqlite.Config{})
	rec, err := s.Load(t.Context(), "ops")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(rec.Tail)); got != done[0] {
		t.Errorf("the scope has %s inputs, want the %s that were acknowledged", got, done[0])
	}
	n := 0
	for _, err := range s.Log().Read(t.Context(), attend.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if got := fmt.Sprint(n); got != done[0] {
		t.Errorf("the log has %s rows, want %s", got, done[0])
	}
}

// fullJob writes until no more is let in, checks what is there, and goes on
// when it is. It returns how many writes landed.
func fullJob(ctx context.Context, j job) ([]string, error) {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := sqlite.Open(ctx, j.File, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	version, landed := uint64(0), 0
	write := func() error {
		out, err := s.Commit(ctx, []attend.Write{{
			Scope: "ops", Expect: version, Inputs: [][]byte{make([]byte, 20_000)},
			Rows: []attend.Row{{Scope: "ops", ID: attend.DecisionID(fmt.Sprint(landed)), Type: attend.RowDecision, Body: make([]byte, 20_000)}},
		}})
		if err != nil {
			return err
		}
		if out[0].Conflict() {
			return errors.New("a conflict: something landed of a write that failed")
		}
		version, landed = out[0].Version, landed+1
		return nil
	}
	limit := func(n uint64) error {
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: math.MaxUint64})
	}
	if err := limit(1 << 20); err != nil {
		return nil, err
	}
	for range 200 {
		if err = write(); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), j.File) {
		return nil, fmt.Errorf("Commit on a full disk = %v, want an error that names the file", err)
	}
	text := err.Error()
	for range 5 {
		if err := write(); err == nil {
			return nil, errors.New("Commit on a full disk = nil after it had failed")
		}
	}
	rec, err := s.Load(ctx, "ops")
	if err != nil || len(rec.Tail) != landed {
		return nil, fmt.Errorf("on a full disk, Load has %d inputs (%v), want %d", len(rec.Tail), err, landed)
	}
	if err := limit(math.MaxUint64); err != nil {
		return nil, err
	}
	for range 100 {
		if err := write(); err != nil {
			return nil, fmt.Errorf("with room again: %w", err)
		}
	}
	return []string{fmt.Sprint(landed), text}, nil
}
