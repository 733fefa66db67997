package machine

import (
	"encoding/json"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A move is one step under way: the state that it makes, and what it asks for.
type move struct {
	State
	at      ms   // the input's time, never before the scope's
	forward bool // nothing happened, only the stored due time moves
	Effects
}

// Step applies one input to a state. It is total, pure and idempotent: it
// answers every input, never changes its argument, and applied twice an input
// changes nothing the second time. What a deadline at or before the input's
// time sets off happens before the input (E4); what the input makes due at
// once happens in the same step (E45).
func Step(s State, in Input) (State, Effects) {
	eff := s.Apply(in)
	return s, eff
}

// Apply is [Step] in place: s becomes the state that the input makes. Copies of
// it that were made before stay as they are.
func (s *State) Apply(in Input) Effects {
	m := move{State: *s, at: max(moment(in.at()), s.now, 1)} // 0 is no moment
	if in, ok := in.(Configure); ok && s.scope == "" {
		m.begin(in)
	}
	if m.scope == "" {
		return Effects{}
	}
	m.settleDue(m.now)
	m.shedStale()
	switch in := in.(type) {
	case Configure:
		m.configure(in.Policy)
	case Arrive:
		m.arrive(in)
	case Flush:
		m.flush(in.Writer, in.Number)
	case End:
		m.end(in.Writer, in.Number)
	case Tick:
		m.tick()
	case Claim:
		m.claim(in)
	case Judged:
		m.judged(in)
	case Failed:
		m.failed(in)
	case Done:
		m.done(in)
	case GiveBack:
		m.giveBack(in)
	case Forget:
		m.forget()
	}
	if m.Refused || m.Batch != Taken || !m.Changed {
		return Effects{
			Fresh: m.Fresh, Repeats: m.Repeats, Refused: m.Refused, Batch: m.Batch, Place: m.Place,
			Call: m.Call, Delivery: m.Delivery, Letter: m.Letter,
		}
	}
	if m.Forget {
		*s = State{}
		return m.Effects
	}
	m.settleDue(m.at)
	m.unmark()
	if !m.forward {
		m.now = m.at
	}
	_, arrives := in.(Arrive)
	m.moveDue(arrives)
	*s = m.State
	return m.Effects
}

// begin starts a scope's life. A policy that Policy.Check refuses starts none,
// so that Step stays total.
func (m *move) begin(in Configure) {
	if in.Scope.Check() != nil || in.Policy == nil || in.Policy.Check() != nil {
		return
	}
	m.scope, m.policy = in.Scope, in.Policy
	copy(m.key[:], in.Seed[:16])
	for _, b := range in.Seed[16:] {
		m.serial = m.serial<<8 | uint64(b)
	}
	m.serial = m.serial>>2 + 1 // a start above 0 from which no scope can count to the end
	m.Changed = true
}

func (m *move) configure(p *Policy) {
	if p == nil || p.Check() != nil || m.policy.Equal(p) {
		return
	}
	m.policy = p
	m.Changed = true
	m.shedCount()
	m.shedSize()
}

// tick changes something only where the stored due time has passed and the
// scope is not due yet: then it is written forward, once (E46). What is due
// has happened by now. It is no input that an expiry would count from.
func (m *move) tick() {
	if m.Changed || m.stored == 0 || m.stored > m.at {
		return
	}
	if d := m.due(); d == 0 || d > m.at {
		m.Changed, m.forward = true, true
	}
}

// moveDue says whether the stored due time has to move. It is a lower bound: an
// event that only pushes it out leaves it, unless it has passed (E46). An input
// that ends a wait does not: what is stored would be the end of a lease that
// nobody holds, and once that had passed every replica would look at the scope
// at once, only to write it forward.
func (m *move) moveDue(arrives bool) {
	d := m.due()
	if d == m.stored || arrives && d != 0 && m.stored != 0 && m.stored < d && m.stored > m.at {
		return
	}
	m.stored = d
	m.Effects.Due, m.MoveDue = d.time(), true
}

// next draws a number that the scope never uses again.
func (m *move) next() uint64 {
	m.serial++
	return m.serial - 1
}

// landed reports whether a writer's input was applied before, and if not,
// remembers it. A caller that then changes nothing drops the move, and with it
// the memory.
func (m *move) landed(id, number uint64) bool {
	if id == 0 {
		return false
	}
	return !m.writers.note(writer{id, number})
}

// forget ends the life of a scope that was idle for IdleExpiry. Source cursors
// and a gap that a window has yet to hear of stay, or a source would begin
// again from its start.
func (m *move) forget() {
	if m.policy.IdleExpiry <= 0 || !m.idle() || m.bare() || m.at < m.now.add(m.policy.IdleExpiry) {
		return
	}
	m.Changed = true
	var refs []attend.EventRef
	for e := range m.open.rest.all() {
		refs = append(refs, e.ref())
	}
	m.dropped(attend.WhyExpired, refs)
	if len(m.cursors) == 0 {
		m.Forget = true
		return
	}
	m.open = pile{gap: m.open.gap}
	m.seen, m.brought, m.recent, m.writers = [2]ids{}, [2]int{}, nil, writers{}
}

// mark adds a row that explains something (E41).
func (m *move) mark(k attend.Mark) {
	if m.policy.RecordVerdicts {
		k.At = m.at.time()
		m.row(attend.RowVerdict, k.ID, k)
	}
}

func (m *move) row(t attend.RowType, id attend.DecisionID, body json.Marshaler) {
	m.Rows = append(m.Rows, row(m.scope, t, id, m.at.time(), body))
}

func row(scope attend.Scope, t attend.RowType, id attend.DecisionID, at time.Time, body json.Marshaler) attend.Row {
	b, err := body.MarshalJSON()
	if err != nil {
		// Every value in it is checked before it gets here: JSON that compacts,
		// numbers that are finite.
		panic("machine: " + err.Error())
	}
	return attend.Row{Scope: scope, ID: id, Type: t, At: at, Body: b}
}

func (m *move) trace(t attend.Trace) { m.Traces = append(m.Traces, t) }
