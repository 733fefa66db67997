package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// A database is one handle's connections to a file: one that writes, some that
// read, one that writes the log back. SQLite lets one write transaction in at a
// time, among all processes, and waiting for one's turn is done here: nobody
// above sees SQLITE_BUSY.
type database struct {
	file     string // absolute, for the texts of errors
	dial     dialer
	patience time.Duration
	at       *journal.File // what is at its path, from the first connection on

	writer  chan *conn // holds the connection while nobody writes; a nil one is still to be made
	readers chan *conn // the same for those that read
	back    *checkpointer

	mu     sync.Mutex
	closed bool
	life   context.Context // ends with it
	done   <-chan struct{} // closed with it
	calls  sync.WaitGroup  // calls under way, and goroutines
	cancel context.CancelFunc
	end    sync.Once
	err    error // of closing
}

// maxReaders is how many connections read at the same time at most, and needed
// how many a handle has in all.
const (
	maxReaders = 4
	needed     = maxReaders + 3 // and one that writes, one that writes the log back, one that polls
)

const patience = 10 * time.Second

// newDatabase makes or finds the tables in the file.
func newDatabase(ctx context.Context, file string, dial dialer, wait time.Duration, shared bool) (*database, error) {
	life, cancel := context.WithCancel(context.Background())
	d := &database{
		file: file, dial: dial, patience: cmp.Or(wait, patience),
		writer: make(chan *conn, 1), readers: make(chan *conn, maxReaders),
		life: life, done: life.Done(), cancel: cancel,
	}
	d.writer <- nil
	for range maxReaders {
		d.readers <- nil
	}
	d.back = &checkpointer{d: d, wrote: make(chan struct{}, 1)}
	if err := d.create(ctx, shared); err != nil {
		d.close()
		return nil, err
	}
	d.run(d.back.run)
	return d, nil
}

// run starts a goroutine that close waits for. It returns soon after done is
// closed.
func (d *database) run(f func()) {
	if d.enter() == nil {
		go func() {
			defer d.calls.Done()
			f()
		}()
	}
}

// enter begins a call, which ends with calls.Done.
func (d *database) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return attend.ErrClosed
	}
	d.calls.Add(1)
	return nil
}

// close ends the handle: calls that wait return, those that work end first.
func (d *database) close() error {
	d.mu.Lock()
	d.closed = true
	d.cancel()
	d.mu.Unlock()
	d.end.Do(func() {
		d.calls.Wait()
		var errs []error
		for range maxReaders {
			if c := <-d.readers; c != nil {
				errs = append(errs, c.close())
			}
		}
		// The last connection of all processes writes the log back.
		if c := <-d.writer; c != nil {
			c.hold(func() error {
				if life, err := readLife(c); err == nil {
					d.at.Note(life)
				}
				return nil
			})
			errs = append(errs, c.close())
		}
		d.err = d.explain(errors.Join(errs...))
	})
	return d.err
}

// update calls f in a write transaction. A context that ends before it began is
// honoured; once it has, it is seen through.
func (d *database) update(ctx context.Context, f func(*conn) error) error {
	return d.updateUntil(ctx, time.Now().Add(d.patience), f)
}

// updateUntil is update for a call that has waited already.
func (d *database) updateUntil(ctx context.Context, until time.Time, f func(*conn) error) error {
	return d.use(ctx, d.writer, until, func(c *conn) error {
		if err := d.patient(ctx, until, func() error { _, err := c.exec("BEGIN IMMEDIATE"); return err }); err != nil {
			return err
		}
		c.wrote = 0 // SQLite tells of BEGIN what was true of the change before
		err := d.at.Check()
		if err == nil {
			err = d.check(c)
		}
		if err == nil {
			err = f(c)
		}
		var life journal.Life
		note := err == nil && d.at.Due()
		if note {
			life, err = readLife(c)
		}
		wrote := c.wrote
		if err == nil {
			_, err = c.exec("COMMIT")
		}
		if err == nil {
			d.back.note(wrote)
		}
		if err == nil && note {
			d.at.Note(life)
		}
		if err != nil && !c.c.AutoCommit() {
			// Of the two errors the first one tells more. A connection that
			// can't roll back had one that is SQLite's, and is dropped.
			c.exec("ROLLBACK")
		}
		return err
	})
}

