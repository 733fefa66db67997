package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// simBook keeps what was promised and what became of it, from the inputs and
// the rows of each commit alone, and says when a promise is broken.
type simBook struct {
	w    *simWorld
	nums map[uint64]string // every number of work or attempt that there was
	kind map[string]attend.Kind

	// Of the scope's life; a remove ends it.

	taken                              map[string]int // how often an event was taken in
	decided, skipped, dropped, givenUp map[string]int
	waited                             map[string]int // verdicts to wait
	intake, intakeGone                 map[string]int // rejected events, and their letters that are done with
	bySource                           map[string]int
	mentions                           [2][]string    // acts, and others, in the order in which they were brought
	last                               map[string]int // place in mentions at which an event was last taken
	push                               map[string]bool
	spoken                             map[string]bool // acts that were there when somebody called Flush
	landed                             map[[2]uint64]bool
	writers                            map[uint64]bool
	calls                              map[uint64]string // windows by number
	rows                               map[uint64]attend.Decision
	decisions, delivered, sinkLetters  int
	sourceEnd                          int
}

func newSimBook(w *simWorld) *simBook {
	b := &simBook{w: w, nums: map[uint64]string{}, kind: map[string]attend.Kind{}}
	b.newLife()
	return b
}

func (b *simBook) newLife() {
	for _, m := range []*map[string]int{&b.taken, &b.decided, &b.skipped, &b.dropped, &b.givenUp, &b.waited, &b.intake, &b.intakeGone, &b.bySource} {
		*m = map[string]int{}
	}
	b.calls, b.rows = map[uint64]string{}, map[uint64]attend.Decision{}
	b.decisions, b.delivered, b.sinkLetters = 0, 0, 0
	b.forgot()
}

// forgot is a scope that has expired: what it remembered is gone, what it did
// is not.
func (b *simBook) forgot() {
	b.mentions, b.last, b.push = [2][]string{}, map[string]int{}, map[string]bool{}
	b.spoken = map[string]bool{}
	b.landed, b.writers = map[[2]uint64]bool{}, map[uint64]bool{}
}

func simID(e attend.Event) string { return simName(e.Source, e.ID) }

func simName(source, id string) string {
	if source == "" {
		return id
	}
	return source + "/" + id
}

// write books a commit.
func (b *simBook) write(c simWrite) {
	b.w.reached.commits++
	before := c.base
	for i, in := range c.inputs {
		b.input(before, c.states[i], in, c.fx[i])
		before = c.states[i]
	}
	b.state(before)
	if c.forget {
		b.w.reached.forgotten++
		b.forgot()
		return
	}
	if due := int64(before.due()); due != 0 && (b.w.store.due == 0 || b.w.store.due > due) {
		b.w.fail("due at %d, the store has %d", due-simStart, b.w.store.due-simStart)
	}
}

func (b *simBook) input(before, after State, in Input, fx Effects) {
	if before.scope != "" && after.scope != "" && after.now < before.now {
		b.w.fail("time went back from %d to %d", before.now-simStart, after.now-simStart)
	}
	b.once(before, after, in)
	if after.slot != nil && (before.slot == nil || before.slot.num != after.slot.num) {
		b.settled(before, after)
	}
	switch in := in.(type) {
	case Arrive:
		b.arrive(before, after, in, fx)
	case Flush:
		for _, e := range slices.Concat(simPiles(after)...) {
			b.spoken[simID(e.event())] = e.role().Act()
		}
	case Forget:
		defer b.forgot()
	}
	here := map[string]bool{}
	for _, e := range slices.Concat(simPiles(after)...) {
		here[simID(e.event())] = true
	}
	maps.DeleteFunc(b.spoken, func(id string, _ bool) bool { return !here[id] })
	b.numbers(before, after)
	for _, r := range fx.Rows {
		b.row(r, after)
	}
	b.lanes(after)
}

