package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// An EventLog is an [attend.EventLog] and an [attend.EventWaiter] in a bbolt
// file. Its methods may be called from many goroutines at once. Appends that
// come together share a transaction.
type EventLog struct {
	d     *database
	keep  attend.Retain
	epoch string
	wait  waiters

	turn chan struct{} // who appends has put a token in
	mu   sync.Mutex
	line []*batch // appends that wait for their turn
}

// A batch is one Append, with all that can be done before its transaction.
type batch struct {
	scope  attend.Scope
	events []event
	done   chan struct{} // closed when err says how it went
	err    error
}

type event struct {
	id   string
	body []byte
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
	l := &EventLog{d: d, keep: c.Retain, turn: make(chan struct{}, 1)}
	l.wait.d = d
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
	b := &batch{scope: scope, events: make([]event, len(in)), done: make(chan struct{})}
	for i, e := range in {
		e, err := e.Clean()
		if err == nil {
			b.events[i].id = e.ID
			b.events[i].body, err = json.Marshal(e)
		}
		if err != nil {
			return &attend.EventError{Index: i, Err: err}
		}
	}
	if err := l.append(ctx, b); err != nil {
		return fmt.Errorf("bolt: append %d events: %w", len(in), err)
	}
	return nil
}

// append puts b into the line. Whoever has the turn takes along all who wait.
func (l *EventLog) append(ctx context.Context, b *batch) error {
	if err := l.d.enter(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	l.line = append(l.line, b)
	l.mu.Unlock()
	for {
		select {
		case <-b.done: // somebody took it along
			return b.err
		case l.turn <- struct{}{}:
			l.commit() // those before it, if they are large
			<-l.turn
		case <-ctx.Done():
			if l.leave(b) {
				return ctx.Err()
			}
			<-b.done
			return b.err
		}
	}
}

// maxLine is how many bytes of events one transaction takes along.
const maxLine = 1 << 20

func (l *EventLog) take() []*batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.line) && size < maxLine {
		for _, e := range l.line[n].events {
			size += len(e.body)
		}
		n++
	}
	taken := l.line[:n:n]
	l.line = l.line[n:]
	return taken
}

func (l *EventLog) leave(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.line {
		if l.line[i] == b {
			l.line = append(l.line[:i:i], l.line[i+1:]...)
			return true
		}
	}
	return false
}

// commit adds the next batches of the line in one transaction. It is nobody's
// context that ends it, since it is for all of them.
func (l *EventLog) commit() {
	line := l.take()
	if len(line) == 0 {
		return
	}
	var topics []topic
	err := l.d.update(context.Background(), func(tx *bbolt.Tx) (err error) {
		topics, err = appendEvents(tx, line, l.keep, time.Now().UnixMilli())
		return err
	})
	if err == nil {
		l.wait.tell(topics)
	}
	for _, b := range line {
		b.err = err
		close(b.done)
	}
}

// Batches yields what the scope's log holds, as [attend.EventLog] says. Where
// events are trimmed before it came to them, a later batch has Gap set too.
func (l *EventLog) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for {
			var b attend.Batch
			err := l.d.view(ctx, func(tx *bbolt.Tx) (err error) {
				b, err = readEvents(tx, scope, after, l.epoch)
				return err
			})
			if err != nil {
				yield(attend.Batch{}, fmt.Errorf("bolt: read events: %w", err))
				return
			}
			if len(b.Events) == 0 && !b.Gap || !yield(b, nil) {
				return
			}
			after = b.Cursor
		}
	}
}

// WaitEvents blocks until there may be more, as [attend.EventWaiter] says.
func (l *EventLog) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	err := l.wait.wait(ctx, []topic{{"", string(scope)}}, func(tx *bbolt.Tx) (bool, error) {
		at, ok, err := place(tx, scope, after, l.epoch)
		if err != nil || !ok {
			return true, err
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
