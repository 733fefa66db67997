package machine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// simRules is where a session differs from the rules: the zero simRules is the
// real thing, a mutant sets one field.
type simRules struct {
	step func(State, Input) (State, Effects) // instead of Step
	load func(State) State                   // what a load does to the state besides
	due  func(simWrite) (int64, bool)        // what to store as the due time besides

	sameSeed         bool // each life counts from the same start
	versionsRestart  bool // a scope that comes back starts at version 1
	blindForget      bool // an expiry asks for no version
	staleAnswers     bool // "nothing changed" is answered from a cached state
	keepsNumber      bool // a push that was refused keeps its number
	ignoresConflicts bool // a write lands whatever was written meanwhile
}

// simWorld is one scope in one store, and the processes that work it.
type simWorld struct {
	session simSession
	rules   simRules
	mutated bool  // its Step is not what a replay does
	now     int64 // the true time, in milliseconds
	store   simStore
	procs   []*simProc
	book    *simBook
	reached simReached
	story   []string
	did     []string // what the step did so far
	events  int      // ids given out
	pushed  []attend.Event
	lives   int
	err     error
}

const (
	simStart = 10_000_000 // milliseconds
	simScope = attend.Scope("scope")
	simLease = 300 // milliseconds
	simKey   = "src"
)

func newSimWorld(s simSession, rules simRules) *simWorld {
	w := &simWorld{session: s, rules: rules, mutated: rules.step != nil, now: simStart}
	if !w.mutated {
		w.rules.step = Step
	}
	w.reached = newSimReached()
	w.book = newSimBook(w)
	for i := range s.procs {
		p := &simProc{w: w, name: string(rune('A' + i)), policy: s.knobs[i%2].policy()}
		p.start()
		w.procs = append(w.procs, p)
	}
	return w
}

// fail notes the first thing that is wrong.
func (w *simWorld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// note adds to the story of the step.
func (w *simWorld) note(format string, args ...any) {
	w.did = append(w.did, fmt.Sprintf(format, args...))
}

// tell ends a step's story.
func (w *simWorld) tell(p *simProc) {
	if len(w.did) == 0 {
		return
	}
	name := " "
	if p != nil {
		name = p.name
	}
	w.story = append(w.story, fmt.Sprintf("%7dms %s  %s", w.now-simStart, name, strings.Join(w.did, "; ")))
	w.did = nil
}

func (w *simWorld) step(s simStep) {
	p := w.who(s)
	if s.verb != simAdvance && s.verb != simCrash && s.verb != simSkew && s.verb != simRemove {
		p.resolve()
	}
	switch s.verb {
	case simAdvance:
		w.advance(s)
		p = nil
	case simRemove:
		w.note("remove")
		w.store.remove()
		w.book.newLife()
		p = nil
	default:
		p.act(s)
	}
	if w.err != nil {
		w.note("BROKEN: %v", w.err)
	}
	w.tell(p)
}

// who is the process of a step: the one it names, or the next that has what the
// step is about.
func (w *simWorld) who(s simStep) *simProc {
	for i := range w.procs {
		p := w.procs[(s.proc+i)%len(w.procs)]
		switch s.verb {
		case simAnswer, simGiveBack:
			if len(p.jobs) == 0 {
				continue
			}
		case simBatch:
			if !p.source.on {
				continue
			}
		}
		return p
	}
	return w.procs[s.proc%len(w.procs)]
}

func (w *simWorld) advance(s simStep) {
	due := int64(w.store.truth.due())
	was := w.now
	switch k := s.a % 20; {
	case k < 4:
		w.now++
	case k < 9:
		w.now += 5
	case k < 11:
		w.now += 20
	case k < 12:
		w.now += 100
	case k < 13:
		w.now += 310
	case k < 14:
		w.now += []int64{1000, 31_000}[s.b%2]
	case k < 16:
		w.now = max(w.now, due-1)
	default:
		w.now = max(w.now, due)
	}
	if w.now != was {
		w.note("%d ms pass", w.now-was)
	}
}

// simStore keeps the scope as a store does, in bytes, and beside it what the
// bytes must give.
type simStore struct {
	version uint64 // 0: there is no such scope
	given   uint64
	record  attend.Record
	due     int64 // 0: none
	truth   State
}

func (s *simStore) remove() { *s = simStore{given: s.given + 1000} }

// simWrite is a write of one scope.
type simWrite struct {
	base   State // what the writer read
	expect uint64
	inputs []Input
	states []State // after each input
	fx     []Effects
	due    int64
	moved  bool
	forget bool
	last   Effects // of the input stepped last
}

// commit applies a write if its version is the stored one; false: somebody else
// came first.
func (w *simWorld) commit(b simWrite) bool {
	s := &w.store
	if b.expect != s.version && !w.rules.ignoresConflicts && !(b.forget && w.rules.blindForget) {
		return false
	}
	if b.expect == s.version && !bytes.Equal(EncodeState(b.base), EncodeState(s.truth)) {
		w.fail("version %d was read as another state", b.expect)
	}
	next := b.states[len(b.states)-1]
	if b.forget {
		w.book.write(b)
		s.remove()
		return true
	}
	if s.version == 0 {
		s.due = 0
		if s.given++; w.rules.versionsRestart {
			s.given = 1
		}
	} else {
		s.given = s.version + 1
	}
	s.version = s.given
	s.truth = next
	if b.moved {
		s.due = b.due
	}
	if w.rules.due != nil {
		if d, ok := w.rules.due(b); ok {
			s.due = d
		}
	}
	w.keep(b, next)
	w.book.write(b)
	return true
}

// keep keeps a write's bytes as a store does, and reads them again.
func (w *simWorld) keep(b simWrite, next State) {
	s := &w.store
	if w.mutated {
		s.record = attend.Record{Snapshot: EncodeState(next)}
		return
	}
	for _, in := range b.inputs {
		s.record.Tail = append(s.record.Tail, EncodeInput(in))
	}
	replayed, err := Replay(s.record)
	if err != nil {
		w.fail("replay: %v", err)
		return
	}
	if !bytes.Equal(EncodeState(replayed), EncodeState(next)) {
		w.fail("snapshot and tail of %d inputs replay as another state", len(s.record.Tail))
	}
	if len(s.record.Tail) > int(s.version%7) {
		s.record = attend.Record{Snapshot: EncodeState(next)}
	}
}

func (w *simWorld) seed() Seed {
	w.lives++
	var s Seed
	binary.BigEndian.PutUint64(s[:], uint64(w.lives)*0x9e3779b97f4a7c15)
	start := uint64(w.lives)
	if w.rules.sameSeed {
		start = 1
	}
	binary.BigEndian.PutUint64(s[16:], start<<40)
	return s
}

func simTime(ms int64) time.Time { return time.UnixMilli(ms) }
