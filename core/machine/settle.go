package machine

import (
	attend "github.com/attend-go/attend/core"
)

// ripe is when the open and the held window settle, if nothing else comes; 0:
// never. It is meant for a free slot.
func (s *State) ripe() ms {
	var d ms
	soonest := func(t ms) {
		if t != 0 && (d == 0 || t < d) {
			d = t
		}
	}
	if s.held != nil {
		soonest(s.held.until)
	}
	if !s.judgeable() {
		return d // the agent's own output alone: it would wake itself (E9)
	}
	p := &s.open
	for _, t := range [...]ms{p.age, p.closing, p.continuous, p.passive, p.flush, p.forced, p.ended} {
		soonest(t)
	}
	if s.overflows() || s.fills() {
		soonest(max(s.now, 1))
	}
	return d
}

// judgeable reports whether there is more than the agent's own output.
func (s *State) judgeable() bool {
	return s.open.judgeable() || s.held != nil && s.held.judgeable()
}

// overflows reports whether there are too many events for one window (E7).
func (s *State) overflows() bool { return s.waiting() > s.policy.MaxEvents }

// fills reports whether a window with an act has reached its size share (E6).
func (s *State) fills() bool {
	return (s.open.acts.n > 0 || s.held != nil && s.held.acts.n > 0) && s.waitingBytes() >= s.policy.MaxWindowBytes
}

// settleDue settles what is due at or before the move's time, if the slot is
// free (E4, E10). It happens when it was due, but not before the slot was free.
func (m *move) settleDue(free ms) {
	if m.slot != nil {
		return
	}
	if t := m.ripe(); t != 0 && t <= m.at {
		m.settle(max(t, free))
	}
}

// reason is why a window that settles at t does so: of those that have come the
// first in the order of E4. spoken says whether it holds a flush event.
func (m *move) reason(t ms, spoken bool) attend.Reason {
	p := &m.open
	switch {
	case p.forced != 0:
		return attend.ReasonForced
	case spoken:
		return attend.ReasonFlush
	case m.held != nil && m.held.until <= t:
		return attend.ReasonHorizon
	case m.overflows():
		return attend.ReasonOverflow
	case m.fills():
		return attend.ReasonSize
	}
	best, when := attend.Reason(""), ms(0)
	for _, c := range [...]struct {
		reason attend.Reason
		when   ms
	}{
		{attend.ReasonAge, p.age},
		{attend.ReasonClosing, earlier(p.closing, p.ended)},
		{attend.ReasonContinuous, p.continuous},
		{attend.ReasonPassive, p.passive},
	} {
		if c.when != 0 && c.when <= t && (best == "" || c.when < when) {
			best, when = c.reason, c.when
		}
	}
	return best
}

