package machine

import (
	"slices"

	attend "github.com/attend-go/attend/core"
)

// The model's slot and lanes.

// lease finds the lease of a piece of work; nil: there is no such work.
func (x *modelStep) lease(l Lane, num uint64) *modelLease {
	switch l {
	case LaneJudge:
		if x.slot != nil && x.slot.num == num {
			return &x.slot.lease
		}
	case LaneDecision, LaneLetter:
		list := *x.lane(l)
		for i := range list {
			if list[i].num == num {
				return &list[i].lease
			}
		}
	}
	return nil
}

func (x *modelStep) lane(l Lane) *[]modelJob {
	if l == LaneDecision {
		return &x.decisions
	}
	return &x.letter
}

// leased is lease, for the current attempt alone, while somebody works on it.
func (x *modelStep) leased(l Lane, num, attempt uint64) *modelLease {
	if w := x.lease(l, num); w != nil && w.until != 0 && w.attempt == attempt {
		return w
	}
	return nil
}

// claim leases a piece of work. A lease that has run out is a failed attempt
// first (E47).
func (x *modelStep) claim(in Claim) {
	l := x.lease(in.Lane, in.Num)
	until := in.Until.UnixMilli()
	switch {
	case in.Until.IsZero(), l == nil, until <= x.at:
		return
	case in.Lane == LaneDecision && x.decisions[0].num != in.Num:
		return // one at a time, oldest first
	case in.Lane == LaneLetter && x.letter[x.nextLetter(x.at)].num != in.Num:
		return
	case l.until > x.at && l.until == until && l.owner == in.Owner:
		x.fx.granted, x.fx.asked = true, in.Lane // it has landed before
		return
	case l.due() > x.at:
		return
	}
	x.changed = true
	if l.until != 0 {
		l.fails++
		l.until = 0
		if in.Lane == LaneLetter {
			x.letterFailed(in.Num, 0)
			return
		}
		if _, again := modelRung(&x.p, l.fails); !again {
			x.workFailed(in.Lane, in.Num, "no answer before the lease ended", false)
			return
		}
	}
	l.attempt, l.owner, l.until = x.number(), in.Owner, until
	x.fx.granted, x.fx.asked = true, in.Lane
}

// workFailed gives up a window or a decision: it becomes a dead letter. The
// message is the last error's; otherwise what is given.
func (x *modelStep) workFailed(l Lane, num uint64, message string, isError bool) {
	if l == LaneJudge {
		w := *x.slot
		x.slot = nil
		if w.message != "" && !isError {
			message = w.message
		}
		x.giveUp(modelJob{stage: attend.StageJudge, w: w, message: message, attempts: w.lease.fails})
		return
	}
	i := slices.IndexFunc(x.decisions, func(j modelJob) bool { return j.num == num })
	j := x.decisions[i]
	x.decisions = slices.Delete(x.decisions, i, i+1)
	if j.message != "" && !isError {
		message = j.message
	}
	j.stage, j.message, j.attempts = attend.StageSink, message, j.lease.fails
	x.giveUp(j)
}

func (x *modelStep) giveUp(j modelJob) {
	x.changed = true
	j.num, j.lease = x.number(), modelLease{ready: x.at}
	if x.p.LogLetters {
		x.fx.rows = append(x.fx.rows, modelRow{what: "letter " + string(j.stage), id: j.w.id, events: modelNames(j.w.events)})
		return
	}
	x.letter = append(x.letter, j)
}

func modelNames(events []modelEvent) []string {
	var list []string
	for _, e := range events {
		list = append(list, e.identity())
	}
	return list
}

// letterFailed puts a letter behind the others.
func (x *modelStep) letterFailed(num uint64, retryAfter int64) {
	i := slices.IndexFunc(x.letter, func(j modelJob) bool { return j.num == num })
	j := x.letter[i]
	j.lease.until, j.lease.owner = 0, 0
	j.lease.ready = x.at + max(modelEndless(&x.p, j.lease.fails, x.p.DeadLetterBackoffMax), retryAfter)
	x.letter = append(slices.Delete(x.letter, i, i+1), j)
}

