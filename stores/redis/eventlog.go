package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/redis/rueidis"
)

// An EventLog is an [attend.EventLog] and an [attend.EventWaiter] in Redis: one
// process's handle on what may have many. Its methods may be called from many
// goroutines at once.
type EventLog struct {
	*link
	retain attend.Retain
}

// OpenEventLog is [Open] for an event log.
func OpenEventLog(ctx context.Context, url string, o Config) (*EventLog, error) {
	return open(ctx, url, o, newEventLog)
}

// NewEventLog is [New] for an event log.
func NewEventLog(ctx context.Context, c rueidis.Client, o Config) (*EventLog, error) {
	return on(ctx, c, o, newEventLog)
}

func newEventLog(ctx context.Context, c rueidis.Client, own bool, o Config) (*EventLog, error) {
	k := keyspace(o.Prefix)
	link, err := newLink(ctx, c, own, o, k.eventHead(), []string{k.events()})
	if err != nil {
		return nil, err
	}
	l := &EventLog{link: link, retain: o.Retain}
	if o.Retain.Count > 0 || o.Retain.Age > 0 {
		link.keeper = newKeeper(link.log, link.head, l.keep)
	}
	return l, nil
}

// Close ends this handle; see [Store.Close].
func (l *EventLog) Close() error {
	l.close()
	return nil
}

// Append adds the events, as [attend.EventLog] says. After an error that is an
// [*attend.EventError] nothing was added; after any other it may have been, and
// adding them again is safe.
func (l *EventLog) Append(ctx context.Context, scope attend.Scope, events []attend.Event) error {
	args := []string{schema, string(scope), strconv.FormatInt(time.Now().UnixMilli(), 10), message([]string{string(scope)})}
	for i, e := range events {
		e, err := e.Clean()
		if err != nil {
			return &attend.EventError{Index: i, Err: err}
		}
		body, err := json.Marshal(e)
		if err != nil {
			return &attend.EventError{Index: i, Err: err}
		}
		args = append(args, e.ID, string(body))
	}
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if len(events) == 0 {
		return nil
	}
	out, err := l.run(ctx, appendScript, call{
		keys: []string{l.head, l.keys.events(), l.keys.eventList(scope), l.keys.eventIDs(scope)},
		args: args,
	})
	if err != nil {
		return l.failed(ctx, "append", err)
	}
	if len(out) > 1 && out[1] != "" {
		l.hub.grown(position(out[1]), []string{string(scope)})
		if l.keeper != nil {
			l.keeper.poke()
		}
	}
	return nil
}

const (
	batchEvents = 1000
	batchBytes  = 1 << 20
)

// Batches yields what the scope's log holds, as [attend.EventLog] says. Where
// events are trimmed before it came to them, a later batch has Gap set too.
func (l *EventLog) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for {
			b, more, err := l.batch(ctx, scope, after)
			if err != nil {
				yield(attend.Batch{}, err)
				return
			}
			if len(b.Events) == 0 && !b.Gap || !yield(b, nil) || !more {
				return
			}
			after = b.Cursor
		}
	}
}

// batch returns the next events behind after, and whether there are more.
func (l *EventLog) batch(ctx context.Context, scope attend.Scope, after attend.Cursor) (b attend.Batch, more bool, err error) {
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return b, false, err
	}
	defer end()
	p, gap, err := l.behind(ctx, scope, after, batchEvents, true)
	if err != nil {
		return b, false, l.failed(ctx, "read", err)
	}
	b.Gap, more = gap, p.more
	at, size := p.from, 0
	for i := range p.rows {
		var e attend.Event
		if err := json.Unmarshal([]byte(p.rows[i].bytes), &e); err != nil {
			return attend.Batch{}, false, l.failed(ctx, "read", fmt.Errorf("%w: a key of kind events holds no event", attend.ErrCorrupt))
		}
		if size += e.Size(); i > 0 && size > batchBytes {
			more = true
			break
		}
		b.Events, at = append(b.Events, e), p.rows[i].pos
	}
	b.Cursor = attend.Cursor(attend.LogCursor{Epoch: p.epoch, Position: at}.String())
	return b, more, nil
}

// A run is a page of one scope's events, and the position behind which it was
// read.
type run struct {
	page
	from attend.Position
}

// behind reads what is behind a cursor, or from the oldest kept where there is
// a gap: events behind it are gone, or it is no cursor of this log.
func (l *EventLog) behind(ctx context.Context, scope attend.Scope, after attend.Cursor, limit int, bodies bool) (r run, gap bool, err error) {
	c, cerr := attend.ParseLogCursor(string(after))
	r.from = c.Position
	s := span{
		streams: []string{l.keys.events()}, lists: []string{l.keys.eventList(scope)}, marks: []string{eventMark(scope)},
		behind: r.from, limit: limit, bodies: bodies,
	}
	if r.page, err = l.page(ctx, s); err != nil {
		return r, false, err
	}
	trimmed := r.marks[0]
	gap = after != "" && (cerr != nil || c.Epoch != r.epoch || c.Position > r.newest || c.Position < trimmed)
	if !gap {
		r.from = max(r.from, trimmed)
		return r, false, nil
	}
	// From the start, not from the mark: who trims in the meantime moves both.
	s.behind = 0
	r.page, err = l.page(ctx, s)
	if err == nil {
		r.from = r.marks[0]
	}
	return r, true, err
}

// WaitEvents blocks until there may be more, as [attend.EventWaiter] says.
func (l *EventLog) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	c, _ := attend.ParseLogCursor(string(after))
	return l.hub.wait(ctx, c.Position, func(topic string) bool { return topic == string(scope) }, func() (bool, error) {
		ctx, end := context.WithTimeoutCause(ctx, l.timeout, errTimeout) // a Wait may have a day
		defer end()
		if _, _, err := l.begin(ctx); err != nil {
			return false, err
		}
		r, gap, err := l.behind(ctx, scope, after, 1, false)
		return gap || len(r.rows) > 0, l.failed(ctx, "wait", err)
	})
}

// keep applies the log's retention.
func (l *EventLog) keep(ctx context.Context) (deleted int, err error) {
	k := limits{count: l.retain.Count}
	if l.retain.Age > 0 {
		now := time.Now()
		k.aged, k.cutoff, k.now = true, now.Add(-l.retain.Age).UnixMilli(), now.UnixMilli()
	}
	return l.trimAll(ctx, []string{l.keys.events()}, k, func(rows []stored) deletion {
		d := deletion{lists: make(map[string]bool), marks: make(map[string]string)}
		place := make(map[string]string) // of a scope's ids
		for i := range rows {
			r := &rows[i]
			scope := attend.Scope(r.scope)
			if place[r.scope] == "" {
				d.ids = append(d.ids, l.keys.eventIDs(scope))
				place[r.scope] = strconv.Itoa(len(d.ids))
				d.lists[l.keys.eventList(scope)] = true
			}
			d.marks[eventMark(scope)] = decimal(r.pos)
			d.rows = append(d.rows, place[r.scope], r.id, decimal(r.pos))
		}
		return d
	})
}