// view calls f in a read transaction: all it reads is of one moment. f is
// called again where a lock was in the way.
func (d *database) view(ctx context.Context, f func(*conn) error) error {
	until := time.Now().Add(d.patience)
	return d.use(ctx, d.readers, until, func(c *conn) error {
		if err := d.at.InPlace(); err != nil {
			return err
		}
		return d.patient(ctx, until, func() error {
			if _, err := c.exec("BEGIN"); err != nil {
				return err
			}
			err := d.check(c)
			if err == nil {
				err = f(c)
			}
			if !c.c.AutoCommit() {
				if _, e := c.exec("ROLLBACK"); err == nil {
					err = e
				}
			}
			return err
		})
	})
}

// use calls f with a connection of the kind, which it makes where there is none
// yet.
func (d *database) use(ctx context.Context, kind chan *conn, until time.Time, f func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.calls.Done()
	c, err := d.take(ctx, kind, until)
	if err != nil {
		return d.explain(err)
	}
	if c == nil {
		if c, err = d.connect(ctx, until, kind == d.writer); err != nil {
			kind <- nil
			return d.explain(err)
		}
	}
	err = c.hold(func() error { return f(c) })
	if broken(err) && !errors.Is(err, ErrLocked) {
		c.close()
		c = nil
	}
	kind <- c
	return d.explain(err)
}

// late is the error of a call that has waited as long as it may.
func (d *database) late(err error) error {
	if err == nil {
		return fmt.Errorf("waited %v: %w", d.patience, ErrLocked)
	}
	return fmt.Errorf("waited %v: %w: %w", d.patience, ErrLocked, err)
}

// take takes a connection of the kind, or its place.
func (d *database) take(ctx context.Context, kind chan *conn, until time.Time) (*conn, error) {
	select {
	case c := <-kind:
		return c, nil
	default:
	}
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case c := <-kind:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.done:
		return nil, attend.ErrClosed
	case <-late.C:
		return nil, d.late(nil)
	}
}

// patient calls f until it is not busy. The lock has no queue, so one looks
// often: a commit is a fraction of a millisecond, and the next one begins soon
// after.
func (d *database) patient(ctx context.Context, until time.Time, f func() error) error {
	pause := 50 * time.Microsecond
	for {
		err := f()
		if !busy(err) {
			return err
		}
		if !time.Now().Before(until) {
			return d.late(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.done:
			return attend.ErrClosed
		case <-time.After(pause + rand.N(pause)):
		}
		pause = min(2*pause, 2*time.Millisecond)
	}
}

// connect makes a connection and sets what SQLite keeps a connection.
func (d *database) connect(ctx context.Context, until time.Time, writes bool) (c *conn, err error) {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	err = d.patient(ctx, until, func() error {
		if d.at != nil {
			if err = d.at.Check(); err != nil {
				return err
			}
		}
		if c, err = d.dial(within, d.at == nil); err != nil {
			return err
		}
		if d.at == nil { // before anybody else can be here
			if d.at, err = journal.FileAt(d.file); err != nil {
				c.close()
				return err
			}
		}
		if err = c.hold(func() error { return configure(c, writes) }); err != nil {
			c.close()
		}
		return err
	})
	if d.life.Err() != nil && errors.Is(err, context.Canceled) {
		err = attend.ErrClosed
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("waited %v: %w", d.patience, errNoConn)
	}
	return c, err
}

// configure sets up a connection. Commits are synced, on a Mac to the disk
// itself. Writing the log back is not done in commits.
func configure(c *conn, writes bool) error {
	const all = `PRAGMA busy_timeout=0; PRAGMA synchronous=FULL; PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1;
		PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=67108864;`
	if err := c.set(all); err != nil {
		return err
	}
	if !writes {
		return c.set("PRAGMA query_only=1")
	}
	// Not larger: a commit that moves pages about makes SQLite go through all
	// of its cache.
	return c.set("PRAGMA cache_size=-8192")
}
