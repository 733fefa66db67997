package engine

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// The alarm wakes the scopes that this process touched when they are due: one
// wheel for all of them, one timer for the wheel. It knows scopes by a hash, so
// that one that is not resident any more costs 24 bytes; its name comes from
// the store's due index when the alarm goes off.
//
// Its time is this process's own: the milliseconds since it began. A wall clock
// that is set back stops it as little as one that is ahead.
type alarm struct {
	begun time.Time
	mu    sync.Mutex
	wheel wheel
	wake  chan struct{} // has room for one: the next moment is earlier now
	armed int64         // what the timer is set to; -1: it runs free
}

func (a *alarm) init(now time.Time) {
	a.begun, a.armed = now, -1
	a.wheel.init(0)
	a.wake = make(chan struct{}, 1)
}

// at is the alarm's time at a moment of the process's clock, a begun
// millisecond counted whole.
func (a *alarm) at(t time.Time) int64 {
	return int64((t.Sub(a.begun) + time.Millisecond - 1) / time.Millisecond)
}

// arm sets the alarm for a cell's next deadline. c.mu is held. The scope's time
// may differ from the clock's (E34), so what counts is how far ahead the
// deadline is.
func (e *Engine) arm(c *cell) {
	if !e.running.Load() {
		return
	}
	next := c.res.state.Next()
	if next.IsZero() {
		return
	}
	c.timer = e.armAt(c, c.timer, next)
}

// armRetries sets an alarm for each retry that a write brought: where the
// scope's window stands in line, that is what is due next, and hides them. c.mu
// is held.
func (e *Engine) armRetries(c *cell, traces []attend.Trace) {
	for _, t := range traces {
		if r, ok := t.(attend.Retried); ok && e.running.Load() {
			e.armAt(c, -1, r.Next)
		}
	}
}

// armAt moves the alarm with an id, or sets a new one, to a moment of the
// scope's time, and returns its id.
func (e *Engine) armAt(c *cell, id int32, at time.Time) int32 {
	a, now := &e.alarm, time.Now()
	due := a.at(now.Add(at.Sub(c.now(now))))
	a.mu.Lock()
	id = a.wheel.set(id, c.hash, due)
	earlier := a.armed < 0 || due < a.armed
	a.mu.Unlock()
	if earlier {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return id
}

// watch wakes scopes that are due, until ctx ends.
func (e *Engine) watch(ctx context.Context) {
	a := &e.alarm
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
		}
		var due []uint64
		now := time.Since(a.begun).Milliseconds()
		a.mu.Lock()
		a.wheel.advance(now, func(hash uint64) { due = append(due, hash) })
		at, ok := a.wheel.next()
		if !ok {
			at = -1
		}
		a.armed = at
		a.mu.Unlock()
		if ok {
			timer.Reset(time.Until(a.begun.Add(time.Duration(at) * time.Millisecond)))
		}
		if len(due) > 0 {
			e.ring(due)
		}
	}
}

// together lets everything that f submits gather, and commits it in groups.
func (e *Engine) together(f func()) {
	if !e.queue.hold() {
		f()
		return
	}
	f()
	e.lead()
}

// hold makes the caller lead, unless somebody does.
func (q *queue) hold() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leading {
		return false
	}
	q.leading = true
	return true
}

// ring wakes the scopes with these hashes. Those that are not resident any more
// get their names from the store.
func (e *Engine) ring(due []uint64) {
	lost := make(map[uint64]bool)
	e.together(func() {
		for _, hash := range due {
			cells := e.resident(hash)
			for _, c := range cells {
				e.tick(c)
			}
			if len(cells) == 0 {
				lost[hash] = true
			}
		}
	})
	if len(lost) == 0 {
		return
	}
	var names []attend.Scope
	seen, enough := 0, 10*(len(lost)+e.cfg.SweepLimit) // the rest is overdue work of others: sweeps find what is ours
	for scope, err := range e.store.Due(context.Background(), time.Now()) {
		if err != nil {
			e.log.Warn("attend: due scopes could not be listed; the next sweep finds them", "err", err)
			break
		}
		if hash := maphash.String(e.seed, string(scope)); lost[hash] {
			delete(lost, hash)
			names = append(names, scope)
		}
		if seen++; len(lost) == 0 || seen == enough {
			break
		}
	}
	e.fetch(names, false)
	e.together(func() {
		for _, scope := range names {
			e.background(scope, &op{in: machine.Tick{}, timer: true})
		}
	})
}

// tick wakes a cell if it is due, and sets its alarm anew if not.
func (e *Engine) tick(c *cell) {
	c.mu.Lock()
	c.timer = -1
	next := c.res.state.Next()
	if !c.loaded || next.IsZero() || next.After(c.now(time.Now())) {
		if c.loaded { // else whoever loads it does
			e.arm(c)
		}
		c.mu.Unlock()
		return
	}
	scope := c.scope
	c.mu.Unlock()
	e.background(scope, &op{in: machine.Tick{}, least: next, timer: true})
}
