package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// simProc is a process: an engine that lives by the rules of commits (E29, E30,
// E34, E44), one input a write.
type simProc struct {
	w      *simWorld
	name   string
	policy *Policy
	skew   int64 // of its clock

	id, number uint64 // its instance, and the last of its running numbers

	cached              bool
	s                   State
	version             uint64
	loadedAt, loadedNow int64 // when it loaded or wrote the scope, and the scope's time then

	pending *simOp // an input whose answer was lost; nothing else is done before it is known
	refused *simOp // a push that met a full lane
	jobs    []simJob
	source  struct {
		on    bool
		place int
	}
}

// simOp is an input on its way.
type simOp struct {
	in     Input
	landed func(before, after State) // what must hold of its commit; may be nil
	done   func(fx Effects, s State) // its answer is known
}

// simJob is an effect under way.
type simJob struct {
	lane         Lane
	num, attempt uint64
	until        int64
	about        string // the identities of the events
	routes       []attend.Route
}

func (j simJob) String() string {
	return fmt.Sprintf("%s of %s", [...]string{"judge call", "delivery", "letter"}[j.lane], j.about)
}

// start is a process that has just begun, with an instance id of its own.
func (p *simProc) start() {
	p.w.lives++
	*p = simProc{w: p.w, name: p.name, policy: p.policy, id: uint64(p.w.lives) << 32}
}

// time is the time of an input (E34).
func (p *simProc) time() int64 {
	t := p.w.now + p.skew
	if p.cached {
		t = max(t, int64(p.s.now), p.loadedNow+p.w.now-p.loadedAt)
	}
	return t
}

func (p *simProc) load() {
	s, err := Replay(p.w.store.record)
	if err != nil {
		p.w.fail("load: %v", err)
	}
	if p.w.rules.load != nil {
		s = p.w.rules.load(s)
	}
	p.keep(s, p.w.store.version)
}

func (p *simProc) keep(s State, version uint64) {
	p.cached, p.s, p.version = true, s, version
	p.loadedAt, p.loadedNow = p.w.now, int64(s.now)
}

func (p *simProc) ensure() {
	if !p.cached {
		p.load()
	}
}

// resolve finds out what became of an input whose answer was lost: it is
// applied again.
func (p *simProc) resolve() {
	if op := p.pending; op != nil {
		p.pending = nil
		p.w.note("tries again")
		p.w.reached.retries++
		p.apply(op, simFine)
	}
}

// apply brings an input into the scope: load, step, commit, and again where
// somebody else came first.
func (p *simProc) apply(op *simOp, fault simFault) {
	w := p.w
	for range 10 {
		fresh := !p.cached
		p.ensure()
		b := simWrite{base: p.s, expect: p.version}
		s := p.s
		// Other settings go with an input: before what a client brings, behind
		// what else there is.
		c := Configure{At: op.in.at(), Scope: simScope, Policy: p.policy}
		differs := s.scope == "" || !s.policy.Equal(p.policy)
		brought := false
		switch op.in.(type) {
		case Arrive, Flush, End:
			brought = true
		}
		if differs && (brought || s.scope == "") {
			c.Seed = w.seed()
			s = b.add(w, s, c)
		}
		configured := s
		s = b.add(w, s, op.in)
		fx := b.last
		if !fx.Changed {
			// Settings are never written alone. And somebody else may have
			// changed what this answer rests on.
			if !fresh && !w.rules.staleAnswers {
				p.cached = false
				continue
			}
			p.answered(op, fx, configured)
			return
		}
		if differs && len(b.inputs) == 1 && !brought && !b.forget {
			s = b.add(w, s, c)
		}
		switch fault {
		case simDiesFirst:
			w.note("and dies before the commit")
			p.start()
			return
		case simNever:
			w.note("the commit fails and its answer is lost")
			p.pending, p.cached = op, false
			return
		}
		if !w.commit(b) {
			w.reached.conflicts++
			p.cached = false
			continue
		}
		if op.landed != nil {
			op.landed(b.base, s)
		}
		switch fault {
		case simDiesAfter:
			w.note("and dies after the commit")
			p.start()
			return
		case simLost:
			w.note("the answer is lost")
			w.reached.lost++
			p.pending, p.cached = op, false
			return
		}
		p.keep(s, w.store.version)
		p.answered(op, fx, s)
		return
	}
	w.fail("%s lost ten races with nobody running", p.name)
}

