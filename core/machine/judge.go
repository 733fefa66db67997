package machine

import (
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The slot: offer, claim, answer, failure, giving up.

// offered lists the routes that a judge may answer (E4, E12).
func (w *closed) offered(p *Policy) []attend.Route {
	routes := attend.AllRoutes()
	if !w.reason.MayWait() || w.waits >= p.MaxWaits {
		return routes[:len(routes)-1] // wait is the last
	}
	return routes
}

// window is w as others see it, who own it.
func (w *closed) window(scope attend.Scope) attend.Window {
	return attend.Window{
		Scope: scope, Events: events(w.entries), Reason: w.reason,
		Opened: w.opened.time(), Settled: w.settled.time(),
		Waits: w.waits, Dropped: w.dropped, Gap: w.gap,
	}
}

// call is the window in the slot for a judge; there must be one.
func (s *State) call() *Call {
	return &Call{
		Num: s.slot.num, Attempt: s.slot.lease.attempt, Until: s.slot.lease.until.time(),
		Window: s.slot.window(s.scope),
		Routes: s.slot.offered(s.policy), Recent: slices.Clone(s.recent),
	}
}

func (m *move) claimSlot(in Claim) {
	if m.slot == nil || m.slot.num != in.Num {
		return
	}
	l, claimed, ended := m.take(m.slot.lease, in)
	switch {
	case ended && !m.again(l.fails):
		m.giveUp(l.fails, orElse(m.slot.message, leaseEnded))
	case claimed:
		s := *m.slot
		s.lease = l
		m.slot = &s
		m.Call = m.call()
		if ended {
			m.ranOut(l, s.id, attend.StageJudge)
		}
	}
}

// leaseEnded is the message of work whose lease ran out with no other error.
const leaseEnded = "no answer before the lease ended"

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// again reports whether another attempt follows the n-th failed one.
func (m *move) again(n int) bool {
	_, ok := m.policy.rung(n)
	return ok
}

// judged takes a judge's answer (E13, E17). It counts from whichever attempt,
// once: while its window is in the slot.
func (m *move) judged(in Judged) {
	if m.slot == nil || m.slot.num != in.Num {
		return
	}
	w := m.slot.closed
	offered := w.offered(m.policy)
	if why := wrong(in.Judgment, offered); why != "" {
		m.failedSlot(Failed{Num: in.Num, Attempt: in.Attempt, Message: why})
		return
	}
	m.Changed = true
	j := in.Judgment
	j.Route = threshold(m.policy.ActThreshold, j, offered)
	v := attend.Verdict{ID: w.id, At: m.at.time(), Reason: w.reason, Events: len(w.entries), Judgment: j}
	if n := m.policy.RecentCount; n > 0 {
		m.recent = append(slices.Clone(m.recent[max(0, len(m.recent)-n+1):]), v)
	} else {
		m.recent = nil
	}
	m.trace(attend.Judged{Scope: m.scope, Verdict: v})
	if from := in.Judgment.Route; from != j.Route {
		m.trace(attend.Thresholded{Scope: m.scope, At: m.at.time(), ID: w.id, From: from, To: j.Route})
		m.mark(attend.Mark{Step: attend.StepChanged, ID: w.id, Reason: w.reason, From: from, Judgment: j})
	}
	m.slot = nil
	switch j.Route {
	case attend.RouteSkip:
		m.mark(attend.Mark{Step: attend.StepSkipped, ID: w.id, Reason: w.reason, Events: refs(w.entries), Judgment: j})
	case attend.RouteWait:
		m.mark(attend.Mark{Step: attend.StepWaited, ID: w.id, Reason: w.reason, Events: refs(w.entries), Judgment: j})
		m.hold(w)
	default:
		m.decide(w, j)
	}
}

// hold keeps a window until the next one settles, or for WaitHorizon (E12).
func (m *move) hold(w *closed) {
	h := &held{until: m.at.add(m.policy.WaitHorizon)}
	for _, e := range w.entries {
		c := *e
		h.add(&c, m.policy)
	}
	h.opened, h.dropped, h.gap, h.waits = w.opened, w.dropped, w.gap, w.waits+1
	m.held = h
	m.shedCount()
	m.shedSize()
}

// wrong says what breaks a judgment, or nothing (E13, E14).
func wrong(j attend.Judgment, offered []attend.Route) string {
	// A loop a fault, so that no order of a map shows in the answer.
	for r := range j.Probabilities {
		if !r.Valid() {
			return "the judge gave a probability to a route that there is not"
		}
	}
	for _, p := range j.Probabilities {
		if !within(p) {
			return "the judge answered a probability outside [0,1]"
		}
	}
	for _, p := range j.Predicates {
		if !within(p) {
			return "the judge answered a predicate outside [0,1]"
		}
	}
	if !within(j.Confidence) {
		return "the judge answered a confidence outside [0,1]"
	}
	if !slices.Contains(offered, j.Route) { // last, so that EncodeInput finds the same fault
		return "the judge answered a route that was not offered"
	}
	return ""
}

func within(p float64) bool { return p >= 0 && p <= 1 } // false for NaN

// failedSlot takes a failed attempt to judge (E16). It counts from the current
// attempt alone.
func (m *move) failedSlot(in Failed) {
	if m.slot == nil || m.slot.num != in.Num || m.slot.lease.until == 0 || m.slot.lease.attempt != in.Attempt {
		return
	}
	s := *m.slot
	s.message = message(in.Message)
	s.lease.until = 0
	m.Changed = true
	if in.Account {
		if s.since == 0 {
			s.since = m.at
		}
		if m.at < s.since.add(m.policy.AccountGrace) {
			s.outages++
			s.lease.ready = m.at.add(max(m.policy.endless(s.outages, MaxRetryAfter), min(in.RetryAfter, MaxRetryAfter)))
			m.slot = &s
			m.retried(&s.lease, s.id, attend.StageJudge, s.message, true)
			return
		}
	}
	s.lease.fails++
	m.slot = &s
	pause, again := m.policy.rung(s.lease.fails)
	if in.Account || in.Permanent || !again {
		m.giveUp(s.lease.fails, s.message)
		return
	}
	s.lease.ready = m.at.add(max(pause, min(in.RetryAfter, MaxRetryAfter)))
	m.retried(&s.lease, s.id, attend.StageJudge, s.message, false)
}

// giveUp makes a dead letter of the window in the slot.
func (m *move) giveUp(attempts int, why string) {
	w := m.slot.closed
	m.slot = nil
	m.letter(&job{stage: attend.StageJudge, window: w, message: why, attempts: attempts})
}

// ranOut tells of an attempt whose lease ran out, and that is tried again at
// once.
func (m *move) ranOut(l lease, id attend.DecisionID, stage attend.Stage) {
	l.ready = m.at
	m.retried(&l, id, stage, leaseEnded, false)
}

func (m *move) retried(l *lease, id attend.DecisionID, stage attend.Stage, why string, account bool) {
	m.trace(attend.Retried{
		Scope: m.scope, At: m.at.time(), ID: id, Stage: stage, Failed: l.fails,
		Next: l.ready.time(), Account: account, Message: why,
	})
}

// maxMessage is how much of an error's text is kept, in bytes.
const maxMessage = 1 << 10

func message(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxMessage)], "")
}