func (x *modelStep) failed(in Failed) {
	l := x.leased(in.Lane, in.Num, in.Attempt)
	if l == nil {
		return
	}
	x.changed = true
	l.until = 0
	wait := min(in.RetryAfter.Milliseconds(), 60_000)
	if in.Lane == LaneLetter {
		l.fails++
		x.letterFailed(in.Num, wait)
		return
	}
	message := in.Message
	if len(message) > 1024 {
		message = message[:1024]
	}
	permanent := in.Permanent
	if in.Lane == LaneJudge {
		x.slot.message = message
		if in.Account {
			if x.slot.since == 0 {
				x.slot.since = x.at
			}
			if x.at < x.slot.since+x.p.AccountGrace.Milliseconds() {
				x.slot.outages++
				l.ready = x.at + max(modelEndless(&x.p, x.slot.outages, MaxRetryAfter), wait)
				return
			}
			permanent = true // it leaves its slot, so this one is an attempt
		}
	} else {
		for i := range x.decisions {
			if x.decisions[i].num == in.Num {
				x.decisions[i].message = message
			}
		}
	}
	l.fails++
	pause, again := modelRung(&x.p, l.fails)
	if permanent || !again {
		x.workFailed(in.Lane, in.Num, message, true)
		return
	}
	l.ready = x.at + max(pause, wait)
}

func (x *modelStep) judged(in Judged) {
	if x.slot == nil || x.slot.num != in.Num {
		return
	}
	offered := x.offer(x.slot)
	if modelWrong(in.Judgment, offered) {
		x.failed(Failed{Num: in.Num, Attempt: in.Attempt, Message: wrong(in.Judgment, offered)}) // its text alone is the machine's
		return
	}
	w := *x.slot
	x.slot, x.changed = nil, true
	j := in.Judgment
	j.Route = modelThreshold(x.p.ActThreshold, j, offered)
	v := attend.Verdict{ID: w.id, Reason: w.reason, Events: len(w.events), Judgment: j}
	x.recent = append(x.recent, v)
	x.recent = x.recent[max(0, len(x.recent)-x.p.RecentCount):]
	if j.Route != in.Judgment.Route {
		x.say("changed", w.id, nil)
	}
	switch j.Route {
	case attend.RouteSkip:
		x.say("skipped", w.id, modelNames(w.events))
	case attend.RouteWait:
		x.say("waited", w.id, modelNames(w.events))
		h := modelWindow{events: w.events, opened: w.opened, dropped: w.dropped, gap: w.gap, waits: w.waits + 1}
		h.until = x.at + x.p.WaitHorizon.Milliseconds()
		x.held = &h
		x.shed()
	default:
		d := modelJob{num: x.number(), w: w, decided: x.at, judgment: j, lease: modelLease{ready: x.at}}
		x.fx.rows = append(x.fx.rows, modelRow{what: "decision", id: w.id, events: modelNames(w.events)})
		if !x.p.LogDecisions {
			x.decisions = append(x.decisions, d)
		}
	}
}

// say writes a row that explains something (E41).
func (x *modelStep) say(what string, id attend.DecisionID, events []string) {
	if x.p.RecordVerdicts {
		x.fx.rows = append(x.fx.rows, modelRow{what: what, id: id, events: events})
	}
}

func (x *modelStep) done(in Done) {
	if in.Lane != LaneDecision && in.Lane != LaneLetter {
		return
	}
	list := x.lane(in.Lane)
	for i, j := range *list {
		if j.num != in.Num {
			continue
		}
		*list = slices.Delete(*list, i, i+1)
		x.changed = true
		if in.Lane == LaneDecision {
			x.say("delivered", j.w.id, nil)
		} else {
			x.say("taken", j.w.id, modelNames(j.w.events))
		}
		return
	}
}
