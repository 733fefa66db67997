//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A process is a child in a process group of its own.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was reaped
	err  error         // what Wait said; valid once done is closed
}

// begin starts cmd as the account's user, with nothing of our environment that
// could lead it elsewhere.
func begin(cmd *exec.Cmd, as *account) (*process, error) {
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if v, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// interrupt is what ends PostgreSQL fast, and terminate what ends Redis.
func (p *process) interrupt() error { return p.signal(syscall.SIGINT) }
func (p *process) terminate() error { return p.signal(syscall.SIGTERM) }

// wait reports whether the process ended within d.
func (p *process) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// status says how it ended.
func (p *process) status() string { return p.cmd.ProcessState.String() }

// kill ends the process and everything that it started, and returns when all of
// it is gone. PostgreSQL's backends have process groups of their own, and one
// that lives on holds the shared memory that the next server needs. One that has
// ended long ago is left alone: its number may be somebody else's by now.
func (p *process) kill(limit time.Duration) error {
	if p.wait(0) {
		return nil
	}
	end := time.Now().Add(limit)
	// Stopped, it neither starts another child nor mourns one.
	if err := p.signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	var family []relative
	for calm := 0; calm < 2; {
		found, err := descendants(p.pid())
		if err != nil {
			return errors.Join(err, p.cmd.Process.Kill())
		}
		calm++
		for _, r := range found {
			if r.ended {
				continue
			}
			calm = 0
			family = append(family, r)
			if err := syscall.Kill(r.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return errors.Join(err, p.cmd.Process.Kill())
			}
		}
		if time.Now().After(end) {
			return errors.Join(errors.New("it goes on starting processes"), p.cmd.Process.Kill())
		}
		time.Sleep(time.Millisecond)
	}
	// The group is there as long as the child was not waited for, or has others.
	if err := syscall.Kill(-p.pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		return err
	}
	if !p.wait(time.Until(end)) {
		return fmt.Errorf("process %d is still there %v after SIGKILL", p.pid(), limit)
	}
	for _, r := range family {
		for r.alive() {
			if time.Now().After(end) {
				return fmt.Errorf("process %d is still there %v after SIGKILL", r.pid, limit)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// An account is the user that a server runs as. Nil: who we are.
type account struct{ uid, gid uint32 }

// unprivileged returns the first of the users that there is, where we are root.
func unprivileged(names []string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseInt(u.Uid, 10, 64)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseInt(u.Gid, 10, 64)
		if err != nil {
			return nil, err
		}
		return &account{uint32(uid), uint32(gid)}, nil // #nosec: ids have 32 bits
	}
	return nil, fmt.Errorf("it must not run as root, and there is none of the users %q", names)
}

// own hands a file or folder to the account.
func (a *account) own(name string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(name, int(a.uid), int(a.gid))
}

// enter returns an error that names the folder above name that the account can't
// go through.
func (a *account) enter(name string) error {
	if a == nil {
		return nil
	}
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm()&0o001 == 0 && !(ok && owner.Uid == a.uid) {
			return fmt.Errorf("the server does not run as root, and its user can't enter %s: chmod o+x, or another folder", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// lock takes the file for this process and who inherits it.
func lock(ctx context.Context, f *os.File, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("another server holds %s: %w", f.Name(), err)
		}
	}
}

// A watch is a shell that ends the server when this process is gone: the pipe
// from us then ends, whatever killed us. It asks first, so that PostgreSQL
// leaves no shared memory, and then removes the folder.
type watch struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const watching = `
trap '' HUP INT TERM QUIT
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
	kill -INT "$pid"
	i=0
	while [ $i -lt 100 ] && kill -0 "$pid"; do sleep 0.1; i=$((i + 1)); done
	kill -KILL -- "-$pid"
fi
if [ -n "$1" ]; then rm -rf -- "$1"; fi
`

func newWatch(remove string) (*watch, error) {
	cmd := exec.Command("/bin/sh", "-c", watching, "sh", remove)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = "/"
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &watch{cmd, pipe}, nil
}

// over tells which process is to be ended. 0: none.
func (w *watch) over(pid int) error {
	line := "\n"
	if pid != 0 {
		line = strconv.Itoa(pid) + "\n"
	}
	_, err := io.WriteString(w.pipe, line)
	return err
}

func (w *watch) close() error {
	return errors.Join(w.pipe.Close(), w.cmd.Wait())
}
