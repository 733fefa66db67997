package redis_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"testing"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
	"github.com/redis/rueidis"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// quiet are options for a prefix that nothing else uses, and no log lines.
func quiet() *redis.Config {
	return &redis.Config{Prefix: "test:{" + rand.Text() + "}:", Logger: slog.New(slog.DiscardHandler)}
}

func open(t testing.TB, url string, o *redis.Config) *redis.Store {
	t.Helper()
	s, err := redis.Open(context.Background(), url, *o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openOne opens a store on a client of one connection: who has called it once
// after a restart has found out about that.
func openOne(t testing.TB, url string, o *redis.Config) *redis.Store {
	t.Helper()
	s, err := redis.New(t.Context(), oneConnection(t, url), *o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func oneConnection(t testing.TB, url string) rueidis.Client {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableCache, o.PipelineMultiplex = true, -1
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func openEvents(t testing.TB, url string, o *redis.Config) *redis.EventLog {
	t.Helper()
	l, err := redis.OpenEventLog(context.Background(), url, *o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// start starts a server of the test's own, with settings.
func start(t testing.TB, settings map[string]string) *servers.Server {
	t.Helper()
	servers.Redis(t) // which skips, or fails, where there is none
	s, err := servers.StartRedis(t.Context(), servers.Config{Settings: settings})
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

// put commits writes that must be applied.
func put(t testing.TB, s attend.ScopeStore, writes ...attend.Write) {
	t.Helper()
	out, err := s.Commit(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if o.Conflict() {
			t.Fatalf("Commit: write %d of %d is a conflict", i, len(out))
		}
	}
}
