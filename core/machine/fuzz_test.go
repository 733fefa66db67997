package machine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// FuzzStep steps through arbitrary sessions, hostile ones among them, and
// checks what holds for every one: Step is total, pure and idempotent, a
// snapshot with the tail behind it is the state, and the stored due time is
// never late.
func FuzzStep(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(fuzzBytes(seed, 300))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := fuzzSession(b); err != nil {
			t.Fatal(err)
		}
	})
}

// TestStepSessions is FuzzStep on sessions that are the same each time, and
// prints the shortest that fails.
func TestStepSessions(t *testing.T) {
	sessions := uint64(1000)
	if testing.Short() {
		sessions = 200
	}
	for seed := range sessions {
		b := fuzzBytes(seed, 100+int(seed%8)*100)
		if err := fuzzSession(b); err != nil {
			b = fuzzShrink(b, func(b []byte) bool { return fuzzSession(b) != nil })
			t.Fatalf("seed %d: %v", seed, fuzzSession(b))
		}
	}
}

// fuzzBytes is a session at random, half of them hostile.
func fuzzBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[0] = byte(seed)
	return b
}

// fuzzShrink returns the shortest bytes it finds that still fail.
func fuzzShrink(b []byte, fails func([]byte) bool) []byte {
	for size := len(b) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(b); {
			if c := slices.Concat(b[:at], b[at+size:]); fails(c) {
				b = c
			} else {
				at += max(1, size/2)
			}
		}
	}
	for i := range b {
		if c := slices.Clone(b); b[i] != 0 {
			if c[i] = 0; fails(c) {
				b = c
			}
		}
	}
	return b
}

// A fuzzRun is a session under way.
type fuzzRun struct {
	s      State
	stored ms // the due time that the store has
	states []State
	bytes  [][]byte // of states, as they were
	inputs []Input  // those that changed something; inputs[i] leads to states[i+1]
}

func fuzzSession(b []byte) (err error) {
	g := newModelGen(b)
	g.hostile = g.n(2) == 1
	r := &fuzzRun{states: []State{{}}, bytes: [][]byte{nil}}
	defer func() {
		if v := recover(); v != nil {
			buf := make([]byte, 4<<10)
			err = fmt.Errorf("panic: %v\n%s\n%s", v, buf[:runtime.Stack(buf, false)], fuzzStory(g.sent))
		}
	}()
	for n := 0; g.more() && n < 400; n++ {
		if err := r.step(g.next(r.s)); err != nil {
			return fmt.Errorf("%w\n%s", err, fuzzStory(g.sent))
		}
	}
	if err := r.end(g); err != nil {
		return fmt.Errorf("%w\n%s", err, fuzzStory(g.sent))
	}
	return nil
}

// fuzzStory is a session as a list to read; times are milliseconds since its
// start.
func fuzzStory(inputs []Input) string {
	var b strings.Builder
	for i, in := range inputs {
		fmt.Fprintf(&b, "%3d %6dms %s\n", i, in.at().UnixMilli()-modelStart, fuzzInput(in))
	}
	return b.String()
}

func fuzzInput(in Input) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", in), "machine.")
	switch in := in.(type) {
	case Configure:
		if in.Policy == nil {
			return kind + " nothing"
		}
		return fmt.Sprintf("%s %q %+v", kind, in.Scope, *in.Policy)
	case Arrive:
		s := fmt.Sprintf("%s writer %d:%d", kind, in.Writer, in.Number)
		if in.Source != "" || in.After != in.Cursor {
			s += fmt.Sprintf(" source %q %q to %q", in.Source, in.After, in.Cursor)
		}
		if in.Gap {
			s += " gap"
		}
		for _, e := range in.Events {
			s += fmt.Sprintf(" %s:%s:%d", e.ID, e.Kind, e.Size())
		}
		for _, r := range in.Rejected {
			s += fmt.Sprintf(" rejected %s", r.Event.ID)
		}
		return s
	case Claim:
		return fmt.Sprintf("%s lane %d num %d owner %d until %dms", kind, in.Lane, in.Num, in.Owner, in.Until.UnixMilli()-modelStart)
	case Tick, Forget:
		return kind
	}
	s := fmt.Sprintf("%s%+v", kind, in)
	if len(s) > 300 {
		s = s[:300]
	}
	return s
}