// once checks that an input with a number, applied again, changes nothing but
// what is due anyway.
func (b *simBook) once(before, after State, in Input) {
	var id, number uint64
	switch in := in.(type) {
	case Arrive:
		id, number = in.Writer, in.Number
	case Flush:
		id, number = in.Writer, in.Number
	case End:
		id, number = in.Writer, in.Number
	}
	if id == 0 {
		return
	}
	k := [2]uint64{id, number}
	if b.landed[k] && len(b.writers) <= maxWriters {
		ticked, _ := Step(before, Tick{in.at()})
		ticked.now, ticked.stored, after.now, after.stored = 0, 0, 0, 0
		if !bytes.Equal(EncodeState(ticked), EncodeState(after)) {
			b.w.fail("an input that had landed was applied twice")
		}
	}
	b.landed[k], b.writers[id] = true, true
}

func (b *simBook) arrive(before, after State, in Arrive, fx Effects) {
	if fx.Fresh+len(fx.Repeats) != len(in.Events) {
		if fx.Fresh != 0 || len(fx.Repeats) != 0 {
			b.w.fail("%d new and %d repeats of %d events", fx.Fresh, len(fx.Repeats), len(in.Events))
		}
		return // it had landed
	}
	moves := in.Source != "" && before.Cursor(in.Source) == in.After
	if in.Source != "" && (!moves || after.Cursor(in.Source) != in.Cursor) {
		if fx.Fresh > 0 {
			b.w.fail("a batch from %q to %q was taken at %q", in.After, in.Cursor, before.Cursor(in.Source))
		}
		return
	}
	push := map[string]bool{}
	for i, e := range in.Events {
		e.Source = in.Source
		id, k := simID(e), memory(e.Kind)
		b.kind[id] = e.Kind
		if !slices.Contains(fx.Repeats, i) {
			b.retaken(id, k)
			b.taken[id]++
			b.last[id] = len(b.mentions[k])
			if b.bySource[id]++; in.Source != "" && b.bySource[id] > 1 {
				b.w.fail("%s of the source was taken in twice", id)
			}
		}
		b.mentions[k] = append(b.mentions[k], id)
		push[id] = true
	}
	b.push = push
	for _, r := range in.Rejected {
		id := simName(in.Source, r.Event.ID)
		if b.intake[id]++; b.intake[id] > 1 {
			b.w.fail("%s of the source was rejected twice", id)
		}
	}
	if in.Gap && !after.open.gap && (after.slot == nil || !after.slot.gap) {
		b.w.fail("a gap is in no window")
	}
}

// retaken checks that an event that was taken in before may be taken again: its
// scope has forgotten it by right (E3).
func (b *simBook) retaken(id string, k int) {
	at, ok := b.last[id]
	if !ok {
		return
	}
	others := map[string]bool{}
	for _, o := range b.mentions[k][at+1:] {
		if o != id {
			others[o] = true
		}
	}
	seen := min(b.w.session.knobs[0].seen, b.w.session.knobs[1].seen)
	if len(others) < seen {
		b.w.fail("%s was taken in again after %d others, of %d to remember", id, len(others), seen)
	}
	if b.push[id] {
		b.w.fail("%s was taken in again, and the push before had brought it", id)
	}
	b.w.reached.retaken++
}

// ack is a client that was told that its events are safe.
func (b *simBook) ack(in Arrive, fx Effects, s State) {
	for _, e := range in.Events {
		e.Source = in.Source
		if b.taken[simID(e)] == 0 {
			b.w.fail("%s was acknowledged and is nowhere", simID(e))
		}
		if h := s.key.hash(e.Source, e.ID); fx.Fresh+len(fx.Repeats) == len(in.Events) && !s.seen[0].has(h) && !s.seen[1].has(h) {
			b.w.fail("%s is not remembered after the push that brought it", simID(e))
		}
	}
	for _, r := range in.Rejected {
		if b.intake[simName(in.Source, r.Event.ID)] == 0 {
			b.w.fail("%s was rejected and is nowhere", r.Event.ID)
		}
	}
}

