package main

import (
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/tune"
)

// A table is what a replay comes to, and its JSON form.
type table struct {
	Step   string `json:"step"`
	From   int64  `json:"from"` // Unix milliseconds of the first line that has a time; 0: none has
	To     int64  `json:"to"`   // of the latest
	SpanMs int64  `json:"spanMs"`

	Lines      int `json:"lines"`
	Rejected   int `json:"rejected"`   // lines that could not be taken
	OutOfOrder int `json:"outOfOrder"` // lines with a time before that of an earlier one
	Events     int `json:"events"`     // taken in
	Duplicates int `json:"duplicates"`
	Flushes    int `json:"flushes"`
	Ends       int `json:"ends"`
	Scopes     int `json:"scopes"`

	Windows     map[attend.Reason]int `json:"windows"`
	Verdicts    map[attend.Route]int  `json:"verdicts"`
	Decisions   map[attend.Route]int  `json:"decisions"`
	DeadLetters map[attend.Stage]int  `json:"deadLetters"`
	Retries     int                   `json:"retries"`
	Changed     int                   `json:"changed"`   // by the act threshold
	Dropped     int                   `json:"dropped"`   // events
	Unsettled   int                   `json:"unsettled"` // events in windows that nothing settled

	// Of decisions; nil where the recording has no length.
	PerHour   map[attend.Route]float64 `json:"perHour"`
	Threshold *thresholds              `json:"threshold"` // nil where no judgment had probabilities

	judgments []attend.Judgment
}

// A thresholds says how often each act threshold would have called the agent.
type thresholds struct {
	Judgments     int         `json:"judgments"`     // with probabilities
	Without       int         `json:"without"`       // without
	WithoutActs   int         `json:"withoutActs"`   // of these, interrupt or ask
	MaxPerHour    *float64    `json:"maxPerHour"`    // what was asked for; nil: nothing was
	Suggested     *float64    `json:"suggested"`     // nil: none fits, or nothing was asked for
	SuggestedActs *int        `json:"suggestedActs"` // with it
	Candidates    []candidate `json:"candidates"`
}

type candidate struct {
	Threshold float64 `json:"threshold"`
	Acts      int     `json:"acts"`
	PerHour   float64 `json:"perHour"`
}

func newTable() *table {
	t := &table{
		Step:    stepTable,
		Windows: make(map[attend.Reason]int), Verdicts: make(map[attend.Route]int),
		Decisions: make(map[attend.Route]int), DeadLetters: make(map[attend.Stage]int),
	}
	for _, r := range attend.Reasons() {
		t.Windows[r] = 0
	}
	for _, r := range attend.AllRoutes() {
		t.Verdicts[r] = 0
		if r.Delivered() {
			t.Decisions[r] = 0
		}
	}
	t.DeadLetters[attend.StageJudge] = 0
	return t
}

// add counts a step.
func (t *table) add(s step) {
	switch s.Step {
	case stepSettle:
		t.Windows[s.Reason]++
	case stepVerdict:
		t.Verdicts[s.Route]++
		t.judgments = append(t.judgments, attend.Judgment{Route: s.Route, Probabilities: s.Probabilities})
	case stepChange:
		t.Changed++
	case stepDecision:
		t.Decisions[s.Route]++
	case stepRetry:
		t.Retries++
	case stepDrop:
		t.Dropped += s.Events
	case stepLetter:
		t.DeadLetters[s.Stage]++
	}
}

// finish reckons the rates. maxPerHour is how often the agent may be called, nil
// where nobody asked.
func (t *table) finish(maxPerHour *float64) error {
	span := time.Duration(t.SpanMs) * time.Millisecond
	if span <= 0 {
		return nil
	}
	t.PerHour = make(map[attend.Route]float64)
	for r, n := range t.Decisions {
		t.PerHour[r] = float64(n) / span.Hours()
	}
	most := 0.0
	if maxPerHour != nil {
		most = *maxPerHour
	}
	s, err := tune.SuggestThreshold(t.judgments, span, most)
	if err != nil || s.Judgments == 0 {
		return err
	}
	t.Threshold = &thresholds{
		Judgments: s.Judgments, Without: s.Without, WithoutActs: s.WithoutActs, MaxPerHour: maxPerHour,
		Candidates: []candidate{},
	}
	for _, c := range s.Candidates {
		t.Threshold.Candidates = append(t.Threshold.Candidates, candidate(c))
		if maxPerHour != nil && s.Found && c.Threshold == s.Threshold {
			t.Threshold.Suggested, t.Threshold.SuggestedActs = &c.Threshold, &c.Acts
		}
	}
	return nil
}

func sum[K comparable](counts map[K]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