func (r *fuzzRun) step(in Input) error {
	before := EncodeState(r.s)
	next, fx := Step(r.s, in)
	if !bytes.Equal(EncodeState(r.s), before) {
		return errors.New("Step changed its argument")
	}
	again, fx2 := Step(r.s, in)
	if err := fuzzSame(next, again); err != nil {
		return fmt.Errorf("stepped twice from one state: %w", err)
	}
	if !reflect.DeepEqual(fx, fx2) {
		return fmt.Errorf("effects of the same step: %+v, and then %+v", fx, fx2)
	}
	after := EncodeState(next)
	if !fx.Changed && !bytes.Equal(after, before) {
		return errors.New("the state changed without Changed")
	}
	if next.scope != "" && r.s.scope != "" && next.now < r.s.now {
		return fmt.Errorf("time went back from %d to %d", r.s.now, next.now)
	}
	if err := fuzzHolds(next); err != nil {
		return err
	}
	if fuzzIdempotent(in) {
		twice, fx2 := Step(next, in)
		if fx2.Changed || !bytes.Equal(EncodeState(twice), after) {
			return errors.New("applied twice the input changed something the second time")
		}
		if fx2.Fresh != 0 || fx2.Refused && !fx.Refused {
			return fmt.Errorf("applied twice: fresh %d, refused %v", fx2.Fresh, fx2.Refused)
		}
	}
	if err := r.due(next, fx); err != nil {
		return err
	}
	if fx.Changed {
		r.inputs = append(r.inputs, in)
		r.states = append(r.states, next)
		r.bytes = append(r.bytes, after)
	}
	r.s = next
	return nil
}

// fuzzIdempotent reports whether something makes the input idempotent.
func fuzzIdempotent(in Input) bool {
	switch in := in.(type) {
	case Arrive:
		return in.Writer != 0
	case Flush:
		return in.Writer != 0
	case End:
		return in.Writer != 0
	}
	return true
}

// due follows the due time that the effects tell a store to keep: a lower
// bound, and none only where the scope wants none.
func (r *fuzzRun) due(next State, fx Effects) error {
	switch {
	case fx.Forget:
		r.stored = 0
		if next.scope != "" {
			return errors.New("forgotten, and there is a state")
		}
	case fx.Changed && fx.MoveDue:
		r.stored = moment(fx.Due)
	}
	if next.scope != "" && next.stored != r.stored {
		return fmt.Errorf("the state has %d as the stored due time, the store has %d", next.stored, r.stored)
	}
	if due := next.due(); due != 0 && (r.stored == 0 || r.stored > due) {
		return fmt.Errorf("due %d, the store has %d", due, r.stored)
	}
	return nil
}

// end looks at the whole session once more.
func (r *fuzzRun) end(g *modelGen) error {
	// Branches that leave from an old state must not reach another's memory:
	// the same thing later, which writes to the same places, and other things.
	for i := range r.states[:len(r.states)-1] {
		for _, in := range []Input{fuzzLater(r.inputs[i]), r.inputs[(i*7+3)%len(r.inputs)]} {
			other, _ := Step(r.states[i], in)
			Step(other, r.inputs[(i*5+1)%len(r.inputs)])
			if !bytes.Equal(EncodeState(r.states[i+1]), r.bytes[i+1]) {
				return fmt.Errorf("state %d changed when another left from the one before it by %s", i+1, fuzzInput(in))
			}
		}
		again, _ := Step(r.states[i], r.inputs[i])
		if !bytes.Equal(EncodeState(again), r.bytes[i+1]) {
			return fmt.Errorf("state %d, stepped again after another branch, is another", i+1)
		}
	}
	for i, s := range r.states {
		if !bytes.Equal(EncodeState(s), r.bytes[i]) {
			return fmt.Errorf("state %d changed after it was made", i)
		}
		if err := fuzzHolds(s); err != nil {
			return fmt.Errorf("state %d, after it was made: %w", i, err)
		}
	}
	return r.replay()
}

// fuzzLater is the input as it would be a second later.
func fuzzLater(in Input) Input {
	switch x := in.(type) {
	case Claim:
		x.Owner++
		in = x
	case Failed:
		x.Message += " later"
		in = x
	default:
	}
	return Stamp(in, in.at().Add(time.Second))
}

// replay cuts the session at several places: the snapshot and the tail behind
// it must give the state that was reached, in every part.
func (r *fuzzRun) replay() error {
	last := len(r.states) - 1
	if slices.ContainsFunc(r.inputs, func(in Input) bool { return !fuzzWritable(in) }) {
		return nil
	}
	for cut := 0; cut <= last; cut += 1 + last/5 {
		record := attend.Record{Snapshot: r.bytes[cut]}
		for _, in := range r.inputs[cut:] {
			record.Tail = append(record.Tail, EncodeInput(in))
		}
		s, err := Replay(record)
		if err != nil {
			return fmt.Errorf("replay from cut %d of %d: %w", cut, last, err)
		}
		if err := fuzzSame(s, r.states[last]); err != nil {
			return fmt.Errorf("replay from cut %d of %d: %w", cut, last, err)
		}
		if err := fuzzHolds(s); err != nil {
			return fmt.Errorf("replay from cut %d of %d: %w", cut, last, err)
		}
	}
	return nil
}

