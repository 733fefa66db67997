package machine

import (
	"slices"

	attend "github.com/attend-go/attend/core"
)

// EncodeState returns s as bytes that [DecodeState] reads: the same bytes for
// the same state, however it came about. The zero State has no bytes.
func EncodeState(s State) []byte { return AppendState(nil, &s) }

// AppendState is [EncodeState] behind what b holds.
func AppendState(b []byte, s *State) []byte {
	if s.scope == "" {
		return b
	}
	e := newEncoder(b, 512+s.open.encoded()+8*(s.seen[0].n+s.seen[1].n))
	e.str(string(s.scope))
	e.policy(s.policy)
	e.b = append(e.b, s.key[:]...)
	e.uint(s.serial)
	e.moment(s.now)
	e.moment(s.stored)
	all := s.writers.all()
	e.count(len(all))
	for _, w := range all {
		e.fixed(w.id)
		e.uint(w.number)
	}
	e.count(len(s.cursors))
	for _, c := range s.cursors {
		e.str(c.key)
		e.str(string(c.place))
	}
	for k := range s.seen {
		e.count(s.brought[k])
		e.count(s.seen[k].n)
		for h := range s.seen[k].all() {
			e.fixed(h)
		}
	}
	e.count(len(s.recent))
	for _, v := range s.recent {
		e.verdict(v)
	}
	e.pile(&s.open)
	e.flag(s.held != nil)
	if s.held != nil {
		e.pile(&s.held.pile)
		e.moment(s.held.until)
	}
	e.flag(s.slot != nil)
	if s.slot != nil {
		e.closed(s.slot.closed)
		e.uint(s.slot.num)
		e.lease(s.slot.lease)
		e.moment(s.slot.since)
		e.count(s.slot.outages)
		e.str(s.slot.message)
	}
	e.lane(s.decisions)
	e.lane(s.letters)
	return e.b
}

// DecodeState reads what [EncodeState] wrote. It keeps nothing of b. An error
// is attend.ErrNewer or attend.ErrCorrupt.
func DecodeState(b []byte) (State, error) {
	if len(b) == 0 {
		return State{}, nil
	}
	d := newDecoder(b, "state")
	var s State
	s.scope = attend.Scope(d.str())
	s.policy = d.policy()
	copy(s.key[:], d.take(len(s.key)))
	s.serial = d.uint()
	s.now = d.moment()
	s.stored = d.moment()
	n := d.count(9)
	if n > maxWriters {
		d.fail("too many writers")
		n = 0
	}
	list := make([]writer, n)
	for i := range list {
		list[i] = writer{d.fixed(), d.uint()}
	}
	s.writers = writersOf(list)
	for range d.count(2) {
		s.cursors = append(s.cursors, cursor{d.str(), attend.Cursor(d.str())})
	}
	for k := range s.seen {
		s.brought[k] = d.number()
		s.seen[k] = d.ids()
	}
	for range d.count(20) {
		s.recent = append(s.recent, d.verdict())
	}
	s.open = d.pile(&s)
	if d.flag() {
		s.held = &held{pile: d.pile(&s), until: d.moment()}
	}
	if d.flag() {
		w := d.closed()
		for _, e := range w.entries {
			e.hash = s.key.hash(e.source, e.id())
		}
		s.slot = newSlot(w, d.uint())
		s.slot.lease = d.lease()
		s.slot.since = d.moment()
		s.slot.outages = d.number()
		s.slot.message = d.str()
	}
	s.decisions = d.lane()
	s.letters = d.lane()
	if d.err == nil {
		d.checkState(&s)
	}
	if err := d.end(); err != nil {
		return State{}, err
	}
	return s, nil
}

// checkState says what no state can be, so that Step need not ask.
func (d *decoder) checkState(s *State) {
	if s.scope.Check() != nil || s.policy.Check() != nil {
		d.fail("bad scope or policy")
	}
	if s.held != nil && s.slot != nil {
		d.fail("both held and judged")
	}
	if !slices.IsSortedFunc(s.cursors, func(a, b cursor) int {
		if a.key < b.key {
			return -1
		}
		return 1
	}) {
		d.fail("cursors out of order")
	}
	for _, j := range s.decisions.jobs {
		if j.stage != "" {
			d.fail("a letter among the decisions")
		}
	}
	for _, j := range s.letters.jobs {
		if j.stage == "" {
			d.fail("a decision among the letters")
		}
	}
}

func (e *encoder) verdict(v attend.Verdict) {
	e.str(string(v.ID))
	e.moment(moment(v.At))
	place(e, reasons, v.Reason)
	e.count(v.Events)
	e.judgment(v.Judgment)
}

