package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// A database is a server seen through the few words that these tests need.
type database struct {
	name  string
	start func(context.Context, servers.Config) (*servers.Server, error)
	// ask runs statements or commands and returns what they print.
	ask func(t *testing.T, url string, commands ...string) (string, error)
	// What puts a value in, reads it, and reads a setting.
	put, get string
	setting  func(name string) string
}

func databases() []database {
	return []database{
		{"postgres", servers.StartPostgres, psql, "CREATE TABLE t AS SELECT 'kept' AS v", "SELECT v FROM t", func(s string) string { return "SHOW " + s }},
		{"redis", servers.StartRedis, redis, "SET t kept", "GET t", func(s string) string { return "CONFIG GET " + s }},
	}
}

func each(t *testing.T, f func(*testing.T, database)) {
	t.Parallel()
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			f(t, d)
		})
	}
}

// run starts a server of the test's own.
func (d database) run(t *testing.T, c servers.Config) *servers.Server {
	t.Helper()
	s, err := d.start(t.Context(), c)
	if errors.Is(err, servers.ErrMissing) {
		absent(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (d database) want(t *testing.T, s *servers.Server, command, want string) {
	t.Helper()
	if got, err := d.ask(t, s.URL(), command); err != nil || !strings.Contains(got, want) {
		t.Errorf("%s = %q, %v, want %q in it", command, got, err, want)
	}
}

func psql(t *testing.T, url string, commands ...string) (string, error) {
	t.Helper()
	bin, err := exec.LookPath("psql")
	if err != nil {
		absent(t, "psql is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	args := []string{"-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", url}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	out, err := exec.CommandContext(ctx, bin, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// redis speaks the protocol, whose inline form is a line a command.
func redis(t *testing.T, raw string, commands ...string) (string, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	c, err := net.DialTimeout("tcp", u.Host, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	password, _ := u.User.Password()
	lines := append([]string{"AUTH " + password}, commands...)
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\nQUIT\r\n"); err != nil {
		return "", err
	}
	out, err := io.ReadAll(bufio.NewReader(c))
	if text, ok := strings.CutPrefix(string(out), "+OK\r\n"); ok {
		return text, err
	}
	return "", fmt.Errorf("AUTH: %s", out)
}

// gone fails where something of the server is left.
func gone(t *testing.T, s *servers.Server) {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.DialTimeout("tcp", u.Host, time.Second); err == nil {
		c.Close()
		t.Error("something still listens on the server's port")
	}
	if left := servers.Running(t, s); len(left) > 0 {
		t.Errorf("processes that are left: %q", left)
	}
}

func TestKillAndRestart(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		s := d.run(t, servers.Config{})
		if _, err := d.ask(t, s.URL(), d.put); err != nil {
			t.Fatal(err)
		}
		if n := servers.Running(t, s); len(n) == 0 {
			t.Fatal("no process of the server is found while it runs")
		}
		before := s.URL()
		for range 3 {
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			gone(t, s)
			if err := s.Kill(); err != nil {
				t.Errorf("Kill of a server that does not run: %v", err)
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.want(t, s, d.get, "kept")
		}
		if err := s.Restart(t.Context()); err != nil { // while it runs
			t.Fatal(err)
		}
		d.want(t, s, d.get, "kept")
		if got := s.URL(); got != before {
			t.Error("the URL changed")
		}
	})
}

func TestStopLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		for _, kill := range []bool{false, true} {
			s := d.run(t, servers.Config{})
			dir, memory := servers.Dir(s), ""
			if d.name == "postgres" {
				if memory = servers.Segment(t, s); !segments(t)[memory] {
					t.Fatalf("the shared memory segment %s of a server that runs is not there", memory)
				}
			}
			if kill {
				if err := s.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := s.Stop(); err != nil {
					t.Errorf("Stop: %v", err)
				}
			}
			gone(t, s)
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is still there: %v", err)
			}
			if memory != "" && segments(t)[memory] {
				t.Errorf("its shared memory segment %s is left (killed before: %v)", memory, kill)
			}
			for name, err := range map[string]error{"Kill": s.Kill(), "Restart": s.Restart(t.Context())} {
				if err == nil || !strings.Contains(err.Error(), "stopped") {
					t.Errorf("%s of a stopped server: %v, want an error that says so", name, err)
				}
			}
		}
	})
}

// segments are the ids of the system's shared memory segments.
func segments(t *testing.T) map[string]bool {
	b, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Skipf("this test reads shared memory segments from /proc: %v", err)
	}
	out := make(map[string]bool)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 {
			out[f[1]] = true
		}
	}
	return out
}

