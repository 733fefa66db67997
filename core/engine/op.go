package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// An op is one input on its way into a scope, and its answer.
type op struct {
	in     machine.Input // without time and number; nil: lost, or look for work alone
	events int
	number uint64         // drawn once, so that a retry is recognised (E29)
	least  time.Time      // a timer's deadline; the input is no earlier
	until  time.Time      // how long it is tried after lost races or errors; zero: patience
	timer  bool           // our own timer: other processes' work is left to them
	sweep  bool           // a sweep brought it, and will again
	reload bool           // the store knows better
	fetch  bool           // makes the scope resident, and does nothing else
	grant  *permit        // a judge call or delivery that may start
	lost   *machine.Claim // a claim that is to be given back, if it has landed
	works  bool           // whoever waits for it takes a job that it makes possible

	run *sync.WaitGroup // Run waits for it; nil: it does not

	eff    machine.Effects
	err    error
	next   *job // if it works
	answer answer
}

// finish answers the operation.
func (o *op) finish() {
	if o.run != nil {
		o.run.Done()
	}
	o.answer.set()
}

// An answer is set once, and waited for by at most one goroutine, which makes a
// channel only if it has to wait: most answers are there when it looks.
type answer struct {
	state atomic.Int32
	done  chan struct{}
}

const (
	unanswered = iota
	awaited
	answered
	abandoned // nobody waits any more
)

func (a *answer) set() {
	if a.state.Swap(answered) == awaited {
		close(a.done)
	}
}

func (a *answer) isSet() bool { return a.state.Load() == answered }

func (a *answer) wait(ctx context.Context) error {
	if a.isSet() {
		return nil
	}
	a.done = make(chan struct{})
	if !a.state.CompareAndSwap(unanswered, awaited) {
		return nil
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		if a.state.CompareAndSwap(awaited, abandoned) {
			return ctx.Err()
		}
		<-a.done // it is being given: whoever gives it still has a in hand
		return nil
	}
}

func (a *answer) isAbandoned() bool { return a.state.Load() == abandoned }

// doubtful reports whether an operation that changed nothing might have, had
// the scope been loaded anew: its events were repeats (of a scope that somebody
// has removed), there was nothing to settle, a lane was full, or a source's
// cursor stood elsewhere.
func (o *op) doubtful() bool {
	if o.lost != nil {
		return true
	}
	switch o.in.(type) {
	case *machine.Arrive, machine.Flush, machine.End:
		return true
	default:
		return false
	}
}

// hasLanded reports whether eff says that an earlier try of these events has
// landed: otherwise each of them is new or a repeat, or all are refused.
func hasLanded(in machine.Input, eff machine.Effects) bool {
	a, ok := in.(machine.Arrive)
	return ok && len(a.Events) > 0 && eff.Fresh == 0 && len(eff.Repeats) == 0 && !eff.Refused && eff.Batch == machine.Taken
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

// tell puts what an input brought before what followed from it, among the
// traces from place from on, and behind what was due before.
func (d *draft) tell(from int, arrived []attend.Trace, in machine.Input) {
	for from < len(d.traces) {
		t, ok := d.traces[from].(attend.Settled)
		if !ok || t.At.UnixMilli() >= machine.At(in).UnixMilli() {
			break
		}
		from++
	}
	d.traces = slices.Insert(d.traces, from, arrived...)
}