// settled checks a window that has just come into the slot.
func (b *simBook) settled(before, after State) {
	w, size, reason := after.slot, 0, after.slot.reason
	b.w.reached.settled[reason]++
	p, q := before.policy, after.policy
	if p == nil {
		p = q
	}
	events, bytes := max(p.MaxEvents, q.MaxEvents), max(p.MaxWindowBytes, q.MaxWindowBytes)
	seen, context := map[string]bool{}, 0
	for _, e := range w.entries {
		v := e.event()
		v.Data = []byte(e.packed[e.data:e.txt])
		size += v.Size()
		id := simID(e.event())
		if b.kind[id] == attend.KindContext {
			context++
		}
		if seen[id] {
			b.w.fail("a window has %s twice", id)
		}
		seen[id] = true
		if b.spoken[id] && reason != attend.ReasonForced {
			b.w.fail("%s waited for its slot when Flush was called, and settled as %s", id, reason)
		}
	}
	if n := len(w.entries); n > events || n > 1 && size > bytes {
		b.w.fail("a window of %d events and %d bytes, the limits are %d and %d", n, size, events, bytes)
	}
	if context == len(w.entries) {
		b.w.fail("context alone settled")
	}
	if id := attend.NewDecisionID(simScope, after.slot.window(simScope).Events); w.id != id {
		b.w.fail("the decision's id is not that of its events")
	}
}

// asked checks a judge call.
func (b *simBook) asked(c *Call) {
	about := simAbout(c.Window)
	if was, ok := b.calls[c.Num]; ok && was != about {
		b.w.fail("window %d was %s, now %s", c.Num, was, about)
	}
	b.calls[c.Num] = about
	wait := slices.Contains(c.Routes, attend.RouteWait)
	for _, e := range c.Window.Events {
		if wait && e.Kind == attend.KindFlush {
			b.w.fail("wait is offered to a window that somebody spoke in")
		}
	}
	if wait && !c.Window.Reason.MayWait() {
		b.w.fail("wait is offered to a window that settled as %s", c.Window.Reason)
	}
}

// claimed checks that a claim took no lease from somebody who still has it.
func (b *simBook) claimed(before, after State, lane Lane) {
	live := func(l lease) bool { return l.until > after.now }
	leases := func(s State) (list []lease) {
		switch {
		case lane == LaneJudge && s.slot != nil:
			list = append(list, s.slot.lease)
		case lane == LaneDecision:
			for _, j := range s.decisions.jobs {
				list = append(list, j.lease)
			}
		case lane == LaneLetter:
			for _, j := range s.letters.jobs {
				list = append(list, j.lease)
			}
		}
		return slices.DeleteFunc(list, func(l lease) bool { return !live(l) })
	}
	was, now := leases(before), leases(after)
	if len(now) > 1 {
		b.w.fail("two leases run in one lane")
	}
	if len(was) > 0 && (len(now) == 0 || now[0].attempt != was[0].attempt) {
		b.w.fail("a lease that had %d ms to run was taken away", was[0].until-after.now)
	}
}

// delivering checks a delivery: the oldest decision, as the log has it.
func (b *simBook) delivering(d *Delivery, s State) {
	row, ok := b.rows[d.Num]
	if !ok || row.ID != d.Decision.ID || simAbout(row.Window) != simAbout(d.Decision.Window) || row.Route != d.Decision.Route {
		b.w.fail("decision %d of %s is delivered as %s, which the log does not have", d.Num, simAbout(row.Window), simAbout(d.Decision.Window))
	}
	if len(s.decisions.jobs) == 0 || s.decisions.jobs[0].num != d.Num {
		b.w.fail("a delivery is not the oldest decision")
	}
}

