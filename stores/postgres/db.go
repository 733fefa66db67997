package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A db is what a Store and an EventLog have in common: a pool, its settings,
// and goroutines that end when it is closed.
type db struct {
	pool  *pgxpool.Pool
	own   bool // the pool ends with it
	cfg   Config
	bound bool            // the server's identity is part of an epoch
	lanes int             // statements that one commit may be at once
	life  context.Context // ends at Close
	end   context.CancelFunc

	strict atomic.Bool // statements bring their isolation level

	mu   sync.Mutex
	work sync.WaitGroup // not added to once life has ended
}

// openURL makes a db with a pool of its own.
func openURL(ctx context.Context, url string, c Config) (*db, error) {
	cfg, err := parse("url", url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d, err := open(ctx, pool, c)
	if err != nil {
		pool.Close()
		return nil, err
	}
	d.own = true
	return d, nil
}

// open checks settings, server and schema.
func open(ctx context.Context, pool *pgxpool.Pool, c Config) (*db, error) {
	c, err := c.withDefaults()
	if err == nil && pool == nil {
		err = errors.New("the pool is nil")
	}
	if err != nil {
		return nil, err
	}
	if c.Listen != "" {
		if _, err := parse("Listen", c.Listen); err != nil {
			return nil, err
		}
	}
	d := &db{pool: pool, cfg: c, lanes: min(maxLanes, int(pool.Config().MaxConns)/2)}
	d.life, d.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := d.check(ctx); err != nil {
		d.end()
		return nil, err
	}
	return d, nil
}

func (d *db) check(ctx context.Context) error {
	version, about := 0, server{}
	err := d.try(ctx, true, func(ctx context.Context) error {
		return d.pool.QueryRow(ctx, d.cfg.named(aboutServer+`, version FROM {schema}`)).Scan(append(about.fields(), &version)...)
	})
	known := len(schema())
	switch {
	case code(err) == codeNoTable, errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("there are no tables with the prefix %s: %w", d.cfg.Prefix, ErrNotMigrated)
	case err != nil:
		return err
	case version > known:
		return newer(d.cfg, version, known)
	case version < known:
		return fmt.Errorf("the tables with the prefix %s have version %d, this release needs %d: %w", d.cfg.Prefix, version, known, ErrNotMigrated)
	}
	if err := about.check(); err != nil {
		return err
	}
	return d.bind(ctx)
}

// bind finds out whether the logs are bound to the server.
func (d *db) bind(ctx context.Context) error {
	var able bool
	err := d.try(ctx, true, func(ctx context.Context) error {
		return d.pool.QueryRow(ctx, d.cfg.named(`SELECT bool_or(l.bound), (SELECT count(*) = 3 AND bool_and(has_function_privilege(p.oid, 'EXECUTE'))
			FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN (`+lineageFunctions+`))
			FROM {logs} l HAVING count(*) = 2`)).Scan(&d.bound, &able)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("the table %s lacks a row: %w", d.cfg.named("{logs}"), ErrNotMigrated)
	case err == nil && d.bound && !able:
		return fmt.Errorf("the role may no longer execute one of %s: grant it, or: %w", lineageFunctions, ErrNotMigrated)
	}
	return err
}

// close ends what runs and waits for it. Calls under way end with an error.
func (d *db) close() {
	d.mu.Lock()
	d.end()
	d.mu.Unlock()
	d.work.Wait()
	if d.own {
		d.pool.Close()
	}
}

// start runs f until it returns, which it must when its context ends. After
// close it does nothing and reports false.
func (d *db) start(f func(ctx context.Context)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return false
	}
	d.work.Go(func() { f(d.life) })
	return true
}

// attempts is how often a call is made at most, where trying again is safe.
const attempts = 4

// call runs f within the time limit, and says whose error it is. Where nothing
// was done it tries again at once; where again is true, f can be repeated
// whatever became of it, and a broken connection is no reason to give up either.
func (d *db) call(ctx context.Context, what string, again bool, f func(ctx context.Context) error) error {
	if err := d.ready(ctx, what); err != nil {
		return err
	}
	err := d.try(ctx, again, f)
	switch {
	case err == nil:
		return nil
	case d.life.Err() != nil:
		return closedError(what)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("postgres: %s: %w: %w", what, ctx.Err(), err)
	}
	return fmt.Errorf("postgres: %s: %w", what, err)
}

// ready is the error of a call that need not begin.
func (d *db) ready(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
	if d.life.Err() != nil {
		return closedError(what)
	}
	return nil
}

func (d *db) try(ctx context.Context, again bool, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	for n := 1; ; n++ {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || n == attempts || !untouched(err) && !(again && unreached(err)) {
			return err
		}
		pause(ctx, time.Duration(n)*10*time.Millisecond)
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
