package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
)

// A Beginner begins a transaction: a *pgx.Conn, a *pgxpool.Pool or a
// *pgxpool.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Migrate makes the tables of c's prefix, for a [Store] and an [EventLog], or
// brings those of an older release up to date, in the first schema of the search
// path. All of it happens or none. Several processes may do it at once, and
// again and again; processes of the release before go on working meanwhile.
//
// It needs a role that can create tables there, and that owns those that exist.
// Tables of a newer release are left alone: the error is [attend.ErrNewer]. Of
// c only Prefix and Role count. No time limit is set: ctx does.
func Migrate(ctx context.Context, db Beginner, c Config) error {
	c, err := c.withDefaults()
	if err == nil && isNil(db) {
		err = errors.New("the connection or pool is nil")
	}
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		return migrate(ctx, tx, c, schema())
	})
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	return nil
}

// isNil also knows a nil pointer of a type that Beginner names.
func isNil(db Beginner) bool {
	switch db := db.(type) {
	case nil:
		return true
	case *pgx.Conn:
		return db == nil
	case *pgxpool.Pool:
		return db == nil
	case *pgxpool.Conn:
		return db == nil
	}
	return false
}

// MigrateURL is [Migrate] over a connection of its own.
func MigrateURL(ctx context.Context, url string, c Config) error {
	cfg, err := parse("url", url)
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return Migrate(ctx, conn, c)
}

// migrate takes the steps that the tables have not had.
func migrate(ctx context.Context, tx pgx.Tx, c Config, steps []string) error {
	// One at a time. The number is only to be the same in each process.
	h := fnv.New64a()
	h.Write([]byte("attend migrate " + c.Prefix))
	if err := run(ctx, tx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", int64(h.Sum64()))); err != nil {
		return err
	}
	var about server
	if err := tx.QueryRow(ctx, aboutServer, pgx.QueryExecModeExec).Scan(about.fields()...); err != nil {
		return err
	}
	if err := about.check(); err != nil {
		return err
	}
	if err := run(ctx, tx, c.named(`CREATE TABLE IF NOT EXISTS {schema} (version integer NOT NULL)`)); err != nil {
		return err
	}
	version := 0
	err := tx.QueryRow(ctx, c.named(`SELECT version FROM {schema}`), pgx.QueryExecModeExec).Scan(&version)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = run(ctx, tx, c.named(`INSERT INTO {schema} VALUES (0)`))
	case err == nil && version > len(steps):
		err = newer(c, version, len(steps))
	}
	if err != nil {
		return err
	}
	for _, step := range steps[min(version, len(steps)):] {
		if err := run(ctx, tx, c.named(step)); err != nil {
			return err
		}
	}
	if err := run(ctx, tx, c.named(fmt.Sprintf(`UPDATE {schema} SET version = %d`, len(steps)))); err != nil {
		return err
	}
	return settle(ctx, tx, c)
}

// settle writes what depends on the server, and grants what the role needs. A log
// that is not bound stays so, since the stores that are open would know it under
// another epoch than those that open later.
func settle(ctx context.Context, tx pgx.Tx, c Config) error {
	own, err := lineageOf(ctx, tx)
	if err != nil {
		return err
	}
	for _, log := range []string{"decisions", "events"} {
		_, err := tx.Exec(ctx, c.named(`INSERT INTO {logs} AS l (name, epoch, bound) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET bound = l.bound AND excluded.bound`), pgx.QueryExecModeExec, log, rand.Text(), own != nil)
		if err != nil {
			return err
		}
		// A lineage that is known stays: the jump belongs to the next append.
		_, err = tx.Exec(ctx, c.named(`UPDATE {turns} t SET lineage = CASE WHEN l.bound THEN coalesce(t.lineage, $2) END
			FROM {logs} l WHERE l.name = t.name AND t.name = $1`), pgx.QueryExecModeExec, log, own)
		if err != nil {
			return err
		}
	}
	if c.Role == "" {
		return nil
	}
	role := pgx.Identifier{c.Role}.Sanitize()
	for _, t := range tables() {
		rights := "SELECT, INSERT, UPDATE, DELETE"
		if t == "{schema}" {
			rights = "SELECT"
		}
		if err := run(ctx, tx, c.named("GRANT "+rights+" ON "+t+" TO ")+role); err != nil {
			return err
		}
	}
	return nil
}

// lineageOf is nil where the server or its rights hide it from ordinary roles.
// Positions are not protected against going back to a backup then.
func lineageOf(ctx context.Context, tx pgx.Tx) (*string, error) {
	var open bool
	err := tx.QueryRow(ctx, `SELECT count(*) = 3 AND bool_and(has_function_privilege('public', p.oid, 'EXECUTE')) FROM pg_proc p
		WHERE p.pronamespace = 'pg_catalog'::regnamespace
		AND p.proname IN (`+lineageFunctions+`)`, pgx.QueryExecModeExec).Scan(&open)
	if err != nil || !open {
		return nil, err
	}
	sub, err := tx.Begin(ctx) // what fails must not end the migration
	if err != nil {
		return nil, err
	}
	var own string
	err = sub.QueryRow(ctx, "SELECT "+lineage, pgx.QueryExecModeExec).Scan(&own)
	switch code(err) {
	case "":
	case codeNoFunction, codeNoPrivilege, codeUnsupported, codeNoSuchObject:
		return nil, sub.Rollback(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &own, sub.Commit(ctx)
}

// run executes statements without parameters.
func run(ctx context.Context, tx pgx.Tx, sql string) error {
	_, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func newer(c Config, version, known int) error {
	return fmt.Errorf("the tables with the prefix %s have version %d, this release knows %d: %w", c.Prefix, version, known, attend.ErrNewer)
}

// A server is what must be known of one.
type server struct {
	version  int // 150004 is 15.4
	encoding string
}

const aboutServer = `SELECT current_setting('server_version_num')::int, current_setting('server_encoding')`

func (s *server) fields() []any { return []any{&s.version, &s.encoding} }

func (s *server) check() error {
	if s.version < 130000 {
		return fmt.Errorf("the server is PostgreSQL %d, which is too old: 13 or later is needed", s.version/10000)
	}
	if s.encoding != "UTF8" && s.encoding != "SQL_ASCII" {
		return fmt.Errorf("the database's encoding is %s, which can't hold every scope's name: UTF8 is needed", s.encoding)
	}
	return nil
}