func TestGivenFolderStays(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		dir := t.TempDir()
		open(t, dir)
		s := d.run(t, servers.Config{Dir: dir})
		if _, err := d.ask(t, s.URL(), d.put); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		again := d.run(t, servers.Config{Dir: dir})
		d.want(t, again, d.get, "kept")
	})
}

// open lets another user into the folders above dir, which t.TempDir made for
// this one alone.
func open(t *testing.T, dir string) {
	for ; dir != filepath.Dir(os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSettingsApply(t *testing.T) {
	t.Parallel()
	// Text that would end a quoted value, or the line.
	const hostile = `a'b"c\d $x #y` + "\n" + `port = 1`
	for d, settings := range map[string]map[string]string{
		"postgres": {"work_mem": "7MB", "application_name": hostile, "attend.text": hostile, "log_line_prefix": `it's \ "%p" >`},
		"redis":    {"maxmemory": "77777777", "save": "3600 7", "syslog-ident": hostile, "appendfsync": "everysec"},
	} {
		t.Run(d, func(t *testing.T) {
			for _, db := range databases() {
				if db.name != d {
					continue
				}
				s := db.run(t, servers.Config{Settings: settings})
				for name, value := range settings {
					want := value
					if name == "application_name" {
						continue // psql sets its own
					}
					db.want(t, s, db.setting(name), want)
				}
			}
		})
	}
}

func TestSettingsRefused(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		for _, c := range []struct{ name, value, want string }{
			{"port", "1", "can't be set"},
			{"work mem", "1", "no name"},
			{"x\ninclude", "/etc/passwd", "no name"},
			{"", "1", "no name"},
			{"timezone", "a\x00b", "zero byte"},
		} {
			s, err := d.start(t.Context(), servers.Config{Settings: map[string]string{c.name: c.value}})
			if errors.Is(err, servers.ErrMissing) {
				absent(t, err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), strconv.Quote(c.name)) {
				t.Errorf("setting %q to %q: %v, want an error with %q", c.name, c.value, err, c.want)
			}
			if s != nil {
				s.Stop()
			}
		}
	})
}

// A server that ends at once gives the reason, from its log, and leaves nothing.
func TestStartFails(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		dir := t.TempDir()
		open(t, dir)
		begun := time.Now()
		_, err := d.start(t.Context(), servers.Config{Dir: dir, Settings: map[string]string{"no_such_setting": "1", "nosuchsetting": "1"}})
		if errors.Is(err, servers.ErrMissing) {
			absent(t, err)
		}
		if err == nil || !strings.Contains(err.Error(), "nosuchsetting") && !strings.Contains(err.Error(), "no_such_setting") {
			t.Errorf("a setting that there isn't: %v, want an error that quotes the log", err)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("it took %v to notice", took)
		}
		if left := servers.Below(t, dir); len(left) > 0 {
			t.Errorf("processes that are left: %q", left)
		}
	})
}

func TestStartEndsWithItsContext(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		cancel(why)
		_, err := d.start(ctx, servers.Config{})
		if errors.Is(err, servers.ErrMissing) {
			absent(t, err)
		}
		if !errors.Is(err, why) {
			t.Errorf("start with a context that has ended: %v, want its cause", err)
		}
	})
}

func TestTwoServersAtOnce(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		a, b := d.run(t, servers.Config{}), d.run(t, servers.Config{})
		if _, err := d.ask(t, a.URL(), d.put); err != nil {
			t.Fatal(err)
		}
		if got, _ := d.ask(t, b.URL(), d.get); strings.Contains(got, "kept") {
			t.Error("the second server has the first one's data")
		}
	})
}

// absent skips a test for what is not installed, but not in CI.
func absent(t *testing.T, why any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
