package journal

import (
	"encoding/json"
	"fmt"
	"iter"

	attend "github.com/attend-go/attend/core"
)

const (
	batchEvents = 1000
	batchBytes  = 1 << 20
)

// An EventRow is an event as an event log keeps it. What is not asked for may be
// left empty.
type EventRow struct {
	Pos   attend.Position
	Taken int64 // when it was appended, in Unix milliseconds
	Scope attend.Scope
	BatchEvent
}

// AddedEvents is what an append comes to.
type AddedEvents struct {
	Newest  attend.Position // of the log
	Total   int             // how many events there were in the batches
	Entries []Entry         // of the new rows, in no order
	Topics  []Topic         // who has something new
}

// AddEvents calls put for each event of the batches that is not kept already,
// with the positions behind newest. Which ones are, kept says of those that were
// there before.
func AddEvents(line []*Batch, newest attend.Position, now int64, kept func(scope attend.Scope, id string) (bool, error), put func(EventRow) error) (a AddedEvents, err error) {
	type name struct {
		scope attend.Scope
		id    string
	}
	seen := make(map[name]struct{}) // of this transaction: not in the index yet
	a.Newest = newest
	for _, b := range line {
		a.Total += len(b.Events)
		before := a.Newest
		for _, e := range b.Events {
			n := name{b.Scope, e.ID}
			if _, ok := seen[n]; ok {
				continue
			}
			if ok, err := kept(b.Scope, e.ID); ok || err != nil {
				if err != nil {
					return a, err
				}
				continue
			}
			seen[n] = struct{}{}
			a.Newest++
			if err := put(EventRow{a.Newest, now, b.Scope, e}); err != nil {
				return a, err
			}
			a.Entries = append(a.Entries, Entry{EventKey(b.Scope, e.ID), a.Newest}, Entry{ScopeKey(b.Scope), a.Newest})
		}
		if a.Newest > before {
			a.Topics = append(a.Topics, Topic{Name: string(b.Scope)})
		}
	}
	return a, nil
}

// OldEvents are rows to delete.
type OldEvents struct {
	Rows    []attend.Position // oldest first
	Entries []Entry           // of the rows, in no order
	// Trimmed is the newest of the rows of each scope. That mark stays when all
	// of its events are gone: without it, who has read everything could not be
	// told from who lost something.
	Trimmed map[attend.Scope]attend.Position
}

// FindOldEvents returns up to n of the log's oldest rows that keep does not
// keep, in a log whose newest position is newest.
func FindOldEvents(oldest iter.Seq2[EventRow, error], keep attend.Retain, newest attend.Position, now int64, n int) (o OldEvents, err error) {
	if keep.Count <= 0 && keep.Age <= 0 {
		return o, nil
	}
	o.Trimmed = make(map[attend.Scope]attend.Position)
	for e, err := range oldest {
		if err != nil {
			return o, err
		}
		old := keep.Age > 0 && e.Taken < now-keep.Age.Milliseconds()
		if len(o.Rows) == n || !old && (keep.Count <= 0 || newest-e.Pos < attend.Position(keep.Count)) {
			break
		}
		o.Rows = append(o.Rows, e.Pos)
		o.Entries = append(o.Entries, Entry{ScopeKey(e.Scope), e.Pos}, Entry{EventKey(e.Scope, e.ID), e.Pos})
		o.Trimmed[e.Scope] = e.Pos
	}
	return o, nil
}

// Place is where to read on behind after. It is not ok when events behind after
// are gone, up to trimmed, or after is no cursor of this log; reading goes on
// from the oldest kept then.
func Place(after attend.Cursor, epoch string, newest, trimmed attend.Position) (at attend.Position, ok bool) {
	if after == "" {
		return trimmed, true
	}
	p, bad := attend.ParseLogCursor(string(after))
	if bad != nil || p.Epoch != epoch || p.Position > newest || p.Position < trimmed {
		return trimmed, false
	}
	return p.Position, true
}

// ReadBatch returns the next batch of a scope, out of its events behind at.
func ReadBatch(events iter.Seq2[EventRow, error], at attend.Position, epoch string) (b attend.Batch, err error) {
	size := 0
	for row, err := range events {
		if err != nil {
			return attend.Batch{}, err
		}
		var e attend.Event
		if err := json.Unmarshal(row.Body, &e); err != nil {
			// The decoder's error may quote the event.
			return attend.Batch{}, fmt.Errorf("event %d can't be read: %w", row.Pos, attend.ErrCorrupt)
		}
		size += e.Size()
		if len(b.Events) > 0 && size > batchBytes {
			break
		}
		b.Events = append(b.Events, e)
		if at = row.Pos; len(b.Events) == batchEvents {
			break
		}
	}
	b.Cursor = attend.Cursor(attend.LogCursor{Epoch: epoch, Position: at}.String())
	return b, nil
}

// Batches yields what read returns, one batch after the other, until there is
// nothing new. Where events are trimmed before it came to them, a later batch
// has Gap set too.
func Batches(after attend.Cursor, read func(after attend.Cursor) (attend.Batch, error)) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for after := after; ; {
			b, err := read(after)
			if err != nil {
				yield(attend.Batch{}, err)
				return
			}
			if len(b.Events) == 0 && !b.Gap || !yield(b, nil) {
				return
			}
			after = b.Cursor
		}
	}
}
