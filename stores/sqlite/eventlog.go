package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
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
	l := &EventLog{d: d, keep: c.Retain, turn: make(chan struct{}, 1)}
	l.wait = waiters{d: d, news: news}
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
		return fmt.Errorf("sqlite: append %d events: %w", len(in), err)
	}
	return nil
}

// append puts b into the line. Whoever has the turn and the file's lock takes
// along all who wait.
func (l *EventLog) append(ctx context.Context, b *batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.d.enter(); err != nil {
		return err
	}
	defer l.d.calls.Done()
	until := time.Now().Add(l.d.patience)
	late := time.NewTimer(l.d.patience)
	defer late.Stop()
	l.mu.Lock()
	l.line = append(l.line, b)
	l.mu.Unlock()
	for {
		var err error
		select {
		case <-b.done: // somebody took it along
			return b.err
		case l.turn <- struct{}{}:
			err = l.commit(ctx, until) // those before it, if they are large
			<-l.turn
		case <-ctx.Done():
			err = ctx.Err()
		case <-late.C:
			err = l.d.explain(l.d.late(nil))
		}
		if err != nil {
			if l.leave(b) {
				return err
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
	if n == 0 {
		return nil
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

// commit adds the batches of the line in one transaction. An error says that it
// did not begin, and that they stand in line still.
func (l *EventLog) commit(ctx context.Context, until time.Time) error {
	var line []*batch
	var a added
	err := l.d.updateUntil(ctx, until, func(c *conn) (err error) {
		if line = l.take(); len(line) > 0 {
			a, err = appendEvents(c, line, l.keep, time.Now().UnixMilli())
		}
		return err
	})
	if line == nil {
		return err
	}
	if err == nil {
		l.d.back.note(a.bytes)
		l.wait.tell(a.topics, a.after, a.last)
	}
	for _, b := range line {
		b.err = err
		close(b.done)
	}
	return nil
}

// Batches yields what the scope's log holds, as [attend.EventLog] says. Where
// events are trimmed before it came to them, a later batch has Gap set too.
func (l *EventLog) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for {
			var b attend.Batch
			err := l.d.view(ctx, func(c *conn) (err error) {
				b, err = readEvents(c, scope, after, l.epoch)
				return err
			})
			if err != nil {
				yield(attend.Batch{}, fmt.Errorf("sqlite: read events: %w", err))
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
	err := l.wait.wait(ctx, []topic{{"", string(scope)}}, func(c *conn) (ready bool, newest int64, err error) {
		m, at, ok, err := place(c, scope, after, l.epoch)
		if err != nil || !ok {
			return true, 0, err
		}
		for row, err := range c.rows(scopeEvents, scopeKey(scope), int64(at)) {
			if err != nil || attend.Scope(blob(row[1])) == scope {
				return true, 0, err
			}
		}
		return false, int64(m.newest), nil
	})
	if err != nil {
		return fmt.Errorf("sqlite: wait for events: %w", err)
	}
	return nil
}
