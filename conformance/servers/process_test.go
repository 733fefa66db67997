package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// TestChild is what the tests below run in a process of its own.
func TestChild(t *testing.T) {
	switch os.Getenv("ATTEND_TEST_CHILD") {
	case "":
		t.Skip("this test is a part of others")
	case "shared":
		fmt.Println("dir", servers.Dir(servers.Redis(t)))
	case "killed":
		for _, d := range databases() {
			s, err := d.start(t.Context(), servers.Config{})
			if err == nil {
				fmt.Println("dir", servers.Dir(s))
			}
		}
		fmt.Println("running")
		select {}
	}
}

// child runs [TestChild] with these variables.
func child(t *testing.T, what string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), "ATTEND_TEST_CHILD="+what)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// However the test process ends, its servers end and their folders go.
func TestServersEndWithTheTestProcess(t *testing.T) {
	t.Parallel()
	cmd := child(t, "killed")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for in := bufio.NewScanner(out); in.Scan() && in.Text() != "running"; {
		if dir, ok := strings.CutPrefix(in.Text(), "dir "); ok {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if len(servers.Below(t, dir)) == 0 {
			t.Errorf("no process is found in %s while the server runs", dir)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(dirs) == 0 {
		absent(t, "neither PostgreSQL nor Redis is installed")
	}
	for _, dir := range dirs {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			left := servers.Below(t, dir)
			_, err := os.Stat(dir)
			if len(left) == 0 && errors.Is(err, fs.ErrNotExist) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the test process is gone; left in %s: processes %q, folder %v", dir, left, err)
			}
		}
	}
}

func TestSharedServer(t *testing.T) {
	first := servers.Redis(t)
	if second := servers.Redis(t); second != first {
		t.Error("Redis returns another server the second time")
	}
	out, err := child(t, "shared").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, dir, ok := strings.Cut(string(out), "dir ")
	dir, _, _ = strings.Cut(dir, "\n")
	if _, err := os.Stat(dir); !ok || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Main leaves %q: %v\n%s", dir, err, out)
	}
}

func TestGivenServerIsLeftAlone(t *testing.T) {
	const given = "redis://user:secret@127.0.0.1:1/0"
	for _, c := range []struct {
		env string
		get func(testing.TB) *servers.Server
	}{{"ATTEND_TEST_POSTGRES", servers.Postgres}, {"ATTEND_TEST_REDIS", servers.Redis}} {
		t.Setenv(c.env, given)
		s := servers.Fresh(t, c.get)
		if s.URL() != given {
			t.Errorf("URL() = %q, want that of %s", s.URL(), c.env)
		}
		for name, err := range map[string]error{"Kill": s.Kill(), "Restart": s.Restart(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), c.env) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want an error that names %s and no password", name, err, c.env)
			}
		}
		if err := s.Stop(); err != nil {
			t.Errorf("Stop: %v, want nil", err)
		}
	}
}

// Where the programs are missing a test is skipped, and fails if CI is set.
func TestMissing(t *testing.T) {
	empty := t.TempDir()
	out, err := child(t, "shared", "PATH="+empty, "CI=", "ATTEND_TEST_REDIS=", "ATTEND_REDIS_BIN=").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "SKIP: TestChild") || !strings.Contains(string(out), "not installed") {
		t.Errorf("without redis-server: %v, want a skip with its reason\n%s", err, out)
	}
	out, err = child(t, "shared", "PATH="+empty, "CI=true", "ATTEND_TEST_REDIS=", "ATTEND_REDIS_BIN=").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "FAIL: TestChild") || !strings.Contains(string(out), "not installed") {
		t.Errorf("without redis-server in CI: %v, want a failure with its reason\n%s", err, out)
	}
	t.Setenv("PATH", empty)
	t.Setenv("ATTEND_REDIS_BIN", "")
	t.Setenv("ATTEND_POSTGRES_BIN", "")
	if s, err := servers.StartRedis(t.Context(), servers.Config{}); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("StartRedis = %v, %v, want ErrMissing", s, err)
	}
	if dir, err := servers.FindPostgres(filepath.Join(empty, "*", "bin")); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("PostgreSQL is found in %q, %v, want ErrMissing", dir, err)
	}
}

