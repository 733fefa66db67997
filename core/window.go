package attend

import "time"

// A Reason says why a window settled.
type Reason string

// In the order of rule E4: where several have come, the first of forced to
// size, and else the earliest of age, closing, continuous and passive.
const (
	ReasonForced     Reason = "forced"     // Flush was called
	ReasonFlush      Reason = "flush"      // it holds an event of kind flush
	ReasonHorizon    Reason = "horizon"    // it was held for WaitHorizon
	ReasonOverflow   Reason = "overflow"   // it holds more than MaxEvents events
	ReasonSize       Reason = "size"       // it reached MaxWindowBytes
	ReasonAge        Reason = "age"        // its first act is MaxWindow old
	ReasonClosing    Reason = "closing"    // ClosingGrace passed after the last closing event, or End was called
	ReasonContinuous Reason = "continuous" // no continuous event came for StreamGap
	ReasonPassive    Reason = "passive"    // PassiveQuiet passed after the last passive event
)

// Reasons lists the nine reasons in the order of rule E4.
func Reasons() []Reason {
	return []Reason{
		ReasonForced, ReasonFlush, ReasonHorizon, ReasonOverflow, ReasonSize,
		ReasonAge, ReasonClosing, ReasonContinuous, ReasonPassive,
	}
}

// MayWait reports whether the judge may answer wait to a window that settled
// for this reason.
func (r Reason) MayWait() bool {
	switch r {
	case ReasonAge, ReasonClosing, ReasonContinuous, ReasonPassive:
		return true
	default:
		return false
	}
}

// A Window is the events of one scope that piled up until they settled. Its
// events are in the order they were taken in. Whoever is given a window must
// not change its events: they may be shared.
type Window struct {
	Scope   Scope
	Events  []Event
	Reason  Reason    // empty while it is open
	Opened  time.Time // its first event was taken in; merged windows opened with the first
	Settled time.Time // zero while it is open
	Waits   int       // how often it was judged wait
	Dropped int       // events that were dropped from it
	Gap     bool      // a source lost events before or inside it
}