// answerOp is the end of a job, with what must hold of it.
func (b *simBook) answerOp(in Input, j simJob) *simOp {
	find := func(s State) (about string, l lease, ok bool) {
		switch {
		case j.lane == LaneJudge && s.slot != nil && s.slot.num == j.num:
			return simAbout(s.slot.window(simScope)), s.slot.lease, true
		case j.lane == LaneDecision && s.decisions.index(j.num) >= 0:
			job := s.decisions.jobs[s.decisions.index(j.num)]
			return simAbout(job.window.window(simScope)), job.lease, true
		case j.lane == LaneLetter && s.letters.index(j.num) >= 0:
			job := s.letters.jobs[s.letters.index(j.num)]
			return simAbout(job.window.window(simScope)), job.lease, true
		}
		return "", lease{}, false
	}
	op := &simOp{in: in}
	_, failure := in.(Failed)
	op.landed = func(before, after State) {
		about, l, ok := find(before)
		_, now, still := find(after)
		if ok && about != j.about && (!still || now != l) {
			b.w.fail("an answer about %s was booked on %s", j.about, about)
		}
		if _, judged := in.(Judged); judged && before.slot != nil && (after.slot == nil || after.slot.num != before.slot.num) {
			if about := simAbout(before.slot.window(simScope)); about != j.about {
				b.w.fail("an answer about %s was booked on %s", j.about, about)
			}
		}
		if ok && failure && l.attempt != j.attempt && (!still || now != l) {
			b.w.fail("a failure of an older attempt counted")
		}
		if ok && l.attempt != j.attempt && !failure && !still {
			b.w.reached.late++
		}
	}
	op.done = func(_ Effects, s State) {
		right := !failure
		if a, ok := in.(Judged); ok {
			// What is on offer follows the settings: wait may be gone by now.
			k := b.w.session.knobs
			right = wrong(a.Judgment, j.routes) == "" && (a.Judgment.Route != attend.RouteWait || k[0] == k[1])
		}
		if _, _, ok := find(s); ok && right {
			b.w.fail("a success did not count")
		}
	}
	return op
}

// numbers checks that no number of work or of an attempt is used twice, in any
// life.
func (b *simBook) numbers(before, after State) {
	list := func(s State) map[uint64]string {
		m := map[uint64]string{}
		add := func(what string, num uint64, l lease) {
			m[num] = what
			if l.attempt != 0 {
				m[l.attempt] = fmt.Sprintf("an attempt at %s %d", what, num)
			}
		}
		if s.slot != nil {
			add("window", s.slot.num, s.slot.lease)
		}
		for _, j := range s.decisions.jobs {
			add("decision", j.num, j.lease)
		}
		for _, j := range s.letters.jobs {
			add("letter", j.num, j.lease)
		}
		return m
	}
	was := list(before)
	for num, what := range list(after) {
		if was[num] == what {
			continue
		}
		if other, ok := b.nums[num]; ok {
			b.w.fail("number %d of %s was that of %s", num, what, other)
		}
		b.nums[num] = what
	}
}

// row books a row of the log.
func (b *simBook) row(r attend.Row, after State) {
	switch r.Type {
	case attend.RowDecision:
		var d attend.Decision
		if err := json.Unmarshal(r.Body, &d); err != nil {
			b.w.fail("a decision's row: %v", err)
		}
		b.w.reached.routes[d.Route]++
		b.decisions++
		for _, e := range d.Window.Events {
			b.decided[simID(e)]++
		}
		if n := len(after.decisions.jobs); n > 0 {
			b.rows[after.decisions.jobs[n-1].num] = d
		}
	case attend.RowLetter:
		var l attend.DeadLetter
		if err := json.Unmarshal(r.Body, &l); err != nil {
			b.w.fail("a letter's row: %v", err)
		}
		b.letter(l.Stage, simNamesOf(l.Window.Events))
	case attend.RowVerdict:
		var m attend.Mark
		if err := json.Unmarshal(r.Body, &m); err != nil {
			b.w.fail("a mark's row: %v", err)
		}
		b.mark(m)
	}
}

func simNamesOf(events []attend.Event) []string {
	var list []string
	for _, e := range events {
		list = append(list, simID(e))
	}
	return list
}

