package machine

import attend "github.com/attend-go/attend/core"

// What is dropped, and nothing else ever is: consequence and context events,
// oldest first. An act is never dropped.

// shedCount drops while the open and the held window hold more than MaxEvents
// (E7). What is left over the limit is acts, and settles with overflow.
func (m *move) shedCount() {
	m.shed(attend.WhyCount, func() bool { return m.waiting() > m.policy.MaxEvents })
}

// shedSize drops while a window without an act is over its size share (E8).
func (m *move) shedSize() {
	if m.open.acts.n > 0 || m.held != nil && m.held.acts.n > 0 {
		return
	}
	m.shed(attend.WhySize, func() bool { return m.waitingBytes() >= m.policy.MaxWindowBytes })
}

// shedStale drops what waited longer than MaxWindow for an act (E8). It does
// not count as a change: an input that changes nothing else is not written,
// and then nothing is dropped either.
func (m *move) shedStale() {
	if m.open.acts.n > 0 || m.held != nil {
		return
	}
	changed := m.Changed
	m.shed(attend.WhyStale, func() bool {
		return m.open.rest.n > 0 && m.open.rest.since.add(m.policy.MaxWindow) < m.at
	})
	m.Changed = changed
}

// waiting is how many events the next window would hold.
func (s *State) waiting() int {
	if s.held != nil {
		return s.open.len() + s.held.len()
	}
	return s.open.len()
}

func (s *State) waitingBytes() int {
	if s.held != nil {
		return s.open.bytes + s.held.bytes
	}
	return s.open.bytes
}

// shed drops the oldest sheddable events while over says so.
func (m *move) shed(why attend.Why, over func() bool) {
	var refs []attend.EventRef
	for over() {
		var e *entry
		switch {
		case m.held != nil && m.held.rest.n > 0:
			h := *m.held // not in place: the argument's state holds it too
			e = h.shed()
			m.held = &h
		case m.open.rest.n > 0:
			e = m.open.shed()
		}
		if e == nil {
			break
		}
		refs = append(refs, e.ref())
	}
	m.dropped(why, refs)
}

// shed drops the pile's oldest sheddable event; there must be one.
func (p *pile) shed() *entry {
	e := p.rest.first()
	p.rest = p.rest.pop()
	if at, slot := p.ids.find(e.hash); slot >= 0 {
		p.ids = p.ids.remove(at, slot)
	}
	if e.role() == attend.KindContext {
		p.contexts--
	}
	p.bytes -= int(e.size)
	p.dropped++
	return e
}

// dropped records what was shed (E41).
func (m *move) dropped(why attend.Why, refs []attend.EventRef) {
	if len(refs) == 0 {
		return
	}
	m.Changed = true
	if m.policy.RecordVerdicts {
		k := attend.Mark{Step: attend.StepDropped, Why: why, Events: refs}
		m.mark(k)
		k.At = m.at.time()
		m.Drops = append(m.Drops, Drop{len(m.Rows) - 1, k})
	}
	m.trace(attend.Shed{Scope: m.scope, At: m.at.time(), Why: why, Events: refs})
}
