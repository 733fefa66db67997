package engine

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/attend-go/attend/core/machine"
)

// The alarm wakes the scopes that this process touched when they are due: one
// wheel for all of them, one timer for the wheel. It knows scopes by a hash, so
// that one that is not resident any more costs 24 bytes; its name comes from
// the store's due index when the alarm goes off.
type alarm struct {
	mu    sync.Mutex
	wheel wheel
	wake  chan struct{} // has room for one: the next moment is earlier now
	armed int64         // what the timer is set to; 0: it runs free
}

func (a *alarm) init(now time.Time) {
	a.wheel.init(now.UnixMilli())
	a.wake = make(chan struct{}, 1)
}

// arm sets the alarm for a cell's next deadline. c.mu is held. The scope's time
// may be ahead of the clock (E34), so what counts is how far ahead the deadline
// is.
func (e *Engine) arm(c *cell) {
	if !e.running.Load() {
		return
	}
	next := c.res.state.Next()
	if next.IsZero() {
		return
	}
	due := next.UnixMilli()
	if now := c.res.state.Now(); now.After(c.touched) {
		due = c.touched.Add(next.Sub(now)).UnixMilli() + 1 // the clock's part of a millisecond is not in it
	}
	a := &e.alarm
	a.mu.Lock()
	c.timer = a.wheel.set(c.timer, c.hash, due)
	earlier := a.armed == 0 || due < a.armed
	a.mu.Unlock()
	if earlier {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
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
		now := time.Now().UnixMilli()
		a.mu.Lock()
		a.wheel.advance(now, func(hash uint64) { due = append(due, hash) })
		at, ok := a.wheel.next()
		a.armed = at
		a.mu.Unlock()
		if ok {
			// A deadline in whole milliseconds has come once the clock shows it.
			timer.Reset(time.Until(time.UnixMilli(at)))
		}
		if len(due) > 0 {
			e.together(func() { e.ring(due) })
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

// ring wakes the scopes with these hashes.
func (e *Engine) ring(due []uint64) {
	var lost map[uint64]bool
	for _, hash := range due {
		cells := e.resident(hash)
		for _, c := range cells {
			e.tick(c)
		}
		if len(cells) == 0 {
			if lost == nil {
				lost = make(map[uint64]bool)
			}
			lost[hash] = true
		}
	}
	if lost == nil {
		return
	}
	for scope, err := range e.store.Due(context.Background(), time.Now()) {
		if err != nil {
			e.log.Warn("attend: due scopes could not be listed; the next sweep finds them", "err", err)
			return
		}
		if hash := maphash.String(e.seed, string(scope)); lost[hash] {
			delete(lost, hash)
			e.submit(scope, &op{in: machine.Tick{}, timer: true})
			if len(lost) == 0 {
				return
			}
		}
	}
}

// tick wakes a cell if it is due, and sets its alarm anew if not.
func (e *Engine) tick(c *cell) {
	c.mu.Lock()
	c.timer = -1
	next := c.res.state.Next()
	now := time.Now()
	if s := c.res.state.Now().Add(now.Sub(c.touched)); s.After(now) {
		now = s
	}
	if !c.loaded || next.IsZero() || next.After(now) {
		e.arm(c)
		c.mu.Unlock()
		return
	}
	scope := c.scope
	c.mu.Unlock()
	e.submit(scope, &op{in: machine.Tick{}, least: next, timer: true})
}