// add steps one more input of a write.
func (b *simWrite) add(w *simWorld, s State, in Input) State {
	next, fx := w.rules.step(s, in)
	b.last = fx
	if fx.Changed {
		b.inputs, b.states, b.fx = append(b.inputs, in), append(b.states, next), append(b.fx, fx)
		if fx.MoveDue {
			b.moved, b.due = true, int64(moment(fx.Due))
		}
		b.forget = fx.Forget
	}
	return next
}

func (p *simProc) answered(op *simOp, fx Effects, s State) {
	if op.done != nil {
		op.done(fx, s)
	}
}

func (p *simProc) next() (id, number uint64) {
	p.number++
	return p.id, p.number
}

// act is what a step has the process do.
func (p *simProc) act(s simStep) {
	w := p.w
	switch s.verb {
	case simPush:
		p.push(w.newEvents(s), s.fault)
	case simAgain:
		if p.refused != nil && s.b%2 == 0 {
			p.again(s.fault)
		} else if n := len(w.pushed); n > 0 {
			p.push(w.pushed[n-1-s.a%min(n, 8):][:1], s.fault)
		}
	case simWork:
		p.work(s)
	case simAnswer:
		if n := len(p.jobs); n > 0 {
			p.answer(s.b%n, s)
		}
	case simTick:
		p.tick(s.fault)
	case simFlush:
		p.ensure()
		at := p.time()
		id, n := p.next()
		w.note("flushes")
		p.apply(&simOp{in: Flush{simTime(at), id, n}}, s.fault)
	case simEnd:
		p.ensure()
		at := p.time()
		id, n := p.next()
		w.note("ends")
		p.apply(&simOp{in: End{simTime(at), id, n}}, s.fault)
	case simAttach:
		p.attach()
	case simBatch:
		if p.source.on {
			p.batch(s)
		}
	case simCrash:
		w.note("dies and starts again")
		p.start()
	case simSkew:
		p.skew = []int64{0, 50, -50, 5000, -5000, 40_000}[s.a%6]
		w.note("its clock is %d ms off", p.skew)
	case simGiveBack:
		if n := len(p.jobs); n > 0 {
			p.giveBack(s.b%n, s.fault)
		}
	case simExpire:
		p.expire(s.fault)
	}
}

// newEvents makes what a client pushes.
func (w *simWorld) newEvents(s simStep) []attend.Event {
	kinds := []attend.Kind{attend.KindClosing, attend.KindConsequence, attend.KindContinuous, attend.KindContext,
		attend.KindClosing, attend.KindFlush, attend.KindConsequence, attend.KindPassive, attend.KindClosing}
	var list []attend.Event
	for i := range 1 + s.a%3 {
		e := attend.Event{ID: "e" + strconv.Itoa(w.events), Name: "n", Kind: kinds[(s.b+i*3)%len(kinds)]}
		w.events++
		if s.a%5 == 4 {
			e.Data = json.RawMessage(`"` + strings.Repeat("x", 150) + `"`)
		}
		list = append(list, e)
	}
	w.pushed = append(w.pushed, list...)
	return list
}

func simNames(events []attend.Event) string {
	var list []string
	for _, e := range events {
		list = append(list, e.ID+":"+string(e.Kind))
	}
	return strings.Join(list, " ")
}

func (p *simProc) push(events []attend.Event, fault simFault) {
	p.ensure()
	in := Arrive{At: simTime(p.time()), Events: events}
	in.Writer, in.Number = p.next()
	p.w.note("pushes %s", simNames(events))
	p.apply(p.pushOp(in), fault)
}

