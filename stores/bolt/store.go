package bolt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// Config is how a [Store] or an [EventLog] works. The zero Config is good for
// use. It is not kept in the file.
type Config struct {
	// Retain says how much of the log is kept; the zero one keeps everything.
	// It is applied in small steps, so that a log may hold a little more for a
	// while. In a Store that is done in the background, and an age counts from
	// the newest row's time, not from a clock. In an EventLog it is done with
	// each Append; an age counts from when an event was appended, and Count is
	// of all events of the log.
	Retain attend.Retain
	// Patience is how long opening a file waits while another process holds it.
	// Then the error is [ErrLocked]. Zero: 1 s.
	Patience time.Duration
	// Budget is how many bytes of scopes that were written lately a Store keeps
	// in memory and in its journal, until they are folded into values of their
	// own. More is faster and takes longer to open. Zero: what package journal
	// has as its default. An EventLog has no use for it.
	Budget int
}

// A Store is an [attend.ScopeStore] in a bbolt file. Its log is an
// [attend.Waiter] too. Its methods may be called from many goroutines at once.
type Store struct {
	d    *database
	j    *journal.Journal
	rows logBackend // under log
	log  journal.Log
}

// Open returns the store in a file, and makes the file if there is none. One
// process has it at a time. The error names the file. It is [ErrLocked] where
// another process holds it, [attend.ErrNewer] for one that a newer release has
// changed, and [attend.ErrCorrupt] for one that is damaged.
func Open(ctx context.Context, file string, c Config) (*Store, error) {
	d, err := openFile(ctx, file, c.Patience)
	if err != nil {
		return nil, fmt.Errorf("bolt: open: %w", err)
	}
	return newStore(ctx, d, c)
}

// New returns the store in an open database, beside whatever else is there; the
// names of its buckets begin with attend/. Several Stores and EventLogs may
// share a database. Close leaves db open. Options of db that suit it are
// NoFreelistSync, FreelistType as FreelistMapType, and an InitialMmapSize above
// what the file will have: as long as an app holds a read transaction, bbolt
// can't let the file outgrow its map, and Commit waits. As long as an app writes in
// a transaction of db's, calls that write wait for it to end, and some that read
// do, until their contexts end or the store is closed. So the store must not be
// called inside of one. Errors are those of [Open].
func New(ctx context.Context, db *bbolt.DB, c Config) (*Store, error) {
	d, err := openShared(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("bolt: open: %w", err)
	}
	return newStore(ctx, d, c)
}

func newStore(ctx context.Context, d *database, c Config) (*Store, error) {
	s := &Store{d: d, rows: logBackend{d: d, wait: waiters{d: d}}}
	err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
		s.rows.epoch, err = epoch(tx, metaEpoch)
		return err
	})
	s.log = journal.Log{Backend: &s.rows, Name: "bolt", Epoch: s.rows.epoch, Retain: c.Retain}
	if err == nil {
		s.j, err = journal.Open(ctx, &backend{d: d, wait: &s.rows.wait, log: &s.log}, journal.Config{Budget: c.Budget})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bolt: open: %w", err), d.close())
	}
	d.background(func() { s.log.Keep(d.done) })
	return s, nil
}

// Close ends this handle: every later call, and every Wait that blocks, answers
// [attend.ErrClosed]. Calls that are under way end first. What was committed is
// in the file whether it is closed or not. Closing it again does nothing.
func (s *Store) Close() error {
	s.j.Close()
	if err := s.d.close(); err != nil {
		return fmt.Errorf("bolt: close: %w", err)
	}
	return nil
}

// fail says whose error it is.
func fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bolt: %w", err)
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
