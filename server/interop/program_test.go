//go:build unix

package interop_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for anything; the machine may be busy.
const patience = time.Minute

// A program is one that runs, and what it printed.
type program struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     *os.File
	stderr bytes.Buffer

	mu    sync.Mutex
	lines []string
	ended bool
	grown chan struct{} // closed at the next line, and at the end
	done  chan struct{} // closed when it has ended
	err   error         // of Wait; once done
}

// tool finds a program of the machine. Where it is not there the test is
// skipped; in CI it fails, if the program is one that CI has to have.
func tool(t testing.TB, name string, wanted bool) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if wanted && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skipf("%s is not installed: %v", name, err)
	return ""
}

// run starts a program, which ends with the test, and all that it started.
func run(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, grown: make(chan struct{}), done: make(chan struct{})}
	// A group of its own, so that its children go with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &p.stderr
	cmd.WaitDelay = time.Second
	read, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, p.in = read, in
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	_ = read.Close() // the child has its own
	if err != nil {
		_ = in.Close()
		t.Fatal(err)
	}
	go func() {
		s := bufio.NewScanner(out)
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			p.add(s.Text(), false)
		}
		p.err = cmd.Wait()
		p.add("", true)
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		p.signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("%s ended: %v\n%s\n%s", cmd.Args[0], p.err, p.tail(), p.stderr.String())
		}
	})
	return p
}

func (p *program) add(line string, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = end; !end {
		p.lines = append(p.lines, line)
	}
	close(p.grown)
	p.grown = make(chan struct{})
}

// signal sends a signal to the program and what it started.
func (p *program) signal(s syscall.Signal) {
	select {
	case <-p.done: // its number may be another's
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // one that has just ended hears nothing
	}
}

// write writes a line to the program's standard input.
func (p *program) write(line string) {
	p.t.Helper()
	if _, err := p.in.WriteString(line + "\n"); err != nil {
		p.t.Fatalf("write to %s: %v; it said\n%s", p.cmd.Args[0], err, p.tail())
	}
}

// said returns all lines up to now.
func (p *program) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[:len(p.lines):len(p.lines)]
}

// await returns the first line that matches, and waits for it.
func (p *program) await(what string, match func(string) bool) string {
	p.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for from := 0; ; {
		p.mu.Lock()
		lines, ended, grown := p.lines, p.ended, p.grown
		p.mu.Unlock()
		for _, l := range lines[from:] {
			if match(l) {
				return l
			}
		}
		from = len(lines)
		if ended {
			p.t.Fatalf("%s ended before %s; it said\n%s", p.cmd.Args[0], what, p.tail())
		}
		select {
		case <-grown:
		case <-late.C:
			p.t.Fatalf("no %s within %v; %s said\n%s", what, patience, p.cmd.Args[0], p.tail())
		}
	}
}

// code waits until the program has ended, and returns its exit code.
func (p *program) code() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended in %v; it said\n%s", p.cmd.Args[0], patience, p.tail())
	}
	if _, failed := errors.AsType[*exec.ExitError](p.err); p.err != nil && !failed && !errors.Is(p.err, exec.ErrWaitDelay) {
		p.t.Fatalf("%s: %v", p.cmd.Args[0], p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// tail is the end of what was printed.
func (p *program) tail() string {
	lines := p.said()
	var b strings.Builder
	for _, l := range lines[max(0, len(lines)-12):] {
		b.WriteString(l[:min(len(l), 400)] + "\n")
	}
	return b.String()
}
