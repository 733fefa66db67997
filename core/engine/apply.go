package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A resident is what a process holds of a scope as the store had it.
type resident struct {
	state   machine.State
	version uint64 // 0: the store does not know the scope
	snap    int    // bytes of its snapshot
	tail    int    // bytes of the inputs behind it
}

// load reads a scope.
func load(ctx context.Context, st attend.ScopeStore, scope attend.Scope) (resident, error) {
	rec, err := st.Load(ctx, scope)
	if err != nil {
		return resident{}, fmt.Errorf("engine: load %q: %w", scope, err)
	}
	state, err := machine.Replay(rec)
	if err != nil {
		return resident{}, fmt.Errorf("engine: load %q: %w", scope, err)
	}
	r := resident{state: state, version: rec.Version, snap: len(rec.Snapshot)}
	for _, b := range rec.Tail {
		r.tail += len(b)
	}
	return r, nil
}

// A draft is a write in the making: a state that inputs have changed since the
// resident was loaded, and what has to be written with it.
type draft struct {
	version    uint64 // of the resident, and what the store holds of it
	snap, tail int
	state      machine.State
	inputs     [][]byte
	one        [1][]byte // room for inputs: most have one
	buf        []byte    // that they are encoded in
	bytes      int       // of inputs
	rows       []attend.Row
	drops      []drop
	due        time.Time // to be stored, if moveDue
	moveDue    bool
	forget     bool
	traces     []attend.Trace
	changed    bool
}

func newDraft(r *resident) draft {
	var d draft
	d.begin(r)
	return d
}

// begin starts a draft that is empty.
func (d *draft) begin(r *resident) {
	d.version, d.snap, d.tail, d.state = r.version, r.snap, r.tail, r.state
}

// step applies an input, and beside it a policy that the scope does not have:
// before what a caller brings, so that its events are taken in under the new
// one, and behind everything else, which ends what began under the old. What
// changes nothing leaves no trace: the policy goes with its input, never alone
// (E48). A policy in front of a tick could, since what the tick would have done
// at that time would be the policy's doing, and thrown away with it.
func (d *draft) step(scope attend.Scope, p *machine.Policy, in machine.Input) machine.Effects {
	has := d.state.Policy()
	differs := has == nil || has != p && !has.Equal(p)
	if differs && (has == nil || brought(in)) {
		return d.stepUnder(p, scope, in)
	}
	eff := d.state.Apply(in)
	if !eff.Changed {
		return eff
	}
	d.add(in, &eff)
	if d.forget = eff.Forget; differs && !d.forget {
		configure := machine.Configure{At: machine.At(in), Policy: p}
		after := d.state.Apply(configure)
		d.add(configure, &after)
	}
	return eff
}

// stepUnder applies a policy and then an input, or neither.
func (d *draft) stepUnder(p *machine.Policy, scope attend.Scope, in machine.Input) machine.Effects {
	configure := machine.Configure{At: machine.At(in), Scope: scope, Seed: newSeed(d.state.Policy() == nil), Policy: p}
	before := d.state
	first := d.state.Apply(configure)
	eff := d.state.Apply(in)
	if !eff.Changed {
		d.state = before
		return eff
	}
	d.add(configure, &first)
	d.add(in, &eff)
	d.forget = eff.Forget
	return eff
}

// brought reports whether an input is a caller's, not one that work or time
// made.
func brought(in machine.Input) bool {
	switch in.(type) {
	case machine.Arrive, machine.Flush, machine.End:
		return true
	default:
		return false
	}
}

func (d *draft) add(in machine.Input, eff *machine.Effects) {
	from := len(d.buf)
	d.buf = machine.AppendInput(d.buf, in)
	b := d.buf[from:len(d.buf):len(d.buf)]
	if d.inputs == nil {
		d.inputs = d.one[:0]
	}
	d.inputs = append(d.inputs, b)
	d.bytes += len(b)
	for _, x := range eff.Drops {
		d.drops = append(d.drops, drop{len(d.rows) + x.Row, []attend.Mark{x.Mark}})
	}
	d.rows = append(d.rows, eff.Rows...)
	d.traces = append(d.traces, eff.Traces...)
	if eff.MoveDue {
		d.due, d.moveDue = eff.Due, true
	}
	d.changed = true
}

func newSeed(needed bool) machine.Seed {
	var s machine.Seed
	if needed {
		rand.Read(s[:]) // never fails
	}
	return s
}

// newID returns a random id that is not 0.
func newID() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return max(binary.LittleEndian.Uint64(b[:]), 1)
}

// smallTail is the size below which a tail is not worth a snapshot.
const smallTail = 1 << 10

// write is what the store is asked to commit. A snapshot replaces the tail once
// that is larger (E32).
func (d *draft) write(scope attend.Scope) attend.Write {
	d.mergeDrops(scope)
	w := attend.Write{Scope: scope, Expect: d.version, Rows: d.rows}
	if d.forget {
		w.Forget = true
		return w
	}
	w.Due, w.KeepDue = d.due, !d.moveDue && d.version != 0
	if d.tail+d.bytes > max(d.snap, smallTail) {
		from := len(d.buf)
		d.buf = machine.AppendState(d.buf, &d.state)
		w.Snapshot = d.buf[from:len(d.buf):len(d.buf)]
	} else {
		w.Inputs = d.inputs
	}
	return w
}

// landed makes r the resident once w is committed.
func (d *draft) landed(r *resident, w *attend.Write, o attend.Outcome) {
	if w.Forget {
		*r = resident{}
		return
	}
	r.state, r.version, r.snap, r.tail = d.state, o.Version, d.snap, d.tail+d.bytes
	if w.Snapshot != nil {
		r.snap, r.tail = len(w.Snapshot), 0
	}
}

// commit is the only call of Commit in attend.
func commit(ctx context.Context, st attend.ScopeStore, writes []attend.Write) ([]attend.Outcome, error) {
	out, err := st.Commit(ctx, writes)
	if err == nil && len(out) != len(writes) {
		err = fmt.Errorf("engine: the store answered %d outcomes for %d writes", len(out), len(writes))
	}
	return out, err
}

// Apply loads a scope, applies one input to it and commits the result, all over
// again when somebody else wrote the scope in between. It waits for nothing,
// reads no clock and keeps no state, so it serves tools and tests that bring
// their own time; an [Engine] does the same for many scopes at once. The effects
// are committed when err is nil.
func Apply(ctx context.Context, st attend.ScopeStore, scope attend.Scope, p *machine.Policy, in machine.Input) (machine.State, machine.Effects, error) {
	for {
		r, err := load(ctx, st, scope)
		if err != nil {
			return machine.State{}, machine.Effects{}, err
		}
		d := newDraft(&r)
		eff := d.step(scope, p, in)
		if !eff.Changed {
			return d.state, eff, nil
		}
		out, err := commit(ctx, st, []attend.Write{d.write(scope)})
		if err != nil {
			return machine.State{}, machine.Effects{}, fmt.Errorf("engine: commit %q: %w", scope, err)
		}
		if !out[0].Conflict() {
			return d.state, eff, nil
		}
	}
}
