package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// newDatabase makes a database of its own on the test server, and returns its
// URL. It goes with the test.
func newDatabase(t testing.TB, with string) string {
	t.Helper()
	u, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	admin := newPool(t, u.String())
	name := newPrefix() + "db"
	if _, err := admin.Exec(context.Background(), "CREATE DATABASE "+name+" TEMPLATE template0 "+with); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	u.Path = "/" + name
	return u.String()
}

// newRole makes a role that may log in and nothing else, and returns the URL
// with it.
func newRole(t testing.TB, base, password string) (role, as string) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	admin := newPool(t, base)
	role = newPrefix() + "role"
	if _, err := admin.Exec(context.Background(), fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, strings.ReplaceAll(password, "'", "''"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	u.User = url.UserPassword(role, password)
	return role, u.String()
}

func TestMigrateTwiceAndAtOnce(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := postgres.Config{Prefix: newPrefix()}
	t.Cleanup(func() { dropTables(t, pool, c.Prefix) })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := postgres.Migrate(context.Background(), pool, c); err != nil {
				t.Errorf("Migrate, eight at once: %v", err)
			}
		})
	}
	all.Wait()
	s := storeOn(t, pool, c)
	put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("kept"), Rows: []attend.Row{decisionRow("ops", "d")}})
	before, err := s.Log().Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateURL(t.Context(), serverURL(t), c); err != nil {
		t.Fatalf("Migrate of tables that are up to date: %v", err)
	}
	if after, err := s.Log().Bounds(t.Context()); err != nil || after != before {
		t.Errorf("Bounds after another Migrate = %+v, %v, want %+v", after, err, before)
	}
	if rec, err := s.Load(t.Context(), "ops"); err != nil || string(rec.Snapshot) != "kept" {
		t.Errorf("Load after another Migrate = %q, %v", rec.Snapshot, err)
	}
}

func TestOpenWithoutTables(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := postgres.Config{Prefix: newPrefix()}
	for name, open := range openers(pool, c) {
		if err := open(); !errors.Is(err, postgres.ErrNotMigrated) || !strings.Contains(err.Error(), c.Prefix) {
			t.Errorf("%s without tables: %v, want an error that is ErrNotMigrated and names the prefix", name, err)
		}
	}
}

func openers(pool *pgxpool.Pool, c postgres.Config) map[string]func() error {
	return map[string]func() error{
		"New":         func() error { _, err := postgres.New(context.Background(), pool, c); return err },
		"NewEventLog": func() error { _, err := postgres.NewEventLog(context.Background(), pool, c); return err },
	}
}

func TestSchemaVersions(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	set := func(n int) {
		if _, err := pool.Exec(t.Context(), "UPDATE "+c.Prefix+"schema SET version = $1", n); err != nil {
			t.Fatal(err)
		}
	}
	for name, open := range openers(pool, c) {
		set(postgres.Steps() + 1)
		if err := open(); !errors.Is(err, attend.ErrNewer) {
			t.Errorf("%s on a newer schema: %v, want an error that is ErrNewer", name, err)
		}
		set(postgres.Steps() - 1)
		if err := open(); !errors.Is(err, postgres.ErrNotMigrated) {
			t.Errorf("%s on an older schema: %v, want an error that is ErrNotMigrated", name, err)
		}
	}
	set(postgres.Steps() + 1)
	if err := postgres.Migrate(t.Context(), pool, c); !errors.Is(err, attend.ErrNewer) {
		t.Errorf("Migrate of a newer schema: %v, want an error that is ErrNewer", err)
	}
	var version int
	if err := pool.QueryRow(t.Context(), "SELECT version FROM "+c.Prefix+"schema").Scan(&version); err != nil || version != postgres.Steps()+1 {
		t.Errorf("Migrate of a newer schema left it at %d, %v", version, err)
	}
}