// fuzzWritable reports whether an engine may write the input: valid settings, a
// lane that there is, times that a clock shows. What a judge answers and what a
// source brings is not for an engine to choose.
func fuzzWritable(in Input) bool {
	sane := func(t time.Time) bool { return moment(t) < farthest/2 && moment(t) > -farthest/2 }
	lane := LaneJudge
	switch in := in.(type) {
	case Configure:
		return sane(in.At) && in.Policy != nil && in.Policy.Check() == nil && in.Scope.Check() == nil
	case Arrive:
		for _, e := range in.Events {
			if !sane(e.At) {
				return false
			}
		}
		for _, r := range in.Rejected {
			if !sane(r.Event.At) {
				return false
			}
		}
	case Claim:
		if lane = in.Lane; !sane(in.Until) {
			return false
		}
	case Failed:
		lane = in.Lane
	case Done:
		lane = in.Lane
	case GiveBack:
		lane = in.Lane
	}
	return sane(in.at()) && lane <= LaneLetter
}

// fuzzSame says where two states differ, or nothing.
func fuzzSame(a, b State) error {
	if bytes.Equal(EncodeState(a), EncodeState(b)) {
		return nil
	}
	return fmt.Errorf("two states:\n%s\n%s", modelStateView(a), modelStateView(b))
}

// fuzzHolds says what breaks the list in State's comment, or nothing.
func fuzzHolds(s State) error {
	if s.scope == "" {
		return nil
	}
	if s.slot != nil && s.held != nil {
		return errors.New("both a held window and one in the slot")
	}
	if s.waiting() > s.policy.MaxEvents {
		if s.open.rest.n > 0 || s.held != nil && s.held.rest.n > 0 {
			return errors.New("over MaxEvents with something to drop")
		}
		if s.slot == nil {
			return errors.New("over MaxEvents with a free slot")
		}
	}
	if d := s.ripe(); s.slot == nil && d != 0 && d <= s.now {
		return fmt.Errorf("due since %d with a free slot, now %d", d, s.now)
	}
	if s.slot == nil && (s.open.forced != 0 || s.open.ended != 0) {
		return errors.New("a flush or an end is remembered with a free slot")
	}
	if err := fuzzPile(&s.open); err != nil {
		return fmt.Errorf("open window: %w", err)
	}
	if s.held != nil {
		if err := fuzzPile(&s.held.pile); err != nil {
			return fmt.Errorf("held window: %w", err)
		}
	}
	for k := range s.seen {
		if all := slices.Collect(s.seen[k].all()); len(all) != s.seen[k].n || len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
			return fmt.Errorf("memory %d holds %d ids and says %d, or one twice", k, len(all), s.seen[k].n)
		}
	}
	return fuzzNumbers(s)
}

func fuzzPile(p *pile) error {
	n, contexts, size, last := 0, 0, 0, -1
	for _, e := range p.appendTo(nil) {
		if int(e.order) <= last {
			return errors.New("events out of order")
		}
		last = int(e.order)
		n++
		size += int(e.size)
		if e.role() == attend.KindContext {
			contexts++
		}
		if !p.ids.has(e.hash) {
			return fmt.Errorf("the id of %q is missing", e.id())
		}
	}
	if n != p.len() || n != p.ids.n || contexts != p.contexts || size != p.bytes {
		return fmt.Errorf("%d events of %d bytes, %d of them context; it counts %d, %d bytes, %d, and %d ids",
			n, size, contexts, p.len(), p.bytes, p.contexts, p.ids.n)
	}
	return nil
}

// fuzzNumbers checks the numbers of work, and what the lanes count.
func fuzzNumbers(s State) error {
	var nums []uint64
	if s.slot != nil {
		nums = append(nums, s.slot.num, s.slot.lease.attempt)
	}
	for _, l := range [...]lane{s.decisions, s.letters} {
		size := 0
		for _, j := range l.jobs {
			nums = append(nums, j.num, j.lease.attempt)
			size += j.bytes()
		}
		if size != l.bytes {
			return fmt.Errorf("a lane of %d bytes counts %d", size, l.bytes)
		}
	}
	slices.Sort(nums)
	for i, n := range nums {
		if n >= s.serial {
			return fmt.Errorf("number %d is not below %d", n, s.serial)
		}
		if n != 0 && i > 0 && nums[i-1] == n {
			return fmt.Errorf("number %d twice", n)
		}
	}
	return nil
}
