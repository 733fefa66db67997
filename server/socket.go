package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	attend "github.com/attend-go/attend/core"
)

// ErrInUse: a process listens on the socket, or a file that is no socket is in
// its place.
var ErrInUse = errors.New("server: the socket's path is in use")

// maxSocketPath is what the path of a unix socket may have on every system.
const maxSocketPath = 103

// A socket is a unix socket at a path, which goes with it.
type socket struct {
	net.Listener
	path string
	file fs.FileInfo // to remove this one, and nobody else's
	once sync.Once
}

// Addr is of [net.Listener].
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close is of [net.Listener].
func (s *socket) Close() error {
	s.once.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
			_ = os.Remove(s.path) // a file that is left over is replaced by the next
		}
	})
	return s.Listener.Close()
}

// listenSocket listens at a path. The socket is made in a folder that nobody
// else can enter, so that there is no moment in which it has another mode, and
// gets its path by a link, which fails where there is something: of two
// processes that start at once, one gets it.
func listenSocket(path string) (*socket, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("server: listen on the socket: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing in it is of use
	made := filepath.Join(dir, "s")
	if max(len(made), len(path)) > maxSocketPath {
		return nil, &attend.InvalidError{Field: "Socket", Want: fmt.Sprintf("a path of at most %d bytes, and its folder's %d", maxSocketPath, maxSocketPath-len(made)+len(filepath.Dir(path)))}
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("server: listen on the socket: %w", err)
	}
	ln.SetUnlinkOnClose(false)
	s := &socket{Listener: ln, path: path}
	if err := s.place(made, filepath.Join(dir, "old")); err != nil {
		_ = ln.Close() // nobody has connected
		return nil, fmt.Errorf("server: listen on the socket: %w", err)
	}
	return s, nil
}

// place gives the socket its path.
func (s *socket) place(made, old string) error {
	if err := os.Chmod(made, 0o600); err != nil {
		return err
	}
	var err error
	if s.file, err = os.Lstat(made); err != nil {
		return err
	}
	for range 10 {
		err := os.Link(made, s.path)
		if err == nil {
			return nil
		}
		if err := takeAway(s.path, old); err != nil {
			return err
		}
		if !errors.Is(err, fs.ErrExist) { // no links to sockets here
			return os.Rename(made, s.path)
		}
	}
	return fmt.Errorf("%w: others replace it all the time", ErrInUse)
}

// takeAway takes away what a dead process has left at a path.
func takeAway(path, old string) error {
	found, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it has gone by itself
	case err != nil:
		return err
	case found.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w: %s is no socket", ErrInUse, path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close() // it has served to ask
		return fmt.Errorf("%w: a process listens on %s", ErrInUse, path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("%w: %s: %w", ErrInUse, path, err)
	}
	// Between the look and here another process may have put its own there.
	if err := os.Rename(path, old); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if taken, err := os.Lstat(old); err != nil || !os.SameFile(taken, found) {
		if err := os.Link(old, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
