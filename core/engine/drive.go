package engine

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A Drive runs attend on times that it is given, for replays and for suites:
// the same writes as an [Engine] makes, one after the other, without a clock, a
// timer or a goroutine. Judge, sink and handler answer in no time at all. It
// is not safe for concurrent use, but other processes may write its store.
//
// The same calls give the same states, decisions and log rows, random seeds and
// epochs aside.
type Drive struct {
	e        *Engine
	resident map[attend.Scope]resident
	due      dues
	queued   map[attend.Scope]time.Time // the earliest in due
}

// NewDrive returns a drive, which knows of no scope that it has not touched.
// Errors are those of [New].
func NewDrive(cfg Config) (*Drive, error) {
	e, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Drive{e: e, resident: make(map[attend.Scope]resident), queued: make(map[attend.Scope]time.Time)}, nil
}

// Resume makes known every scope of the store that is due at or before horizon,
// as the store has it: a process that starts again finds its work so, and one
// that sweeps that of others.
func (v *Drive) Resume(ctx context.Context, horizon time.Time) error {
	for scope, err := range v.e.store.Due(ctx, horizon) {
		if err != nil {
			return fmt.Errorf("engine: list due scopes: %w", err)
		}
		if _, err := v.reload(ctx, scope); err != nil {
			return err
		}
	}
	return nil
}

// Push takes events into a scope at a time, as [Engine.Push] does, and works
// off what that makes possible. What was due before should have been done, by
// [Drive.Advance]. Where an error comes with a receipt that is not zero, the
// events are committed, and the work behind them failed.
//
// When ctx ends while a judge, a sink or a handler is called, what they could
// not answer is given back, and the error is ctx's; so it is with every method
// here that takes an input.
func (v *Drive) Push(ctx context.Context, at time.Time, scope attend.Scope, events ...attend.Event) (Receipt, error) {
	if err := scope.Check(); err != nil {
		return Receipt{}, err
	}
	clean := make([]attend.Event, len(events))
	for i := range events {
		c, err := v.e.intake(events[i], at)
		if err == nil && c.Source != "" {
			err = &attend.InvalidError{Field: "source", Want: "nothing, for an event that is pushed"}
		}
		if err != nil {
			return Receipt{}, &attend.EventError{Index: i, Err: err}
		}
		clean[i] = c
	}
	eff, jobs, err := v.apply(ctx, true, at, scope, machine.Arrive{
		At: at, Writer: v.e.id, Number: v.e.number.Add(1), Events: clean,
	})
	if err != nil {
		return Receipt{}, err
	}
	err = v.perform(ctx, at, scope, jobs)
	if eff.Refused {
		return Receipt{}, cmp.Or(err, fmt.Errorf("engine: push to %q: %w", scope, attend.ErrOutboxFull))
	}
	return Receipt{New: len(clean) - len(eff.Repeats), Duplicates: len(eff.Repeats)}, err
}

// Batch takes a source's batch in at a time, read after a cursor, as
// [Engine.Attach] does. The effects say what became of it: Refused, or another
// outcome than [machine.Taken], where nothing was taken.
func (v *Drive) Batch(ctx context.Context, at time.Time, scope attend.Scope, key string, after attend.Cursor, b attend.Batch) (machine.Effects, error) {
	in := machine.Arrive{
		At: at, Writer: v.e.id, Number: v.e.number.Add(1),
		Source: key, After: after, Cursor: b.Cursor, Gap: b.Gap,
	}
	for _, x := range b.Events {
		x.Source = key
		if c, err := v.e.intake(x, at); err == nil {
			in.Events = append(in.Events, c)
		} else {
			in.Rejected = append(in.Rejected, machine.Rejected{Event: keepable(x), Message: err.Error()})
		}
	}
	return v.work(ctx, at, scope, in)
}

// Flush is [Engine.Flush] at a time.
func (v *Drive) Flush(ctx context.Context, at time.Time, scope attend.Scope) error {
	if err := scope.Check(); err != nil {
		return err
	}
	_, err := v.work(ctx, at, scope, machine.Flush{At: at, Writer: v.e.id, Number: v.e.number.Add(1)})
	return err
}

