package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

func TestMain(m *testing.M) {
	code := servers.Main(m)
	if err := quick.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// quick is the server of most tests. Nothing kills it, so it need not sync; the
// tests that kill have one of their own. ATTEND_TEST_POSTGRES names another.
var quick sharedServer

type sharedServer struct {
	once   sync.Once
	server *servers.Server
	err    error
}

// serverURL is the URL of the server that tests share.
func serverURL(t testing.TB) string {
	t.Helper()
	if os.Getenv("ATTEND_TEST_POSTGRES") != "" {
		return servers.Postgres(t).URL()
	}
	quick.once.Do(func() {
		quick.server, quick.err = servers.StartPostgres(context.Background(), servers.Config{
			Settings: map[string]string{"fsync": "off", "max_connections": "300"},
		})
	})
	return started(t, quick.server, quick.err).URL()
}

func (s *sharedServer) stop() error {
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}

// ownServer is a server that a test may kill.
func ownServer(t testing.TB, settings map[string]string) *servers.Server {
	t.Helper()
	s, err := servers.StartPostgres(context.Background(), servers.Config{Settings: settings})
	started(t, s, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// started skips a test where PostgreSQL is not installed, but not in CI.
func started(t testing.TB, s *servers.Server, err error) *servers.Server {
	t.Helper()
	if errors.Is(err, servers.ErrMissing) && os.Getenv("CI") == "" {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// prefixes keeps the tables of two tests apart, also on a server that other
// processes use.
var prefixes struct {
	once sync.Once
	base string
	n    atomic.Int64
}

func newPrefix() string {
	prefixes.once.Do(func() { prefixes.base = fmt.Sprintf("t%d_", os.Getpid()) })
	return fmt.Sprintf("%s%d_", prefixes.base, prefixes.n.Add(1))
}

// newPool returns a pool on a server, which is closed with the test.
func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// migrated makes tables of a new prefix, which go with the test.
func migrated(t testing.TB, pool *pgxpool.Pool, c postgres.Config) postgres.Config {
	t.Helper()
	if c.Prefix == "" {
		c.Prefix = newPrefix()
	}
	if err := postgres.Migrate(context.Background(), pool, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropTables(t, pool, c.Prefix) })
	return c
}

func dropTables(t testing.TB, pool *pgxpool.Pool, prefix string) {
	var names []string
	for _, name := range []string{"scopes", "snapshots", "rows", "events", "streams", "logs", "turns", "schema"} {
		names = append(names, prefix+name)
	}
	if _, err := pool.Exec(context.Background(), "DROP TABLE IF EXISTS "+strings.Join(names, ", ")); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// storeOn returns a store with tables that exist.
func storeOn(t testing.TB, pool *pgxpool.Pool, c postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.New(context.Background(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func logOn(t testing.TB, pool *pgxpool.Pool, c postgres.Config) *postgres.EventLog {
	t.Helper()
	l, err := postgres.NewEventLog(context.Background(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// put commits one write and returns the new version.
func put(t testing.TB, s attend.ScopeStore, w attend.Write) uint64 {
	t.Helper()
	out, err := s.Commit(context.Background(), []attend.Write{w})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Conflict() {
		t.Fatalf("Commit of %q at version %d is a conflict", w.Scope, w.Expect)
	}
	return out[0].Version
}

// ids are what a read yields.
func ids(t testing.TB, l attend.DecisionLog, q attend.Query) (ids []attend.DecisionID, last attend.LogCursor) {
	t.Helper()
	for e, err := range l.Read(context.Background(), q) {
		if err != nil {
			t.Fatal(err)
		}
		ids, last = append(ids, e.ID), e.Cursor
	}
	return ids, last
}

func decisionRow(scope attend.Scope, id string) attend.Row {
	return attend.Row{Scope: scope, ID: attend.DecisionID(id), Type: attend.RowDecision, At: noon, Body: []byte(`{}`)}
}
