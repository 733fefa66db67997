package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	begun, losses, pause := time.Now(), 0, firstPause
	for {
		if cause == nil {
			losses++
			e.trace(attend.Conflict{Scope: c.scope, At: time.Now(), Losses: losses})
		} else {
			e.log.Warn("attend: a write's outcome is unknown", "scope", c.scope, "err", cause)
		}
		e.giveUpOps(p, begun, losses, cause)
		time.Sleep(pause/2 + rand.N(pause))
		pause = min(2*pause, longestPause)

		r, err := load(context.Background(), e.store, c.scope)
		if err != nil {
			if len(p.ops) == 0 && len(p.jobs) == 0 {
				e.abandon(c) // nobody waits: whoever comes next loads it
				return
			}
			cause = err
			continue
		}
		q := e.redo(c, p, r)
		if !q.changed {
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
	c.res, c.loaded, c.touched = r, true, time.Now()
	q := &pending{draft: newDraft(&r), ops: p.ops, events: p.events}
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

// giveUpOps answers the operations whose patience has ended. A judge's or a
// sink's answer is tried until its lease ends, everything else for 8 losses and
// 2 s.
func (e *Engine) giveUpOps(p *pending, begun time.Time, losses int, cause error) {
	now := time.Now()
	kept := p.ops[:0:0]
	for _, o := range p.ops {
		over := now.Sub(begun) >= patience && (cause != nil || losses >= maxLosses)
		if !o.until.IsZero() {
			over = now.After(o.until)
		}
		if !over {
			kept = append(kept, o)
			continue
		}
		o.err = cause
		if cause == nil {
			o.err = fmt.Errorf("engine: %d races lost: %w", losses, attend.ErrConflict)
		}
		o.finish()
	}
	p.ops = kept
	jobs := p.jobs[:0:0]
	for _, j := range p.jobs {
		if now.After(j.claim.Until) {
			e.end(j)
			continue
		}
		jobs = append(jobs, j)
	}
	p.jobs = jobs
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
