package report

import (
	"fmt"
	"strconv"
	"strings"
)

// maxPoints is how many candidates are drawn at most.
const maxPoints = 500

// A thresholdChart shows how often an hour the agent would be called at each act
// threshold.
type thresholdChart struct {
	Path      string // of the line; empty: there is none
	Ticks     []tick
	Most      string
	Suggested *float64 // where it is drawn
	Budget    *float64
	Says      string
}

func newThresholdChart(s Summary) thresholdChart {
	c := thresholdChart{}
	list := s.Candidates
	if len(list) == 0 {
		c.Says = "No judgment had probabilities, so no threshold would change anything."
		return c
	}
	most := 0.0
	for _, x := range list {
		most = max(most, x.PerHour)
	}
	if s.MaxPerHour != nil {
		most = max(most, *s.MaxPerHour)
	}
	top := roundUp(most)
	c.Most = decimal(top)
	y := func(v float64) float64 { return plotHeight * (1 - v/top) }
	var path strings.Builder
	for i := range min(len(list), maxPoints) {
		x := list[i]
		if len(list) > maxPoints {
			x = list[i*(len(list)-1)/(maxPoints-1)]
		}
		if i == 0 { // the lowest candidate stands for all below it
			fmt.Fprintf(&path, "M%.1f %.1f", scale(0, 0, 1), y(x.PerHour))
			fmt.Fprintf(&path, "H%.1f", scale(x.Threshold, 0, 1))
			continue
		}
		fmt.Fprintf(&path, "V%.1fH%.1f", y(x.PerHour), scale(x.Threshold, 0, 1))
	}
	fmt.Fprintf(&path, "V%.1fH%.1f", y(0), scale(1, 0, 1)) // above the last nobody is called
	c.Path = path.String()
	for i := range 11 {
		v := float64(i) / 10
		c.Ticks = append(c.Ticks, tick{scale(v, 0, 1), decimal(v)})
	}
	if s.MaxPerHour != nil {
		at := y(*s.MaxPerHour)
		c.Budget = &at
	}
	switch {
	case s.Suggested != nil:
		at := scale(*s.Suggested, 0, 1)
		c.Suggested = &at
		c.Says = fmt.Sprintf("%s is the lowest threshold that calls the agent at most %s times an hour.", decimal(*s.Suggested), decimal(*s.MaxPerHour))
	case s.MaxPerHour != nil:
		c.Says = fmt.Sprintf("No threshold is high enough for %s calls an hour or fewer.", decimal(*s.MaxPerHour))
	default:
		c.Says = "With --max-acts-per-hour the page marks the lowest threshold that keeps to it."
	}
	return c
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
