package machine

import (
	"slices"

	attend "github.com/attend-go/attend/core"
)

// The model's step. Its numbers count from 1 and are its own.

type modelEffects struct {
	changed, forget, refused bool
	fresh                    int
	repeats                  []int
	batch                    BatchOutcome
	place                    attend.Cursor
	moved                    bool // the due time to store, which is in stored
	asked                    Lane // what the claim was granted
	granted                  bool
	rows                     []modelRow
}

// A modelRow is a row of the log: what it is, and the events it names.
type modelRow struct {
	what   string
	id     attend.DecisionID
	events []string
}

type modelStep struct {
	modelScope
	at      int64
	changed bool
	later   bool // only the stored due time moves
	fx      modelEffects
}

func modelApply(m modelScope, in Input) (modelScope, modelEffects) {
	x := modelStep{modelScope: m.clone(), at: max(in.at().UnixMilli(), m.now)}
	if c, ok := in.(Configure); ok && m.name == "" {
		if c.Policy == nil || c.Policy.Check() != nil || c.Scope.Check() != nil {
			return m, x.fx
		}
		x.name, x.p, x.changed = c.Scope, *c.Policy, true
	}
	if x.name == "" {
		return m, x.fx
	}
	x.settleDue(m.now)
	x.dropStale()
	if taken := x.input(in); !taken || !x.changed {
		x.fx.rows = nil
		return m, x.fx
	}
	x.fx.changed = true
	if x.fx.forget {
		return modelScope{given: x.given}, x.fx
	}
	x.settleDue(x.at)
	if x.slot == nil {
		x.forced, x.ended = 0, 0 // found nothing to settle
	}
	if !x.later {
		x.now = x.at
	}
	_, event := in.(Arrive)
	if d := x.due(); d != x.stored && (!event || d == 0 || x.stored == 0 || d < x.stored || x.stored <= x.at) {
		x.stored, x.fx.moved = d, true
	}
	return x.modelScope, x.fx
}

// input applies the input itself; false: it was not taken, and nothing of the
// step counts.
func (x *modelStep) input(in Input) bool {
	switch in := in.(type) {
	case Configure:
		if in.Policy != nil && in.Policy.Check() == nil && !x.p.Equal(in.Policy) {
			x.p, x.changed = *in.Policy, true
			x.shed()
		}
	case Arrive:
		return x.arrive(in)
	case Flush:
		x.mark(&x.forced, in.Writer, in.Number)
	case End:
		x.mark(&x.ended, in.Writer, in.Number)
	case Tick:
		if d := x.due(); !x.changed && x.stored != 0 && x.stored <= x.at && (d == 0 || d > x.at) {
			x.changed, x.later = true, true
		}
	case Claim:
		x.claim(in)
	case Judged:
		x.judged(in)
	case Failed:
		x.failed(in)
	case Done:
		x.done(in)
	case GiveBack:
		if l := x.leased(in.Lane, in.Num, in.Attempt); l != nil {
			l.until, l.ready, x.changed = 0, x.at, true
		}
	case Forget:
		if x.p.IdleExpiry > 0 && x.idle() && !x.bare() && x.at >= x.now+x.p.IdleExpiry.Milliseconds() {
			x.forget()
		}
	}
	return true
}

// settleDue settles what has come due while the slot is free: when it was due,
// but not before the slot was free.
func (x *modelStep) settleDue(free int64) {
	list := x.deadlines()
	if x.slot != nil || len(list) == 0 {
		return
	}
	first := slices.MinFunc(list, func(a, b modelDeadline) int { return int(a.at - b.at) }).at
	if first <= x.at {
		x.settle(list, max(first, free))
	}
}