// letter books a dead letter that has left the scope.
func (b *simBook) letter(stage attend.Stage, names []string) {
	b.w.reached.letters[stage]++
	for _, id := range names {
		switch stage {
		case attend.StageJudge:
			b.givenUp[id]++
		case attend.StageIntake:
			b.intakeGone[id]++
		}
	}
	if stage == attend.StageSink {
		b.sinkLetters++
	}
}

func (b *simBook) mark(m attend.Mark) {
	var names []string
	for _, e := range m.Events {
		names = append(names, simName(e.Source, e.ID))
	}
	switch m.Step {
	case attend.StepSkipped:
		for _, id := range names {
			b.skipped[id]++
		}
		b.w.reached.routes[attend.RouteSkip]++
	case attend.StepWaited:
		b.w.reached.routes[attend.RouteWait]++
		for _, id := range names {
			b.waited[id]++
			// Smaller limits of another process can cut a held window in two,
			// and what does not fit begins anew.
			if k := b.w.session.knobs; k[0] == k[1] && b.waited[id] > k[0].maxWaits*b.taken[id] {
				b.w.fail("%s waited %d times, the limit is %d", id, b.waited[id], k[0].maxWaits)
			}
		}
	case attend.StepDropped:
		b.w.reached.drops[m.Why]++
		for _, id := range names {
			if b.kind[id].Act() {
				b.w.fail("the act %s was dropped", id)
			}
			b.dropped[id]++
		}
	case attend.StepDelivered:
		b.delivered++
	case attend.StepTaken:
		b.letter(m.Stage, names)
	}
}

// lanes checks the order of what the sink has yet to take.
func (b *simBook) lanes(after State) {
	for i, j := range after.decisions.jobs {
		if i > 0 && j.num < after.decisions.jobs[i-1].num {
			b.w.fail("the decisions are out of order")
		}
	}
}

// simPiles are the events of the open window, of the held one, and of the slot.
func simPiles(s State) [][]*entry {
	list := [][]*entry{s.open.appendTo(nil)}
	if s.held != nil {
		list = append(list, s.held.appendTo(nil))
	}
	if s.slot != nil {
		list = append(list, s.slot.entries)
	}
	return list
}

// state checks the state that a commit left: every event that was taken in is
// in one place, for each time that it was.
func (b *simBook) state(s State) {
	if err := fuzzHolds(s); err != nil {
		b.w.fail("%v", err)
	}
	here := map[string]int{}
	for _, p := range simPiles(s) {
		for _, e := range p {
			here[simID(e.event())]++
		}
	}
	for id, n := range here {
		if n > 1 && b.taken[id] < n {
			b.w.fail("%s is in %d windows at once", id, n)
		}
	}
	intake, sink := map[string]int{}, 0
	for _, j := range s.letters.jobs {
		for _, e := range j.window.entries {
			switch j.stage {
			case attend.StageJudge:
				here[simID(e.event())]++
			case attend.StageIntake:
				intake[simID(e.event())]++
			}
		}
		if j.stage == attend.StageSink {
			sink++
		}
	}
	all := maps.Clone(b.taken)
	for id := range here {
		all[id] += 0
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		places := here[id] + b.decided[id] + b.skipped[id] + b.dropped[id] + b.givenUp[id]
		if places != b.taken[id] {
			b.w.fail("%s was taken in %d times, and is in %d places: %d windows and letters, %d decisions, %d skipped, %d dropped, %d given up",
				id, b.taken[id], places, here[id], b.decided[id], b.skipped[id], b.dropped[id], b.givenUp[id])
		}
	}
	for id, n := range b.intake {
		if intake[id]+b.intakeGone[id] != n {
			b.w.fail("%s was rejected %d times, and has %d letters", id, n, intake[id]+b.intakeGone[id])
		}
	}
	if n := b.delivered + b.sinkLetters + sink + len(s.decisions.jobs); n != b.decisions {
		b.w.fail("%d decisions in the log, %d delivered, given up or to be delivered", b.decisions, n)
	}
}
