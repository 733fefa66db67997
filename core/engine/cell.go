package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A cell is a scope that is resident. Its mutex is held while inputs are
// stepped, never across a call that can block.
type cell struct {
	scope attend.Scope
	hash  uint64

	mu      sync.Mutex
	res     resident
	loaded  bool      // res is what the store has, as far as we know
	own     bool      // this process wrote it last, as far as we know
	touched time.Time // when res was loaded or written
	busy    bool      // a load, a write or a recovery is under way
	gone    bool      // it has left its shard
	waiting []*op     // for busy to end
	next    *pending  // waits for its turn in the queue
	timer   int32     // its entry in the alarm, -1: none

	// Under the shard's mutex:
	chain      *cell // the next of the same hash
	newer, old *cell // in the order of use
	size       int
	out        bool // it has left
}

// A pending is a write that waits to be committed, with who waits for it.
type pending struct {
	draft
	ops    []*op
	one    [1]*op // room for ops: most have one
	jobs   []*job
	events int
}

// The most that one scope brings into a group (E31).
const (
	maxWriteEvents = 4096
	maxWriteBytes  = 1 << 20
)

// pendings are used again: one holds a state, and is needed for as long as a
// commit takes.
var pendings = sync.Pool{New: func() any { return new(pending) }}

func newPending(r *resident) *pending {
	p := pendings.Get().(*pending)
	p.begin(r)
	return p
}

// keptBytes is the most that a pending keeps to encode its next write in.
const keptBytes = 64 << 10

// free takes p back. Nobody may know it any more.
func (p *pending) free() {
	buf := p.buf[:0]
	*p = pending{}
	if cap(buf) <= keptBytes {
		p.buf = buf
	}
	pendings.Put(p)
}

func (p *pending) add(o *op) {
	if p.ops == nil {
		p.ops = p.one[:0]
	}
	p.ops = append(p.ops, o)
	p.events += o.events
}

func (p *pending) full() bool {
	return p.forget || p.events >= maxWriteEvents || p.bytes >= maxWriteBytes
}

// do applies an operation to a scope and waits for its answer.
func (e *Engine) do(ctx context.Context, scope attend.Scope, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.submit(scope, o)
	if err := o.answer.wait(ctx); err != nil {
		return err
	}
	return o.err
}

// submit brings an operation to its scope. Where nobody else commits at the
// moment, it commits before it returns.
func (e *Engine) submit(scope attend.Scope, o *op) {
	for {
		c := e.cell(scope)
		c.mu.Lock()
		if c.gone {
			c.mu.Unlock()
			continue
		}
		c.waiting = append(c.waiting, o)
		e.settleIn(c)
		return
	}
}

// settleIn works off what waits in a cell, as far as that is possible now. It
// is called with c.mu held, and releases it.
func (e *Engine) settleIn(c *cell) {
	for sure := false; ; {
		for !c.busy && !c.loaded && len(c.waiting) > 0 {
			sure = e.loadCell(c)
		}
		s := e.stepAll(c, sure)
		c.mu.Unlock()
		s.tell(e)
		if s.queued && e.queue.add(c) {
			e.leadOnce()
		}
		if !s.again {
			return
		}
		c.mu.Lock()
		c.busy, sure = false, false
	}
}

// loadCell makes c resident, or answers what waits in it with the store's error.
// It is called with c.mu held, and lets go of it meanwhile.
func (e *Engine) loadCell(c *cell) bool {
	c.busy = true
	c.mu.Unlock()
	r, err := load(context.Background(), e.store, c.scope)
	c.mu.Lock()
	c.busy = false
	e.resize(c, r.state.Size())
	if err != nil {
		failed := c.waiting
		c.waiting = nil
		c.mu.Unlock()
		for _, o := range failed {
			o.err = err
			e.release(o.grant)
			o.finish()
		}
		c.mu.Lock()
		return false
	}
	c.res, c.loaded, c.own, c.touched = r, true, false, time.Now()
	if c.res.state.Next().After(c.now(c.touched)) {
		e.arm(c) // else it is worked now, as far as that is possible
	}
	return true
}

// A stepped is what came of stepping what waits in a cell.
type stepped struct {
	answered []*op          // they need no write
	told     []attend.Trace // of those
	queued   bool           // the cell has a write for the queue now
	again    bool           // the cell is busy until settleIn goes on
}

