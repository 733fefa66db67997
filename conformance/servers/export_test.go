package servers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// FindPostgres looks for PostgreSQL's programs on the PATH and where the
// patterns lead.
func FindPostgres(patterns ...string) (string, error) { return postgresBin(patterns...) }

// Dir is the folder with everything of the server.
func Dir(s *Server) string { return s.dir }

// Port is the port of the server.
func Port(s *Server) int { return s.port }

// FreePort finds a free port.
func FreePort() (int, error) { return freePort() }

// StartOn starts a server on a port that pick finds, and stops it with the test.
func StartOn(t *testing.T, what string, pick func() (int, error)) (*Server, error) {
	make := newPostgres
	if what == "redis" {
		make = newRedis
	}
	k, err := make(Config{})
	if err != nil {
		return nil, err
	}
	s, err := start(t.Context(), Config{}, k, pick)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

// Taken reports whether a server could not start because of its port.
func Taken(err error) bool { return errors.Is(err, errTaken) }

// Fresh calls get as if nobody had asked for a shared server yet.
func Fresh(t *testing.T, get func(testing.TB) *Server) *Server {
	saved := whole
	whole = &holder{}
	defer func() { whole = saved }()
	return get(t)
}

// Break gives the server a setting that it can't start with, and quotes.
func Break(t *testing.T, s *Server, value string) {
	name, line := filepath.Join(s.data(), "attend.conf"), "work_mem = '"+value+"'\n"
	if s.kind.name() == "Redis" {
		name, line = filepath.Join(s.dir, "redis.conf"), "maxmemory \""+value+"\"\n"
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		t.Fatal(err)
	}
}

// Segment is the id of the shared memory segment of a PostgreSQL server that
// runs.
func Segment(t *testing.T, s *Server) string {
	b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	if f := strings.Fields(lines[min(6, len(lines)-1)]); len(f) == 2 {
		return f[1]
	}
	t.Fatal("postmaster.pid names no shared memory")
	return ""
}

// Running returns the processes that work in the server's folder.
func Running(t *testing.T, s *Server) []string { return Below(t, s.dir) }

// Below returns the processes that work in a folder below dir.
func Below(t *testing.T, dir string) (found []string) {
	if runtime.GOOS != "linux" {
		t.Skip("this test reads /proc")
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
			found = append(found, link)
		}
	}
	return found
}

// KillEnded runs a program, and kills it when it has ended by itself.
func KillEnded(t *testing.T, cmd *exec.Cmd) error {
	p, err := begin(cmd, nil)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !p.wait(killLimit) {
		t.Error("it does not end")
	}
	return p.kill(killLimit)
}

// Unfinish makes the server's data such as a crash, or a disk without room,
// leaves them when they are made and the password is not yet written.
func Unfinish(t *testing.T, s *Server) {
	if err := os.Truncate(filepath.Join(s.data(), "attend-is-set-up"), 0); err != nil {
		t.Fatal(err)
	}
}

// Command is the command line of a process, empty once it was killed.
func Command(t *testing.T, pid int) string {
	if runtime.GOOS != "linux" {
		t.Skip("this test reads /proc")
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}
