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

// An EventLog is an [attend.EventLog] and an [attend.EventWaiter] in a bbolt
// file. Its methods may be called from many goroutines at once. Appends that
// come together share a transaction.
type EventLog struct {
	d     *database
	keep  attend.Retain
	epoch string
	wait  waiters
	line  journal.Line
}

// OpenEventLog returns the event log in a file, and makes the file if there is
// none. Errors are those of [Open].
func OpenEventLog(ctx context.Context, file string, c Config) (*EventLog, error) {
	d, err := openFile(ctx, file, c.Patience)
	if err != nil {
		return nil, fmt.Errorf("bolt: open: %w", err)
	}
	return newEventLog(ctx, d, c)
}

// NewEventLog returns the event log in an open database; [New] says what that
// means for db.
func NewEventLog(ctx context.Context, db *bbolt.DB, c Config) (*EventLog, error) {
	d, err := openShared(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("bolt: open: %w", err)
	}
	return newEventLog(ctx, d, c)
}

func newEventLog(ctx context.Context, d *database, c Config) (*EventLog, error) {
	l := &EventLog{d: d, keep: c.Retain, wait: waiters{d: d}}
	err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
		l.epoch, err = epoch(tx, metaEvents)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bolt: open: %w", err), d.close())
	}
	return l, nil
}

// Close ends this handle, as [Store.Close] does.
func (l *EventLog) Close() error {
	if err := l.d.close(); err != nil {
		return fmt.Errorf("bolt: close: %w", err)
	}
	return nil
}

// Append adds the events, as [attend.EventLog] says. They are synced to the disk
// when it returns. An error that is ctx's or an [*attend.EventError] says that
// nothing was added; after another one it may be, and can be appended again.
func (l *EventLog) Append(ctx context.Context, scope attend.Scope, in []attend.Event) error {
	b, err := journal.MakeBatch(scope, in)
	if err != nil {
		return err
	}
	if err := l.append(ctx, b); err != nil {
		return fmt.Errorf("bolt: append %d events: %w", len(in), err)
	}
	return nil
}

func (l *EventLog) append(ctx context.Context, b *journal.Batch) error {
	if err := l.d.enter(ctx); err != nil {
		return err
	}
	return l.line.Append(ctx, b, func(take func() []*journal.Batch) error {
		var topics []journal.Topic
		err := l.d.update(ctx, func(tx *bbolt.Tx) (err error) {
			topics, err = appendEvents(tx, take(), l.keep, time.Now().UnixMilli())
			return err
		})
		if err == nil {
			l.wait.Tell(topics)
		}
		return err
	})
}

// Batches yields what the scope's log holds, as [attend.EventLog] says. Where
// events are trimmed before it came to them, a later batch has Gap set too.
func (l *EventLog) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return journal.Batches(after, func(after attend.Cursor) (b attend.Batch, err error) {
		err = l.d.view(ctx, func(tx *bbolt.Tx) error {
			b, err = readEvents(tx, scope, after, l.epoch)
			return err
		})
		if err != nil {
			return attend.Batch{}, fmt.Errorf("bolt: read events: %w", err)
		}
		return b, nil
	})
}

// WaitEvents blocks until there may be more, as [attend.EventWaiter] says.
func (l *EventLog) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	err := l.wait.wait(ctx, []journal.Topic{{Name: string(scope)}}, func(tx *bbolt.Tx) (bool, error) {
		at, ok := place(tx, scope, after, l.epoch)
		if !ok {
			return true, nil
		}
		for _, err := range scopeEvents(tx, scope, at) {
			return true, err
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("bolt: wait for events: %w", err)
	}
	return nil
}