func TestPrefixIsChecked(t *testing.T) {
	pool := newPool(t, serverURL(t))
	for _, p := range []string{"Attend_", "a-b", "1a", "a b", "a\"", "a;drop", "ä", "a\x00", strings.Repeat("a", 41)} {
		c := postgres.Config{Prefix: p}
		err := postgres.Migrate(t.Context(), pool, c)
		if e, ok := errors.AsType[*attend.InvalidError](err); !ok || e.Field != "Prefix" {
			t.Errorf("Migrate with the prefix %.20q: %v, want an *InvalidError that names it", p, err)
		}
	}
	for _, p := range []string{"a", "_", strings.Repeat("a", 40)} {
		c := postgres.Config{Prefix: p}
		if err := postgres.Migrate(t.Context(), pool, c); err != nil {
			t.Errorf("Migrate with the prefix %q: %v", p, err)
		}
		t.Cleanup(func() { dropTables(t, pool, p) })
		put(t, storeOn(t, pool, c), attend.Write{Scope: "ops", Inputs: [][]byte{{1}}})
	}
}

// Names that are cut to 63 bytes would be the same.
func TestLongestPrefixKeepsNamesApart(t *testing.T) {
	pool := newPool(t, serverURL(t))
	a := migrated(t, pool, postgres.Config{Prefix: strings.Repeat("z", 40)})
	var longest int
	err := pool.QueryRow(t.Context(), "SELECT max(length(relname)) FROM pg_class WHERE relname LIKE $1 AND relnamespace <> 'pg_toast'::regnamespace", a.Prefix+"%").Scan(&longest)
	if err != nil || longest >= 63 {
		t.Errorf("the longest name with the longest prefix has %d bytes, %v, want fewer than 63", longest, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	pool := newPool(t, serverURL(t))
	prefix := migrated(t, pool, postgres.Config{}).Prefix
	for field, c := range map[string]postgres.Config{
		"Timeout": {Timeout: -1}, "Poll": {Poll: -1}, "Retain": {Retain: attend.Retain{Count: -1}}, "Listen": {Listen: "postgres://a:b@[::1"},
	} {
		c.Prefix = prefix
		_, err := postgres.New(t.Context(), pool, c)
		if e, ok := errors.AsType[*attend.InvalidError](err); !ok || e.Field != field {
			t.Errorf("New with a bad %s: %v, want an *InvalidError that names it", field, err)
		}
	}
}

// A pool that is nil is an error, as any other mistake.
func TestNilPool(t *testing.T) {
	var pool *pgxpool.Pool
	_, newErr := postgres.New(t.Context(), pool, postgres.Config{})
	_, logErr := postgres.NewEventLog(t.Context(), pool, postgres.Config{})
	for what, err := range map[string]error{
		"New":                   newErr,
		"NewEventLog":           logErr,
		"Migrate":               postgres.Migrate(t.Context(), pool, postgres.Config{}),
		"Migrate, of no type":   postgres.Migrate(t.Context(), nil, postgres.Config{}),
		"Migrate, a connection": postgres.Migrate(t.Context(), (*pgx.Conn)(nil), postgres.Config{}),
		"Migrate, of a pool":    postgres.Migrate(t.Context(), (*pgxpool.Conn)(nil), postgres.Config{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s without a pool: %v, want an error that says so", what, err)
		}
	}
}

func TestEncodings(t *testing.T) {
	for encoding, fine := range map[string]bool{"LATIN1": false, "UTF8": true, "SQL_ASCII": true} {
		u := newDatabase(t, "ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C'")
		err := postgres.MigrateURL(t.Context(), u, postgres.Config{})
		if (err == nil) != fine {
			t.Errorf("Migrate in a database of encoding %s: %v", encoding, err)
		}
		if !fine || err != nil {
			continue
		}
		s := storeOn(t, newPool(t, u), postgres.Config{})
		put(t, s, attend.Write{Scope: "日本/ø", Inputs: [][]byte{{1}}, Rows: []attend.Row{decisionRow("日本/ø", "d")}})
		if got, _ := ids(t, s.Log(), attend.Query{Prefix: "日本"}); len(got) != 1 {
			t.Errorf("encoding %s: Read of a prefix yields %v, want one row", encoding, got)
		}
	}
}

// What a store needs at run time is on the tables alone: the role that runs the
// suites can make none, and owns none.
func TestRoleWithLeastRights(t *testing.T) {
	base := newDatabase(t, "")
	admin := newPool(t, base)
	role, as := newRole(t, base, "p w")
	if _, err := admin.Exec(t.Context(), "REVOKE CREATE ON SCHEMA public FROM PUBLIC; REVOKE TEMPORARY ON DATABASE "+admin.Config().ConnConfig.Database+" FROM PUBLIC"); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, as)
	if err := postgres.Migrate(t.Context(), pool, postgres.Config{Prefix: "own_"}); err == nil {
		t.Fatal("the role can make tables, so it is no test")
	}
	f := &factory{pool: pool, admin: admin, config: postgres.Config{Role: role}, of: make(map[any]postgres.Config)}
	for _, suite := range []func(*testing.T, conformance.Store){conformance.Scope, conformance.Log, conformance.Concurrent} {
		suite(t, f.store())
	}
	conformance.EventLog(t, f.events())

	c := postgres.Config{Prefix: newPrefix()}
	migrated(t, admin, c) // without a role to grant to
	if _, err := postgres.New(t.Context(), pool, c); err == nil {
		t.Error("New on tables that were not granted gives no error")
	}
}

// Retention deletes, and says up to where, with the same rights.
func TestRoleTrims(t *testing.T) {
	base := newDatabase(t, "")
	role, as := newRole(t, base, "pw")
	c := migrated(t, newPool(t, base), postgres.Config{Role: role})
	s := storeOn(t, newPool(t, as), c)
	put(t, s, attend.Write{Scope: "ops", Rows: []attend.Row{decisionRow("ops", "a"), decisionRow("ops", "b")}})
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: 1}, noon); err != nil {
		t.Fatal(err)
	}
	if got, _ := ids(t, s.Log(), attend.Query{}); len(got) != 1 {
		t.Errorf("after Trim to one row the log has %v", got)
	}
}

