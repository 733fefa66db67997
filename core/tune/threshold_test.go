package tune_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/tune"
)

func judged(interrupt, ask float64) attend.Judgment {
	return attend.Judgment{
		Route:         attend.RouteQueue,
		Probabilities: map[attend.Route]float64{attend.RouteInterrupt: interrupt, attend.RouteAsk: ask, attend.RouteQueue: 1},
	}
}

func named(r attend.Route) attend.Judgment { return attend.Judgment{Route: r} }

func TestSuggestThreshold(t *testing.T) {
	three := []attend.Judgment{judged(0.5, 0.25), judged(0, 0.25), judged(0.5, 0.5)}
	for _, test := range []struct {
		name      string
		judgments []attend.Judgment
		over      time.Duration
		max       float64
		want      tune.Suggestion
	}{
		{"none", nil, time.Hour, 10, tune.Suggestion{}},
		{"all fit", three, time.Hour, 3, tune.Suggestion{
			Found: true, Threshold: 0.25, Judgments: 3,
			Candidates: []tune.Candidate{{0.25, 3, 3}, {0.75, 2, 2}, {1, 1, 1}},
		}},
		{"two fit", three, time.Hour, 2.9, tune.Suggestion{
			Found: true, Threshold: 0.75, Judgments: 3,
			Candidates: []tune.Candidate{{0.25, 3, 3}, {0.75, 2, 2}, {1, 1, 1}},
		}},
		{"one fits, over half an hour", three, 30 * time.Minute, 3, tune.Suggestion{
			Found: true, Threshold: 1, Judgments: 3,
			Candidates: []tune.Candidate{{0.25, 3, 6}, {0.75, 2, 4}, {1, 1, 2}},
		}},
		{"none fits", three, time.Hour, 0.5, tune.Suggestion{
			Judgments:  3,
			Candidates: []tune.Candidate{{0.25, 3, 3}, {0.75, 2, 2}, {1, 1, 1}},
		}},
		{"no act allowed", three, time.Hour, 0, tune.Suggestion{
			Judgments:  3,
			Candidates: []tune.Candidate{{0.25, 3, 3}, {0.75, 2, 2}, {1, 1, 1}},
		}},
		{"any number allowed", three, time.Hour, math.Inf(1), tune.Suggestion{
			Found: true, Threshold: 0.25, Judgments: 3,
			Candidates: []tune.Candidate{{0.25, 3, 3}, {0.75, 2, 2}, {1, 1, 1}},
		}},
		{"nothing that could act", []attend.Judgment{judged(0, 0)}, time.Hour, 10, tune.Suggestion{Judgments: 1}},
		{"without probabilities", []attend.Judgment{
			named(attend.RouteInterrupt), named(attend.RouteAsk), named(attend.RouteQueue), named(attend.RouteWait), {},
			judged(0.5, 0), {Route: attend.RouteInterrupt, Probabilities: map[attend.Route]float64{}},
		}, time.Hour, 4, tune.Suggestion{
			Found: true, Threshold: 0.5, Judgments: 1, Without: 6, WithoutActs: 3,
			Candidates: []tune.Candidate{{0.5, 4, 4}},
		}},
		{"those without alone are too many", []attend.Judgment{
			named(attend.RouteInterrupt), named(attend.RouteAsk), judged(0.5, 0),
		}, time.Hour, 2, tune.Suggestion{
			Judgments: 1, Without: 2, WithoutActs: 2,
			Candidates: []tune.Candidate{{0.5, 3, 3}},
		}},
		{"the judge's own route does not count", []attend.Judgment{
			{Route: attend.RouteInterrupt, Probabilities: map[attend.Route]float64{attend.RouteSkip: 1}},
			{Route: attend.RouteSkip, Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.5}},
		}, time.Hour, 10, tune.Suggestion{
			Found: true, Threshold: 0.5, Judgments: 2,
			Candidates: []tune.Candidate{{0.5, 1, 1}},
		}},
		{"more than one", []attend.Judgment{judged(0.75, 0.75), judged(1, 0), judged(0.5, 0)}, time.Hour, 2, tune.Suggestion{
			Found: true, Threshold: 1, Judgments: 3,
			Candidates: []tune.Candidate{{0.5, 3, 3}, {1, 2, 2}},
		}},
		{"sums that round apart", []attend.Judgment{judged(0.1, 0.2), judged(0.3, 0), judged(0.3, 0.0000000005)}, time.Hour, 3, tune.Suggestion{
			Found: true, Threshold: 0.3, Judgments: 3,
			Candidates: []tune.Candidate{{0.3, 3, 3}},
		}},
		{"a budget that rounds", slices.Repeat([]attend.Judgment{judged(0.5, 0)}, 3), 18 * time.Minute, 10, tune.Suggestion{
			Found: true, Threshold: 0.5, Judgments: 3,
			Candidates: []tune.Candidate{{0.5, 3, 3 / 0.3}},
		}},
	} {
		got, err := tune.SuggestThreshold(test.judgments, test.over, test.max)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: SuggestThreshold = %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
}