// tell answers the operations that need no write. The cell is not locked.
func (s *stepped) tell(e *Engine) {
	for _, t := range s.told {
		e.trace(t)
	}
	for _, o := range s.answered {
		o.finish()
	}
}

// stepAll applies what waits to the cell's next write. What is known of the
// scope may be old, since other processes write it too. That shows in a write,
// which conflicts; what needs no write is asked of the store where it matters,
// unless the scope was loaded for it, which sure says. c.mu is held.
func (e *Engine) stepAll(c *cell, sure bool) (s stepped) {
	if c.busy || !c.loaded {
		return s
	}
	p, done := c.next, 0
	for _, o := range c.waiting {
		if c.next != nil && (c.next.full() || o.reload || o.fetch) {
			break // after the write
		}
		if o.answer.isAbandoned() {
			e.release(o.grant)
			done++
			continue
		}
		if p == nil {
			p = newPending(&c.res)
		}
		if o.reload && !sure {
			c.loaded = false
			break
		}
		told := len(p.traces)
		if o.fetch {
			s.answered = append(s.answered, o)
		} else if e.step(c, p, o) {
			p.add(o)
			s.queued = s.queued || c.next == nil
			c.next = p
		} else if !sure && o.doubtful() {
			p.traces = p.traces[:told]
			c.loaded = false
			break
		} else {
			s.answered = append(s.answered, o)
		}
		done++
	}
	c.waiting = slices.Delete(c.waiting, 0, done)
	if len(c.waiting) == 0 && cap(c.waiting) > 8 {
		c.waiting = nil
	}
	if p != nil && c.next == nil {
		s.told = p.traces
		p.free()
	}
	s.again = !c.loaded || len(s.told) > 0
	c.busy = s.again
	return s
}

// step applies one operation to a write, with what it makes possible at once:
// a pure judgment, and claims of work. It reports whether the operation has to
// wait for the write. c.mu is held.
func (e *Engine) step(c *cell, p *pending, o *op) bool {
	at := e.clock(c, o)
	if last := p.state.Last(); o.timer && !c.own && last != 0 && last != e.id {
		return p.changed // it is left to whose input was the last, and to sweeps (E36)
	}
	if in := e.stamp(c.scope, p, o, at); in != nil {
		from := len(p.traces)
		eff := p.step(c.scope, e.policy, in)
		if !hasLanded(in, eff) {
			o.eff = eff // else what the try said that landed stands
		}
		if e.cfg.Observer != nil {
			p.tell(from, arrivals(c.scope, in, eff), in)
		}
	}
	e.judgeAtOnce(c.scope, p, at)
	e.claim(c, p, o, at)
	return p.changed
}

// clock is the time of an input: the latest of the clock, and the scope's time
// plus what has passed here since it was loaded or written (E34).
func (e *Engine) clock(c *cell, o *op) time.Time {
	at := c.now(time.Now())
	if o.least.After(at) {
		at = o.least
	}
	return at
}

// now is the scope's time at a moment of the clock. c.mu is held.
func (c *cell) now(clock time.Time) time.Time {
	if s := c.res.state.Now(); !s.IsZero() {
		if t := s.Add(clock.Sub(c.touched)); t.After(clock) {
			return t
		}
	}
	return clock
}

// stamp completes an operation's input.
func (e *Engine) stamp(scope attend.Scope, p *pending, o *op, at time.Time) machine.Input {
	number := func() uint64 {
		if o.number == 0 {
			o.number = e.number.Add(1)
		}
		return o.number
	}
	switch in := o.in.(type) {
	case *machine.Arrive:
		stamped := *in
		stamped.At, stamped.Writer, stamped.Number = at, e.id, number()
		return stamped
	case machine.Flush:
		in.At, in.Writer, in.Number = at, e.id, number()
		return in
	case machine.End:
		in.At, in.Writer, in.Number = at, e.id, number()
		return in
	case machine.Tick:
		if p.state.Expired(at) {
			return machine.Forget{At: at}
		}
	case nil:
		if o.lost != nil && e.lost.has(scope, o.lost) {
			if attempt, ok := p.state.Holds(*o.lost); ok {
				return machine.GiveBack{At: at, Lane: o.lost.Lane, Num: o.lost.Num, Attempt: attempt}
			}
		}
	default:
	}
	return machine.Stamp(o.in, at)
}
