package attend

import "time"

// A Step says what a [Mark] tells.
type Step string

const (
	StepSkipped   Step = "skipped"   // the judge let the window go
	StepWaited    Step = "waited"    // the judge holds it
	StepChanged   Step = "changed"   // the act threshold changed the route, From is the judge's own
	StepDropped   Step = "dropped"   // events left a window undecided, Why says why
	StepDelivered Step = "delivered" // the sink took the decision
	StepTaken     Step = "taken"     // the handler took the dead letter
)

// A Why says why events were dropped.
type Why string

const (
	WhyCount   Why = "count"   // more than MaxEvents, the oldest without an act go
	WhySize    Why = "size"    // a window without an act reached MaxWindowBytes
	WhyStale   Why = "stale"   // waited longer than MaxWindow for an act
	WhyExpired Why = "expired" // the scope was idle for IdleExpiry
)

// A Mark tells what happened to a window or to events that did not become a
// decision, or after they did (rule E41). Marks are log rows of type
// [RowVerdict]: ids, and no data of an event.
type Mark struct {
	Step     Step
	At       time.Time
	ID       DecisionID // of the window, decision or letter; empty for dropped events
	Stage    Stage      // of the letter taken
	Reason   Reason     // why the window settled
	From     Route      // the judge's own route, where it was changed
	Why      Why        // for dropped events
	Attempts int        // it took, the last one included; for delivered and taken
	Events   []EventRef // of the window, or those dropped; nil for delivered and taken
	Judgment            // of the window, after the act threshold
}

// An EventRef is an event's identity in its scope.
type EventRef struct {
	Source string
	ID     string
}
