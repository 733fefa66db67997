package machine

import (
	"slices"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// TestSimulationFindsMutants switches off one rule at a time and wants to see
// the simulation find a session that breaks: what can't fail proves nothing.
// With -v it prints the shortest session for each.
func TestSimulationFindsMutants(t *testing.T) {
	const sessions = 6000
	for _, m := range simMutants {
		t.Run(m.name, func(t *testing.T) {
			for n := range uint64(sessions) {
				session := simRandom(m.from + n)
				if _, err := simRun(session, m.rules); err == nil {
					continue
				}
				w, err := simRun(simShrink(session, m.rules), m.rules)
				t.Logf("%s: found in session %d: %v\n%s", m.rule, m.from+n+1, err, w.text())
				return
			}
			t.Errorf("%s: %d sessions found nothing", m.rule, sessions)
		})
	}
}

var simMutants = []struct {
	name, rule string
	from       uint64 // where to look first: the rare ones have their session
	rules      simRules
}{
	{"forgets the writers' numbers", "E29", 0, simRules{step: simAfter(func(_ State, s *State, _ Input, _ *Effects) {
		s.writers = writers{}
	})}},
	{"ignores the cursor that a batch was read after", "E33", 0, simRules{step: simBefore(func(s *State, in Input) Input {
		if a, ok := in.(Arrive); ok && a.Source != "" && a.Cursor != s.Cursor(a.Source) {
			a.After = s.Cursor(a.Source)
			in = a
		}
		return in
	})}},
	{"loses the cursors when the scope expires", "E42", 85, simRules{step: simBefore(func(s *State, in Input) Input {
		if f, ok := in.(Forget); ok && s.Expired(f.At) {
			s.cursors = nil
		}
		return in
	})}},
	{"offers wait to whoever speaks", "E4", 0, simRules{step: simAfter(func(_ State, _ *State, _ Input, fx *Effects) {
		if fx.Call != nil && !slices.Contains(fx.Call.Routes, attend.RouteWait) {
			fx.Call.Routes = append(fx.Call.Routes, attend.RouteWait)
		}
	})}},
	{"drops an act on overflow", "E7", 0, simRules{step: simAfter(func(_ State, s *State, _ Input, _ *Effects) {
		if s.open.acts.n > 2 {
			s.open = simWithout(s.open, s.open.acts.first())
		}
	})}},
	{"does not count the held window into the limits", "E7", 0, simRules{step: func(s State, in Input) (State, Effects) {
		policy := s.policy
		if _, ok := in.(Configure); !ok && s.held != nil {
			p := *s.policy
			p.MaxEvents += s.held.len()
			s.policy = &p
		}
		next, fx := Step(s, in)
		if next.policy == s.policy {
			next.policy = policy
		}
		return next, fx
	}}},
	{"what does not fit has no deadlines", "E7", 0, simRules{step: simAfter(func(before State, s *State, _ Input, _ *Effects) {
		if s.slot != nil && (before.slot == nil || before.slot.num != s.slot.num) {
			p := &s.open
			p.age, p.closing, p.continuous, p.passive, p.flush = 0, 0, 0, 0, 0
		}
	})}},
	{"judges the agent's own output", "E9", 0, simRules{step: simBefore(func(_ *State, in Input) Input {
		if a, ok := in.(Arrive); ok {
			a.Events = slices.Clone(a.Events)
			for i := range a.Events {
				if a.Events[i].Kind == attend.KindContext {
					a.Events[i].Kind = attend.KindConsequence
				}
			}
			in = a
		}
		return in
	})}},
	{"forgets a flush that came while the slot was busy", "E9", 0, simRules{step: simAfter(func(before State, s *State, in Input, _ *Effects) {
		if _, ok := in.(Flush); ok && before.slot != nil {
			s.open.forced = 0
		}
	})}},
	{"a held window has no horizon", "E12", 0, simRules{step: simAfter(func(_ State, s *State, _ Input, _ *Effects) {
		if s.held != nil {
			h := *s.held
			h.until = 0
			s.held = &h
		}
	})}},
	{"forgets that a window waited", "E12", 216, simRules{step: simAfter(func(_ State, s *State, _ Input, _ *Effects) {
		if s.held != nil {
			h := *s.held
			h.waits = 0
			s.held = &h
		}
	})}},
	{"remembers no ids", "E3", 0, simRules{step: simAfter(func(_ State, s *State, _ Input, _ *Effects) {
		s.seen = [2]ids{}
	})}},
	{"remembers less than the last push brought", "E3", 0, simRules{step: simAfter(func(_ State, s *State, _ Input, _ *Effects) {
		for k := range s.seen {
			for s.seen[k].n > s.policy.SeenCount {
				s.seen[k] = s.seen[k].drop()
			}
		}
	})}},
	{"loses a gap", "E11", 0, simRules{step: simAfter(func(_ State, s *State, _ Input, _ *Effects) {
		s.open.gap = false
	})}},
	{"books an answer on whatever is in the slot", "E47", 0, simRules{step: simBefore(func(s *State, in Input) Input {
		if j, ok := in.(Judged); ok && s.slot != nil {
			j.Num = s.slot.num
			in = j
		}
		return in
	})}},
	{"a failure counts from any attempt", "E47", 80, simRules{step: simBefore(func(s *State, in Input) Input {
		if f, ok := in.(Failed); ok && f.Lane == LaneJudge && s.slot != nil {
			f.Attempt = s.slot.lease.attempt
			in = f
		}
		return in
	})}},
	{"a late success does not count", "E47", 0, simRules{step: simBefore(func(s *State, in Input) Input {
		if j, ok := in.(Judged); ok && s.slot != nil && s.slot.lease.attempt != j.Attempt {
			in = Tick{j.At}
		}
		return in
	})}},
	{"uses numbers of attempts again", "E47", 0, simRules{step: simAfter(func(before State, s *State, in Input, _ *Effects) {
		if _, ok := in.(Claim); ok && s.slot != nil && s.slot.lease.until != 0 && before.slot != nil && before.slot.lease != s.slot.lease {
			c := *s.slot
			c.lease.attempt = c.num
			s.slot = &c
		}
	})}},
	{"each life counts from the same number", "E47", 0, simRules{sameSeed: true}},
	{"takes a lease from somebody who still has it", "E47", 0, simRules{step: simBefore(func(s *State, in Input) Input {
		if c, ok := in.(Claim); ok && s.slot != nil && s.slot.lease.owner != c.Owner && s.slot.lease.until != 0 {
			w := *s.slot
			w.lease.until, w.lease.ready = 0, 0
			s.slot = &w
		}
		return in
	})}},
	{"does not notice a lease that has run out", "E47", 0, simRules{step: simBefore(func(s *State, in Input) Input {
		if c, ok := in.(Claim); ok && s.slot != nil && s.slot.lease.until != 0 && s.slot.lease.until <= moment(c.At) {
			in = Tick{c.At}
		}
		return in
	})}},
	{"delivers the newest decision first", "E24", 0, simRules{step: simAfter(func(before State, s *State, _ Input, _ *Effects) {
		if n := len(s.decisions.jobs); n > len(before.decisions.jobs) && n > 1 {
			s.decisions.jobs = slices.Concat(s.decisions.jobs[n-1:], s.decisions.jobs[:n-1])
		}
	})}},
	{"a delivery takes all decisions of its id", "S13", 2183, simRules{step: simAfter(func(before State, s *State, in Input, _ *Effects) {
		if d, ok := in.(Done); ok && d.Lane == LaneDecision {
			if i := before.decisions.index(d.Num); i >= 0 {
				for k := len(s.decisions.jobs) - 1; k >= 0; k-- {
					if s.decisions.jobs[k].window.id == before.decisions.jobs[i].window.id {
						s.decisions = s.decisions.remove(k)
					}
				}
			}
		}
	})}},
	{"lets a scope's time follow the clock back", "E34", 0, simRules{step: simAfter(func(_ State, s *State, in Input, _ *Effects) {
		s.now = moment(in.at())
	})}},
	{"stores due times late", "E46", 0, simRules{due: func(w simWrite) (int64, bool) { return w.due + 1, w.moved && w.due != 0 }}},
	{"loses the writers in a load", "E32", 0, simRules{load: func(s State) State {
		s.writers = writers{}
		return s
	}}},
	{"starts versions again after a remove", "S11", 91, simRules{versionsRestart: true}},
	{"an expiry asks for no version", "S14", 0, simRules{blindForget: true}},
	{"a write lands whatever came first", "E30", 0, simRules{ignoresConflicts: true}},
	{"answers that nothing changed from what it has cached", "E31", 0, simRules{staleAnswers: true}},
	{"a refused push keeps its number", "E29", 49, simRules{keepsNumber: true}},
}

// simWithout is a pile without one of its events.
func simWithout(p pile, e *entry) pile {
	list := p.appendTo(nil)
	q := p
	q.acts, q.rest, q.ids, q.count, q.contexts, q.bytes = seq{}, seq{}, ids{}, 0, 0, 0
	for _, v := range list {
		if v != e {
			c := *v
			q.add(&c, &Policy{})
		}
	}
	q.age, q.closing, q.continuous, q.passive, q.flush = p.age, p.closing, p.continuous, p.passive, p.flush
	return q
}

// simBefore is Step with the state and the input changed before it.
func simBefore(change func(s *State, in Input) Input) func(State, Input) (State, Effects) {
	return func(s State, in Input) (State, Effects) {
		t := s
		in = change(&t, in)
		next, fx := Step(t, in)
		if !fx.Changed {
			next = s
		}
		return next, fx
	}
}

// simAfter is Step with the state changed after it, where the input changed
// something.
func simAfter(change func(before State, s *State, in Input, fx *Effects)) func(State, Input) (State, Effects) {
	return func(s State, in Input) (State, Effects) {
		next, fx := Step(s, in)
		if fx.Changed && next.scope != "" {
			change(s, &next, in, &fx)
		}
		return next, fx
	}
}
