package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/attend-go/attend/conformance/servers"
)

// The recorded day gives the same bytes through each store.
func TestReplayIsTheSameThroughEachStore(t *testing.T) {
	day, err := os.ReadFile(filepath.Join(recordedDay, "github-day.ndjson"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the recording is in the repository alone")
	}
	if err != nil {
		t.Fatal(err)
	}
	replay := func(t *testing.T, store string) string {
		var out, errOut bytes.Buffer // Redis says there how durable it is
		args := []string{"replay", "--json", "--store", store, "--kinds", filepath.Join(recordedDay, "kinds.json"), "-"}
		if code := run(args, bytes.NewReader(day), &out, &errOut); code != exitDone {
			t.Fatalf("exit %d, says %s", code, &errOut)
		}
		return out.String()
	}
	want := replay(t, "memory")
	for name, store := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "day.db") },
		"bolt":     func(t *testing.T) string { return "bolt:" + filepath.Join(t.TempDir(), "day.bolt") },
		"postgres": func(t *testing.T) string { return private(t, "ATTEND_TEST_POSTGRES", servers.Postgres) },
		"redis":    func(t *testing.T) string { return private(t, "ATTEND_TEST_REDIS", servers.Redis) },
	} {
		t.Run(name, func(t *testing.T) {
			if got := replay(t, store(t)); got != want {
				t.Errorf("%d bytes through %s, %d through memory, or others", len(got), name, len(want))
			}
		})
	}
}

// private is a server that nobody replayed to: what a replay leaves is not taken
// away again.
func private(t *testing.T, env string, start func(testing.TB) *servers.Server) string {
	if os.Getenv(env) != "" {
		t.Skip("a replay wants a server of its own")
	}
	return start(t).URL()
}