func (x *modelStep) settle(list []modelDeadline, t int64) {
	all := x.waiting()
	w := modelWindow{opened: x.open.opened, dropped: x.open.dropped, waits: x.open.waits, gap: x.open.gap}
	if h := x.held; h != nil {
		w = modelWindow{opened: h.opened, dropped: h.dropped + w.dropped, waits: max(h.waits, w.waits), gap: h.gap || w.gap}
	}
	x.held, x.changed = nil, true
	if modelOnlyContext(all) { // never judged: it goes back
		w.events = all
		x.open = w
		return
	}
	head := x.head(all)
	if modelOnlyContext(all[:head]) {
		var gone []modelEvent
		for all[0].Kind == attend.KindContext {
			gone, all = append(gone, all[0]), all[1:]
		}
		w.dropped += len(gone)
		x.dropped("size", gone)
		head = x.head(all)
	}
	w.reason, w.settled = modelWhy(list, t, all[:head]), t
	var events []attend.Event
	for _, e := range all[:head] {
		events = append(events, e.Event)
		e.quiet, e.age = 0, 0
		w.events = append(w.events, e)
	}
	w.id = attend.NewDecisionID(x.name, events)
	w.num, w.lease.ready = x.number(), t
	x.slot = &w
	x.reopen(all[head:])
	x.shed()
}

// reopen makes the next window of what did not fit: deadlines that are set
// stay, and it is told what the last one was told.
func (x *modelStep) reopen(rest []modelEvent) {
	x.open = modelWindow{}
	if len(rest) == 0 {
		x.forced, x.ended = 0, 0
		return
	}
	x.open.opened = rest[0].taken
	first := true
	for _, e := range rest {
		if grace, ok := modelGrace(&x.p, e.Kind); ok && e.quiet == 0 {
			e.quiet = e.taken + grace.Milliseconds()
		}
		switch {
		case !e.Kind.Act():
		case !first:
			e.age = 0 // the window's first act is another
		case e.age == 0:
			e.age = e.taken + x.p.MaxWindow.Milliseconds()
		}
		first = first && !e.Kind.Act()
		x.open.events = append(x.open.events, e)
	}
}

// head is how many of the events make a window within the limits, at least one.
func (x *modelStep) head(events []modelEvent) int {
	n := min(len(events), x.p.MaxEvents)
	for n > 1 && modelSize(events[:n]) > x.p.MaxWindowBytes {
		n--
	}
	return n
}

func (x *modelStep) number() uint64 {
	x.given++
	return x.given
}

func (x *modelStep) dropped(why string, events []modelEvent) {
	if len(events) == 0 {
		return
	}
	x.changed = true
	if x.p.RecordVerdicts {
		r := modelRow{what: "dropped " + why}
		for _, e := range events {
			r.events = append(r.events, e.identity())
		}
		x.fx.rows = append(x.fx.rows, r)
	}
}

// dropStale drops what waited too long for an act; by itself that is no change
// (E8).
func (x *modelStep) dropStale() {
	if modelActs(x.open.events) > 0 || x.held != nil {
		return
	}
	was := x.changed
	var gone []modelEvent
	for len(x.open.events) > 0 && x.at-x.open.events[0].taken > x.p.MaxWindow.Milliseconds() {
		gone = append(gone, x.open.events[0])
		x.open.events = x.open.events[1:]
	}
	x.open.dropped += len(gone)
	x.dropped("stale", gone)
	x.changed = was
}

// shed drops the oldest that may be dropped, the held window's first, while
// there are too many (E7), or too much without an act (E8).
func (x *modelStep) shed() {
	for _, why := range []string{"count", "size"} {
		var gone []modelEvent
		for {
			all := x.waiting()
			if why == "count" && len(all) <= x.p.MaxEvents ||
				why == "size" && (modelActs(all) > 0 || modelSize(all) < x.p.MaxWindowBytes) {
				break
			}
			e, ok := x.dropOldest()
			if !ok {
				break
			}
			gone = append(gone, e)
		}
		x.dropped(why, gone)
	}
}

func (x *modelStep) dropOldest() (modelEvent, bool) {
	for _, w := range []*modelWindow{x.held, &x.open} {
		if w == nil {
			continue
		}
		for i, e := range w.events {
			if !e.Kind.Act() {
				w.events = slices.Delete(w.events, i, i+1)
				w.dropped++
				return e, true
			}
		}
	}
	return modelEvent{}, false
}

// landed reports whether a writer's input was applied before (E29).
func (x *modelStep) landed(id, number uint64) bool {
	for _, w := range x.writers {
		if id != 0 && w.id == id && number <= w.number {
			return true
		}
	}
	return false
}

func (x *modelStep) remember(id, number uint64) {
	if id == 0 {
		return
	}
	list := []modelWriter{{id, number}}
	for _, w := range x.writers {
		if w.id != id {
			list = append(list, w)
		}
	}
	x.writers = list[:min(len(list), 16)]
}