// again pushes once more what met a full lane.
func (p *simProc) again(fault simFault) {
	p.ensure()
	in := p.refused.in.(Arrive)
	p.refused = nil
	in.At = simTime(p.time())
	if !p.w.rules.keepsNumber {
		in.Writer, in.Number = p.next()
	}
	p.w.note("pushes %s again, which was refused", simNames(in.Events))
	p.apply(p.pushOp(in), fault)
}

func (p *simProc) pushOp(in Arrive) *simOp {
	op := &simOp{in: in}
	op.done = func(fx Effects, s State) {
		if fx.Refused {
			p.w.note("refused")
			p.w.reached.refused++
			p.refused = op
			return
		}
		p.w.note("%d new", fx.Fresh)
		p.w.book.ack(in, fx, s)
	}
	return op
}

func (p *simProc) tick(fault simFault) {
	p.ensure()
	p.w.note("ticks")
	p.apply(&simOp{in: Tick{simTime(p.time())}}, fault)
}

// work claims what can be claimed, and else ticks if something is due, or
// forgets the scope.
func (p *simProc) work(s simStep) {
	p.ensure()
	at := p.time()
	found := p.s.Work(simTime(at))
	nums := [...]uint64{found.Judge, found.Decision, found.Letter}
	for i := range nums {
		lane := Lane((i + s.a) % 3)
		if num := nums[lane]; num != 0 {
			p.claim(lane, num, at, s.fault)
			return
		}
	}
	switch due := int64(p.s.due()); {
	case p.s.Expired(simTime(at)):
		p.expire(s.fault)
	case due != 0 && due <= at:
		p.tick(s.fault)
	}
}

func (p *simProc) claim(lane Lane, num uint64, at int64, fault simFault) {
	in := Claim{At: simTime(at), Lane: lane, Num: num, Owner: p.id, Until: simTime(at + simLease)}
	p.w.note("claims a %s", [...]string{"window", "decision", "letter"}[lane])
	p.apply(&simOp{
		in:     in,
		landed: func(before, after State) { p.w.book.claimed(before, after, lane) },
		done: func(fx Effects, s State) {
			j := simJob{lane: lane, until: int64(moment(in.Until))}
			switch {
			case fx.Call != nil:
				j.num, j.attempt, j.about, j.routes = fx.Call.Num, fx.Call.Attempt, simAbout(fx.Call.Window), fx.Call.Routes
				p.w.book.asked(fx.Call)
			case fx.Delivery != nil:
				j.num, j.attempt, j.about = fx.Delivery.Num, fx.Delivery.Attempt, simAbout(fx.Delivery.Decision.Window)
				p.w.book.delivering(fx.Delivery, s)
			case fx.Letter != nil:
				j.num, j.attempt, j.about = fx.Letter.Num, fx.Letter.Attempt, simAbout(fx.Letter.Letter.Window)
			default:
				p.w.note("in vain")
				return
			}
			if p.time() >= j.until {
				p.w.note("its lease is over")
				return
			}
			p.w.note("%v", j)
			p.jobs = append(p.jobs, j)
		},
	}, fault)
}

func simAbout(w attend.Window) string {
	var list []string
	for _, e := range w.Events {
		list = append(list, simID(e))
	}
	return strings.Join(list, ",")
}

// answer ends a job in one of many ways, or never.
func (p *simProc) answer(i int, s simStep) {
	j := p.jobs[i]
	keep := false
	p.ensure()
	at := simTime(p.time())
	failed := Failed{At: at, Lane: j.lane, Num: j.num, Attempt: j.attempt, Message: "503"}
	var in Input = failed
	say := "fails"
	switch k := s.a % 14; {
	case k == 13:
		p.w.note("%v hangs for ever", j)
		p.jobs = slices.Delete(p.jobs, i, i+1)
		return
	case k == 12:
	case k == 11:
		failed.Permanent, in, say = true, failed, "fails for good"
	case k == 10 && j.lane == LaneJudge:
		failed.Account, in, say = true, failed, "fails for the account"
	case j.lane != LaneJudge:
		in, say, keep = Done{at, j.lane, j.num}, "succeeds", k == 9
	default:
		keep = k == 9
		r := []attend.Route{
			attend.RouteInterrupt, attend.RouteQueue, attend.RouteSkip, attend.RouteNote, attend.RouteAsk, attend.RouteSkip,
			attend.RouteQueue, attend.RouteNote, attend.RouteWait, attend.RouteQueue,
		}[k]
		if k > 2 && k < 8 && slices.Contains(j.routes, attend.RouteWait) {
			r = attend.RouteWait
		}
		if k == 8 && s.b%2 == 1 {
			r = "shout" // there is no such route
		}
		a := attend.Judgment{Route: r}
		if k == 9 && s.b%4 == 0 {
			a.Probabilities = map[attend.Route]float64{"shout": 0.5}
		}
		in, say = Judged{at, j.num, j.attempt, a}, "answers "+string(r)
	}
	if !keep {
		p.jobs = slices.Delete(p.jobs, i, i+1)
	}
	p.w.note("%v %s", j, say)
	p.apply(p.w.book.answerOp(in, j), s.fault)
}

