package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrMissing: the server's programs are not installed.
var ErrMissing = errors.New("servers: not installed")

// How long the steps of a server may take, on a machine that is busy.
const (
	startLimit = 2 * time.Minute  // to answer, recovery included
	stopLimit  = 20 * time.Second // to end when asked to
	killLimit  = 20 * time.Second // to be gone after SIGKILL
)

// A Config says how a server is to run.
type Config struct {
	// Dir is where the server keeps its data. A server that is started on a
	// folder that one was stopped in finds its data. Empty: a new folder under
	// [os.TempDir], removed at Stop. A folder that is given stays. Where the
	// tests run as root, the server's user must be able to get there, which is
	// not so below testing's TempDir.
	Dir string
	// Settings become lines of postgresql.conf or redis.conf, any text as a
	// value. They win over the defaults, but what the package needs for itself,
	// such as the port, can't be set. Nil: the defaults. Those are the server's
	// own, except: Redis writes no snapshots and syncs its append-only file for
	// every command; PostgreSQL keeps its write-ahead log small.
	Settings map[string]string
}

// A Server is a database server of this process's own, or one that the
// environment names. Its methods may be called from many goroutines; one runs
// at a time.
type Server struct {
	kind    kind
	url     string
	foreign string // the variable that names a server that is not ours

	dir      string // everything is below it
	made     bool   // dir was made here, and goes at Stop
	port     int
	password string
	as       *account // nil: who we are

	mu      sync.Mutex
	proc    *process // nil: not running
	dirty   bool     // was killed, and not started since
	stopped bool
	watch   *watch
	log     *os.File
}

// A kind is PostgreSQL or Redis.
type kind interface {
	name() string
	users() []string                        // to run as in place of root, best first
	prepare(context.Context, *Server) error // makes the data where there is none, and the settings
	command(*Server) *exec.Cmd
	ready(context.Context, *Server) (bool, error) // an error: it will never be
	taken(log string) bool                        // the port was somebody else's
	end(*process) error                           // asks it to end
	clean(*Server)                                // frees what a killed server left outside its folder
	url(*Server) string
}

// start runs a new server on a port that pick finds.
func start(ctx context.Context, c Config, k kind, pick func() (int, error)) (_ *Server, err error) {
	s := &Server{kind: k, dir: c.Dir, password: password()}
	defer func() {
		if err != nil {
			err = s.hide(err)
			s.discard()
		}
	}()
	if s.as, err = unprivileged(k.users()); err != nil {
		return nil, fmt.Errorf("servers: %s: %w", k.name(), err)
	}
	if err := s.makeDir(ctx); err != nil {
		return nil, fmt.Errorf("servers: %s: make its folder: %w", k.name(), err)
	}
	if s.watch, err = newWatch(s.removable()); err != nil {
		return nil, fmt.Errorf("servers: %s: start the shell that watches over it: %w", k.name(), err)
	}
	for range 20 {
		if s.port, err = pick(); err != nil {
			return nil, fmt.Errorf("servers: %s: find a free port: %w", k.name(), err)
		}
		if err := k.prepare(ctx, s); err != nil {
			return nil, fmt.Errorf("servers: %s: set up: %w", k.name(), err)
		}
		if err = s.run(ctx); err == nil {
			s.url = k.url(s)
			return s, nil
		}
		if !errors.Is(err, errTaken) {
			break
		}
	}
	return nil, fmt.Errorf("servers: %s: start: %w", k.name(), err)
}

// makeDir makes the folder, and the one of the server's own user in it.
func (s *Server) makeDir(ctx context.Context) error {
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "attend-"+strings.ToLower(s.kind.name())+"-")
		if err != nil {
			return err
		}
		s.dir, s.made = dir, true
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.dir = dir
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if s.log, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		return err
	}
	// The server inherits the lock with its log, so it is held while one lives.
	if err := lock(ctx, s.log, stopLimit); err != nil {
		return err
	}
	return errors.Join(s.as.own(s.dir), s.as.enter(s.dir))
}

// removable is the folder to remove when the server ends, or empty.
func (s *Server) removable() string {
	if s.made {
		return s.dir
	}
	return ""
}

// data is the server's own folder.
func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL returns postgres://… or redis://… with the password, to pass to a
// driver. It is the same after Restart.
func (s *Server) URL() string { return s.url }

// Kill ends the server with SIGKILL, every process of it, and returns when the
// last one is gone and Restart would find its data free. A server that does not
// run is no error, one that is not ours is.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("kill"); err != nil || s.proc == nil {
		return err
	}
	s.dirty = true
	if err := s.proc.kill(killLimit); err != nil {
		return fmt.Errorf("servers: %s: kill: %w", s.kind.name(), err)
	}
	s.proc = nil
	return s.watch.over(0)
}

// Restart starts the server again, on its data and its port, and returns when
// it answers. One that runs is asked to end before.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("restart"); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return fmt.Errorf("servers: %s: restart: %w", s.kind.name(), err)
	}
	// Somebody's connection may have the port for a moment.
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.run(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errTaken) || wait == time.Second || sleep(ctx, wait) != nil {
			return s.hide(fmt.Errorf("servers: %s: restart: %w", s.kind.name(), err))
		}
	}
}

// Stop ends the server, and removes its folder unless Config named it. Further
// calls do nothing. A server that is not ours is left alone.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreign != "" || s.stopped {
		return nil
	}
	err := s.end()
	if s.dirty && s.made {
		s.kind.clean(s)
	}
	if err := errors.Join(err, s.discard()); err != nil {
		return fmt.Errorf("servers: %s: stop: %w", s.kind.name(), err)
	}
	return nil
}

func (s *Server) usable(verb string) error {
	switch {
	case s.foreign != "":
		return fmt.Errorf("servers: %s: it was given by %s, so it is not ours to %s", s.kind.name(), s.foreign, verb)
	case s.stopped:
		return fmt.Errorf("servers: %s: %s: it was stopped", s.kind.name(), verb)
	}
	return nil
}

// end asks the server to end, and kills it where it doesn't.
func (s *Server) end() error {
	if s.proc == nil {
		return nil
	}
	asked := s.kind.end(s.proc)
	if asked != nil || !s.proc.wait(stopLimit) {
		s.dirty = true
		if err := s.proc.kill(killLimit); err != nil {
			return err
		}
	}
	s.proc = nil
	return s.watch.over(0)
}

// discard leaves nothing behind, however far start came.
func (s *Server) discard() error {
	s.stopped = true
	var err error
	if s.proc != nil {
		err = s.proc.kill(killLimit)
		s.proc = nil
	}
	if s.log != nil {
		s.log.Close()
	}
	if s.watch != nil {
		err = errors.Join(err, s.watch.over(0), s.watch.close())
	}
	if s.made {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// freePort picks a port that nobody listens on. It is below those that systems
// give to outgoing connections, so that none of them takes it while the server
// is down.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 10_000 + rand.IntN(22_000)
		var l net.Listener
		if l, err = net.Listen("tcp", address(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// sleep returns ctx's error if it ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
