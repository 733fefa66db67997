package machine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSimulation runs random sessions of two or three processes on one scope
// in one versioned store: cached states, clocks that differ, lost answers,
// crashes, removal and expiry, a source, judges and sinks that fail or answer
// late. After each commit it checks what must hold, and at the end of a session
// that everything comes to rest. A session that fails is printed as the
// shortest list of steps that still does.
//
// ATTEND_SIM says for how long ("1m", "1h"); ATTEND_SIM_SEED repeats one
// session.
func TestSimulation(t *testing.T) {
	if s := os.Getenv("ATTEND_SIM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("ATTEND_SIM_SEED: %v", err)
		}
		simSeed(t, seed, true)
		return
	}
	length := 10 * time.Second
	if testing.Short() {
		length = 2 * time.Second
	}
	if s := os.Getenv("ATTEND_SIM"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("ATTEND_SIM: %v", err)
		}
		length = d
	}
	first := rand.Uint64N(1 << 40)
	seed, reached := first, simReached{}
	for begin := time.Now(); time.Since(begin) < length && !t.Failed(); seed++ {
		reached.add(simSeed(t, seed, false))
	}
	t.Logf("%d sessions from seed %d: %v", seed-first, first, reached)
	if seed-first > 2000 {
		reached.check(t)
	}
}

// simSeed runs the session of a seed.
func simSeed(t *testing.T, seed uint64, verbose bool) simReached {
	session := simRandom(seed)
	w, err := simRun(session, simRules{})
	if err == nil {
		if verbose {
			t.Logf("seed %d passes:\n%s", seed, w.text())
		}
		return w.reached
	}
	short := simShrink(session, simRules{})
	w, err = simRun(short, simRules{})
	t.Errorf("seed %d: %v\nthe shortest session that shows it:\n%s", seed, err, w.text())
	return w.reached
}

// A simSession is what happens, from a start. Its steps take their numbers
// modulo what there is, so that any part of a session is a session.
type simSession struct {
	procs int
	knobs [2]simKnobs // settings of the first, third … process, and of the second
	steps []simStep
}

type simStep struct {
	verb  simVerb
	proc  int
	a, b  int
	fault simFault
}

// simKnobs are the settings in which sessions differ.
type simKnobs struct {
	maxEvents, maxWaits, seen, bytes, outbox, backlog int
	ladder                                            int
	logLetters                                        bool
}

func (k simKnobs) policy() *Policy {
	const ms = time.Millisecond
	return &Policy{
		ClosingGrace: 5 * ms, StreamGap: 10 * ms, PassiveQuiet: 40 * ms, WaitHorizon: 100 * ms, MaxWindow: 600 * ms,
		MaxWaits: k.maxWaits, MaxEvents: k.maxEvents, MaxWindowBytes: k.bytes, RecentCount: 2, SeenCount: k.seen,
		RetryBackoff: []time.Duration{10 * ms, 40 * ms}[:k.ladder],
		MaxOutbox:    k.outbox, MaxDeadLetters: k.outbox, MaxBacklog: k.backlog, MaxLaneBytes: 16 << 20,
		DeadLetterBackoffMax: 100 * ms, AccountGrace: 500 * ms, IdleExpiry: 30_000 * ms,
		LogLetters: k.logLetters, RecordVerdicts: true,
	}
}

type simVerb int

const (
	simPush    simVerb = iota
	simAgain           // push something that was pushed before
	simAdvance         // time passes
	simWork            // tick, or claim what can be claimed
	simAnswer          // end what the process works on, in one of many ways
	simTick
	simFlush
	simEnd
	simBatch
	simAttach
	simCrash
	simSkew
	simGiveBack
	simExpire
	simRemove
)

// What happens to a step's commit.
type simFault int

const (
	simFine      simFault = iota
	simLost               // it lands, and the answer is lost
	simNever              // it never lands, and nobody knows
	simDiesFirst          // the process dies before it
	simDiesAfter          // the process dies when it has landed
)

