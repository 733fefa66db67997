package machine

import (
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The tag of each input, for ever.
const (
	tagConfigure = iota + 1
	tagArrive
	tagFlush
	tagEnd
	tagTick
	tagClaim
	tagJudged
	tagFailed
	tagDone
	tagGiveBack
	tagForget
)

// EncodeInput returns an input as bytes that [DecodeInput] reads. Its time is
// kept in whole milliseconds.
func EncodeInput(in Input) []byte { return AppendInput(nil, in) }

// AppendInput is [EncodeInput] behind what b holds.
func AppendInput(b []byte, in Input) []byte {
	e := newEncoder(b, inputSize(in))
	switch in := in.(type) {
	case Configure:
		e.head(tagConfigure, in.At)
		e.str(string(in.Scope))
		e.b = append(e.b, in.Seed[:]...)
		e.policy(in.Policy)
	case Arrive:
		e.arrive(in)
	case Flush:
		e.head(tagFlush, in.At)
		e.writer(in.Writer, in.Number)
	case End:
		e.head(tagEnd, in.At)
		e.writer(in.Writer, in.Number)
	case Tick:
		e.head(tagTick, in.At)
	case Claim:
		e.head(tagClaim, in.At)
		e.byte(byte(in.Lane))
		e.uint(in.Num)
		e.fixed(in.Owner)
		e.moment(moment(in.Until))
	case Judged:
		if why := wrong(in.Judgment, attend.AllRoutes()); why != "" {
			// No state takes it for more than a failed attempt, and not every
			// part of it has a form.
			return AppendInput(b, Failed{At: in.At, Lane: LaneJudge, Num: in.Num, Attempt: in.Attempt, Message: why})
		}
		e.head(tagJudged, in.At)
		e.uint(in.Num)
		e.uint(in.Attempt)
		e.judgment(in.Judgment)
	case Failed:
		e.head(tagFailed, in.At)
		e.byte(byte(in.Lane))
		e.uint(in.Num)
		e.uint(in.Attempt)
		e.str(message(in.Message))
		e.flag(in.Permanent)
		e.flag(in.Account)
		e.duration(min(max(in.RetryAfter, 0), maxDuration))
	case Done:
		e.head(tagDone, in.At)
		e.byte(byte(in.Lane))
		e.uint(in.Num)
	case GiveBack:
		e.head(tagGiveBack, in.At)
		e.byte(byte(in.Lane))
		e.uint(in.Num)
		e.uint(in.Attempt)
	case Forget:
		e.head(tagForget, in.At)
	}
	return e.b
}

func (e *encoder) head(tag byte, at time.Time) {
	e.byte(tag)
	e.moment(moment(at))
}

func (e *encoder) writer(id, number uint64) {
	e.fixed(id)
	e.uint(number)
}

// inputSize is about how many bytes an input takes, and rarely less.
func inputSize(in Input) int {
	a, ok := in.(Arrive)
	if !ok {
		return 96
	}
	size := 48 + len(a.Source) + len(a.After) + len(a.Cursor)
	for i := range a.Events {
		e := &a.Events[i]
		size += 24 + len(e.ID) + len(e.Name) + len(e.Data) + len(e.Text)
	}
	return size
}

func (e *encoder) arrive(in Arrive) {
	e.head(tagArrive, in.At)
	e.writer(in.Writer, in.Number)
	e.str(in.Source)
	e.str(string(in.After))
	e.str(string(in.Cursor))
	e.flag(in.Gap)
	base := moment(in.At)
	e.count(len(in.Events))
	for i := range in.Events {
		e.event(&in.Events[i], base)
	}
	e.count(len(in.Rejected))
	for i := range in.Rejected {
		e.event(&in.Rejected[i].Event, base)
		e.str(message(in.Rejected[i].Message))
	}
}

// DecodeInput reads what [EncodeInput] wrote. It keeps nothing of b. An error
// is attend.ErrNewer or attend.ErrCorrupt.
func DecodeInput(b []byte) (Input, error) {
	d := newDecoder(b, "input")
	tag, m := d.byte(), d.moment()
	at := m.time()
	var in Input
	switch tag {
	case tagConfigure:
		c := Configure{At: at, Scope: attend.Scope(d.str())}
		copy(c.Seed[:], d.take(len(c.Seed)))
		c.Policy = d.policy()
		if d.err == nil && c.Policy.Check() != nil {
			d.fail("bad policy")
		}
		in = c
	case tagArrive:
		in = d.arrive(at)
	case tagFlush:
		in = Flush{at, d.fixed(), d.uint()}
	case tagEnd:
		in = End{at, d.fixed(), d.uint()}
	case tagTick:
		in = Tick{at}
	case tagClaim:
		in = Claim{at, d.lane8(), d.uint(), d.fixed(), d.moment().time()}
	case tagJudged:
		in = Judged{at, d.uint(), d.uint(), d.answer()}
	case tagFailed:
		in = Failed{at, d.lane8(), d.uint(), d.uint(), d.str(), d.flag(), d.flag(), d.duration()}
	case tagDone:
		in = Done{at, d.lane8(), d.uint()}
	case tagGiveBack:
		in = GiveBack{at, d.lane8(), d.uint(), d.uint()}
	case tagForget:
		in = Forget{at}
	default:
		d.fail("no such input")
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return in, nil
}

func (d *decoder) lane8() Lane {
	l := Lane(d.byte())
	if l > LaneLetter {
		d.fail("no such lane")
	}
	return l
}

func (d *decoder) arrive(at time.Time) Arrive {
	in := Arrive{At: at, Writer: d.fixed(), Number: d.uint(), Source: d.str()}
	in.After, in.Cursor = attend.Cursor(d.str()), attend.Cursor(d.str())
	in.Gap = d.flag()
	base := moment(at)
	if n := d.count(6); n > 0 {
		in.Events = make([]attend.Event, 0, n)
		for range n {
			in.Events = append(in.Events, d.event(base))
		}
	}
	for range d.count(7) {
		in.Rejected = append(in.Rejected, Rejected{Event: d.event(base), Message: d.str()})
	}
	return in
}

// Replay returns the state that a record holds: its snapshot, and then its
// tail. The zero Record gives the zero State. An error is attend.ErrNewer or
// attend.ErrCorrupt, and names the scope's input that it is about.
func Replay(r attend.Record) (State, error) {
	s, err := DecodeState(r.Snapshot)
	if err != nil {
		return State{}, err
	}
	for i, b := range r.Tail {
		in, err := DecodeInput(b)
		if err != nil {
			return State{}, fmt.Errorf("machine: input %d of the tail: %w", i, err)
		}
		s, _ = Step(s, in)
	}
	return s, nil
}
