package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/stores/bolt"
)

// What a child process does, and to which file.
const (
	childJob  = "ATTEND_BOLT_JOB"
	childFile = "ATTEND_BOLT_FILE"
)

// TestChild does a job in a child process, and prints a line. It is no test by
// itself.
func TestChild(t *testing.T) {
	job := os.Getenv(childJob)
	if job == "" {
		t.Skip("this is what a child of other tests runs")
	}
	if err := jobs()[job](t.Context(), os.Getenv(childFile)); err != nil {
		fmt.Println("error:", err)
	}
	os.Stdout.Close()
}

func jobs() map[string]func(context.Context, string) error {
	return map[string]func(context.Context, string) error{
		"hold": func(ctx context.Context, file string) error {
			s, err := bolt.Open(ctx, file, bolt.Config{})
			if err != nil {
				return err
			}
			defer s.Close()
			fmt.Println("open")
			_, err = io.Copy(io.Discard, os.Stdin) // until it is told to go
			return err
		},
		"open": func(ctx context.Context, file string) error {
			s, err := bolt.Open(ctx, file, bolt.Config{})
			if err != nil {
				return err
			}
			fmt.Println("open")
			return s.Close()
		},
		"limit": limitJob,
	}
}

// A child is a process that works on its job.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, job, file string, setup func(*exec.Cmd)) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childJob+"="+job, childFile+"="+file)
	cmd.Stderr = os.Stderr
	if setup != nil {
		setup(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd, in, bufio.NewReader(out)}
}

// line is the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (c *child) wait(t *testing.T) {
	t.Helper()
	c.in.Close()
	io.Copy(io.Discard, c.out)
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// The file belongs to one process, and the error says to which.
func TestLocked(t *testing.T) {
	file := newFile(t)
	c := start(t, "hold", file, nil)
	if line := c.line(t); line != "open" {
		t.Fatalf("child: %s", line)
	}
	began := time.Now()
	_, err := bolt.Open(t.Context(), file, bolt.Config{Patience: 200 * time.Millisecond})
	if !errors.Is(err, bolt.ErrLocked) || !strings.Contains(err.Error(), file) {
		t.Errorf("Open of a file that another process holds: %v, want ErrLocked with the file's name", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it takes %v with a patience of 200 ms", took)
	}
	if pid := strconv.Itoa(c.cmd.Process.Pid); readable("/proc/locks") && !strings.Contains(err.Error(), "process "+pid) {
		t.Errorf("%v: want it to name process %s", err, pid)
	}
	// Who is patient gets it when the other one is gone.
	opened := make(chan error, 1)
	go func() {
		s, err := bolt.Open(context.Background(), file, bolt.Config{Patience: 20 * time.Second})
		if err == nil {
			defer s.Close()
		}
		opened <- err
	}()
	time.Sleep(200 * time.Millisecond)
	c.wait(t)
	if err := <-opened; err != nil {
		t.Errorf("Open with patience: %v", err)
	}

	s := open(t, file, bolt.Config{})
	_, err = bolt.OpenEventLog(t.Context(), file, bolt.Config{Patience: 60 * time.Millisecond})
	if !errors.Is(err, bolt.ErrLocked) || readable("/proc/locks") && !strings.Contains(err.Error(), "in this process") {
		t.Errorf("OpenEventLog of a file that this process holds: %v, want ErrLocked that says so", err)
	}
	s.Close()
}

func readable(file string) bool {
	_, err := os.ReadFile(file)
	return err == nil
}

func TestHolderPid(t *testing.T) {
	locks := "1: POSIX  ADVISORY  READ  11 fe:00:77 128 128\n2: FLOCK  ADVISORY  WRITE 4021 fe:00:177 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 4022 fe:00:77 0 EOF\n3: FLOCK  ADVISORY  WRITE 4023 fe:00:77 0 EOF\nnonsense\n"
	for inode, want := range map[string]int{"77": 4023, "177": 4021, "7": 0, "": 0} {
		if got := bolt.HolderPid(locks, inode); got != want {
			t.Errorf("HolderPid(%q) = %d, want %d", inode, got, want)
		}
	}
}
