package engine

import (
	"context"
	"math/rand/v2"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A job is a piece of work that this process claimed: exactly one of call,
// delivery and letter is set.
type job struct {
	claim    machine.Claim
	permit   *permit
	sweep    bool
	timeout  time.Duration // of the call
	ends     time.Time     // when the lease is over, by this process's clock (E34)
	call     *machine.Call
	delivery *machine.Delivery
	letter   *machine.Letter
}

// judgeAtOnce asks a pure judge inside the commit of the input that settled the
// window, so that input, verdict and decision land in one (E45). A chain of
// windows is bounded by the backlog.
func (e *Engine) judgeAtOnce(scope attend.Scope, p *pending, at time.Time) {
	if e.pure == nil || p.forget {
		return
	}
	for {
		call, ok := p.state.Ask(at)
		if !ok {
			return
		}
		j, err := e.ask(context.Background(), e.judgeInput(call))
		if err != nil {
			return // it gets a lease, and its failures count
		}
		if eff := p.step(scope, e.policy, machine.Judged{At: at, Num: call.Num, Judgment: j}); !eff.Changed {
			return
		}
	}
}

// claim leases what can start now. A scope whose turn has not come stands in
// line.
func (e *Engine) claim(c *cell, p *pending, o *op, at time.Time) {
	grant := o.grant
	o.grant = nil
	defer func() { e.release(grant) }()
	if p.forget || !e.running.Load() {
		return
	}
	for range 3 { // a lease that has run out may end one piece of work and free the next
		w := p.state.Work(at)
		claimed := false
		for lane, num := range [...]uint64{w.Judge, w.Decision, w.Letter} {
			if num == 0 {
				continue
			}
			// Deliveries go out in the order in which they had to wait.
			pl, timeout, rank := &e.sends, e.cfg.DeliveryTimeout, machine.Work{}
			if machine.Lane(lane) == machine.LaneJudge {
				pl, timeout, rank = &e.calls, e.cfg.JudgeTimeout, w
			}
			if !e.begin() {
				return
			}
			m := grant
			if m != nil && m.of == pl {
				grant = nil
			} else if m = pl.try(c.scope, rank); m == nil {
				e.work.Done()
				continue
			}
			j := &job{permit: m, sweep: o.sweep, timeout: timeout, ends: time.Now().Add(2 * timeout), claim: machine.Claim{
				At: at, Lane: machine.Lane(lane), Num: num, Owner: e.id, Until: at.Add(2 * timeout),
			}}
			claimed = true
			if !e.reclaim(c.scope, p, j) {
				e.end(j)
			}
		}
		if !claimed {
			return
		}
	}
}

// reclaim applies a job's claim to a write, and reports whether the work is
// ours.
func (e *Engine) reclaim(scope attend.Scope, p *pending, j *job) bool {
	eff := p.step(scope, e.policy, j.claim)
	if eff.Call == nil && eff.Delivery == nil && eff.Letter == nil {
		return false
	}
	j.call, j.delivery, j.letter = eff.Call, eff.Delivery, eff.Letter
	p.jobs = append(p.jobs, j)
	return true
}

// begin counts a job, an operation or a place in line that Run has to wait for,
// unless Run is ending.
func (e *Engine) begin() bool {
	e.gate.RLock()
	defer e.gate.RUnlock()
	if !e.running.Load() {
		return false
	}
	e.work.Add(1)
	return true
}

// background brings an operation of Run's own to its scope.
func (e *Engine) background(scope attend.Scope, o *op) {
	if !e.begin() {
		e.release(o.grant)
		return
	}
	o.run = &e.work
	e.submit(scope, o)
}

// end is the end of a job, however it came about.
func (e *Engine) end(j *job) {
	e.release(j.permit)
	e.work.Done()
}

// start does a claimed job in a goroutine of its own, and then what its answer
// makes possible: a decision goes from the judge to the sink on one goroutine.
func (e *Engine) start(scope attend.Scope, j *job) {
	go func() {
		for j != nil {
			j = e.finishJob(scope, j)
		}
	}()
}

// finishJob does a claimed job, or gives it back when Run is ending. It returns
// one that its answer made possible and that is the caller's to do, if any.
func (e *Engine) finishJob(scope attend.Scope, j *job) *job {
	defer e.work.Done()
	in := machine.Input(j.giveBack())
	if e.running.Load() {
		in = e.perform(*e.workCtx.Load(), scope, j)
	}
	e.release(j.permit)
	if in == nil {
		return nil
	}
	return e.answer(scope, in, j.ends)
}

// answer commits what became of a job, whatever becomes of Run, and returns
// the job that comes of it. It is tried until the lease ends (E30), also where
// the scope can't be loaded.
func (e *Engine) answer(scope attend.Scope, in machine.Input, until time.Time) *job {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		o := op{in: in, until: until, works: true}
		err := e.do(context.Background(), scope, &o)
		if err == nil {
			return o.next
		}
		if time.Now().After(until) || e.graceOver() {
			e.log.Warn("attend: an answer could not be committed; the work comes back when its lease ends",
				"scope", scope, "err", err)
			return nil
		}
		time.Sleep(pause/2 + rand.N(pause))
	}
}

// graceOver reports whether Run has ended and waited for long enough: then a
// store that fails is not tried again (E35).
func (e *Engine) graceOver() bool {
	ctx := e.workCtx.Load()
	return ctx != nil && (*ctx).Err() != nil
}

// perform calls the judge, the sink or the handler, and returns what the scope
// is to be told, nil where that is nothing.
func (e *Engine) perform(ctx context.Context, scope attend.Scope, j *job) machine.Input {
	if !time.Now().Before(j.ends) {
		return nil // it is somebody else's by now (E47)
	}
	leased := ctx
	if time.Until(j.ends) < j.timeout { // the commit of the claim took its time too
		var cancel context.CancelFunc
		leased, cancel = context.WithDeadline(ctx, j.ends)
		defer cancel()
	}
	var in machine.Input
	switch {
	case j.call != nil:
		in = e.judge(leased, scope, j.call, j.permit.probe)
	case j.delivery != nil:
		in = e.deliver(leased, j.delivery)
	default:
		in = e.bury(leased, j.letter)
	}
	if f, ok := in.(machine.Failed); ok && ctx.Err() != nil && !f.Permanent && !f.Account {
		return j.giveBack() // it was we who ended it (E35)
	}
	return in
}

// giveBack ends the job's lease without an attempt.
func (j *job) giveBack() machine.GiveBack {
	g := machine.GiveBack{Lane: j.claim.Lane, Num: j.claim.Num}
	switch {
	case j.call != nil:
		g.Attempt = j.call.Attempt
	case j.delivery != nil:
		g.Attempt = j.delivery.Attempt
	case j.letter != nil:
		g.Attempt = j.letter.Attempt
	}
	return g
}