// take leases a piece of work, or says why not: claimed is false where somebody
// else works on it or it is not ready. A lease that has run out counts as a
// failed attempt first (E47); whether another follows is the caller's to say.
// A claim that has landed already is answered as claimed.
func (m *move) take(l lease, in Claim) (_ lease, claimed, ended bool) {
	until := moment(in.Until)
	if until <= m.at {
		return l, false, false
	}
	if l.until == until && l.owner == in.Owner && l.until > m.at {
		return l, true, false
	}
	if !l.free(m.at) {
		return l, false, false
	}
	if l.until != 0 {
		l.fails++
		ended = true
	}
	m.Changed = true
	l.attempt, l.owner, l.until = m.next(), in.Owner, until
	return l, true, ended
}

// giveBack ends a lease without counting the attempt (E35).
func (l lease) giveBack(attempt uint64, at ms) (lease, bool) {
	if l.until == 0 || l.attempt != attempt {
		return l, false
	}
	l.until, l.ready = 0, at
	return l, true
}

// Holds reports whether a claim has landed and its lease is still the one that
// its work has, and the number of the attempt.
func (s *State) Holds(c Claim) (attempt uint64, ok bool) {
	var l lease
	switch c.Lane {
	case LaneJudge:
		if s.slot != nil && s.slot.num == c.Num {
			l = s.slot.lease
		}
	case LaneDecision:
		if i := s.decisions.index(c.Num); i >= 0 {
			l = s.decisions.jobs[i].lease
		}
	case LaneLetter:
		if i := s.letters.index(c.Num); i >= 0 {
			l = s.letters.jobs[i].lease
		}
	}
	return l.attempt, l.until != 0 && l.owner == c.Owner && l.until == moment(c.Until)
}

// Work lists what can be claimed at a time: 0 stands for nothing.
type Work struct {
	Judge    uint64        // the settled window
	Reason   attend.Reason // why it settled
	Settled  time.Time
	Decision uint64 // the next decision for the sink
	Letter   uint64 // the next dead letter for its handler
}

// Work returns what can be claimed at a time, work whose lease has run out
// included.
func (s *State) Work(at time.Time) Work {
	var w Work
	now := max(moment(at), s.now)
	if s.slot != nil && s.slot.lease.free(now) {
		w.Judge, w.Reason, w.Settled = s.slot.num, s.slot.reason, s.slot.settled.time()
	}
	if len(s.decisions.jobs) > 0 && s.decisions.jobs[0].lease.free(now) {
		w.Decision = s.decisions.jobs[0].num
	}
	if i := s.letters.next(now); i >= 0 && s.letters.jobs[i].lease.free(now) {
		w.Letter = s.letters.jobs[i].num
	}
	return w
}

// Ask returns the settled window for a judge that needs no lease (E45), and
// false where none waits for one.
func (s *State) Ask(at time.Time) (*Call, bool) {
	if s.slot == nil || !s.slot.lease.free(max(moment(at), s.now)) {
		return nil, false
	}
	return s.call(), true
}
