package tune

import (
	"fmt"
	"math"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// epsilon is how far below the threshold a sum still acts (rule E17).
const epsilon = 1e-9

// A Suggestion says what each act threshold would have meant for some recorded
// judgments, and which one fits the budget.
type Suggestion struct {
	// Found says that a candidate fits. Where it is false, Threshold is 0, which
	// as a setting would switch the threshold off.
	Found bool
	// Threshold is the lowest candidate that fits, in (0,1].
	Threshold float64
	// Candidates are ascending; see [SuggestThreshold].
	Candidates []Candidate
	// Judgments is how many had probabilities, so that a threshold decides.
	Judgments int
	// Without is how many had none, and WithoutActs how many of these acted:
	// they named interrupt or ask, which no threshold changes.
	Without, WithoutActs int
}

// A Candidate is a threshold and what it lets through.
type Candidate struct {
	Threshold float64 // in (0,1]
	Acts      int     // judgments that act, those without probabilities included
	PerHour   float64 // acts an hour
}

// SuggestThreshold returns the lowest act threshold under which the judgments,
// made over so much time, would not have acted more often than maxActsPerHour,
// and the rate at every candidate. It keeps nothing of judgments.
//
// A judgment acts exactly when its probabilities of interrupt and ask together
// are at least the threshold, within 1e-9 (rule E17). One without probabilities
// acts as it did, whatever the threshold, and counts into every rate. The
// candidates are the sums that occur, those over 1 as 1 and those of 0 left out;
// sums so close that they act alike are one candidate, the lowest of them.
// Between two candidates a threshold acts like the upper one.
//
// None is found where even the highest candidate acts too often, and where
// there is no candidate. A threshold above all of them is never suggested: it
// would silence every judgment that has probabilities.
//
// An error is [attend.ErrInvalid]: over is not positive, maxActsPerHour is
// negative or not a number, or a probability lies outside [0,1].
func SuggestThreshold(judgments []attend.Judgment, over time.Duration, maxActsPerHour float64) (Suggestion, error) {
	if over <= 0 {
		return Suggestion{}, &attend.InvalidError{Field: "over", Want: "a positive duration"}
	}
	if !(maxActsPerHour >= 0) { // not a number neither
		return Suggestion{}, &attend.InvalidError{Field: "maxActsPerHour", Want: "a number from 0 on"}
	}
	var s Suggestion
	var sums []float64
	for i, j := range judgments {
		if len(j.Probabilities) == 0 {
			s.Without++
			if j.Route == attend.RouteInterrupt || j.Route == attend.RouteAsk {
				s.WithoutActs++
			}
			continue
		}
		for _, p := range j.Probabilities {
			if !(p >= 0 && p <= 1) {
				return Suggestion{}, &attend.InvalidError{Field: fmt.Sprintf("judgments[%d].Probabilities", i), Want: "numbers from 0 to 1"}
			}
		}
		sums = append(sums, j.Probabilities[attend.RouteInterrupt]+j.Probabilities[attend.RouteAsk])
	}
	s.Judgments = len(sums)
	slices.Sort(sums)

	hours := over.Hours()
	below := 0 // sums that don't act
	for _, sum := range sums {
		t := math.Min(sum, 1)
		if t == 0 {
			continue
		}
		for sums[below] < t-epsilon {
			below++
		}
		acts := len(sums) - below + s.WithoutActs
		if n := len(s.Candidates); n > 0 && s.Candidates[n-1].Acts == acts {
			continue
		}
		s.Candidates = append(s.Candidates, Candidate{t, acts, float64(acts) / hours})
	}
	for _, c := range s.Candidates {
		// In acts, so that a budget of 10 an hour lets 10 acts through, however
		// the division rounds.
		if float64(c.Acts) <= maxActsPerHour*hours+epsilon {
			s.Found, s.Threshold = true, c.Threshold
			break
		}
	}
	return s, nil
}
