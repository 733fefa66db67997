package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
)

// A Store is an [attend.ScopeStore] in PostgreSQL, one of any number on the same
// tables, in this process and in others. Its log is an [attend.Waiter]. Its
// methods may be called from many goroutines at once.
type Store struct {
	*db
	log    decisionLog
	keeper *keeper // nil: everything is kept
	texts  statements

	mending atomic.Bool // see due.go
}

// Open returns a store on the tables that [Migrate] made, with a pool of its
// own; the pool's settings can be part of the URL. Missing or older tables are
// an error that is [ErrNotMigrated], newer ones [attend.ErrNewer]. The error's
// text holds no password. Close ends the store.
func Open(ctx context.Context, url string, c Config) (*Store, error) {
	d, err := openURL(ctx, url, c)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return newStore(d), nil
}

// New is [Open] on the caller's pool, which lives on when the store is closed.
// A call takes one connection, and lets it go before it yields or returns. A nil
// pool is an error.
func New(ctx context.Context, pool *pgxpool.Pool, c Config) (*Store, error) {
	d, err := open(ctx, pool, c)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return newStore(d), nil
}

func newStore(d *db) *Store {
	s := &Store{db: d}
	s.texts.init(d)
	s.log.init(d)
	if s.cfg.Retain != (attend.Retain{}) {
		s.keeper = newKeeper(s.cfg.Retain.Count, s.cfg.Retain.Verdicts)
		s.start(func(ctx context.Context) { s.keeper.run(ctx, s.retain) })
	}
	return s
}

// Close ends this store and what it does in the background. Later calls, and
// those that block, answer [attend.ErrClosed]. What other stores hold of the
// same tables lives on. Closing it again does nothing. The error is nil.
func (s *Store) Close() error {
	s.close()
	return nil
}

// Log returns the store's decision log. It is an [attend.Waiter]. Its Trim looks
// for what is too old among the oldest rows, 1,000 at a time, and ends where none
// of 1,000 is: an old row behind so many younger ones waits until they are old.
// A reader of one prefix costs what it finds, except of the prefixes / and :
// alone, whose readers look at every row of their types.
func (s *Store) Log() attend.DecisionLog { return &s.log }

// Load returns what is kept of the scope, as [attend.ScopeStore] says.
func (s *Store) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	var rec attend.Record
	var version int64
	var tail []byte
	var lost bool
	err := s.call(ctx, "load", true, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.texts.load, nameOf(scope)).Scan(&version, &rec.Snapshot, &tail, &lost)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return attend.Record{}, nil
	case err != nil:
		return attend.Record{}, err
	case lost:
		return attend.Record{}, fmt.Errorf("postgres: load: a scope's snapshot is missing: %w", attend.ErrCorrupt)
	}
	rec.Version = uint64(version)
	if rec.Tail, err = splitTail(tail); err != nil {
		return attend.Record{}, fmt.Errorf("postgres: load: %w", err)
	}
	return rec, nil
}

// Remove forgets the scope, as [attend.ScopeStore] says.
//
// It is two statements: the first waits for whoever has the scope, and only the
// second sees the snapshot that came with it. Where there is no scope no snapshot
// is touched, since it would be that of one that is being made.
func (s *Store) Remove(ctx context.Context, scope attend.Scope) error {
	o := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	return s.call(ctx, "remove", true, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, s.pool, o, func(tx pgx.Tx) error {
			n := 0
			if err := tx.QueryRow(ctx, s.texts.remove, nameOf(scope)).Scan(&n, nil); err != nil || n == 0 {
				return err
			}
			_, err := tx.Exec(ctx, s.texts.unsnap, nameOf(scope))
			return err
		})
	})
}

// nameOf is the scope's name as a parameter; one that PostgreSQL can't hold is
// the empty one, which no scope has.
func nameOf(scope attend.Scope) string {
	if !validText(string(scope)) {
		return ""
	}
	return string(scope)
}