func (x *modelStep) mark(when *int64, writer, number uint64) {
	nothing := x.slot == nil && x.held == nil && modelOnlyContext(x.open.events)
	if *when == 0 && !nothing && !x.landed(writer, number) {
		*when, x.changed = x.at, true
		x.remember(writer, number)
	}
}

func (x *modelStep) arrive(in Arrive) bool {
	if x.landed(in.Writer, in.Number) {
		return true
	}
	moves := in.Source != "" && in.Cursor != in.After
	if have := x.cursors[in.Source]; in.Source != "" && have != in.After {
		switch have {
		case in.Cursor: // it has landed
			x.remember(in.Writer, in.Number)
			return true
		case "":
			x.fx.batch = Gone
		default:
			x.fx.batch, x.fx.place = Elsewhere, have
		}
		return false
	}
	if x.full() {
		x.fx.refused = true
		return false
	}
	was := x.changed
	x.changed = false
	before := x.brought
	x.brought = [2]int{}
	for _, e := range in.Events {
		x.brought[modelMemory(e.Kind)]++
	}
	for i, e := range in.Events {
		e.Source = in.Source
		x.event(i, e)
	}
	for _, r := range in.Rejected {
		x.reject(r, in.Source)
	}
	if in.Gap && !x.open.gap {
		x.open.gap, x.changed = true, true
	}
	if moves {
		x.cursors[in.Source], x.changed = in.Cursor, true
	}
	x.changed = x.changed || was
	if !x.changed {
		x.brought = before
		return true
	}
	x.remember(in.Writer, in.Number)
	for k := range x.seen {
		x.seen[k] = x.seen[k][max(0, len(x.seen[k])-x.limit(k)):]
	}
	x.shed()
	return true
}

func modelMemory(k attend.Kind) int {
	if k.Act() {
		return 0
	}
	return 1
}

func (x *modelStep) limit(k int) int { return max(x.p.SeenCount, 2*x.brought[k]) }

func (x *modelStep) event(i int, e attend.Event) {
	if !slices.Contains(attend.Kinds(), e.Kind) {
		e.Kind = attend.KindConsequence
	}
	v := modelEvent{Event: e, taken: x.at}
	id := v.identity()
	for k, list := range x.seen {
		if at := slices.Index(list, id); at >= 0 {
			x.fx.repeats = append(x.fx.repeats, i)
			if younger := len(list) - 1 - at; younger >= x.limit(k)/2 {
				x.seen[k] = append(slices.Delete(list, at, at+1), id)
				x.changed = true
			}
			return
		}
	}
	k := modelMemory(e.Kind)
	x.seen[k] = append(x.seen[k], id)
	x.changed = true
	around := x.waiting()
	if x.slot != nil {
		around = append(around, x.slot.events...)
	}
	for _, o := range around {
		if o.identity() == id { // forgotten, but still here: it is remembered again
			x.fx.repeats = append(x.fx.repeats, i)
			return
		}
	}
	x.fx.fresh++
	if grace, ok := modelGrace(&x.p, e.Kind); ok {
		v.quiet = x.at + grace.Milliseconds()
	}
	if e.Kind.Act() && modelActs(x.open.events) == 0 {
		v.age = x.at + x.p.MaxWindow.Milliseconds()
	}
	if len(x.open.events) == 0 {
		x.open.opened = x.at
	}
	x.open.events = append(x.open.events, v)
}

func (x *modelStep) reject(r Rejected, source string) {
	r.Event.Source = source
	x.giveUp(modelJob{stage: attend.StageIntake, message: r.Message, w: modelWindow{
		id: attend.NewIntakeID(x.name, r.Event), opened: x.at, settled: x.at,
		events: []modelEvent{{Event: r.Event, taken: x.at}},
	}})
}

func (x *modelStep) forget() {
	x.dropped("expired", x.open.events)
	x.changed = true
	if len(x.cursors) == 0 {
		x.fx.forget = true
		return
	}
	x.open = modelWindow{gap: x.open.gap}
	x.seen, x.brought, x.recent, x.writers = [2][]string{}, [2]int{}, nil, nil
}