// A hardened server lets nobody but superusers ask who it is.
func TestServerThatHidesItsIdentity(t *testing.T) {
	for _, function := range []string{"pg_control_system()", "pg_walfile_name(pg_lsn)"} {
		server := ownServer(t, nil)
		admin := newPool(t, server.URL())
		before := postgres.Config{Prefix: "before_"}
		if err := postgres.Migrate(t.Context(), admin, before); err != nil {
			t.Fatal(err)
		}
		role, as := newRole(t, server.URL(), "pw")
		if _, err := admin.Exec(t.Context(), "REVOKE EXECUTE ON FUNCTION "+function+" FROM PUBLIC"); err != nil {
			t.Fatal(err)
		}
		c := postgres.Config{Role: role}
		if err := postgres.Migrate(t.Context(), admin, c); err != nil {
			t.Fatal(err)
		}
		pool := newPool(t, as)
		s, l := storeOn(t, pool, c), logOn(t, pool, c)
		put(t, s, attend.Write{Scope: "ops", Rows: []attend.Row{decisionRow("ops", "d")}})
		if b, err := s.Log().Bounds(t.Context()); err != nil || b.Newest == 0 {
			t.Errorf("without %s: Bounds = %+v, %v", function, b, err)
		}
		if got, _ := ids(t, s.Log(), attend.Query{}); len(got) != 1 {
			t.Errorf("without %s: Read yields %v, want one row", function, got)
		}
		addEvents(t, l, 1, 2)
		if got, _, _ := eventIDs(t, l, "ops", ""); len(got) != 2 {
			t.Errorf("without %s: Batches yields %v, want two events", function, got)
		}
		// Tables of before say what to do, and Migrate helps.
		before.Role = role
		if _, err := admin.Exec(t.Context(), "GRANT SELECT ON before_schema, before_logs TO "+role); err != nil {
			t.Fatal(err)
		}
		if _, err := postgres.New(t.Context(), pool, before); !errors.Is(err, postgres.ErrNotMigrated) {
			t.Errorf("without %s: New on tables of before: %v, want an error that is ErrNotMigrated", function, err)
		}
		if err := postgres.Migrate(t.Context(), admin, before); err != nil {
			t.Fatal(err)
		}
		put(t, storeOn(t, pool, before), attend.Write{Scope: "ops", Rows: []attend.Row{decisionRow("ops", "d")}})
	}
}
