package attend

import (
	"context"
	"encoding/json"
	"time"
)

// A Judge picks the route that a settled window takes.
//
// Judge is called from many goroutines at once, one call a scope. It must
// return soon after ctx ends; an answer that comes later may still count. It
// must not change what it is given, nor keep it. An error is a failed attempt
// and tried again, unless it is a [*PermanentError]; an error that carries a
// [*RetryAfterError] is tried again no sooner than that. The text of an error
// is kept with a dead letter, so it must hold no key and no event text.
type Judge interface {
	Judge(ctx context.Context, in JudgeInput) (Judgment, error)
}

// A JudgeFunc is a function as a [Judge].
type JudgeFunc func(ctx context.Context, in JudgeInput) (Judgment, error)

// Judge calls f.
func (f JudgeFunc) Judge(ctx context.Context, in JudgeInput) (Judgment, error) { return f(ctx, in) }

// A PureJudge is a [Judge] that answers in process, at once, always the same
// for the same input, and without any effect. It is asked inside the commit of
// the input that settled the window (rule E45).
type PureJudge interface {
	Judge
	// Pure does nothing; having it is the promise.
	Pure()
}

// RuleJudge interrupts for a window that somebody spoke in (reasons flush and
// forced) and queues everything else. It needs no network and is a
// [PureJudge].
var RuleJudge PureJudge = ruleJudge{}

type ruleJudge struct{}

func (ruleJudge) Pure() {}

func (ruleJudge) Judge(_ context.Context, in JudgeInput) (Judgment, error) {
	if in.Window.Reason == ReasonFlush || in.Window.Reason == ReasonForced {
		return Judgment{Route: RouteInterrupt}, nil
	}
	return Judgment{Route: RouteQueue}, nil
}

// A JudgeInput is all that a judge is told.
type JudgeInput struct {
	Window     Window
	Routes     []Route           // on offer; another answer is a failed attempt
	Criteria   map[Route]string  // when to take each route on offer
	Guidance   string            // what the app's author adds; may be empty
	Predicates map[string]string // name to yes-or-no question; may be nil
	Facts      json.RawMessage   // live facts about the scope; nil where there are none
	Images     []Image           // may be nil
	Recent     []Verdict         // the scope's last verdicts, newest last
}

// An Image shows a judge what cannot be said in text.
type Image struct {
	Type string // media type, such as "image/png"
	Data []byte
}

// A Judgment is a judge's answer. Every probability lies in [0,1]; an answer
// that breaks this, or names a route that was not offered, is a failed attempt.
type Judgment struct {
	Route         Route
	Probabilities map[Route]float64  // of each route; nil where the judge has none
	Predicates    map[string]float64 // name to probability of yes; nil where it was asked none
	Confidence    float64            // in the route, in [0,1]; 0 where the judge has none
}

// A Verdict is one judgment as its scope remembers it, after the act
// threshold.
type Verdict struct {
	ID     DecisionID // of the window's events; a window that waited has the same id again only if nothing joined
	At     time.Time
	Reason Reason
	Events int // in the window
	Judgment
}

// A Budgeter is a [Judge] that says how much it can read.
type Budgeter interface {
	Budget() Budget
}

// A Budget is what a judge can read in one call.
type Budget struct {
	ContextTokens int // in all; zero: no budget is known
	// ReservedTokens is how many of them are for everything but the window.
	// Zero: 4,096, but at most half; negative: none.
	ReservedTokens int
	BytesPerToken  float64 // zero: 3
}

// WindowBytes is the share of the budget that a window may fill, in bytes, and
// zero where there is no budget (rule E20).
func (b Budget) WindowBytes(share float64) int {
	if b.ContextTokens <= 0 {
		return 0
	}
	per, reserved := b.BytesPerToken, b.ReservedTokens
	if per <= 0 {
		per = 3
	}
	if reserved == 0 {
		reserved = min(4096, b.ContextTokens/2)
	}
	return max(int(float64(b.ContextTokens-max(reserved, 0))*share*per), 1)
}