// End is [Engine.End] at a time.
func (v *Drive) End(ctx context.Context, at time.Time, scope attend.Scope) error {
	if err := scope.Check(); err != nil {
		return err
	}
	_, err := v.work(ctx, at, scope, machine.End{At: at, Writer: v.e.id, Number: v.e.number.Add(1)})
	return err
}

// Next is when the next of the scopes that v knows is due, expiries included;
// zero: none is.
func (v *Drive) Next() time.Time {
	for len(v.due) > 0 {
		d := v.due[0]
		if r := v.resident[d.scope]; r.state.Due().Equal(d.at) {
			return d.at
		}
		v.pop() // it has moved since
		v.watch(d.scope)
	}
	return time.Time{}
}

func (v *Drive) pop() attend.Scope {
	d := heap.Pop(&v.due).(due)
	if v.queued[d.scope].Equal(d.at) {
		delete(v.queued, d.scope)
	}
	return d.scope
}

// Advance does what is due at or before a time in the scopes that v knows, each
// at its own time, the earliest first.
func (v *Drive) Advance(ctx context.Context, to time.Time) error {
	for at := v.Next(); !at.IsZero() && !at.After(to); at = v.Next() {
		scope := v.pop()
		var in machine.Input = machine.Tick{At: at}
		if r := v.resident[scope]; r.state.Expired(at) {
			in = machine.Forget{At: at}
		}
		_, err := v.work(ctx, at, scope, in)
		v.watch(scope) // after an error too: it is still to be done
		if err != nil {
			return err
		}
	}
	return nil
}

// State returns a scope's state as v knows it.
func (v *Drive) State(ctx context.Context, scope attend.Scope) (machine.State, error) {
	r, err := v.load(ctx, scope)
	return r.state, err
}

func (v *Drive) load(ctx context.Context, scope attend.Scope) (resident, error) {
	if r, ok := v.resident[scope]; ok {
		return r, nil
	}
	return v.reload(ctx, scope)
}

// reload asks the store, whatever v knows. After an error v knows what it knew.
func (v *Drive) reload(ctx context.Context, scope attend.Scope) (resident, error) {
	r, err := load(ctx, v.e.store, scope)
	if err == nil {
		v.land(scope, r)
	}
	return r, err
}

// watch notes when a scope is due, unless it is noted for no later.
func (v *Drive) watch(scope attend.Scope) {
	r := v.resident[scope]
	at := r.state.Due()
	if q, ok := v.queued[scope]; at.IsZero() || ok && !at.Before(q) {
		return
	}
	heap.Push(&v.due, due{at, scope})
	v.queued[scope] = at
}

// work applies an input, and then does all that can be done at that time.
func (v *Drive) work(ctx context.Context, at time.Time, scope attend.Scope, in machine.Input) (machine.Effects, error) {
	eff, jobs, err := v.apply(ctx, true, at, scope, in)
	if err == nil {
		err = v.perform(ctx, at, scope, jobs)
	}
	return eff, err
}

// perform does jobs, and those that their answers make possible. When ctx ends
// it claims no more, and gives back what has no answer (E35).
func (v *Drive) perform(ctx context.Context, at time.Time, scope attend.Scope, jobs []*job) error {
	for len(jobs) > 0 {
		in := v.answer(ctx, jobs[0])
		_, more, err := v.apply(context.WithoutCancel(ctx), ctx.Err() == nil, at, scope, machine.Stamp(in, at))
		if err != nil {
			return err
		}
		jobs = append(jobs[1:], more...)
	}
	return ctx.Err()
}

// answer calls the judge, the sink or the handler, and returns what the scope is
// to be told.
func (v *Drive) answer(ctx context.Context, j *job) machine.Input {
	if ctx.Err() != nil {
		return j.giveBack()
	}
	var in machine.Input
	switch {
	case j.call != nil:
		in = v.judge(ctx, j.call)
	case j.delivery != nil:
		in = v.e.deliver(ctx, j.delivery)
	default:
		in = v.e.bury(ctx, j.letter)
	}
	if f, ok := in.(machine.Failed); ok && ctx.Err() != nil && !f.Permanent && !f.Account {
		return j.giveBack() // it was the caller who ended it
	}
	return in
}

