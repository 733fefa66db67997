package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Group commit. The scopes that have something to write stand in one queue; one
// goroutine at a time leads: it takes what waits, commits it as one group, and
// answers. There is no timer: the commit under way is the window in which the
// next group gathers.

// The most that one group holds.
const (
	maxGroupEvents = 4096
	maxGroupBytes  = 1 << 20
	maxGroupWrites = 1024
)

type queue struct {
	mu      sync.Mutex
	cells   []*cell
	leading bool

	// The leader's own, kept from group to group:
	group   []*cell
	flights []flight
	writes  []attend.Write
}

// add puts a cell at the end of the queue, and reports whether the caller now
// leads.
func (q *queue) add(c *cell) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cells = append(q.cells, c)
	if q.leading {
		return false
	}
	q.leading = true
	return true
}

// take returns the cells that wait, for the leader until it takes the next, and
// none when the leader may go.
func (q *queue) take() []*cell {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.cells) == 0 {
		q.leading = false
		return nil
	}
	n := min(len(q.cells), maxGroupWrites)
	q.group = append(q.group[:0], q.cells[:n]...)
	q.cells = slices.Delete(q.cells, 0, n)
	return q.group
}

// putBack returns cells that did not fit into a group, in front of the others.
func (q *queue) putBack(cells []*cell) {
	if len(cells) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cells = slices.Insert(q.cells, 0, cells...)
}

// done reports whether the queue is empty; then nobody leads any more.
func (q *queue) done() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.cells) > 0 {
		return false
	}
	q.leading = false
	return true
}

// leadOnce commits one group, the caller's own write with it, and leaves what
// has gathered meanwhile to a goroutine.
func (e *Engine) leadOnce() {
	e.commitGroup(e.queue.take())
	if !e.queue.done() {
		go e.lead()
	}
}

func (e *Engine) lead() {
	for group := e.queue.take(); len(group) > 0; group = e.queue.take() {
		e.commitGroup(group)
	}
}

// A flight is a write that is being committed.
type flight struct {
	cell  *cell
	p     *pending
	write attend.Write
}

// commitGroup commits the cells' writes as one group, as far as they fit.
func (e *Engine) commitGroup(cells []*cell) {
	flights, writes := e.queue.flights[:0], e.queue.writes[:0]
	events, bytes := 0, 0
	for i, c := range cells {
		c.mu.Lock()
		p := c.next
		w := e.shift(p.write(c.scope))
		events, bytes = events+p.events, bytes+weight(&w)
		if i > 0 && (events > maxGroupEvents || bytes > maxGroupBytes) {
			c.mu.Unlock()
			e.queue.putBack(cells[i:])
			break
		}
		c.next, c.busy = nil, true
		c.mu.Unlock()
		flights, writes = append(flights, flight{c, p, w}), append(writes, w)
	}
	e.queue.flights, e.queue.writes = flights, writes
	defer func() { // nothing outlives its group here
		clear(flights)
		clear(writes)
	}()
	out, err := commit(context.Background(), e.store, writes)
	now := time.Now()
	for i, f := range flights {
		switch {
		case err != nil:
			go e.recover(f.cell, f.p, err)
		case out[i].Conflict():
			go e.recover(f.cell, f.p, nil)
		default:
			e.land(f, out[i], now)
		}
	}
}

// weight is how many bytes a write brings.
func weight(w *attend.Write) int {
	n := len(w.Snapshot)
	for _, b := range w.Inputs {
		n += len(b)
	}
	for i := range w.Rows {
		n += len(w.Rows[i].Body)
	}
	return n
}

// shift writes the due times of a process that only pushes earlier, so that its
// work waits for one sweep of the others and no more (E36).
func (e *Engine) shift(w attend.Write) attend.Write {
	if !e.running.Load() && !w.Due.IsZero() {
		w.Due = w.Due.Add(-e.cfg.SweepGrace)
	}
	return w
}

// land is what follows a commit: the observer hears of it, claimed work starts,
// those who waited are answered, and what came meanwhile gets its turn.
func (e *Engine) land(f flight, o attend.Outcome, now time.Time) {
	c := f.cell
	for _, t := range f.p.traces {
		e.trace(t)
	}
	for _, j := range f.p.jobs {
		e.lost.remove(c.scope, &j.claim)
	}
	c.mu.Lock()
	f.p.landed(&c.res, &f.write, o)
	c.loaded, c.own, c.touched, c.busy = true, f.p.changed, now, false
	e.arm(c)
	e.armRetries(c, f.p.traces)
	size := c.res.state.Size()
	s := e.stepAll(c, false)
	c.mu.Unlock()
	e.resize(c, size)
	jobs := f.p.jobs
	for _, o := range f.p.ops {
		if o.works && len(jobs) > 0 {
			o.next, jobs = jobs[0], jobs[1:]
		}
	}
	for _, j := range jobs {
		e.start(c.scope, j)
	}
	for _, o := range f.p.ops {
		o.finish()
	}
	s.tell(e)
	f.p.free()
	if s.queued && e.queue.add(c) {
		go e.lead()
	}
	if s.again {
		go func() {
			c.mu.Lock()
			c.busy = false
			e.settleIn(c)
		}()
	}
}
