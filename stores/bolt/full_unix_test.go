//go:build linux || darwin

package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// A file or a folder that can't be written to. Root may write anything, so it
// is a child of another user that tries.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	file, _ := made(t)
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o555); err != nil {
		t.Fatal(err)
	}
	var setup func(*exec.Cmd)
	if os.Geteuid() == 0 {
		self := filepath.Join(dir, "child")
		b, err := os.ReadFile(os.Args[0])
		if err == nil {
			err = os.WriteFile(self, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
			os.Chmod(d, 0o755)
		}
		for d := filepath.Dir(file); len(d) > len(os.TempDir()); d = filepath.Dir(d) {
			os.Chmod(d, 0o755)
		}
		setup = func(cmd *exec.Cmd) {
			cmd.Path, cmd.Dir = self, "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
	}
	if err := os.Chmod(file, 0o444); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, filepath.Join(locked, "new.db")} {
		c := start(t, "open", f, setup)
		if line := c.line(t); !strings.HasPrefix(line, "error: bolt: open: ") || !strings.Contains(line, f) || !strings.Contains(line, "permission denied") {
			t.Errorf("Open of %s without the right to write: %q, want an error with its name", f, line)
		}
		c.wait(t)
	}
}

// fills commits until there is no room, makes room, and goes on. What was
// answered is there, and nothing of what was not, or all of it.
func fills(s *bolt.Store, most int, makeRoom func() error) (full, err error) {
	ctx := context.Background()
	acked := 0
	version := uint64(0)
	for i := 0; full == nil; i++ {
		if i == most {
			return nil, errors.New("it never gets full")
		}
		group := []attend.Write{{Scope: "counter", Expect: version, Inputs: [][]byte{make([]byte, 8000)},
			Rows: []attend.Row{rowOf("counter", fmt.Sprint(i), attend.RowDecision, 1)}}}
		for k := range 5 {
			group = append(group, attend.Write{Scope: attend.Scope(fmt.Sprint(i, "-", k)), Snapshot: make([]byte, 20_000)})
		}
		out, err := s.Commit(ctx, group)
		if full = err; err == nil {
			acked, version = acked+1, out[0].Version
		}
	}
	check := func() error {
		rec, err := s.Load(ctx, "counter")
		if err != nil {
			return err
		}
		rows := 0
		for _, err := range s.Log().Read(ctx, decisions) {
			if err != nil {
				return err
			}
			rows++
		}
		last, err := s.Load(ctx, attend.Scope(fmt.Sprint(len(rec.Tail)-1, "-4")))
		if err != nil {
			return err
		}
		if len(rec.Tail) != acked && len(rec.Tail) != acked+1 || rows != len(rec.Tail) || len(last.Snapshot) != 20_000 {
			return fmt.Errorf("%d commits were answered; there are %d inputs, %d rows, and the newest scope has %d bytes", acked, len(rec.Tail), rows, len(last.Snapshot))
		}
		return nil
	}
	if err := check(); err != nil {
		return full, fmt.Errorf("without room: %w", err)
	}
	if err := makeRoom(); err != nil {
		return full, err
	}
	if err := try(s, attend.Write{Scope: "more", Snapshot: make([]byte, 20_000)}); err != nil {
		return full, fmt.Errorf("with room again: %w", err)
	}
	if err := check(); err != nil {
		return full, fmt.Errorf("with room again: %w", err)
	}
	return full, nil
}

// A limit on the size of files is a full disk where none can be mounted. A child
// sets it.
func TestFileLimit(t *testing.T) {
	file := newFile(t)
	c := start(t, "limit", file, nil)
	if line := c.line(t); !strings.HasPrefix(line, "full: bolt: ") || !strings.Contains(line, file) {
		t.Errorf("child: %s", line)
	}
	c.wait(t)
}

func limitJob(ctx context.Context, file string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	s, err := bolt.Open(ctx, file, bolt.Config{})
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	small := limit
	small.Cur = uint64(info.Size()) + 1<<20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	full, err := fills(s, 10_000, func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit) })
	if err != nil {
		return fmt.Errorf("%w; at the limit: %w", err, full)
	}
	fmt.Println("full:", full)
	return nil
}
