package machine

import (
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The two lanes: decisions for the sink, dead letters for their handler.

// decide writes a decision to the log and puts it into its lane (E23, E24).
func (m *move) decide(w *closed, j attend.Judgment) {
	d := &job{num: m.next(), window: w, decided: m.at, judgment: j, lease: lease{ready: m.at}}
	m.row(attend.RowDecision, w.id, d.decision(m.scope))
	if !m.policy.LogDecisions {
		m.decisions = m.decisions.push(d)
	}
}

func (j *job) decision(scope attend.Scope) attend.Decision {
	return attend.Decision{ID: j.window.id, At: j.decided.time(), Window: j.window.window(scope), Judgment: j.judgment}
}

func (j *job) letter(scope attend.Scope) attend.DeadLetter {
	l := attend.DeadLetter{
		ID: j.window.id, Stage: j.stage, Message: j.message, Attempts: j.attempts, Window: j.window.window(scope),
	}
	if j.stage == attend.StageSink {
		d := j.decision(scope)
		l.Decision = &d
	}
	return l
}

// letter puts a dead letter into its lane, or into the log (E25).
func (m *move) letter(j *job) {
	m.Changed = true
	j.num, j.lease = m.next(), lease{ready: m.at}
	m.trace(attend.DeadLettered{
		Scope: m.scope, At: m.at.time(), ID: j.window.id, Stage: j.stage, Attempts: j.attempts, Message: j.message,
	})
	if m.policy.LogLetters {
		m.row(attend.RowLetter, j.window.id, j.letter(m.scope))
		return
	}
	m.letters = m.letters.push(j)
}

func (m *move) claim(in Claim) {
	switch in.Lane {
	case LaneJudge:
		m.claimSlot(in)
	case LaneDecision:
		m.claimDecision(in)
	case LaneLetter:
		m.claimLetter(in)
	}
}

// claimDecision leases the oldest decision: one at a time, in order (E24).
func (m *move) claimDecision(in Claim) {
	if m.decisions.index(in.Num) != 0 {
		return
	}
	j := *m.decisions.jobs[0]
	l, claimed, ended := m.take(j.lease, in)
	switch {
	case ended && !m.again(l.fails):
		m.sinkGaveUp(0, l.fails, orElse(j.message, leaseEnded))
	case claimed:
		j.lease = l
		m.decisions = m.decisions.replace(0, &j)
		m.Delivery = &Delivery{Num: j.num, Attempt: l.attempt, Until: l.until.time(), Decision: j.decision(m.scope)}
		if ended {
			m.ranOut(l, j.window.id, attend.StageSink)
		}
	}
}

func (m *move) claimLetter(in Claim) {
	i := m.letters.index(in.Num)
	if i < 0 || i != m.letters.next(m.at) {
		return
	}
	j := *m.letters.jobs[i]
	l, claimed, ended := m.take(j.lease, in)
	if !claimed {
		return
	}
	if ended {
		// It is never given up, but it goes behind the others.
		m.letterFailed(i, l.fails, 0)
		return
	}
	j.lease = l
	m.letters = m.letters.replace(i, &j)
	m.Letter = &Letter{Num: j.num, Attempt: l.attempt, Until: l.until.time(), Letter: j.letter(m.scope)}
}

func (m *move) failed(in Failed) {
	switch in.Lane {
	case LaneJudge:
		m.failedSlot(in)
	case LaneDecision:
		if i, l := m.leased(m.decisions, in.Num, in.Attempt); i >= 0 {
			m.deliveryFailed(i, l, in)
		}
	case LaneLetter:
		if i, l := m.leased(m.letters, in.Num, in.Attempt); i >= 0 {
			m.letterFailed(i, l.fails+1, in.RetryAfter)
		}
	}
}

// leased returns the job whose current attempt this is, and its lease; -1 where
// there is none.
func (m *move) leased(of lane, num, attempt uint64) (int, lease) {
	i := of.index(num)
	if i < 0 || of.jobs[i].lease.until == 0 || of.jobs[i].lease.attempt != attempt {
		return -1, lease{}
	}
	return i, of.jobs[i].lease
}

func (m *move) deliveryFailed(i int, l lease, in Failed) {
	m.Changed = true
	j := *m.decisions.jobs[i]
	j.message = message(in.Message)
	l.fails++
	pause, again := m.policy.rung(l.fails)
	if in.Permanent || !again {
		m.sinkGaveUp(i, l.fails, j.message)
		return
	}
	l.until, l.ready = 0, m.at.add(max(pause, min(in.RetryAfter, MaxRetryAfter)))
	j.lease = l
	m.decisions = m.decisions.replace(i, &j)
	m.retried(&l, j.window.id, attend.StageSink, j.message, false)
}

func (m *move) sinkGaveUp(i, attempts int, why string) {
	j := *m.decisions.jobs[i]
	m.decisions = m.decisions.remove(i)
	j.stage, j.message, j.attempts = attend.StageSink, why, attempts
	m.letter(&j)
}

// letterFailed puts a letter that its handler did not take to the end of the
// lane, so that it holds back none of the others (E25).
func (m *move) letterFailed(i, fails int, retryAfter time.Duration) {
	m.Changed = true
	j := *m.letters.jobs[i]
	pause := max(m.policy.endless(fails, m.policy.DeadLetterBackoffMax), min(retryAfter, MaxRetryAfter))
	j.lease = lease{attempt: j.lease.attempt, fails: fails, ready: m.at.add(pause)}
	m.letters = m.letters.remove(i).push(&j)
	m.retried(&j.lease, j.window.id, "", "", false)
}

// done takes the success of a delivery or of a letter's handler: once, from
// whichever attempt (E47).
func (m *move) done(in Done) {
	switch in.Lane {
	case LaneDecision:
		if i := m.decisions.index(in.Num); i >= 0 {
			j := m.decisions.jobs[i]
			m.decisions = m.decisions.remove(i)
			m.Changed = true
			m.mark(attend.Mark{
				Step: attend.StepDelivered, ID: j.window.id, Attempts: j.lease.fails + 1,
				Judgment: attend.Judgment{Route: j.judgment.Route},
			})
			m.trace(attend.Delivered{
				Scope: m.scope, At: m.at.time(), ID: j.window.id, Route: j.judgment.Route, Attempts: j.lease.fails + 1,
			})
		}
	case LaneLetter:
		if i := m.letters.index(in.Num); i >= 0 {
			j := m.letters.jobs[i]
			m.letters = m.letters.remove(i)
			m.Changed = true
			m.mark(attend.Mark{
				Step: attend.StepTaken, ID: j.window.id, Stage: j.stage, Reason: j.window.reason,
				Attempts: j.lease.fails + 1, Events: refs(j.window.entries),
			})
		}
	}
}

func (m *move) giveBack(in GiveBack) {
	switch in.Lane {
	case LaneJudge:
		if m.slot == nil || m.slot.num != in.Num {
			return
		}
		if l, ok := m.slot.lease.giveBack(in.Attempt, m.at); ok {
			s := *m.slot
			s.lease = l
			m.slot, m.Changed = &s, true
		}
	case LaneDecision:
		m.decisions = m.giveBackJob(m.decisions, in)
	case LaneLetter:
		m.letters = m.giveBackJob(m.letters, in)
	}
}

func (m *move) giveBackJob(of lane, in GiveBack) lane {
	i, l := m.leased(of, in.Num, in.Attempt)
	if i < 0 {
		return of
	}
	j := *of.jobs[i]
	j.lease, _ = l.giveBack(in.Attempt, m.at)
	m.Changed = true
	return of.replace(i, &j)
}

// threshold applies the act threshold to a judgment (E17).
func threshold(t float64, j attend.Judgment, offered []attend.Route) attend.Route {
	if t <= 0 || len(j.Probabilities) == 0 {
		return j.Route
	}
	const epsilon = 1e-9
	act := j.Probabilities[attend.RouteInterrupt] + j.Probabilities[attend.RouteAsk]
	among := []attend.Route{attend.RouteQueue, attend.RouteNote, attend.RouteWait, attend.RouteSkip}
	if act >= t-epsilon {
		among = []attend.Route{attend.RouteInterrupt, attend.RouteAsk}
	}
	// The judge's own route wins a tie, then the order of the list: a missing
	// number must not become silence.
	best := attend.Route("")
	for _, r := range among {
		if !slices.Contains(offered, r) {
			continue
		}
		switch p := j.Probabilities[r]; {
		case best == "", p > j.Probabilities[best], p == j.Probabilities[best] && r == j.Route:
			best = r
		}
	}
	return best
}
