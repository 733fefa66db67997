package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// errTaken: somebody else listens on the port.
var errTaken = errors.New("the port is taken")

// run starts the server's process and waits until it answers. It ends what it
// started when it fails.
func (s *Server) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it did not answer within %v", startLimit))
	defer cancel()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	from, err := s.log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := s.kind.command(s)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if s.proc, err = s.begin(cmd); err != nil {
		return err
	}
	if err = s.await(ctx); err == nil {
		s.dirty = false
		return nil
	}
	if kerr := s.proc.kill(killLimit); kerr != nil {
		err = errors.Join(err, kerr)
	}
	s.proc = nil
	err = errors.Join(err, s.watch.over(0))
	log := s.logFrom(from)
	if s.kind.taken(log) {
		return fmt.Errorf("%w: port %d", errTaken, s.port)
	}
	return fmt.Errorf("%w; the end of its log:\n%s", err, tail(log))
}

// begin starts a process under the watch.
func (s *Server) begin(cmd *exec.Cmd) (*process, error) {
	p, err := begin(cmd, s.as)
	if err != nil {
		return nil, err
	}
	if err := s.watch.over(p.pid()); err != nil {
		return nil, errors.Join(err, p.kill(killLimit))
	}
	return p, nil
}

// await returns nil once the server answers.
func (s *Server) await(ctx context.Context) error {
	ended := errors.New("it ended at once")
	// What answers in place of a server that has ended may never do so.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := s.proc.done
	go func() {
		select {
		case <-done:
			cancel(ended)
		case <-ctx.Done():
		}
	}()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ok, err := s.kind.ready(ctx, s)
		switch {
		case s.proc.wait(0):
			return fmt.Errorf("%w (%s)", ended, s.proc.status())
		case err != nil:
			return err
		case ok:
			return nil
		}
		if err := sleep(ctx, wait); err != nil && !errors.Is(err, ended) {
			return err
		}
	}
}

// dial connects to the server for a moment, or until ctx ends.
func dial(ctx context.Context, port int) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address(port))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// tool runs a program that ends by itself. Its error has what it printed last.
func (s *Server) tool(ctx context.Context, cmd *exec.Cmd) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it did not end within %v", startLimit))
	defer cancel()
	from, err := s.log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	p, err := s.begin(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.kill(killLimit), s.watch.over(0))
	}
	if err := s.watch.over(0); err != nil {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, p.err, tail(s.logFrom(from)))
	}
	return nil
}

func (s *Server) logFrom(from int64) string {
	b, err := io.ReadAll(io.NewSectionReader(s.log, from, 1<<20))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// tail is the end of a log.
func tail(log string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}

// A hidden is an error whose text had the password.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// hide takes the password out of an error's text. A server may print its
// settings.
func (s *Server) hide(err error) error {
	if text := err.Error(); strings.Contains(text, s.password) {
		return &hidden{strings.ReplaceAll(text, s.password, "…"), err}
	}
	return err
}

func password() string { return rand.Text() }

// write makes a file that only the server's user can read.
func (s *Server) write(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	return s.as.own(name)
}
