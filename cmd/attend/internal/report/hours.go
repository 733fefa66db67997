package report

import (
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
)

// maxBars is how many bars a chart has at most; then each is of more time.
const maxBars = 240

// An hourChart counts the routes of each hour, or of more time where there are
// many.
type hourChart struct {
	Per   string // what a bar stands for
	Bars  []bar
	Ticks []tick
	Most  string // at the top
}

// A bar is one route's part of an hour.
type bar struct {
	X, Y, Width, Height float64
	Route               attend.Route
	Title               string
}

func (r *Report) hourChart() hourChart {
	c := hourChart{Per: "hour", Most: "1"}
	if len(r.marks) == 0 {
		return c
	}
	from, to := r.span()
	per := time.Hour
	for _, p := range []struct {
		d    time.Duration
		name string
	}{{6 * time.Hour, "six hours"}, {24 * time.Hour, "day"}, {7 * 24 * time.Hour, "week"}, {364 * 24 * time.Hour, "52 weeks"}} {
		if (to-from)/per.Milliseconds() < maxBars {
			break
		}
		per, c.Per = p.d, p.name
	}
	ms := max(per.Milliseconds(), (to-from)/maxBars+1)
	from -= from % ms
	n := int((to-from)/ms) + 1
	counts := make([][]int, n)
	most := 0
	for i := range counts {
		counts[i] = make([]int, len(lanes))
	}
	for _, m := range r.marks {
		counts[(m.at-from)/ms][m.route]++
	}
	for _, hour := range counts {
		sum := 0
		for _, k := range hour {
			sum += k
		}
		most = max(most, sum)
	}
	top := roundUp(float64(most))
	c.Most = fmt.Sprint(top)
	end := from + int64(n)*ms
	width := (rightEdge - leftEdge) / float64(n)
	for i, hour := range counts {
		y := plotHeight
		at := time.UnixMilli(from + int64(i)*ms).UTC()
		for k, count := range hour {
			if count == 0 {
				continue
			}
			h := plotHeight * float64(count) / top
			y -= h
			c.Bars = append(c.Bars, bar{
				X: leftEdge + width*float64(i) + min(1, width/10), Y: y, Width: max(0.5, width-min(2, width/5)), Height: h, Route: lanes[k],
				Title: fmt.Sprintf("%s: %d × %s in the %s from %s", at.Format(time.DateOnly), count, lanes[k], c.Per, at.Format("15:04")),
			})
		}
	}
	c.Ticks = timeTicks(from, end)
	return c
}
