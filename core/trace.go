package attend

import "time"

// A Trace is one step that an observer sees: one of the types below. It holds
// ids and numbers, no data of an event. Each is sent once its write has
// committed, from the goroutine that did the work. Traces of one scope come in
// order.
type Trace interface{ trace() }

type (
	// TakenIn: events joined the open window.
	TakenIn struct {
		Scope  Scope
		At     time.Time
		Events []EventRef
	}
	// Duplicate: events that the scope has seen.
	Duplicate struct {
		Scope  Scope
		At     time.Time
		Events []EventRef
	}
	// Shed: events were dropped.
	Shed struct {
		Scope  Scope
		At     time.Time
		Why    Why
		Events []EventRef
	}
	// Settled: a window closed and went to the judge.
	Settled struct {
		Scope  Scope
		At     time.Time
		ID     DecisionID
		Reason Reason
		Events int
		Waits  int
	}
	// Judged: the judge answered; Route is what became of it.
	Judged struct {
		Scope   Scope
		Verdict Verdict
	}
	// Thresholded: the act threshold changed the route.
	Thresholded struct {
		Scope    Scope
		At       time.Time
		ID       DecisionID
		From, To Route
	}
	// Retried: an attempt failed and another follows.
	Retried struct {
		Scope   Scope
		At      time.Time
		ID      DecisionID
		Stage   Stage // the lane: judge, sink, or that of the letter's handler, which is empty
		Failed  int   // attempts so far
		Next    time.Time
		Account bool // the judge's account is at fault; not an attempt
		Message string
	}
	// Delivered: the sink took the decision.
	Delivered struct {
		Scope    Scope
		At       time.Time
		ID       DecisionID
		Route    Route
		Attempts int
	}
	// DeadLettered: nobody could take it.
	DeadLettered struct {
		Scope    Scope
		At       time.Time
		ID       DecisionID
		Stage    Stage
		Attempts int
		Message  string
	}
	// Conflict: another process wrote the scope first; the input is applied
	// again.
	Conflict struct {
		Scope  Scope
		At     time.Time
		Losses int // in a row
	}
	// CaptureFailed: Facts or Capture failed or took too long; the judge was
	// asked without.
	CaptureFailed struct {
		Scope Scope
		At    time.Time
		What  string // "facts" or "capture"
		Err   error
	}
	// Swept: a sweep went through the overdue scopes.
	Swept struct {
		At     time.Time
		Scopes int // that were overdue
		Failed int // that could not be worked
	}
)

func (TakenIn) trace()       {}
func (Duplicate) trace()     {}
func (Shed) trace()          {}
func (Settled) trace()       {}
func (Judged) trace()        {}
func (Thresholded) trace()   {}
func (Retried) trace()       {}
func (Delivered) trace()     {}
func (DeadLettered) trace()  {}
func (Conflict) trace()      {}
func (CaptureFailed) trace() {}
func (Swept) trace()         {}
