package decisions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A log that can't wait is looked at as often as this, and one that fails is asked
// again.
const pollEvery = time.Second

// How long a wait for the log lasts at least that ends for nothing: the first, and
// doubled up to the last. A log may wake for nothing as often as it likes, and is
// not read as often for that.
const (
	firstIdle = time.Millisecond
	lastIdle  = 50 * time.Millisecond
)

// maxTold is how many new rows are looked at to see whom they are for. Behind so
// many everybody is woken.
const maxTold = 1000

// A hub is those who wait, of whom one, the leader, waits for the log: first in
// [Feed.Wait] to take the token. When it has what it waited for or its context
// ends, it hands the token on.
//
// What always holds under the lock: each waiter has been woken for every row
// behind its cursor, up to the hub's, that it wants. Whoever leads goes on from
// the hub's cursor, so what lands between two leaders is not lost: the log has a
// row there, and its Wait returns at once.
type hub struct {
	token   chan struct{} // of the leader; there is one
	mu      sync.Mutex
	at      attend.LogCursor // up to where the waiters were told; zero: nowhere
	waiters map[*waiter]struct{}
}

type waiter struct {
	after    attend.LogCursor
	prefixes []attend.Prefix
	ctx      context.Context    // ends when it is woken, too
	wake     context.CancelFunc // takes no lock
	woken    bool
}

func (h *hub) init() {
	h.token = make(chan struct{}, 1)
	h.token <- struct{}{}
	h.waiters = make(map[*waiter]struct{})
}

// Wait returns nil once there may be something for a reader that has read all up
// to q.After, and ctx's error when ctx ends. It is for a reader whose last page
// had no More, with that page's Next. q.Routes and q.Limit mean nothing here. A
// wake-up for nothing is allowed. An error is the store's: pause before the next
// try, and end where it is attend.ErrClosed.
func (f *Feed) Wait(ctx context.Context, q Query) error {
	if len(q.Prefixes) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	w := f.hub.join(ctx, q)
	if w == nil {
		return ctx.Err()
	}
	defer f.hub.leave(w)
	var failed error
	select {
	case <-w.ctx.Done():
	case <-f.hub.token:
		failed = f.lead(w)
	}
	switch {
	case f.hub.wasWoken(w):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return failed
	}
}

// join adds a waiter, or returns nil where it need not wait.
func (h *hub) join(ctx context.Context, q Query) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case q.After == attend.LogCursor{}:
		return nil
	case len(h.waiters) == 0:
		h.at = q.After // however long ago the last one left
	case q.After.Epoch != h.at.Epoch:
		// One of both is of a log that is gone. The others look, and come back
		// with the epoch that there is; the leader is one of them.
		h.wakeAll()
		h.at = q.After
	case q.After.Position < h.at.Position:
		return nil // of what is between, nobody knows whether it is wanted
	}
	w := &waiter{after: q.After, prefixes: q.Prefixes}
	w.ctx, w.wake = context.WithCancel(ctx)
	h.waiters[w] = struct{}{}
	return w
}

func (h *hub) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters, w)
	w.wake()
}

func (h *hub) wasWoken(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.woken
}

func (h *hub) wakeAll() {
	for w := range h.waiters {
		h.wakeOne(w)
	}
}

func (h *hub) wakeOne(w *waiter) {
	delete(h.waiters, w)
	w.woken = true
	w.wake()
}

// from is where the leader waits: behind what everybody has read or was told of.
func (h *hub) from() attend.LogCursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	var least attend.Position
	first := true
	for w := range h.waiters {
		if first || w.after.Position < least {
			least, first = w.after.Position, false
		}
	}
	if !first {
		h.at.Position = max(h.at.Position, least)
	}
	return h.at
}

// lead waits for the log until w is woken, its context ends or the store fails,
// and hands the token on: also where the store panics, since whoever serves a
// request recovers from that, and nobody would lead any more. Of a store that
// fails the next one finds out after a pause, or each would ask it at once.
func (f *Feed) lead(w *waiter) (err error) {
	defer func() {
		hand := func() { f.hub.token <- struct{}{} }
		if err == nil || w.ctx.Err() != nil || errors.Is(err, attend.ErrClosed) {
			hand()
			return
		}
		time.AfterFunc(pollEvery, hand)
	}()
	for idle := firstIdle; w.ctx.Err() == nil; {
		began, at := time.Now(), f.hub.from()
		if err := f.grow(w.ctx, at); err != nil {
			return fmt.Errorf("decisions: wait for the log: %w", err)
		}
		found, err := f.tell(w.ctx, at)
		switch {
		case err != nil:
			return fmt.Errorf("decisions: read what is new in the log: %w", err)
		case found:
			idle = firstIdle
		default:
			sleep(w.ctx, idle-time.Since(began))
			idle = min(2*idle, lastIdle)
		}
	}
	return nil
}

// grow returns once there may be a row behind a cursor.
func (f *Feed) grow(ctx context.Context, at attend.LogCursor) error {
	if log, ok := f.log.(attend.Waiter); ok {
		return log.Wait(ctx, attend.Query{After: at})
	}
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell wakes those for whom there is a row behind a cursor. It reports whether
// there is any.
func (f *Feed) tell(ctx context.Context, at attend.LogCursor) (found bool, err error) {
	told := 0
	for e, err := range f.log.Read(ctx, attend.Query{After: at}) {
		if errors.Is(err, attend.ErrTruncated) {
			told = maxTold
			break
		}
		if err != nil {
			return false, err
		}
		f.hub.tell(at, e)
		at = e.Cursor
		if told++; told == maxTold {
			break
		}
	}
	if told == maxTold {
		f.hub.mu.Lock()
		defer f.hub.mu.Unlock()
		f.hub.wakeAll()
	}
	return told > 0, nil
}

// tell wakes whom a row is for and goes behind it. The leader has read all
// between at and the row; where the hub is not there, others began anew while
// it read, and are not told of what they would miss before this row.
func (h *hub) tell(at attend.LogCursor, e attend.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.Epoch != e.Cursor.Epoch || h.at.Position < at.Position || h.at.Position >= e.Cursor.Position {
		return
	}
	h.at = e.Cursor
	for w := range h.waiters {
		if w.after.Position < e.Cursor.Position && covers(w.prefixes, e.Scope) {
			h.wakeOne(w)
		}
	}
}
