package memory

import (
	"bytes"
	"context"
	"crypto/rand"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// An EventLog is an [attend.EventLog] in memory: one handle on its data. Its
// methods may be called from many goroutines at once.
type EventLog struct {
	d    *events
	done chan struct{} // closed by Close
}

// events is what all handles share.
type events struct {
	mu     sync.Mutex
	epoch  string
	keep   attend.Retain
	newest attend.Position // over all scopes, so that no place is used twice
	scopes map[attend.Scope]*stream
	order  []*stream // whose event is the oldest, the next one, and so on
}

// A stream is one scope's events. It stays when they were all trimmed: without
// its mark, who has read everything could not be told from who lost something.
type stream struct {
	events  []*event
	ids     map[string]struct{} // of events
	trimmed attend.Position
	waiting map[waiter]struct{}
}

// An event is never changed, so readers use it after the lock is gone.
type event struct {
	attend.Event
	pos   attend.Position
	taken time.Time
}

// NewEventLog returns an empty event log that keeps every event.
func NewEventLog() *EventLog { return NewEventLogWith(Options{}) }

// NewEventLogWith returns an empty event log with options.
func NewEventLogWith(o Options) *EventLog {
	return eventHandle(&events{epoch: rand.Text(), keep: o.Retain, scopes: make(map[attend.Scope]*stream)})
}

func eventHandle(d *events) *EventLog { return &EventLog{d: d, done: make(chan struct{})} }

// Reopen returns another handle on the same data; see [Store.Reopen].
func (l *EventLog) Reopen() *EventLog { return eventHandle(l.d) }

// Close ends this handle; see [Store.Close].
func (l *EventLog) Close() error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (l *EventLog) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.d.mu.Lock()
	select {
	case <-l.done:
		l.d.mu.Unlock()
		return attend.ErrClosed
	default:
		return nil
	}
}

// Append adds the events, as [attend.EventLog] says. An error is ctx's,
// [attend.ErrClosed], or an [*attend.EventError], and nothing was added then.
func (l *EventLog) Append(ctx context.Context, scope attend.Scope, in []attend.Event) error {
	clean := make([]*event, len(in))
	for i, e := range in {
		e, err := e.Clean()
		if err != nil {
			return &attend.EventError{Index: i, Err: err}
		}
		// What a string is cut from may be much larger, and is the caller's.
		e.ID, e.Name, e.Text = strings.Clone(e.ID), strings.Clone(e.Name), strings.Clone(e.Text)
		clean[i] = &event{Event: e}
	}
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.d.mu.Unlock()
	s := l.d.stream(scope)
	now := time.Now()
	for _, e := range clean {
		if _, ok := s.ids[e.ID]; ok {
			continue
		}
		l.d.newest++
		e.pos, e.taken = l.d.newest, now
		s.events = append(s.events, e)
		s.ids[e.ID] = struct{}{}
		l.d.order = append(l.d.order, s)
	}
	for w := range s.waiting {
		w <- struct{}{} // waits once, and is in one stream: there is room
	}
	s.waiting = nil
	l.d.step(2*len(in), now)
	l.d.release(scope, s)
	return nil
}

func (d *events) stream(scope attend.Scope) *stream {
	s := d.scopes[scope]
	if s == nil {
		s = &stream{ids: make(map[string]struct{})}
		d.scopes[attend.Scope(strings.Clone(string(scope)))] = s
	}
	return s
}

// release drops a stream that never held an event.
func (d *events) release(scope attend.Scope, s *stream) {
	if len(s.events) == 0 && s.trimmed == 0 && len(s.waiting) == 0 && d.scopes[scope] == s {
		delete(d.scopes, scope)
	}
}

// step trims at most n events that Retain does not keep.
func (d *events) step(n int, now time.Time) {
	for range n {
		if len(d.order) == 0 {
			return
		}
		s := d.order[0]
		e := s.events[0]
		old := d.keep.Age > 0 && now.Sub(e.taken) > d.keep.Age
		if !old && (d.keep.Count <= 0 || len(d.order) <= d.keep.Count) {
			return
		}
		d.order = pop(d.order)
		s.events = pop(s.events)
		s.trimmed = e.pos
		delete(s.ids, e.ID)
	}
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
			events, cursor, gap, err := l.batch(ctx, scope, after)
			if err != nil {
				yield(attend.Batch{}, err)
				return
			}
			if len(events) == 0 && !gap {
				return
			}
			b := attend.Batch{Cursor: cursor, Gap: gap}
			for _, e := range events {
				e := e.Event
				e.Data = bytes.Clone(e.Data)
				b.Events = append(b.Events, e)
			}
			if !yield(b, nil) {
				return
			}
			after = cursor
		}
	}
}

// batch returns the next events behind after, and the cursor behind them.
func (l *EventLog) batch(ctx context.Context, scope attend.Scope, after attend.Cursor) (events []*event, cursor attend.Cursor, gap bool, err error) {
	if err := l.enter(ctx); err != nil {
		return nil, "", false, err
	}
	defer l.d.mu.Unlock()
	s := l.d.scopes[scope]
	if s == nil {
		s = new(stream)
	}
	at, ok := l.d.place(s, after)
	rest := s.behind(at)
	n, size := 0, 0
	for n < len(rest) && n < batchEvents {
		size += rest[n].Size()
		if n > 0 && size > batchBytes {
			break
		}
		at = rest[n].pos
		n++
	}
	return slices.Clone(rest[:n]), attend.Cursor(attend.LogCursor{Epoch: l.d.epoch, Position: at}.String()), !ok, nil
}

// place is where to read on behind after. It is not ok when events behind
// after are gone, or after is no cursor of this log; reading goes on from the
// oldest kept then.
func (d *events) place(s *stream, after attend.Cursor) (at attend.Position, ok bool) {
	c, err := attend.ParseLogCursor(string(after))
	switch {
	case after == "":
		return s.trimmed, true
	case err != nil, c.Epoch != d.epoch, c.Position > d.newest, c.Position < s.trimmed:
		return s.trimmed, false
	}
	return c.Position, true
}

func (s *stream) behind(p attend.Position) []*event {
	return s.events[sort.Search(len(s.events), func(i int) bool { return s.events[i].pos > p }):]
}

// WaitEvents blocks until there may be more, as [attend.EventWaiter] says.
func (l *EventLog) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	s := l.d.stream(scope)
	if at, ok := l.d.place(s, after); !ok || len(s.behind(at)) > 0 {
		l.d.release(scope, s)
		l.d.mu.Unlock()
		return nil
	}
	w := make(waiter, 1)
	if s.waiting == nil {
		s.waiting = make(map[waiter]struct{})
	}
	s.waiting[w] = struct{}{}
	l.d.mu.Unlock()

	var err error
	select {
	case <-w:
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.done:
		err = attend.ErrClosed
	}

	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	delete(s.waiting, w)
	l.d.release(scope, s)
	return err
}
