package servers_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attend-go/attend/conformance/servers"
)

// A folder that the environment names comes before all others, and one that
// lacks a program is an error that skips nothing.
func TestNamedPrograms(t *testing.T) {
	for _, c := range []struct {
		d        database
		env      string
		programs []string
	}{
		{databases()[0], "ATTEND_POSTGRES_BIN", []string{"postgres", "initdb"}},
		{databases()[1], "ATTEND_REDIS_BIN", []string{"redis-server"}},
	} {
		t.Run(c.d.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv(c.env, dir)
			for _, missing := range c.programs {
				s, err := c.d.start(t.Context(), servers.Config{})
				if err == nil {
					s.Stop()
				}
				if err == nil || errors.Is(err, servers.ErrMissing) ||
					!strings.Contains(err.Error(), c.env+" names "+dir) || !strings.HasSuffix(err.Error(), missing) {
					t.Errorf("start with a folder that has no %s: %v, want an error that names both and is not ErrMissing", missing, err)
				}
				// One that can't be run is none.
				name := filepath.Join(dir, missing)
				if err := os.WriteFile(name, nil, 0o644); err != nil {
					t.Fatal(err)
				}
				if s, again := c.d.start(t.Context(), servers.Config{}); again == nil || again.Error() != err.Error() {
					t.Errorf("start with a %s that can't be run: %v, %v, want the same error", missing, s, again)
				}
				if err := os.Chmod(name, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	out, err := child(t, "shared", "CI=", "ATTEND_TEST_REDIS=", "ATTEND_REDIS_BIN="+t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "FAIL: TestChild") || !strings.Contains(string(out), "there is no program redis-server") {
		t.Errorf("a test that asks for Redis: %v, want a failure with the reason\n%s", err, out)
	}
}

// It is these programs that run: a script that leaves a trace and goes on as
// Redis, in a folder that is named as seen from here.
func TestNamedProgramRuns(t *testing.T) {
	d := databases()[1]
	real, err := exec.LookPath("redis-server")
	if err != nil {
		absent(t, "redis-server is not installed")
	}
	dir := t.TempDir()
	open(t, dir)
	t.Chdir(dir)
	t.Setenv("ATTEND_REDIS_BIN", ".")
	text := "#!/bin/sh\necho ran by its name\nexec '" + real + "' \"$@\"\n"
	if err := os.WriteFile("redis-server", []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	s := d.run(t, servers.Config{})
	log, err := os.ReadFile(filepath.Join(servers.Dir(s), "log"))
	if err != nil || !strings.HasPrefix(string(log), "ran by its name\n") {
		t.Errorf("the server's log is %q, %v, want what the named program prints first", log, err)
	}
	if _, err := d.ask(t, s.URL(), d.put); err != nil {
		t.Error(err)
	}
	d.want(t, s, d.get, "kept")
}
