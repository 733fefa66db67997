package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// rest lets everything come to rest: clocks are right, lost answers are found
// out, judges, sinks and handlers take what they are given, the source is read
// to its end. It must end, and then nothing that was acknowledged may be left
// undone.
func (w *simWorld) rest() {
	for _, p := range w.procs {
		p.skew, p.jobs = 0, nil
		p.resolve()
		p.refused = nil // its client was told
		w.tell(p)
	}
	w.note("from here on everything goes well")
	w.tell(nil)
	// A lane drains with a write or two for each of its jobs; each act can be a
	// window of its own, be held twice and have a dead process's lease to wait
	// for. A hot loop does not end at all.
	for n := range 400 + 40*(w.events+w.book.sourceEnd) {
		p := w.who(simStep{verb: simAnswer, proc: n})
		if !w.restStep(p) {
			w.rested()
			return
		}
		if w.err != nil {
			w.note("BROKEN: %v", w.err)
		}
		w.tell(p)
		if w.err != nil {
			return
		}
	}
	w.fail("it does not come to rest: due at %d, now %d, %+v", int64(w.store.truth.due())-simStart, w.now-simStart, w.store.truth.Work(simTime(w.now)))
}

// restStep does the next thing that is to be done; false: there is nothing.
func (w *simWorld) restStep(p *simProc) bool {
	if !p.cached || p.version != w.store.version {
		p.load() // and else not: what has passed since a load counts (E34)
	}
	if len(p.jobs) > 0 {
		p.answer(0, simStep{a: 3}) // wait where it is offered, else note; success
		return true
	}
	at := p.time()
	if work := p.s.Work(simTime(at)); work != (Work{}) {
		p.work(simStep{})
		return true
	}
	due := int64(p.s.due())
	switch {
	case p.s.scope == "":
	case p.s.Expired(simTime(at)):
		p.expire(simFine)
		return true
	case due != 0 && due <= at:
		p.tick(simFine)
		return true
	case due != 0 && !p.s.idle():
		w.now += due - at
		w.note("%d ms pass", due-at)
		return true
	}
	if end := w.book.sourceEnd; end > 0 && simPlace(p.s.Cursor(simKey)) < end {
		if p.source.on {
			p.batch(simStep{})
		} else {
			p.attach()
		}
		return true
	}
	return false
}

// rested checks what must hold once nothing is left to be done.
func (w *simWorld) rested() {
	s := w.store.truth
	if s.scope == "" {
		return
	}
	if !s.idle() {
		w.fail("at rest with %d open acts, held %v, slot %v, %d decisions, %d letters",
			s.open.acts.n, s.held != nil, s.slot != nil, len(s.decisions.jobs), len(s.letters.jobs))
	}
	b := w.book
	for n := 1; n <= b.sourceEnd; n++ {
		e, ok := simSourceEvent(n)
		e.Source = simKey
		if id := simID(e); ok && b.bySource[id] != 1 || !ok && b.intake[id] != 1 {
			w.fail("%s of the source was taken in %d times, rejected %d times", id, b.bySource[id], b.intake[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.taken)) {
		if b.kind[id].Act() && b.decided[id]+b.skipped[id]+b.givenUp[id] != b.taken[id] {
			w.fail("at rest the act %s was taken in %d times, and decided, skipped or given up %d times", id, b.taken[id], b.decided[id]+b.skipped[id]+b.givenUp[id])
		}
	}
	// A tick for nothing ends: the first may write the due time forward, the
	// second finds nothing.
	once, _ := Step(s, Tick{simTime(w.now)})
	if _, fx := Step(once, Tick{simTime(w.now)}); fx.Changed {
		w.fail("ticks at rest never end")
	}
	// And the scope may be forgotten when it says so.
	if due := s.Due(); !due.IsZero() && !s.Expired(due) {
		w.fail("at rest it is due at %d, and not to be forgotten", due.UnixMilli()-simStart)
	}
}

// simReached counts what sessions came to, so that a simulation that reaches
// nothing does not pass for one that finds nothing.
type simReached struct {
	commits, conflicts, lost, retries, refused, retaken, late, gone, elsewhere, forgotten int

	settled map[attend.Reason]int
	routes  map[attend.Route]int
	letters map[attend.Stage]int
	drops   map[attend.Why]int
}

func newSimReached() simReached {
	return simReached{settled: map[attend.Reason]int{}, routes: map[attend.Route]int{}, letters: map[attend.Stage]int{}, drops: map[attend.Why]int{}}
}

func (r *simReached) add(o simReached) {
	for i, n := range o.counts() {
		*r.counts()[i] += *n
	}
	simAdd(&r.settled, o.settled)
	simAdd(&r.routes, o.routes)
	simAdd(&r.letters, o.letters)
	simAdd(&r.drops, o.drops)
}

func simAdd[K comparable](to *map[K]int, from map[K]int) {
	if *to == nil {
		*to = map[K]int{}
	}
	for k, n := range from {
		(*to)[k] += n
	}
}

func (r *simReached) counts() [10]*int {
	return [...]*int{&r.commits, &r.conflicts, &r.lost, &r.retries, &r.refused, &r.retaken, &r.late, &r.gone, &r.elsewhere, &r.forgotten}
}

var simCounts = [10]string{"commits", "conflicts", "lost answers", "retries", "refused", "taken again by right", "late successes", "gone", "elsewhere", "forgotten"}

func (r simReached) String() string {
	var list []string
	for i, n := range r.counts() {
		list = append(list, fmt.Sprintf("%d %s", *n, simCounts[i]))
	}
	return fmt.Sprintf("%s; settled %v; routes %v; letters %v; dropped %v", strings.Join(list, ", "), r.settled, r.routes, r.letters, r.drops)
}

// check says what sessions without number never came to.
func (r simReached) check(t *testing.T) {
	for i, n := range r.counts() {
		if *n == 0 {
			t.Errorf("the simulation never reached: %s", simCounts[i])
		}
	}
	for _, k := range attend.Reasons() {
		if r.settled[k] == 0 {
			t.Errorf("no window settled as %s", k)
		}
	}
	for _, k := range attend.AllRoutes() {
		if r.routes[k] == 0 {
			t.Errorf("no verdict was %s", k)
		}
	}
	for _, k := range []attend.Stage{attend.StageIntake, attend.StageJudge, attend.StageSink} {
		if r.letters[k] == 0 {
			t.Errorf("no dead letter of stage %s was taken", k)
		}
	}
	for _, k := range []attend.Why{attend.WhyCount, attend.WhySize, attend.WhyStale} {
		if r.drops[k] == 0 {
			t.Errorf("nothing was dropped for %s", k)
		}
	}
}