// simRandom is the session of a seed.
func simRandom(seed uint64) simSession {
	r := rand.New(rand.NewPCG(seed, 5))
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	s := simSession{procs: 2 + r.IntN(2)}
	for i := range s.knobs {
		s.knobs[i] = simKnobs{
			maxEvents: pick(2, 3, 4, 6, 1), maxWaits: pick(2, 2, 1, 0), seen: pick(2, 4, 1, 8), bytes: pick(4<<20, 4<<20, 4<<20, 400, 270),
			outbox: pick(1000, 1000, 1000, 2), backlog: pick(10_000, 10_000, 10_000, 3), ladder: pick(2, 1, 0), logLetters: r.IntN(6) == 0,
		}
	}
	if r.IntN(3) > 0 {
		s.knobs[1] = s.knobs[0]
	}
	often := []simVerb{
		simPush, simPush, simPush, simAgain, simAdvance, simAdvance, simAdvance, simAdvance, simWork, simWork, simWork, simWork,
		simAnswer, simAnswer, simAnswer, simAnswer, simBatch, simTick,
	}
	if r.IntN(2) == 0 { // a calm session, in which windows settle by themselves
		often = []simVerb{simPush, simAdvance, simAdvance, simAdvance, simWork, simWork, simAnswer, simAnswer, simBatch}
	}
	seldom := []simVerb{simFlush, simEnd, simAttach, simAttach, simCrash, simSkew, simGiveBack, simExpire, simAgain}
	for range 10 + r.IntN(90) {
		step := simStep{verb: often[r.IntN(len(often))], proc: r.IntN(s.procs), a: r.IntN(64), b: r.IntN(64)}
		switch n := r.IntN(80); {
		case n < 14:
			step.verb = seldom[r.IntN(len(seldom))]
		case n == 14:
			step.verb = simRemove
		}
		switch n := r.IntN(60); {
		case n < 8:
			step.fault = simLost
		case n < 10:
			step.fault = simNever
		case n == 10:
			step.fault = simDiesFirst
		case n == 11:
			step.fault = simDiesAfter
		}
		s.steps = append(s.steps, step)
	}
	return s
}

// simRun runs a session to its end or to the first thing that is wrong, by the
// rules or by a mutant of them.
func simRun(s simSession, rules simRules) (w *simWorld, err error) {
	w = newSimWorld(s, rules)
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	for _, step := range s.steps {
		w.step(step)
		if w.err != nil {
			return w, w.err
		}
	}
	w.rest()
	return w, w.err
}

// simShrink returns the shortest session it finds that still fails.
func simShrink(s simSession, rules simRules) simSession {
	fails := func(c simSession) bool {
		_, err := simRun(c, rules)
		return err != nil
	}
	try := func(c simSession) bool {
		if !fails(c) {
			return false
		}
		s = c
		return true
	}
	for again := true; again; {
		again = false
		for size := max(1, len(s.steps)/2); size > 0; size /= 2 {
			for at := 0; at+size <= len(s.steps); {
				c := s
				c.steps = slices.Concat(s.steps[:at], s.steps[at+size:])
				if try(c) {
					again = true
				} else {
					at++
				}
			}
		}
		for i := range s.steps {
			for _, change := range []func(*simStep){
				func(p *simStep) { p.fault = simFine },
				func(p *simStep) { p.proc = 0 },
				func(p *simStep) { p.a = 0 },
				func(p *simStep) { p.b = 0 },
			} {
				c := s
				c.steps = slices.Clone(s.steps)
				if change(&c.steps[i]); c.steps[i] != s.steps[i] && try(c) {
					again = true
				}
			}
		}
		for _, change := range []func(k *[2]simKnobs){
			func(k *[2]simKnobs) { k[1] = k[0] },
			func(k *[2]simKnobs) { k[0].seen, k[1].seen = 1, 1 },
			func(k *[2]simKnobs) { k[0].maxEvents, k[1].maxEvents = 6, 6 },
			func(k *[2]simKnobs) { k[0].bytes, k[1].bytes = 4<<20, 4<<20 },
			func(k *[2]simKnobs) { k[0].outbox, k[1].outbox = 1000, 1000 },
			func(k *[2]simKnobs) { k[0].backlog, k[1].backlog = 10_000, 10_000 },
			func(k *[2]simKnobs) { k[0].logLetters, k[1].logLetters = false, false },
		} {
			c := s
			if change(&c.knobs); c.knobs != s.knobs && try(c) {
				again = true
			}
		}
		for c := s; c.procs > 1; {
			if c.procs--; !try(c) {
				break
			}
		}
	}
	return s
}

func (w *simWorld) text() string {
	s := w.session
	var b strings.Builder
	fmt.Fprintf(&b, "%d processes, settings %+v", s.procs, s.knobs[0])
	if s.knobs[1] != s.knobs[0] {
		fmt.Fprintf(&b, ", of B %+v", s.knobs[1])
	}
	return b.String() + "\n" + strings.Join(w.story, "\n") + "\n"
}
