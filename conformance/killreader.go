package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// killQueries are what the log is followed for.
func killQueries() []attend.Query {
	return []attend.Query{
		{Types: everything},
		{Prefix: "kill/a", Types: []attend.RowType{decision, letter}},
	}
}

// A killReader follows the log, in the process that kills or from life to life of
// a child.
type killReader struct {
	index int
	query attend.Query
	lossy bool // rows that it has read may be lost, with the epoch
	tell  func(killRow)

	mu       sync.Mutex
	cursor   attend.LogCursor // behind what it has read
	segments []killSegment
}

// A killSegment is what was read in one life of the log.
type killSegment struct {
	epoch string
	from  attend.Position // the rows are those behind it
	rows  []killSeen
}

type killSeen struct {
	killRow
	at time.Time
}

// follow reads until ctx ends. Where servers are killed, errors that are no
// violation are for their time alone.
func (f *killReader) follow(ctx context.Context, log attend.DecisionLog, served bool) error {
	waiter, waits := log.(attend.Waiter)
	for {
		err := f.catchUp(ctx, log)
		if _, broke := errors.AsType[*killViolation](err); broke || err != nil && !served {
			return err
		}
		q := f.query
		q.After = f.place()
		if err == nil && waits {
			if err = waiter.Wait(ctx, q); err != nil && !served {
				return err
			}
		}
		if err != nil || !waits {
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
}

// catchUp reads to the end.
func (f *killReader) catchUp(ctx context.Context, log attend.DecisionLog) error {
	q := f.query
	q.After = f.place()
	for e, err := range log.Read(ctx, q) {
		if t, ok := errors.AsType[*attend.TruncatedError](err); ok {
			return f.truncated(t)
		}
		if err != nil {
			return fmt.Errorf("Read: %w", err)
		}
		if err := f.add(rowOf(f.index, e)); err != nil {
			return err
		}
	}
	return nil
}

func (f *killReader) place() attend.LogCursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cursor
}

// A killViolation is a promise that broke, unlike a store that can't be asked.
type killViolation struct{ text string }

func (v *killViolation) Error() string { return v.text }

func violation(format string, args ...any) error { return &killViolation{fmt.Sprintf(format, args...)} }

// truncated goes on in the log's next life, where there may be one.
func (f *killReader) truncated(t *attend.TruncatedError) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lossy {
		return violation("a reader that has read up to %s is told that it is truncated, and to go on at %s: the log has lost what it has read, was trimmed, or changed its epoch",
			placeOf(f.cursor), placeOf(t.Oldest))
	}
	if t.Oldest.Epoch == f.cursor.Epoch {
		return violation("a reader that has read up to %s is told that it is truncated, in the same epoch: what the log has lost was not noticed", placeOf(f.cursor))
	}
	f.cursor = t.Oldest
	f.segments = append(f.segments, killSegment{epoch: t.Oldest.Epoch, from: t.Oldest.Position})
	return nil
}

// add notes a row, which must be the next one.
func (f *killReader) add(r killRow) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.cursor.Epoch != "" && r.Cursor.Epoch != f.cursor.Epoch:
		return violation("the log's epoch changed under a reader, from row %s to row %s, and it was not told that it is truncated",
			placeOf(f.cursor), placeOf(r.Cursor))
	case r.Cursor.Epoch == "" || r.Cursor.Position <= f.cursor.Position:
		return violation("a reader that has read up to %s is handed a row at %s", placeOf(f.cursor), placeOf(r.Cursor))
	}
	f.cursor = r.Cursor
	if f.tell != nil {
		f.tell(r)
		return nil
	}
	if len(f.segments) == 0 {
		f.segments = []killSegment{{epoch: r.Cursor.Epoch}}
	}
	s := &f.segments[len(f.segments)-1]
	s.rows = append(s.rows, killSeen{r, time.Now()})
	return nil
}

func rowOf(reader int, e attend.Entry) killRow {
	h := fnv.New64a()
	h.Write(e.Body)
	return killRow{Reader: reader, Cursor: e.Cursor, Type: e.Type, ID: e.ID, Scope: e.Scope, At: time.UnixMilli(e.At.UnixMilli()), Sum: h.Sum64()}
}

// placeOf is a cursor to read.
func placeOf(c attend.LogCursor) string {
	if c == (attend.LogCursor{}) {
		return "the start"
	}
	return fmt.Sprintf("position %d of epoch %.8q", c.Position, c.Epoch)
}

func (r killRow) String() string {
	return fmt.Sprintf("%s %s of %.40q at position %d", r.Type, short(r.ID), r.Scope, r.Cursor.Position)
}
