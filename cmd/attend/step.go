package main

import (
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The steps that a replay prints.
const (
	stepSettle   = "settle"   // a window closed and goes to the judge
	stepVerdict  = "verdict"  // the judge answered
	stepChange   = "change"   // the act threshold changed the route
	stepDecision = "decision" // a verdict left attend
	stepRetry    = "retry"    // the judge failed and is asked again
	stepDrop     = "drop"     // events were dropped
	stepLetter   = "letter"   // a window became a dead letter
	stepTable    = "table"    // the last line of JSON
)

// A step is one line of a replay, and its JSON form. What a step does not have
// is left out.
type step struct {
	Step    string            `json:"step"`
	At      int64             `json:"at"`      // Unix milliseconds, on the recording's clock
	SinceMs int64             `json:"sinceMs"` // since the recording began
	Scope   attend.Scope      `json:"scope"`
	ID      attend.DecisionID `json:"id,omitempty"`

	Reason attend.Reason `json:"reason,omitempty"`
	Route  attend.Route  `json:"route,omitempty"`
	From   attend.Route  `json:"from,omitempty"` // the judge's own route
	Stage  attend.Stage  `json:"stage,omitempty"`
	Why    attend.Why    `json:"why,omitempty"` // events were dropped

	Events int      `json:"events,omitempty"` // how many
	IDs    []string `json:"ids,omitempty"`    // of the events that were dropped
	Waits  int      `json:"waits,omitempty"`  // verdicts to wait so far

	Probabilities map[attend.Route]float64 `json:"probabilities,omitempty"`
	Predicates    map[string]float64       `json:"predicates,omitempty"`
	Confidence    float64                  `json:"confidence,omitempty"`

	Failed  int    `json:"failed,omitempty"` // attempts
	NextAt  int64  `json:"nextAt,omitempty"` // of the next attempt, in Unix milliseconds
	Account bool   `json:"account,omitempty"`
	Message string `json:"message,omitempty"`

	Notice   string             `json:"notice,omitempty"` // what the agent reads
	Decision *attend.Decision   `json:"decision,omitempty"`
	Letter   *attend.DeadLetter `json:"letter,omitempty"`
}

// stepOf is the step that a trace shows, and false for one that no line is for.
func stepOf(t attend.Trace) (step, time.Time, bool) {
	switch t := t.(type) {
	case attend.Settled:
		return step{Step: stepSettle, Scope: t.Scope, ID: t.ID, Reason: t.Reason, Events: t.Events, Waits: t.Waits}, t.At, true
	case attend.Judged:
		v := t.Verdict
		return step{
			Step: stepVerdict, Scope: t.Scope, ID: v.ID, Reason: v.Reason, Route: v.Route, Events: v.Events,
			Probabilities: v.Probabilities, Predicates: v.Predicates, Confidence: v.Confidence,
		}, v.At, true
	case attend.Thresholded:
		return step{Step: stepChange, Scope: t.Scope, ID: t.ID, Route: t.To, From: t.From}, t.At, true
	case attend.Retried:
		return step{
			Step: stepRetry, Scope: t.Scope, ID: t.ID, Stage: t.Stage, Failed: t.Failed,
			NextAt: t.Next.UnixMilli(), Account: t.Account, Message: t.Message,
		}, t.At, true
	case attend.Shed:
		s := step{Step: stepDrop, Scope: t.Scope, Why: t.Why, Events: len(t.Events)}
		for _, e := range t.Events {
			s.IDs = append(s.IDs, e.ID)
		}
		return s, t.At, true
	}
	return step{}, time.Time{}, false
}

func decisionStep(d attend.Decision) step {
	return step{
		Step: stepDecision, Scope: d.Scope(), ID: d.ID, Reason: d.Window.Reason, Route: d.Route,
		Events: len(d.Window.Events), Waits: d.Window.Waits, Notice: attend.DefaultNotice(d), Decision: &d,
	}
}

func letterStep(l attend.DeadLetter) step {
	return step{
		Step: stepLetter, Scope: l.Window.Scope, ID: l.ID, Reason: l.Window.Reason, Stage: l.Stage,
		Events: len(l.Window.Events), Waits: l.Window.Waits, Failed: l.Attempts, Message: l.Message, Letter: &l,
	}
}

// headline is the notice's line of the event that a window is about: its last
// act, else the last event that is not the agent's own.
func headline(w attend.Window) string {
	last := -1
	for i := len(w.Events) - 1; i >= 0 && (last < 0 || !w.Events[last].Kind.Act()); i-- {
		if k := w.Events[i].Kind; k.Act() || last < 0 && k != attend.KindContext {
			last = i
		}
	}
	if last < 0 {
		return ""
	}
	one := attend.Decision{Window: attend.Window{Events: w.Events[last : last+1]}}
	first, _, _ := strings.Cut(attend.DefaultNotice(one), "\n")
	return first
}
