package machine

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// A traceRecord is what a store would hold of a run: the inputs that changed
// something, and the state before and after each. The states are kept as
// values, to see that no later step has changed one.
type traceRecord struct {
	inputs [][]byte
	states []State
	bytes  [][]byte
}

// check steps the run's state, and looks at what must hold for every input:
// that Step is pure, the same input twice changes nothing (E29), what is stored
// is the whole of the state (E32), and its inputs give it again (E28).
func (r *traceRun) check(in traceInput) (Effects, error) {
	before := r.state
	stored := EncodeState(before)
	after, e := Step(before, in.Input)
	now := EncodeState(after)
	if !bytes.Equal(EncodeState(before), stored) {
		return e, fmt.Errorf("the argument was changed")
	}

	// A process that reads both from the store comes to the same.
	s, err := DecodeState(stored)
	if err != nil {
		return e, fmt.Errorf("the state before: %w", err)
	}
	if !bytes.Equal(EncodeState(s), stored) {
		return e, fmt.Errorf("encode, decode, encode gives other bytes")
	}
	read, err := DecodeInput(EncodeInput(in.Input))
	if err != nil {
		return e, fmt.Errorf("the input: %w", err)
	}
	if s, other := Step(s, read); !bytes.Equal(EncodeState(s), now) || !reflect.DeepEqual(other, e) {
		return e, fmt.Errorf("from the store another state, or other effects\n got %+v\nwant %+v", other, e)
	}
	if !bytes.Equal(EncodeInput(read), EncodeInput(in.Input)) {
		return e, fmt.Errorf("the input: encode, decode, encode gives other bytes")
	}

	if !e.Changed && (!bytes.Equal(now, stored) || len(e.Rows) > 0 || len(e.Traces) > 0 || e.MoveDue || e.Forget) {
		return e, fmt.Errorf("nothing has changed, and yet: %+v", e)
	}
	// What nobody wrote has no number by which it could be recognised.
	if twice, other := Step(after, in.Input); !in.nobody && (other.Changed || !bytes.Equal(EncodeState(twice), now)) {
		return e, fmt.Errorf("applied twice it changes something the second time: %+v", other)
	}

	// Nor does what another process makes of the same state change this one.
	for _, other := range r.others(before) {
		Step(before, other)
	}
	if !bytes.Equal(EncodeState(after), now) {
		return e, fmt.Errorf("another step from the same state has changed this one's")
	}

	r.state = after
	if e.Changed {
		r.inputs = append(r.inputs, EncodeInput(in.Input))
		r.states, r.bytes = append(r.states, after), append(r.bytes, now)
	}
	if s, err := Replay(attend.Record{Tail: r.inputs}); err != nil || !bytes.Equal(EncodeState(s), now) {
		return e, fmt.Errorf("the replay of all inputs gives another state, %v", err)
	}
	r.name(in.Input)
	return e, r.checkState(e)
}

// others are inputs that another process might apply to a state instead.
func (r *traceRun) others(s State) []Input {
	act, output := traceEvent("another's"), traceEvent("another's output")
	act.Kind, output.Kind = attend.KindPassive, attend.KindConsequence
	in := []Input{Arrive{
		At: r.at, Writer: 1, Number: 1, Source: "another's", Cursor: "1", Gap: true,
		Events: []attend.Event{act, output}, Rejected: []Rejected{{Event: traceEvent("bad")}},
	}}
	if s.slot != nil {
		for _, route := range []attend.Route{attend.RouteQueue, attend.RouteSkip, attend.RouteWait} {
			in = append(in, Judged{At: r.at, Num: s.slot.num, Judgment: attend.Judgment{Route: route}})
		}
		in = append(in, Failed{At: r.at, Num: s.slot.num, Attempt: s.slot.lease.attempt, Permanent: true})
	}
	for lane, jobs := range map[Lane][]*job{LaneDecision: s.decisions.jobs, LaneLetter: s.letters.jobs} {
		for _, j := range jobs {
			in = append(in, Done{At: r.at, Lane: lane, Num: j.num}, Failed{At: r.at, Lane: lane, Num: j.num, Attempt: j.lease.attempt})
		}
	}
	return in
}

// checkState looks at what always holds of a state, and at what leaves it.
func (r *traceRun) checkState(e Effects) error {
	s := &r.state
	switch {
	case s.scope == "":
	case s.slot != nil && s.held != nil:
		return fmt.Errorf("a window is held and another is in the slot")
	case s.open.rest.n > 0 && s.open.len() > s.policy.MaxEvents:
		return fmt.Errorf("the open window is over MaxEvents and not all acts")
	case s.slot == nil && s.ripe() != 0 && s.ripe() <= s.now:
		return fmt.Errorf("due at %s and not settled", traceTime(s.ripe().time()))
	case e.MoveDue && !e.Due.Equal(s.Due()):
		return fmt.Errorf("stored due time is %s, want %s", traceTime(e.Due), traceTime(s.Due()))
	case s.due() != 0 && (s.stored == 0 || s.stored > s.due()):
		return fmt.Errorf("due at %s, the store has %s", traceTime(s.Due()), traceTime(s.stored.time()))
	}
	if w, ok := s.Slot(); ok && s.slot.id != attend.NewDecisionID(s.scope, w.Window.Events) {
		return fmt.Errorf("the window's id is not that of its events")
	}
	for _, row := range e.Rows {
		if row.Scope != traceScope || row.At.Before(r.at) {
			return fmt.Errorf("row of scope %q at %s", row.Scope, traceTime(row.At))
		}
		if row.Type == attend.RowVerdict && bytes.Contains(row.Body, []byte(traceSecret)) {
			return fmt.Errorf("a mark holds data of an event: %s", row.Body)
		}
	}
	for _, t := range e.Traces {
		if strings.Contains(fmt.Sprintf("%s", t), traceSecret) {
			return fmt.Errorf("a trace holds data of an event: %+v", t)
		}
	}
	return nil
}

// checkEnd cuts the record at each input: a snapshot there, and the tail behind
// it, give the state. No state that there ever was has changed since.
func (r *traceRun) checkEnd() error {
	want := EncodeState(r.state)
	for i, b := range r.bytes {
		if !bytes.Equal(EncodeState(r.states[i]), b) {
			return fmt.Errorf("the state after input %d has changed since", i)
		}
		s, err := Replay(attend.Record{Snapshot: b, Tail: r.inputs[i+1:]})
		if err != nil || !bytes.Equal(EncodeState(s), want) {
			return fmt.Errorf("a snapshot after input %d, and its tail, give another state, %v", i, err)
		}
	}
	return nil
}
