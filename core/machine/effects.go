package machine

import (
	"time"

	attend "github.com/attend-go/attend/core"
)

// Effects is what a step asks for, in the order in which it must happen.
type Effects struct {
	// Changed says whether the input changed anything. If not, nothing is to be
	// written, and the fields down to Letter mean nothing.
	Changed bool

	// In the same commit as the input:

	Rows    []attend.Row // appended to the log
	Drops   []Drop       // what those of Rows say that tell of dropped events
	Due     time.Time    // the due time to store, if MoveDue
	MoveDue bool         // else the stored one stays (E46)
	Forget  bool         // the scope ends with this write

	// Only after the commit; at most one is set, and by a Claim alone:

	Call     *Call     // ask the judge
	Delivery *Delivery // call the sink
	Letter   *Letter   // call the dead-letter handler

	// What became of the input, whether it changed anything or not:

	Fresh   int           // events taken in
	Repeats []int         // places of events that the scope had seen
	Refused bool          // a lane or the backlog is full (E26); nothing was taken
	Batch   BatchOutcome  // of a source's batch
	Place   attend.Cursor // where the scope is, for Elsewhere

	Traces []attend.Trace // for an observer; never stored
}

// A Drop is a row that tells of dropped events, and what it says: of the inputs
// that one write brings, the rows of one cause can be made one (E41).
type Drop struct {
	Row  int // its place in Effects.Rows
	Mark attend.Mark
}

// Merge returns the row that tells of what all of a list's marks do. They are of
// one scope and one cause, in the order in which it happened.
func Merge(scope attend.Scope, drops []attend.Mark) attend.Row {
	m := drops[len(drops)-1]
	m.Events = nil
	for _, d := range drops {
		m.Events = append(m.Events, d.Events...)
	}
	return row(scope, attend.RowVerdict, "", m.At, m)
}

// A BatchOutcome says what became of a source's batch (E33).
type BatchOutcome uint8

const (
	Taken     BatchOutcome = iota // now, or by an earlier try
	Gone                          // the scope holds no cursor any more
	Elsewhere                     // somebody else moved the cursor; go on from there
)

// A Call is a window for the judge, under a lease.
type Call struct {
	Num, Attempt uint64
	Until        time.Time // when the lease ends; zero where there is none
	Window       attend.Window
	Routes       []attend.Route // on offer
	Recent       []attend.Verdict
}

// A Delivery is a decision for the sink, under a lease.
type Delivery struct {
	Num, Attempt uint64
	Until        time.Time
	Decision     attend.Decision
}

// A Letter is a dead letter for its handler, under a lease.
type Letter struct {
	Num, Attempt uint64
	Until        time.Time
	Letter       attend.DeadLetter
}