func (p *simProc) giveBack(i int, fault simFault) {
	j := p.jobs[i]
	p.jobs = slices.Delete(p.jobs, i, i+1)
	p.ensure()
	p.w.note("gives the %v back", j)
	p.apply(&simOp{in: GiveBack{simTime(p.time()), j.lane, j.num, j.attempt}}, fault)
}

func (p *simProc) expire(fault simFault) {
	p.ensure()
	if at := simTime(p.time()); p.s.Expired(at) {
		p.w.note("forgets the scope")
		p.apply(&simOp{in: Forget{at}}, fault)
	}
}

// attach starts the source here, from the committed cursor, or stops it.
func (p *simProc) attach() {
	if p.source.on {
		p.source.on = false
		p.w.note("detaches")
		return
	}
	p.load()
	p.source.on, p.source.place = true, simPlace(p.s.Cursor(simKey))
	p.w.note("attaches the source at %d", p.source.place)
}

func simPlace(c attend.Cursor) int {
	n, _ := strconv.Atoi(string(c))
	return n
}

func simCursor(n int) attend.Cursor {
	if n == 0 {
		return ""
	}
	return attend.Cursor(strconv.Itoa(n))
}

// simSourceEvent is what the source holds at a place, always the same. false:
// no kind fits it.
func simSourceEvent(n int) (attend.Event, bool) {
	kinds := []attend.Kind{attend.KindClosing, attend.KindConsequence, attend.KindFlush, attend.KindPassive, attend.KindContext}
	e := attend.Event{ID: "s" + strconv.Itoa(n), Name: "n", Kind: kinds[n%len(kinds)]}
	if n%7 == 4 {
		e.Kind = ""
		return e, false
	}
	return e, true
}

// batch brings what follows in the source.
func (p *simProc) batch(s simStep) {
	p.ensure()
	from, to := p.source.place, p.source.place+1+s.a%3
	in := Arrive{At: simTime(p.time()), Source: simKey, After: simCursor(from), Cursor: simCursor(to), Gap: s.b%5 == 4}
	in.Writer, in.Number = p.next()
	for n := from + 1; n <= to; n++ {
		if e, ok := simSourceEvent(n); ok {
			in.Events = append(in.Events, e)
		} else {
			in.Rejected = append(in.Rejected, Rejected{e, "no kind"})
		}
	}
	p.w.note("brings %d to %d of the source", from+1, to)
	p.w.book.sourceEnd = max(p.w.book.sourceEnd, to)
	p.apply(&simOp{in: in, done: func(fx Effects, st State) {
		switch {
		case fx.Refused:
			p.w.note("refused")
			p.w.reached.refused++
		case fx.Batch == Gone:
			p.w.note("the scope is gone")
			p.w.reached.gone++
			p.source.on = false
		case fx.Batch == Elsewhere:
			p.source.place = simPlace(fx.Place)
			p.w.note("goes on from %d", p.source.place)
			p.w.reached.elsewhere++
		default:
			p.source.place = to
			p.w.note("%d new", fx.Fresh)
			p.w.book.ack(in, fx, st)
		}
	}}, s.fault)
}
