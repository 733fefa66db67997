package report

import (
	"math"
	"time"
)

// The size of a chart, in the units of its drawing.
const (
	chartWidth = 1000.0
	leftEdge   = 76.0 // of what is drawn; names stand before it
	rightEdge  = 990.0
	plotHeight = 200.0
)

// A tick is a mark of an axis.
type tick struct {
	At   float64 // where it is drawn
	Text string
}

// scale maps from..to onto the width of a chart.
func scale(v, from, to float64) float64 {
	return leftEdge + (rightEdge-leftEdge)*(v-from)/(to-from)
}

// steps are the distances that time ticks may have.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour,
	6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour,
}

// timeTicks are some ticks between two moments in Unix milliseconds, on round
// times.
func timeTicks(from, to int64) []tick {
	step := steps[len(steps)-1]
	for _, s := range steps {
		if (to-from)/s.Milliseconds() <= 10 {
			step = s
			break
		}
	}
	layout := time.DateOnly
	switch {
	case step < time.Minute:
		layout = time.TimeOnly
	case step < 24*time.Hour:
		layout = "15:04"
	}
	every := max(step.Milliseconds(), (to-from)/10) // years of recordings, too
	var ticks []tick
	for at := (from + every - 1) / every * every; at <= to; at += every {
		ticks = append(ticks, tick{scale(float64(at), float64(from), float64(to)), time.UnixMilli(at).UTC().Format(layout)})
	}
	return ticks
}

// roundUp is the next of 1, 2 and 5 times a power of ten, at or above v.
func roundUp(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v {
			return m * p
		}
	}
	return 10 * p
}
