package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// The patience with lost races and a store that fails (E30).
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 50 * time.Millisecond
	maxLosses    = 8
	patience     = 2 * time.Second
)

// recover finds out what became of a write that was not plainly committed: one
// that lost a race (cause is nil), or one of a group that failed, so that
// nothing is known. The scope is loaded again and the same inputs are applied
// to what is there: what has landed changes nothing the second time (E29, E44).
// What is left is written by itself, so that no scope's bad write fails
// another's (E31). The cell is busy until this is known.
func (e *Engine) recover(c *cell, p *pending, cause error) {
	begun, losses, pause, warned := time.Now(), 0, firstPause, false
	counted, before := begun, 0 // how many waited for c then
	for tries := 0; ; tries++ {
		if cause == nil {
			losses++
			e.trace(attend.Conflict{Scope: c.scope, At: time.Now(), Losses: losses})
		} else if !warned {
			warned = true
			e.log.Warn("attend: a write's outcome is unknown", "scope", c.scope, "err", cause)
		}
		now := time.Now()
		over := now.Sub(begun) >= patience && (cause != nil || losses >= maxLosses)
		e.giveUp(c.scope, p, over, cause != nil && tries > 0, gaveUp(losses, cause))
		if now.Sub(counted) >= patience {
			counted, before = now, e.giveUpWaiting(c, before, gaveUp(losses, cause))
		}
		if len(p.ops) == 0 && len(p.jobs) == 0 {
			e.abandon(c) // nobody waits: whoever comes next loads it
			return
		}
		time.Sleep(pause/2 + rand.N(pause))
		pause = min(2*pause, longestPause)

		r, err := load(context.Background(), e.store, c.scope)
		if err != nil {
			cause = err
			continue
		}
		q := e.redo(c, p, r)
		if !q.changed {
			if cause != nil && len(q.traces) == 0 {
				q.traces = p.traces // it had landed
			}
			e.land(flight{cell: c, p: q}, attend.Outcome{Version: r.version}, time.Now())
			return
		}
		w := e.shift(q.write(c.scope))
		out, err := commit(context.Background(), e.store, []attend.Write{w})
		if err == nil && !out[0].Conflict() {
			e.land(flight{c, q, w}, out[0], time.Now())
			return
		}
		p, cause = q, err
	}
}

// redo makes the write anew, on a state that was loaded again.
func (e *Engine) redo(c *cell, p *pending, r resident) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.res, c.loaded, c.own, c.touched = r, true, false, time.Now()
	q := newPending(&r)
	q.ops, q.events = p.ops, p.events
	// Claims first: one that has landed must be known as ours before anything
	// else is applied.
	for _, j := range p.jobs {
		if !e.reclaim(c.scope, q, j) {
			e.end(j)
		}
	}
	for _, o := range p.ops {
		e.step(c, q, o)
	}
	return q
}

// giveUp answers the operations whose patience has ended, and ends the jobs. A
// judge's or a sink's answer is tried until its lease ends, everything else for
// 8 losses and 2 s, as over says, and what a sweep brought, which comes again,
// for one try after an error: it must not keep permits from others (E36).
func (e *Engine) giveUp(scope attend.Scope, p *pending, over, failed bool, err error) {
	kept := p.ops[:0:0]
	for _, o := range p.ops {
		end := over || failed && o.sweep
		if !o.until.IsZero() {
			end = time.Now().After(o.until) || failed && e.graceOver()
		}
		if !end {
			kept = append(kept, o)
			continue
		}
		o.err = err
		o.finish()
	}
	p.ops = kept
	jobs := p.jobs[:0:0]
	for _, j := range p.jobs {
		if over || failed && j.sweep || time.Now().After(j.ends) {
			e.giveBackLater(scope, j)
			e.end(j)
			continue
		}
		jobs = append(jobs, j)
	}
	p.jobs = jobs
}

func gaveUp(losses int, cause error) error {
	if cause == nil {
		return fmt.Errorf("engine: %d races lost: %w", losses, attend.ErrConflict)
	}
	return cause
}

// giveUpWaiting answers those of the first n operations that wait for c whose
// patience has ended: they have waited since n was counted. An answer may be
// tried for much longer. It returns how many wait now.
func (e *Engine) giveUpWaiting(c *cell, n int, err error) int {
	c.mu.Lock()
	var failed []*op
	c.waiting = slices.DeleteFunc(c.waiting, func(o *op) bool {
		n--
		if n < 0 || !o.until.IsZero() {
			return false
		}
		failed = append(failed, o)
		return true
	})
	left := len(c.waiting)
	c.mu.Unlock()
	for _, o := range failed {
		o.err = err
		e.release(o.grant)
		o.finish()
	}
	return left
}

// abandon forgets what is known of a scope.
func (e *Engine) abandon(c *cell) {
	c.mu.Lock()
	c.res, c.loaded, c.busy = resident{}, false, false
	e.settleIn(c)
}

// failure is what a failed attempt tells the machine.
func failure(lane machine.Lane, num, attempt uint64, err error) machine.Failed {
	f := machine.Failed{Lane: lane, Num: num, Attempt: attempt, Message: err.Error()}
	if p, ok := errors.AsType[*attend.PermanentError](err); ok {
		f.Permanent, f.Account = !p.Account, p.Account
	}
	if r, ok := errors.AsType[*attend.RetryAfterError](err); ok {
		f.RetryAfter = r.After
	}
	return f
}
