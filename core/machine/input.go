package machine

import (
	"time"

	attend "github.com/attend-go/attend/core"
)

// An Input is one of the types below. Each carries the time it happened, At;
// one that is older than the scope's last input counts as happening with it.
// A state holds on to the policy and the maps of an input, and nobody may change
// them; of events it keeps copies.
//
// Writer and Number make idempotent what nothing else does (E29): an engine's
// random id, and a number that grows with each of its inputs. Writer 0 is
// nobody; such an input lands each time it is applied.
type Input interface{ at() time.Time }

type (
	// Configure sets the policy. The first input of a scope's life is one; it
	// alone needs Scope and Seed.
	Configure struct {
		At     time.Time
		Scope  attend.Scope
		Seed   Seed
		Policy *Policy // as Policy.Check accepts it; never changed afterwards
	}

	// Arrive brings events: a push, or a source's batch.
	Arrive struct {
		At             time.Time
		Writer, Number uint64
		Events         []attend.Event // clean, with their kinds
		Rejected       []Rejected     // of a batch; they become dead letters
		Source         string         // the source's key; empty for a push
		After, Cursor  attend.Cursor  // of the batch; both empty for a source that can't resume
		Gap            bool
	}

	// Flush settles what is there, with reason forced.
	Flush struct {
		At             time.Time
		Writer, Number uint64
	}

	// End settles what is there, with reason closing.
	End struct {
		At             time.Time
		Writer, Number uint64
	}

	// Tick says what time it is.
	Tick struct{ At time.Time }

	// Claim leases a piece of work to an engine. A lease that has run out is a
	// failed attempt.
	Claim struct {
		At    time.Time
		Lane  Lane
		Num   uint64 // as State.Work named it
		Owner uint64 // the engine's id
		Until time.Time
	}

	// Judged is a judge's answer for a window.
	Judged struct {
		At           time.Time
		Num, Attempt uint64
		Judgment     attend.Judgment
	}

	// Failed says that an attempt failed.
	Failed struct {
		At           time.Time
		Lane         Lane
		Num, Attempt uint64
		Message      string
		Permanent    bool
		Account      bool          // the judge's account is at fault
		RetryAfter   time.Duration // 0: the error named none
	}

	// Done says that the sink took the decision, or the handler the letter.
	Done struct {
		At   time.Time
		Lane Lane
		Num  uint64
	}

	// GiveBack ends a lease whose attempt did not count.
	GiveBack struct {
		At           time.Time
		Lane         Lane
		Num, Attempt uint64
	}

	// Forget ends the scope's life, if it was idle for long enough.
	Forget struct{ At time.Time }
)

// A Seed is random: the key of the seen ids, and where the scope's numbers
// start.
type Seed [24]byte

// A Lane is where a piece of work waits.
type Lane uint8

const (
	LaneJudge    Lane = iota // the settled window
	LaneDecision             // decisions for the sink
	LaneLetter               // dead letters for their handler
)

// A Rejected is an event of a batch that can't be taken in.
type Rejected struct {
	Event   attend.Event // as far as it can be kept; its id, name, text and data valid
	Message string
}

func (in Configure) at() time.Time { return in.At }
func (in Arrive) at() time.Time    { return in.At }
func (in Flush) at() time.Time     { return in.At }
func (in End) at() time.Time       { return in.At }
func (in Tick) at() time.Time      { return in.At }
func (in Claim) at() time.Time     { return in.At }
func (in Judged) at() time.Time    { return in.At }
func (in Failed) at() time.Time    { return in.At }
func (in Done) at() time.Time      { return in.At }
func (in GiveBack) at() time.Time  { return in.At }
func (in Forget) at() time.Time    { return in.At }

// At is the time that an input happened.
func At(in Input) time.Time { return in.at() }

// Stamp returns an input as one that happened at a time.
func Stamp(in Input, at time.Time) Input {
	switch in := in.(type) {
	case Configure:
		in.At = at
		return in
	case Arrive:
		in.At = at
		return in
	case Flush:
		in.At = at
		return in
	case End:
		in.At = at
		return in
	case Tick:
		in.At = at
		return in
	case Claim:
		in.At = at
		return in
	case Judged:
		in.At = at
		return in
	case Failed:
		in.At = at
		return in
	case Done:
		in.At = at
		return in
	case GiveBack:
		in.At = at
		return in
	case Forget:
		in.At = at
		return in
	}
	return nil
}