func TestSuggestThresholdRefuses(t *testing.T) {
	good := []attend.Judgment{judged(0.5, 0)}
	for _, test := range []struct {
		name      string
		judgments []attend.Judgment
		over      time.Duration
		max       float64
		field     string
	}{
		{"no time", good, 0, 1, "over"},
		{"negative time", good, -time.Hour, 1, "over"},
		{"negative budget", good, time.Hour, -1, "maxActsPerHour"},
		{"budget that is no number", good, time.Hour, math.NaN(), "maxActsPerHour"},
		{"probability over 1", []attend.Judgment{good[0], judged(1.5, 0)}, time.Hour, 1, "judgments[1].Probabilities"},
		{"negative probability", []attend.Judgment{judged(0.5, -0.1)}, time.Hour, 1, "judgments[0].Probabilities"},
		{"probability that is no number", []attend.Judgment{judged(math.NaN(), 0)}, time.Hour, 1, "judgments[0].Probabilities"},
		{"of a route that is quiet", []attend.Judgment{{Probabilities: map[attend.Route]float64{attend.RouteSkip: 2}}}, time.Hour, 1, "judgments[0].Probabilities"},
	} {
		got, err := tune.SuggestThreshold(test.judgments, test.over, test.max)
		invalid, ok := errors.AsType[*attend.InvalidError](err)
		if !ok || invalid.Field != test.field {
			t.Errorf("%s: SuggestThreshold = %+v, %v, want an error on %s", test.name, got, err, test.field)
		}
	}
}

// acts counts what acts at a threshold, as rule E17 has it.
func acts(judgments []attend.Judgment, threshold float64) int {
	n := 0
	for _, j := range judgments {
		act := j.Route == attend.RouteInterrupt || j.Route == attend.RouteAsk
		if len(j.Probabilities) > 0 {
			act = j.Probabilities[attend.RouteInterrupt]+j.Probabilities[attend.RouteAsk] >= threshold-1e-9
		}
		if act {
			n++
		}
	}
	return n
}

// slow tries each sum that occurs against every judgment.
func slow(judgments []attend.Judgment, over time.Duration, maxActsPerHour float64) (s tune.Suggestion) {
	var thresholds []float64
	for _, j := range judgments {
		if len(j.Probabilities) == 0 {
			s.Without++
			s.WithoutActs += acts([]attend.Judgment{j}, 0.5)
			continue
		}
		s.Judgments++
		if sum := min(j.Probabilities[attend.RouteInterrupt]+j.Probabilities[attend.RouteAsk], 1); sum > 0 {
			thresholds = append(thresholds, sum)
		}
	}
	slices.Sort(thresholds)
	last := -1
	for _, t := range thresholds {
		n := acts(judgments, t)
		if n == last {
			continue
		}
		last = n
		s.Candidates = append(s.Candidates, tune.Candidate{Threshold: t, Acts: n, PerHour: float64(n) / over.Hours()})
		if !s.Found && float64(n) <= maxActsPerHour*over.Hours()+1e-9 {
			s.Found, s.Threshold = true, t
		}
	}
	return s
}

func TestSuggestThresholdAgainstSlow(t *testing.T) {
	found, none := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		step := []float64{0, 0.1, 1e-9, 4e-10}[r.IntN(4)] // 0: any number
		p := func() float64 {
			if step == 0 {
				return r.Float64()
			}
			return float64(r.IntN(8)) * step
		}
		var judgments []attend.Judgment
		for range r.IntN(40) {
			if r.IntN(4) == 0 {
				judgments = append(judgments, named(attend.AllRoutes()[r.IntN(6)]))
			} else {
				judgments = append(judgments, judged(p(), p()))
			}
		}
		over := time.Duration(1+r.IntN(600)) * time.Minute
		limit := float64(r.IntN(30)) / over.Hours()
		got, err := tune.SuggestThreshold(judgments, over, limit)
		if want := slow(judgments, over, limit); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: SuggestThreshold = %+v, %v, want %+v", seed, got, err, want)
		}
		if got.Found {
			found++
		} else {
			none++
		}
	}
	if found < 100 || none < 100 {
		t.Errorf("found %d times and not %d times, want a hundred of each", found, none)
	}
}

// What takes the square of so many judgments would not end in time.
func TestSuggestThresholdOfManyJudgments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	judgments := make([]attend.Judgment, 200_000)
	for i := range judgments {
		judgments[i] = judged(r.Float64()/2, r.Float64()/2)
	}
	got, err := tune.SuggestThreshold(judgments, time.Hour, 1000)
	if err != nil || !got.Found {
		t.Fatalf("SuggestThreshold = %v, %v, want one found", got.Found, err)
	}
	if n := acts(judgments, got.Threshold); n > 1000 || n < 900 {
		t.Errorf("%v lets %d judgments act, want nearly 1000", got.Threshold, n)
	}
}
