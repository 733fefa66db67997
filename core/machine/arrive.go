package machine

import (
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

func (m *move) arrive(in Arrive) {
	if m.landed(in.Writer, in.Number) {
		return
	}
	place, known := m.cursor(in.Source)
	if in.Source != "" {
		held := attend.Cursor("")
		if known {
			held = m.cursors[place].place
		}
		switch {
		case held == in.After:
		case held == in.Cursor:
			return // an earlier try landed
		case held == "":
			m.Batch = Gone
			return
		default:
			m.Batch, m.Place = Elsewhere, held
			return
		}
	}
	if m.full() {
		m.Refused = true
		return
	}
	m.brought = [2]int{}
	for i := range in.Events {
		m.brought[memory(in.Events[i].Kind)]++
	}
	for i := range in.Events {
		m.event(i, &in.Events[i], in.Source)
	}
	for _, r := range in.Rejected {
		m.reject(r, in.Source)
	}
	if in.Gap && !m.open.gap {
		m.open.gap = true
		m.Changed = true
	}
	if in.Source != "" && in.Cursor != in.After && in.Cursor != "" {
		m.Changed = true
		m.cursors = slices.Clone(m.cursors)
		if !known {
			m.cursors = slices.Insert(m.cursors, place, cursor{key: in.Source})
		}
		m.cursors[place].place = in.Cursor
	}
	if m.Changed {
		m.evict()
		m.shedCount()
		m.shedSize()
	}
}

// cursor returns where the cursor of a source is kept, or would be.
func (s *State) cursor(source string) (int, bool) {
	return slices.BinarySearchFunc(s.cursors, source, func(c cursor, k string) int { return strings.Compare(c.key, k) })
}

// full reports whether no events may come in (E26).
func (s *State) full() bool {
	p := s.policy
	return len(s.decisions.jobs) >= p.MaxOutbox || s.decisions.bytes >= p.MaxLaneBytes ||
		len(s.letters.jobs) >= p.MaxDeadLetters || s.letters.bytes >= p.MaxLaneBytes ||
		s.slot != nil && (s.open.acts.n >= p.MaxBacklog || s.open.bytes >= p.MaxLaneBytes)
}

// event takes in one event, or counts it as a repeat (E3).
func (m *move) event(i int, v *attend.Event, source string) {
	h := m.key.hash(source, v.ID)
	lane := memory(role(v.Kind))
	for k := range m.seen {
		if at, slot := m.seen[k].find(h); slot >= 0 {
			m.Repeats = append(m.Repeats, i)
			if m.seen[k].younger(at, slot) >= m.remember(k)/2 {
				m.seen[k] = m.seen[k].remove(at, slot).add(h)
				m.Changed = true
			}
			return
		}
	}
	m.seen[lane] = m.seen[lane].add(h)
	m.Changed = true
	if m.open.ids.has(h) || m.busy().has(h) {
		// Forgotten, and still here: it is remembered again, or this push could
		// not be sent again once its window is gone.
		m.Repeats = append(m.Repeats, i)
		return
	}
	m.Fresh++
	c := *v
	c.Kind = role(v.Kind)
	e := pack(&c, source, m.at)
	e.hash = h
	m.open.add(e, m.policy)
}

// role is an event's kind. The engine has asked, but Step is total all the
// same.
func role(k attend.Kind) attend.Kind {
	if k.Valid() {
		return k
	}
	return attend.KindConsequence
}

// remember is how many ids a memory holds: SeenCount, and enough that all of
// the last push or batch can be sent again. A repeat that is not in the older
// half may be left where it is only if nothing that came with it can push it
// out, hence the double.
func (s *State) remember(lane int) int {
	return max(s.policy.SeenCount, 2*s.brought[lane])
}

func (m *move) evict() {
	for k := range m.seen {
		for m.seen[k].n > m.remember(k) {
			m.seen[k] = m.seen[k].drop()
		}
	}
}

// add puts an event behind the others, and sets the deadlines that it sets.
func (p *pile) add(e *entry, policy *Policy) {
	e.order = p.count
	p.count++
	if p.len() == 0 {
		p.opened = e.taken
	}
	p.bytes += int(e.size)
	p.ids = p.ids.add(e.hash)
	switch e.role() {
	case attend.KindConsequence:
		p.rest = p.rest.push(e)
		return
	case attend.KindContext:
		p.contexts++
		p.rest = p.rest.push(e)
		return
	case attend.KindClosing:
		p.closing = e.taken.add(policy.ClosingGrace)
	case attend.KindContinuous:
		p.continuous = e.taken.add(policy.StreamGap)
	case attend.KindPassive:
		p.passive = e.taken.add(policy.PassiveQuiet)
	case attend.KindFlush:
		if p.flush == 0 {
			p.flush = e.taken
		}
	}
	if p.acts.n == 0 {
		p.age = e.taken.add(policy.MaxWindow)
	}
	p.acts = p.acts.push(e)
}

// reject makes a dead letter of an event that can't be taken in (E2).
func (m *move) reject(r Rejected, source string) {
	if !r.Event.Kind.Valid() {
		r.Event.Kind = ""
	}
	r.Event.Source = source
	e := pack(&r.Event, source, m.at)
	m.Changed = true
	m.letter(&job{
		stage:   attend.StageIntake,
		message: r.Message,
		window: &closed{
			id: attend.NewIntakeID(m.scope, r.Event), entries: []*entry{e},
			opened: m.at, settled: m.at, bytes: int(e.size),
		},
	})
}
