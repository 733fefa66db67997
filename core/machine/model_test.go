package machine

import (
	"math"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The rules again, in the slowest and plainest way: lists of events, strings
// where the machine has hashes, and everything worked out anew over all events
// each time it is asked for. It is written from the rules, not from the machine,
// and FuzzModel holds the two against each other.

type modelScope struct {
	name        attend.Scope // empty: there is no scope
	p           Policy
	now, stored int64 // the last time; the due time that the store has, 0 for none
	given       uint64
	writers     []modelWriter // most recent first
	cursors     map[string]attend.Cursor
	seen        [2][]string // identities remembered, oldest first: acts, and others
	brought     [2]int      // how many of each the last push or batch held
	recent      []attend.Verdict

	open              modelWindow
	held, slot        *modelWindow
	forced, ended     int64 // when a flush or an end came that is to be acted on; 0: none
	decisions, letter []modelJob
}

type modelWriter struct{ id, number uint64 }

type modelEvent struct {
	attend.Event
	taken int64
	quiet int64 // the deadline it set as one of its kind; 0: none, or it has settled since
	age   int64 // the deadline it set as the first act of its window; 0: it was not
}

func (e *modelEvent) identity() string { return e.Source + "\x00" + e.ID }

type modelWindow struct {
	events         []modelEvent
	opened         int64
	dropped, waits int
	gap            bool

	until int64 // of a held window

	id      attend.DecisionID // these of a settled one
	reason  attend.Reason
	settled int64
	num     uint64
	lease   modelLease
	since   int64 // when the account first failed
	outages int
	message string
}

type modelLease struct {
	attempt, owner uint64
	until, ready   int64
	fails          int
}

type modelJob struct {
	num      uint64
	w        modelWindow
	lease    modelLease
	decided  int64
	judgment attend.Judgment
	stage    attend.Stage
	message  string
	attempts int
}

func (m modelScope) clone() modelScope {
	m.writers = slices.Clone(m.writers)
	cursors := map[string]attend.Cursor{}
	for k, v := range m.cursors {
		cursors[k] = v
	}
	m.cursors = cursors
	m.seen = [2][]string{slices.Clone(m.seen[0]), slices.Clone(m.seen[1])}
	m.recent = slices.Clone(m.recent)
	m.open.events = slices.Clone(m.open.events)
	for _, w := range []**modelWindow{&m.held, &m.slot} {
		if *w != nil {
			c := **w
			c.events = slices.Clone(c.events)
			*w = &c
		}
	}
	m.decisions, m.letter = slices.Clone(m.decisions), slices.Clone(m.letter)
	return m
}

// waiting is what the next window would hold: the held window's events first.
func (m *modelScope) waiting() []modelEvent {
	if m.held == nil {
		return slices.Clone(m.open.events)
	}
	return slices.Concat(m.held.events, m.open.events)
}

func modelActs(events []modelEvent) int {
	n := 0
	for _, e := range events {
		if e.Kind.Act() {
			n++
		}
	}
	return n
}

func modelSize(events []modelEvent) int {
	n := 0
	for _, e := range events {
		n += e.Size()
	}
	return n
}

func modelOnlyContext(events []modelEvent) bool {
	for _, e := range events {
		if e.Kind != attend.KindContext {
			return false
		}
	}
	return true
}

// A modelDeadline is when what waits settles, and why; the reason is flush for
// an event of that kind.
type modelDeadline struct {
	at     int64
	reason attend.Reason
}

// deadlines lists all that are set, whether they have passed or not.
func (m *modelScope) deadlines() []modelDeadline {
	var list []modelDeadline
	if m.held != nil {
		list = append(list, modelDeadline{m.held.until, attend.ReasonHorizon})
	}
	all := m.waiting()
	if modelOnlyContext(all) {
		return list
	}
	last := map[attend.Kind]int64{}
	for _, e := range m.open.events {
		if e.age != 0 {
			list = append(list, modelDeadline{e.age, attend.ReasonAge})
		}
		switch e.Kind {
		case attend.KindClosing, attend.KindContinuous, attend.KindPassive:
			last[e.Kind] = e.quiet
		case attend.KindFlush:
			list = append(list, modelDeadline{e.taken, attend.ReasonFlush})
		}
	}
	for _, d := range []modelDeadline{
		{last[attend.KindClosing], attend.ReasonClosing},
		{last[attend.KindContinuous], attend.ReasonContinuous},
		{last[attend.KindPassive], attend.ReasonPassive},
		{m.forced, attend.ReasonForced},
		{m.ended, attend.ReasonClosing},
	} {
		if d.at != 0 {
			list = append(list, d)
		}
	}
	if len(all) > m.p.MaxEvents {
		list = append(list, modelDeadline{m.now, attend.ReasonOverflow})
	}
	if modelActs(all) > 0 && modelSize(all) >= m.p.MaxWindowBytes {
		list = append(list, modelDeadline{m.now, attend.ReasonSize})
	}
	return list
}

// why picks the reason from the deadlines that have come by t, for a window of
// these events (E4).
func modelWhy(list []modelDeadline, t int64, events []modelEvent) attend.Reason {
	come := map[attend.Reason]int64{}
	for _, d := range list {
		if d.at > t {
			continue
		}
		if was, ok := come[d.reason]; !ok || d.at < was {
			come[d.reason] = d.at
		}
	}
	if _, ok := come[attend.ReasonForced]; ok {
		return attend.ReasonForced
	}
	for _, e := range events {
		if e.Kind == attend.KindFlush {
			return attend.ReasonFlush
		}
	}
	for _, r := range []attend.Reason{attend.ReasonHorizon, attend.ReasonOverflow, attend.ReasonSize} {
		if _, ok := come[r]; ok {
			return r
		}
	}
	best, at := attend.Reason(""), int64(math.MaxInt64)
	for _, r := range []attend.Reason{attend.ReasonAge, attend.ReasonClosing, attend.ReasonContinuous, attend.ReasonPassive} {
		if d, ok := come[r]; ok && d < at {
			best, at = r, d
		}
	}
	return best
}

// due is when the scope wants to be looked at; 0: never.
func (m *modelScope) due() int64 {
	if m.name == "" {
		return 0
	}
	var list []int64
	if m.slot != nil {
		list = append(list, m.slot.lease.due())
	} else {
		for _, d := range m.deadlines() {
			list = append(list, d.at)
		}
	}
	if len(m.decisions) > 0 {
		list = append(list, m.decisions[0].lease.due())
	}
	if i := m.nextLetter(m.now); i >= 0 {
		list = append(list, m.letter[i].lease.due())
	}
	switch {
	case len(list) > 0:
		return slices.Min(list)
	case m.p.IdleExpiry > 0 && m.idle() && !m.bare():
		return m.now + m.p.IdleExpiry.Milliseconds()
	}
	return 0
}

// idle: no act, nothing held, in its slot or in its lanes (E42).
func (m *modelScope) idle() bool {
	return modelActs(m.open.events) == 0 && m.held == nil && m.slot == nil && len(m.decisions) == 0 && len(m.letter) == 0
}

// bare: nothing but source cursors, which stay.
func (m *modelScope) bare() bool {
	return len(m.cursors) > 0 && len(m.open.events) == 0 && m.open.dropped == 0 && len(m.seen[0])+len(m.seen[1]) == 0 &&
		len(m.recent) == 0 && len(m.writers) == 0
}

// full: a lane is, or what waits for a busy slot (E26).
func (m *modelScope) full() bool {
	for i, l := range [][]modelJob{m.decisions, m.letter} {
		size := 0
		for _, j := range l {
			size += modelSize(j.w.events) + len(j.message)
		}
		if len(l) >= []int{m.p.MaxOutbox, m.p.MaxDeadLetters}[i] || size >= m.p.MaxLaneBytes {
			return true
		}
	}
	return m.slot != nil && (modelActs(m.open.events) >= m.p.MaxBacklog || modelSize(m.open.events) >= m.p.MaxLaneBytes)
}

func (l *modelLease) due() int64 {
	if l.until != 0 {
		return l.until
	}
	return l.ready
}

// nextLetter is the place of the letter to work on: the leased one, else the
// first that is ready, else the one that is ready soonest; -1: there is none.
func (m *modelScope) nextLetter(at int64) int {
	best := -1
	for i, j := range m.letter {
		if j.lease.until != 0 {
			return i
		}
	}
	for i, j := range m.letter {
		if j.lease.ready <= at {
			return i
		}
		if best < 0 || j.lease.ready < m.letter[best].lease.ready {
			best = i
		}
	}
	return best
}

// work is what can be claimed: the numbers of a window, a decision, a letter.
func (m *modelScope) work(at int64) (w [3]uint64) {
	at = max(at, m.now)
	if m.slot != nil && m.slot.lease.due() <= at {
		w[0] = m.slot.num
	}
	if len(m.decisions) > 0 && m.decisions[0].lease.due() <= at {
		w[1] = m.decisions[0].num
	}
	if i := m.nextLetter(at); i >= 0 && m.letter[i].lease.due() <= at {
		w[2] = m.letter[i].num
	}
	return w
}

// offer lists the routes on offer for a settled window (E4, E12).
func (m *modelScope) offer(w *modelWindow) []attend.Route {
	list := []attend.Route{attend.RouteInterrupt, attend.RouteQueue, attend.RouteNote, attend.RouteAsk, attend.RouteSkip}
	switch w.reason {
	case attend.ReasonAge, attend.ReasonClosing, attend.ReasonContinuous, attend.ReasonPassive:
		if w.waits < m.p.MaxWaits {
			list = append(list, attend.RouteWait)
		}
	}
	return list
}

// modelGrace is how long after an event of this kind its window settles.
func modelGrace(p *Policy, k attend.Kind) (time.Duration, bool) {
	switch k {
	case attend.KindClosing:
		return p.ClosingGrace, true
	case attend.KindContinuous:
		return p.StreamGap, true
	case attend.KindPassive:
		return p.PassiveQuiet, true
	}
	return 0, false
}

// modelThreshold is the route of a judgment under an act threshold (E17).
func modelThreshold(t float64, j attend.Judgment, offered []attend.Route) attend.Route {
	if t == 0 || len(j.Probabilities) == 0 {
		return j.Route
	}
	act := 0.0
	var acting, quiet []attend.Route
	for _, r := range []attend.Route{attend.RouteInterrupt, attend.RouteAsk, attend.RouteQueue, attend.RouteNote, attend.RouteWait, attend.RouteSkip} {
		switch {
		case !slices.Contains(offered, r):
		case r == attend.RouteInterrupt || r == attend.RouteAsk:
			act += j.Probabilities[r]
			acting = append(acting, r)
		default:
			quiet = append(quiet, r)
		}
	}
	among := quiet
	if act+1e-9 >= t {
		among = acting
	}
	most := 0.0
	for _, r := range among {
		most = max(most, j.Probabilities[r])
	}
	tied := slices.DeleteFunc(slices.Clone(among), func(r attend.Route) bool { return j.Probabilities[r] != most })
	if slices.Contains(tied, j.Route) {
		return j.Route
	}
	return tied[0]
}

// modelWrong reports whether a judgment is no answer (E13, E14).
func modelWrong(j attend.Judgment, offered []attend.Route) bool {
	var numbers []float64
	for r, p := range j.Probabilities {
		if !slices.Contains(attend.AllRoutes(), r) {
			return true
		}
		numbers = append(numbers, p)
	}
	for _, p := range j.Predicates {
		numbers = append(numbers, p)
	}
	for _, p := range append(numbers, j.Confidence) {
		if math.IsNaN(p) || p < 0 || p > 1 {
			return true
		}
	}
	return !slices.Contains(offered, j.Route)
}

// modelRung is the pause after the n-th failure; false: that was the last try.
func modelRung(p *Policy, n int) (int64, bool) {
	if n > len(p.RetryBackoff) {
		return 0, false
	}
	return p.RetryBackoff[n-1].Milliseconds(), true
}

// modelEndless is the pause after the n-th failure of what is tried for ever:
// the rungs, then doubling, up to a limit, and never nothing.
func modelEndless(p *Policy, n int, limit time.Duration) int64 {
	last, rungs := int64(1000), len(p.RetryBackoff)
	if rungs > 0 {
		last = max(p.RetryBackoff[rungs-1].Milliseconds(), 1)
	}
	pause := float64(last) * math.Pow(2, float64(n-rungs))
	if n <= rungs {
		pause = float64(p.RetryBackoff[n-1].Milliseconds())
	}
	return int64(max(1, min(pause, float64(limit.Milliseconds()))))
}