func (v *Drive) judge(ctx context.Context, call *machine.Call) machine.Input {
	in := v.e.judgeInput(call)
	v.e.look(ctx, call.Window.Scope, &in)
	j, err := v.e.ask(ctx, in)
	if err != nil {
		return failure(machine.LaneJudge, call.Num, call.Attempt, err)
	}
	return machine.Judged{Num: call.Num, Attempt: call.Attempt, Judgment: j}
}

// The patience with a store that fails, and with lost races. There is no time to
// wait in.
const (
	driveTries  = 3
	driveLosses = 1000
)

// apply commits one input, with the judgments and claims that an engine would
// make in the same write. After a lost race or an error the scope is loaded
// again, and the same claims and the same input are applied to what is there.
// So it is where the input changes nothing in a state that may be old: what
// changes nothing is not written, and loses no race.
func (v *Drive) apply(ctx context.Context, claims bool, at time.Time, scope attend.Scope, in machine.Input) (eff machine.Effects, _ []*job, _ error) {
	var jobs []*job
	_, known := v.resident[scope]
	r, err := v.load(ctx, scope)
	for fails, losses := 0, 0; ; {
		if err != nil {
			return machine.Effects{}, nil, err
		}
		p := &pending{draft: newDraft(&r)}
		for _, j := range jobs {
			v.e.reclaim(scope, p, j)
		}
		now := p.step(scope, v.e.policy, in)
		if fails == 0 || !hasLanded(in, now) {
			eff = now // else what the try said that landed stands
		}
		p.traces = append(p.traces, arrivals(scope, in, now)...)
		v.e.judgeAtOnce(scope, p, at)
		if claims {
			v.claim(p, scope, at)
		}
		switch {
		case p.changed:
			w := p.write(scope)
			out, failed := commit(ctx, v.e.store, []attend.Write{w})
			switch {
			case failed != nil:
				if fails++; fails == driveTries {
					return machine.Effects{}, nil, fmt.Errorf("engine: commit %q: %w", scope, failed)
				}
			case out[0].Conflict():
				if losses++; losses == driveLosses {
					return machine.Effects{}, nil, fmt.Errorf("engine: commit %q: %d races lost: %w", scope, losses, attend.ErrConflict)
				}
			default:
				p.landed(&r, &w, out[0])
				v.land(scope, r)
				v.tell(p)
				return eff, p.jobs, nil
			}
		case !known:
			v.tell(p)
			return eff, p.jobs, nil
		}
		jobs, known = p.jobs, false
		r, err = v.reload(ctx, scope)
	}
}

// tell sends what an observer is to see.
func (v *Drive) tell(p *pending) {
	for _, t := range p.traces {
		v.e.trace(t)
	}
}

func (v *Drive) land(scope attend.Scope, r resident) {
	if r.version == 0 {
		delete(v.resident, scope)
		return
	}
	v.resident[scope] = r
	v.watch(scope)
}

// claim leases all that can be worked now.
func (v *Drive) claim(p *pending, scope attend.Scope, at time.Time) {
	for progress := true; progress && !p.forget; {
		progress = false
		w := p.state.Work(at)
		for lane, num := range [...]uint64{w.Judge, w.Decision, w.Letter} {
			if num == 0 {
				continue
			}
			timeout := v.e.cfg.DeliveryTimeout
			if machine.Lane(lane) == machine.LaneJudge {
				timeout = v.e.cfg.JudgeTimeout
			}
			j := &job{claim: machine.Claim{
				At: at, Lane: machine.Lane(lane), Num: num, Owner: v.e.id, Until: at.Add(2 * timeout),
			}}
			progress = true
			v.e.reclaim(scope, p, j)
		}
	}
}

// dues is a heap of due scopes, the earliest first, and of those of one moment
// the one that comes first in the alphabet: a replay is the same each time.
type dues []due

type due struct {
	at    time.Time
	scope attend.Scope
}

func (d dues) Len() int { return len(d) }

func (d dues) Less(i, j int) bool {
	if !d[i].at.Equal(d[j].at) {
		return d[i].at.Before(d[j].at)
	}
	return d[i].scope < d[j].scope
}

func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

// Push is for package heap.
func (d *dues) Push(x any) { *d = append(*d, x.(due)) }

// Pop is for package heap.
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
