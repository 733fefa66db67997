package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// Config is how a [Store] or an [EventLog] works. The zero Config is good for
// use. It is not kept in the file: each process has its own.
type Config struct {
	// Retain says how much of the log is kept; the zero one keeps everything.
	// It is applied in small steps, so that a log may hold a little more for a
	// while. In a Store that is done in the background, and an age counts from
	// the newest row's time, not from a clock. In an EventLog it is done with
	// each Append; an age counts from when an event was appended, and Count is
	// of all events of the log.
	Retain attend.Retain
	// Patience is how long a call waits for the file's lock while others hold
	// it, and Trim for each of its steps. Then its error is [ErrLocked]. Zero:
	// 10 s.
	Patience time.Duration
	// Budget is how many bytes of what was written lately a Store may keep in
	// memory and in its journal, until they are folded into rows of their own.
	// More is faster, and takes longer to open. Zero: 128 MiB. An EventLog has
	// no use for it.
	Budget int
}

const budget = 128 << 20

// A Store is an [attend.ScopeStore] in a SQLite file. Its log is an
// [attend.Waiter] too. Its methods may be called from many goroutines at once,
// and the file be used by several Stores, in several processes of one host.
type Store struct {
	d    *database
	j    *journal.Journal
	rows logBackend // under log
	log  journal.Log
}

// Open returns the store in a file, and makes the file if there is none. The
// error names the file. It is [attend.ErrNewer] for one that a newer release
// has changed, [attend.ErrInvalid] for a path or a Config that can't be used, and
// [ErrLocked] where others keep it locked.
func Open(ctx context.Context, file string, c Config) (*Store, error) {
	d, err := openFile(ctx, file, c)
	if err == nil {
		return newStore(ctx, d, c)
	}
	return nil, fmt.Errorf("sqlite: open: %w", err)
}

// New returns the store in the file under db, beside whatever else is there;
// the names of its tables begin with attend_. db is one of
// github.com/mattn/go-sqlite3, which no other package wraps. The store takes up
// to seven connections out of it, and gives none back; Close ends them. It
// leaves db open. New turns on the file's write-ahead log. Errors are those of
// [Open].
func New(ctx context.Context, db *sql.DB, c Config) (*Store, error) {
	d, err := openPool(ctx, db, c)
	if err == nil {
		return newStore(ctx, d, c)
	}
	return nil, fmt.Errorf("sqlite: open: %w", err)
}

// check looks at what no value of a field can mean.
func (c *Config) check() error {
	switch {
	case c.Patience < 0:
		return &attend.InvalidError{Field: "Patience", Want: "0 or a duration above it"}
	case c.Budget < 0:
		return &attend.InvalidError{Field: "Budget", Want: "0 or a number of bytes above it"}
	}
	return nil
}

func openFile(ctx context.Context, file string, c Config) (*database, error) {
	dial, abs, err := fileDialer(file)
	if err = cmp.Or(c.check(), err); err != nil {
		return nil, err
	}
	return newDatabase(ctx, abs, dial, c.Patience, false)
}

func openPool(ctx context.Context, db *sql.DB, c Config) (*database, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if n := db.Stats().MaxOpenConnections; n > 0 && n <= needed {
		return nil, &attend.InvalidError{Field: "db", Want: fmt.Sprintf("more than %d connections: a store keeps that many, and the app needs some", needed)}
	}
	dial := poolDialer(db)
	within, cancel := context.WithTimeout(ctx, cmp.Or(c.Patience, patience))
	defer cancel()
	file, err := poolFile(within, dial)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		err = errNoConn
	}
	if err != nil {
		return nil, err
	}
	return newDatabase(ctx, file, dial, c.Patience, true)
}

func newStore(ctx context.Context, d *database, c Config) (*Store, error) {
	s := &Store{d: d, rows: logBackend{d: d, wait: waiters{d: d, news: newRows}}}
	err := d.view(ctx, func(c *conn) (err error) {
		s.rows.epoch, err = epoch(c, metaEpoch)
		return err
	})
	s.log = journal.Log{Backend: &s.rows, Name: "sqlite", Epoch: s.rows.epoch, Retain: c.Retain}
	if err == nil {
		s.j, err = journal.Open(ctx, &backend{d: d, wait: &s.rows.wait, log: &s.log}, journal.Config{Budget: cmp.Or(c.Budget, budget)})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open: %w", err), d.close())
	}
	d.run(func() { s.log.Keep(d.done) })
	return s, nil
}

// Close ends this handle: every later call, and every Wait that blocks, answers
// [attend.ErrClosed]. Calls that are under way end first. What was committed is
// in the file whether it is closed or not. Closing it again does nothing.
func (s *Store) Close() error {
	s.j.Close()
	if err := s.d.close(); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// Load returns what is kept of the scope, as [attend.ScopeStore] says.
func (s *Store) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	r, err := s.j.Load(ctx, scope)
	return r, fail(err)
}

// Commit applies the writes, as [attend.ScopeStore] says, in one transaction
// that is synced to the disk.
func (s *Store) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	out, err := s.j.Commit(ctx, writes)
	if errors.Is(err, attend.ErrTooLarge) {
		err = s.d.explain(err) // it never came to the file, whose name is missing
	}
	return out, fail(err)
}

// Due yields the scopes that are due, as [attend.ScopeStore] says.
func (s *Store) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return func(yield func(attend.Scope, error) bool) {
		for scope, err := range s.j.Due(ctx, now) {
			if !yield(scope, fail(err)) {
				return
			}
		}
	}
}

// Remove forgets the scope, as [attend.ScopeStore] says.
func (s *Store) Remove(ctx context.Context, scope attend.Scope) error {
	return fail(s.j.Remove(ctx, scope))
}

// Log returns this handle's decision log. It is an [attend.Waiter].
func (s *Store) Log() attend.DecisionLog { return &s.log }

func fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %w", err)
}
