package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// An op is one input on its way into a scope, and its answer.
type op struct {
	in     machine.Input // without time and number; nil: look for work alone
	events int
	number uint64    // drawn once, so that a retry is recognised (E29)
	least  time.Time // a timer's deadline; the input is no earlier
	until  time.Time // how long it is tried after lost races or errors; zero: patience
	timer  bool      // our own timer: other processes' work is left to them
	reload bool      // the store knows better
	grant  *permit   // a judge call or delivery that may start

	eff  machine.Effects
	err  error
	done chan struct{} // nil: nobody waits
}

func (o *op) finish() {
	if o.done != nil {
		close(o.done)
	}
}

// A cell is a scope that is resident. Its mutex is held while inputs are
// stepped, never across a call that can block.
type cell struct {
	scope attend.Scope
	hash  uint64

	mu      sync.Mutex
	res     resident
	loaded  bool      // res is what the store has, as far as we know
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
	o.done = make(chan struct{})
	e.submit(scope, o)
	select {
	case <-o.done:
		return o.err
	default:
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
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
		if o.reload && !c.busy && c.next == nil {
			c.loaded = false
		}
		e.settleIn(c)
		return
	}
}

// settleIn works off what waits in a cell, as far as that is possible now. It
// is called with c.mu held, and releases it.
func (e *Engine) settleIn(c *cell) {
	for !c.busy && !c.loaded && len(c.waiting) > 0 {
		c.busy = true
		c.mu.Unlock()
		r, err := load(context.Background(), e.store, c.scope)
		c.mu.Lock()
		c.busy = false
		if err != nil {
			failed := c.waiting
			c.waiting = nil
			e.resize(c, r.state.Size())
			c.mu.Unlock()
			for _, o := range failed {
				o.err = err
				e.release(o.grant)
				o.finish()
			}
			c.mu.Lock()
			continue
		}
		c.res, c.loaded, c.touched = r, true, time.Now()
		e.resize(c, r.state.Size())
	}
	answered, queued := e.stepAll(c)
	c.mu.Unlock()
	for _, o := range answered {
		o.finish()
	}
	if queued && e.queue.add(c) {
		e.leadOnce()
	}
}

// stepAll applies what waits to the cell's next write. It returns the
// operations that need no write, and whether the cell has to be queued. c.mu is
// held.
func (e *Engine) stepAll(c *cell) (answered []*op, queued bool) {
	if c.busy || !c.loaded {
		return nil, false
	}
	done := 0
	for _, o := range c.waiting {
		if c.next != nil && c.next.full() {
			break
		}
		done++
		p := c.next
		if p == nil {
			p = &pending{draft: newDraft(&c.res)}
		}
		if e.step(c, p, o) {
			p.add(o)
			queued = queued || c.next == nil
			c.next = p
		} else {
			answered = append(answered, o)
		}
	}
	c.waiting = slices.Delete(c.waiting, 0, done)
	if len(c.waiting) == 0 && cap(c.waiting) > 8 {
		c.waiting = nil
	}
	return answered, queued
}

// step applies one operation to a write, with what it makes possible at once:
// a pure judgment, and claims of work. It reports whether the operation has to
// wait for the write. c.mu is held.
func (e *Engine) step(c *cell, p *pending, o *op) bool {
	at := e.clock(c, o)
	if in := e.stamp(p, o, at); in != nil {
		o.eff = p.step(c.scope, e.policy, in)
		if e.cfg.Observer != nil {
			p.traces = append(p.traces, arrivals(c.scope, in, o.eff)...)
		}
	}
	e.judgeAtOnce(c.scope, p, at)
	e.claim(c, p, o, at)
	return p.changed
}

// clock is the time of an input: the latest of the clock, and the scope's time
// plus what has passed here since it was loaded or written (E34).
func (e *Engine) clock(c *cell, o *op) time.Time {
	now := time.Now()
	at := now
	if s := c.res.state.Now(); !s.IsZero() {
		if t := s.Add(now.Sub(c.touched)); t.After(at) {
			at = t
		}
	}
	if o.least.After(at) {
		at = o.least
	}
	return at
}

// stamp completes an operation's input.
func (e *Engine) stamp(p *pending, o *op, at time.Time) machine.Input {
	number := func() uint64 {
		if o.number == 0 {
			o.number = e.number.Add(1)
		}
		return o.number
	}
	switch in := o.in.(type) {
	case machine.Arrive:
		in.At, in.Writer, in.Number = at, e.id, number()
		return in
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
		in.At = at
		return in
	case machine.Judged:
		in.At = at
		return in
	case machine.Failed:
		in.At = at
		return in
	case machine.Done:
		in.At = at
		return in
	case machine.GiveBack:
		in.At = at
		return in
	}
	return nil
}

// arrivals tells which events were taken in and which were repeats.
func arrivals(scope attend.Scope, in machine.Input, eff machine.Effects) []attend.Trace {
	a, ok := in.(machine.Arrive)
	if !ok || eff.Fresh == 0 && len(eff.Repeats) == 0 {
		return nil
	}
	var fresh, repeats []attend.EventRef
	next := 0
	for i := range a.Events {
		ref := attend.EventRef{Source: a.Source, ID: a.Events[i].ID}
		if next < len(eff.Repeats) && eff.Repeats[next] == i {
			next++
			repeats = append(repeats, ref)
		} else if eff.Fresh > 0 {
			fresh = append(fresh, ref)
		}
	}
	var out []attend.Trace
	if len(fresh) > 0 {
		out = append(out, attend.TakenIn{Scope: scope, At: a.At, Events: fresh})
	}
	if len(repeats) > 0 {
		out = append(out, attend.Duplicate{Scope: scope, At: a.At, Events: repeats})
	}
	return out
}
