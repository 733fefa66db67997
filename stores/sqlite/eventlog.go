package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// An EventLog is an [attend.EventLog] and an [attend.EventWaiter] in a SQLite
// file. Its methods may be called from many goroutines at once, and the file be
// used by several EventLogs and Stores, in several processes of one host.
// Appends that come together share a transaction.
type EventLog struct {
	d     *database
	keep  attend.Retain
	epoch string
	wait  waiters
	line  journal.Line
}

// OpenEventLog returns the event log in a file, and makes the file if there is
// none; a [Store] may be in the same one. Errors are those of [Open].
func OpenEventLog(ctx context.Context, file string, c Config) (*EventLog, error) {
	d, err := openFile(ctx, file, c)
	if err == nil {
		return newEventLog(ctx, d, c)
	}
	return nil, fmt.Errorf("sqlite: open: %w", err)
}

// NewEventLog returns the event log in the file under db; [New] says what that
// means for db.
func NewEventLog(ctx context.Context, db *sql.DB, c Config) (*EventLog, error) {
	d, err := openPool(ctx, db, c)
	if err == nil {
		return newEventLog(ctx, d, c)
	}
	return nil, fmt.Errorf("sqlite: open: %w", err)
}

func newEventLog(ctx context.Context, d *database, c Config) (*EventLog, error) {
	l := &EventLog{d: d, keep: c.Retain, wait: waiters{d: d, news: newEvents}}
	err := d.view(ctx, func(c *conn) (err error) {
		l.epoch, err = epoch(c, metaEvents)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open: %w", err), d.close())
	}
	return l, nil
}

// Close ends this handle, as [Store.Close] does.
func (l *EventLog) Close() error {
	if err := l.d.close(); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// Append adds the events, as [attend.EventLog] says. They are synced to the disk
// when it returns. An error that is [ErrLocked], ctx's or an
// [*attend.EventError] says that nothing was added; after another one it may
// be, and can be appended again.
func (l *EventLog) Append(ctx context.Context, scope attend.Scope, in []attend.Event) error {
	b, err := journal.MakeBatch(scope, in)
	if err != nil {
		return err
	}
	if err := l.append(ctx, b); err != nil {
		return fmt.Errorf("sqlite: append %d events: %w", len(in), err)
	}
	return nil
}

func (l *EventLog) append(ctx context.Context, b *journal.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.d.enter(); err != nil {
		return err
	}
	defer l.d.calls.Done()
	until := time.Now().Add(l.d.patience)
	inLine, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := l.line.Append(inLine, b, func(take func() []*journal.Batch) error {
		var a added
		err := l.d.updateUntil(ctx, until, func(c *conn) (err error) {
			a, err = appendEvents(c, take(), l.keep, time.Now().UnixMilli())
			return err
		})
		if err == nil {
			l.wait.tell(a.topics, a.after, a.last)
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = l.d.explain(l.d.late(nil))
	}
	return err
}

// Batches yields what the scope's log holds, as [attend.EventLog] says. Where
// events are trimmed before it came to them, a later batch has Gap set too.
func (l *EventLog) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return journal.Batches(after, func(after attend.Cursor) (b attend.Batch, err error) {
		err = l.d.view(ctx, func(c *conn) error {
			b, err = readEvents(c, scope, after, l.epoch)
			return err
		})
		if err != nil {
			return attend.Batch{}, fmt.Errorf("sqlite: read events: %w", err)
		}
		return b, nil
	})
}

// WaitEvents blocks until there may be more, as [attend.EventWaiter] says.
func (l *EventLog) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	err := l.wait.wait(ctx, []journal.Topic{{Name: string(scope)}}, func(c *conn) (ready bool, newest attend.Position, err error) {
		m, at, ok, err := place(c, scope, after, l.epoch)
		if err != nil || !ok {
			return true, 0, err
		}
		for _, err := range scopeEvents(c, scope, at) {
			return true, 0, err
		}
		return false, m.newest, nil
	})
	if err != nil {
		return fmt.Errorf("sqlite: wait for events: %w", err)
	}
	return nil
}