func (d *decoder) verdict() attend.Verdict {
	return attend.Verdict{
		ID: attend.DecisionID(d.str()), At: d.moment().time(), Reason: member(d, reasons),
		Events: d.number(), Judgment: d.judgment(),
	}
}

func (d *decoder) ids() ids {
	var s ids
	for range d.count(8) {
		s = s.add(d.fixed())
	}
	return s
}

func (e *encoder) entries(list []*entry, base ms) {
	e.count(len(list))
	for _, v := range list {
		e.entry(v, base)
		e.str(v.source)
		e.moment(v.taken - base)
	}
}

func (d *decoder) entries(base ms) []*entry {
	n := d.count(8)
	list := make([]*entry, 0, n)
	for range n {
		event := d.event(base)
		source := d.str()
		list = append(list, pack(&event, source, d.moment()+base))
	}
	return list
}

func (e *encoder) pile(p *pile) {
	e.moment(p.opened)
	e.entries(p.appendTo(nil), p.opened)
	e.count(p.dropped)
	e.flag(p.gap)
	e.count(p.waits)
	for _, m := range p.deadlines() {
		e.moment(*m)
	}
}

// encoded is about how many bytes the pile's events take when encoded.
func (p *pile) encoded() int { return max(0, p.bytes-120*p.len()) }

func (d *decoder) pile(s *State) pile {
	var p pile
	opened := d.moment()
	for _, v := range d.entries(opened) {
		if !v.role().Valid() {
			d.fail("an event without a kind")
		}
		v.hash = s.key.hash(v.source, v.id())
		p.add(v, s.policy)
	}
	p.opened = opened
	p.dropped = d.number()
	p.gap = d.flag()
	p.waits = d.number()
	for _, m := range p.deadlines() {
		*m = d.moment()
	}
	return p
}

func (p *pile) deadlines() [7]*ms {
	return [...]*ms{&p.age, &p.closing, &p.continuous, &p.passive, &p.flush, &p.forced, &p.ended}
}

func (e *encoder) closed(w *closed) {
	e.str(string(w.id))
	place(e, reasons, w.reason)
	e.moment(w.opened)
	e.moment(w.settled - w.opened)
	e.entries(w.entries, w.opened)
	e.count(w.dropped)
	e.count(w.waits)
	e.flag(w.gap)
}

func (d *decoder) closed() *closed {
	w := &closed{id: attend.DecisionID(d.str()), reason: member(d, reasons), opened: d.moment()}
	w.settled = w.opened + d.moment()
	w.entries = d.entries(w.opened)
	w.dropped = d.number()
	w.waits = d.number()
	w.gap = d.flag()
	for _, v := range w.entries {
		w.bytes += int(v.size)
	}
	return w
}

func (e *encoder) lease(l lease) {
	e.uint(l.attempt)
	e.fixed(l.owner)
	e.moment(l.until)
	e.moment(l.ready)
	e.count(l.fails)
}

func (d *decoder) lease() lease {
	return lease{d.uint(), d.fixed(), d.moment(), d.moment(), d.number()}
}

func (e *encoder) lane(l lane) {
	e.count(len(l.jobs))
	for _, j := range l.jobs {
		e.uint(j.num)
		e.closed(j.window)
		place(e, stages, j.stage)
		e.str(j.message)
		e.count(j.attempts)
		e.lease(j.lease)
		e.flag(j.decided != 0)
		if j.decided != 0 {
			e.moment(j.decided)
			e.judgment(j.judgment)
		}
	}
}

func (d *decoder) lane() lane {
	var l lane
	for range d.count(20) {
		j := &job{num: d.uint(), window: d.closed(), stage: member(d, stages), message: d.str(), attempts: d.number(), lease: d.lease()}
		if d.flag() {
			j.decided, j.judgment = d.moment(), d.judgment()
		}
		l.jobs = append(l.jobs, j)
		l.bytes += j.bytes()
	}
	return l
}

func (e *encoder) policy(p *Policy) {
	s := p.scalars()
	for _, t := range s.durations {
		e.duration(t)
	}
	for _, n := range s.counts {
		e.count(n)
	}
	e.float(s.threshold)
	for _, b := range s.flags {
		e.flag(b)
	}
	e.count(len(p.RetryBackoff))
	for _, t := range p.RetryBackoff {
		e.duration(t)
	}
}

func (d *decoder) policy() *Policy {
	p := new(Policy)
	for _, t := range p.durations() {
		*t = d.duration()
	}
	for _, n := range p.counts() {
		*n = d.number()
	}
	p.ActThreshold = d.float()
	p.LogDecisions, p.LogLetters, p.RecordVerdicts = d.flag(), d.flag(), d.flag()
	for range d.count(1) {
		p.RetryBackoff = append(p.RetryBackoff, d.duration())
	}
	return p
}