// Of several versions the newest is taken, as a number, and one without all its
// programs is none.
func TestFindsTheNewestPostgres(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"9/bin/postgres", "9/bin/initdb", "15/bin/postgres", "15/bin/initdb", "17/bin/postgres"} {
		name := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", "")
	t.Setenv("ATTEND_POSTGRES_BIN", "")
	got, err := servers.FindPostgres(filepath.Join(root, "*/bin"))
	if want := filepath.Join(root, "15/bin"); err != nil || got != want {
		t.Errorf("found %q, %v, want %q", got, err, want)
	}
	// A link on the PATH leads to the folder of the others, and comes first.
	links := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "9/bin/postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", links)
	got, err = servers.FindPostgres(filepath.Join(root, "*/bin"))
	if want := filepath.Join(root, "9/bin"); err != nil || got != want {
		t.Errorf("found %q, %v, want that of the link, %q", got, err, want)
	}
}

// A port that somebody took between choosing and binding is no server of ours,
// and none to talk to.
func TestPortIsTaken(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		s := d.run(t, servers.Config{})
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(servers.Port(s))))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		err = s.Restart(t.Context())
		if !servers.Taken(err) {
			t.Errorf("Restart on a port that is taken: %v, want an error that says so", err)
		}
		l.Close()
		if err := s.Restart(t.Context()); err != nil {
			t.Errorf("Restart once the port is free: %v", err)
		}
		// A new server goes on looking.
		u, err := url.Parse(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		busy, free := servers.Port(s), 0
		other, err := servers.StartOn(t, d.name, func() (int, error) {
			if free++; free < 3 {
				return busy, nil
			}
			return servers.FreePort()
		})
		if err != nil || strings.Contains(other.URL(), u.Host) || free != 3 {
			t.Errorf("a new server that is offered a taken port twice: %v after %d ports, want it on the third", err, free)
		}
	})
}

// A second server on a folder waits for the first one to end, and does not
// write over its data.
func TestFolderInUse(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		dir := t.TempDir()
		open(t, dir)
		d.run(t, servers.Config{Dir: dir})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		s, err := d.start(ctx, servers.Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "another server holds "+dir) {
			t.Errorf("a second server on the folder: %v, %v, want an error that names it", s, err)
		}
	})
}

// Data whose making did not come to its end are made anew.
func TestUnfinishedData(t *testing.T) {
	t.Parallel()
	d := databases()[0]
	dir := t.TempDir()
	open(t, dir)
	s := d.run(t, servers.Config{Dir: dir})
	if _, err := d.ask(t, s.URL(), d.put); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	servers.Unfinish(t, s)
	for range 2 { // and the second time they are there
		again := d.run(t, servers.Config{Dir: dir})
		if _, err := d.ask(t, again.URL(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.ask(t, again.URL(), d.get); err == nil {
			t.Error("what was in the data that nobody has the password of is there")
		}
		if err := again.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// The number of a process that has ended may be that of another one's group.
func TestKillLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!")
	var out strings.Builder
	cmd.Stdout = &out
	err := servers.KillEnded(t, cmd)
	pid, perr := strconv.Atoi(strings.TrimSpace(out.String()))
	if err := errors.Join(err, perr); err != nil {
		t.Fatal(err)
	}
	other, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Kill() })
	// Signals arrive in their own time.
	time.Sleep(50 * time.Millisecond)
	if left := servers.Command(t, pid); !strings.Contains(left, "sleep") {
		t.Errorf("process %d in the group of one that had ended was killed with it: %q", pid, left)
	}
}

func TestFolderThatTheServerCannotEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the server runs as this test does")
	}
	each(t, func(t *testing.T, d database) {
		dir := filepath.Join(t.TempDir(), "a", "b") // below a folder of this user alone
		_, err := d.start(t.Context(), servers.Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "can't enter "+filepath.Dir(filepath.Dir(filepath.Dir(dir)))) {
			t.Errorf("start below a closed folder: %v, want an error that names it", err)
		}
	})
}

func TestErrorsHoldNoPassword(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		s := d.run(t, servers.Config{})
		u, err := url.Parse(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		if len(password) < 20 {
			t.Fatalf("a password of %d bytes, want a random one", len(password))
		}
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		// A log that quotes it, and a server that can't start.
		servers.Break(t, s, "secret is "+password)
		err = s.Restart(t.Context())
		if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "secret is …") {
			t.Errorf("Restart of a broken server: %v, want the log without the password", err)
		}
	})
}