// earlier is the earlier of two moments that may be none.
func earlier(a, b ms) ms {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// settle closes the held and the open window as one, within the limits, and
// puts it into the slot. What is over the limits stays open.
func (m *move) settle(t ms) {
	w := closed{settled: t, opened: m.open.opened, dropped: m.open.dropped, waits: m.open.waits, gap: m.open.gap}
	entries := make([]*entry, 0, m.waiting())
	if h := m.held; h != nil {
		w.opened = h.opened
		w.dropped += h.dropped
		w.waits = max(w.waits, h.waits)
		w.gap = w.gap || h.gap
		entries = h.appendTo(entries)
	}
	entries = m.open.appendTo(entries)
	m.Changed = true
	if !judgeable(entries) {
		m.reopen(entries) // a held window that lost all but the agent's own output
		m.open.opened, m.open.dropped, m.open.waits, m.open.gap, m.held = w.opened, w.dropped, w.waits, w.gap, nil
		return
	}
	n := m.fit(entries)
	if !judgeable(entries[:n]) {
		// The agent's own output fills a window by itself: it can't be judged
		// alone, and what came behind it must be.
		entries = m.skipContext(entries, &w)
		n = m.fit(entries)
	}
	w.entries, w.reason = entries[:n:n], m.reason(t, speaks(entries[:n]))
	for _, e := range w.entries {
		w.bytes += int(e.size)
	}
	w.id = attend.NewDecisionID(m.scope, named(w.entries))
	m.reopen(entries[n:])
	m.held, m.slot = nil, newSlot(&w, m.next())
	m.shedSize() // what is left may hold no act
	m.trace(attend.Settled{
		Scope: m.scope, At: t.time(), ID: w.id, Reason: w.reason, Events: n, Waits: w.waits,
	})
}

// newSlot puts a window into the slot, where it waits for a claim.
func newSlot(w *closed, num uint64) *slot {
	s := &slot{closed: w, num: num, lease: lease{ready: w.settled}}
	for _, e := range w.entries {
		s.ids = s.ids.add(e.hash)
	}
	return s
}

// appendTo appends the pile's events in the order in which they were taken in.
func (p *pile) appendTo(to []*entry) []*entry {
	rest := make([]*entry, 0, p.rest.n)
	for e := range p.rest.all() {
		rest = append(rest, e)
	}
	for e := range p.acts.all() {
		for len(rest) > 0 && rest[0].order < e.order {
			to, rest = append(to, rest[0]), rest[1:]
		}
		to = append(to, e)
	}
	return append(to, rest...)
}

// fit is how many of the events keep within both limits: at least one.
func (m *move) fit(entries []*entry) int {
	bytes := 0
	for n, e := range entries {
		bytes += int(e.size)
		if n > 0 && (n == m.policy.MaxEvents || bytes > m.policy.MaxWindowBytes) {
			return n
		}
	}
	return len(entries)
}

// skipContext drops the context events at the head. There is another behind
// them.
func (m *move) skipContext(entries []*entry, w *closed) []*entry {
	n := 0
	for entries[n].role() == attend.KindContext {
		n++
	}
	w.dropped += n
	m.dropped(attend.WhySize, refs(entries[:n]))
	return entries[n:]
}

// reopen makes the open window of what is left of a settle, with its own
// events' deadlines, and with the flush or end that came for it (E7).
func (m *move) reopen(rest []*entry) {
	old := m.open
	m.open = pile{}
	if len(rest) == 0 {
		return
	}
	for _, e := range rest {
		c := *e
		m.open.add(&c, m.policy)
	}
	m.open.forced, m.open.ended = old.forced, old.ended
	// A deadline that is set stays (E48), even if the settings have changed
	// since: the last event of each kind is among the rest if any is.
	keep := func(now *ms, was ms) {
		if *now != 0 && was != 0 {
			*now = was
		}
	}
	keep(&m.open.closing, old.closing)
	keep(&m.open.continuous, old.continuous)
	keep(&m.open.passive, old.passive)
	if was, now := old.acts.first(), m.open.acts.first(); was != nil && now != nil && was.hash == now.hash {
		m.open.age = old.age
	}
}

func judgeable(entries []*entry) bool {
	for _, e := range entries {
		if e.role() != attend.KindContext {
			return true
		}
	}
	return false
}

func speaks(entries []*entry) bool {
	for _, e := range entries {
		if e.role() == attend.KindFlush {
			return true
		}
	}
	return false
}

// flush settles what is there now, and is remembered while the slot is busy
// (E9).
func (m *move) flush(writer, number uint64) {
	if m.markable() && m.open.forced == 0 && !m.landed(writer, number) {
		m.open.forced = m.at
		m.Changed = true
	}
}

// end is flush for a producer that says that a unit of work is finished.
func (m *move) end(writer, number uint64) {
	if m.markable() && m.open.ended == 0 && !m.landed(writer, number) {
		m.open.ended = m.at
		m.Changed = true
	}
}

// markable reports whether there is anything that a flush or an end could
// settle, now or once the slot is free.
func (m *move) markable() bool { return m.slot != nil || m.held != nil || m.open.judgeable() }

// unmark takes back a flush or an end that found nothing to settle once the
// slot was free.
func (m *move) unmark() {
	if m.slot == nil {
		m.open.forced, m.open.ended = 0, 0
	}
}
