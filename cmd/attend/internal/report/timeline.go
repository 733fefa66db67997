package report

import (
	"fmt"
	"math"
	"time"

	attend "github.com/attend-go/attend/core"
)

// columns is how finely the time line tells marks apart.
const columns = 500

// A timeLine shows when each route was taken, a lane a route.
type timeLine struct {
	Height float64
	Lanes  []lane
	Dots   []dot
	Ticks  []tick
}

type lane struct {
	Y     float64
	Route attend.Route
	Count int
}

// A dot is one mark, or several that lie too near to each other.
type dot struct {
	X, Y, R float64
	Route   attend.Route
	Title   string
}

func (r *Report) timeLine() timeLine {
	const laneHeight = 34
	t := timeLine{Height: laneHeight * float64(len(lanes))}
	for i, route := range lanes {
		t.Lanes = append(t.Lanes, lane{Y: laneHeight * (float64(i) + 0.5), Route: route})
	}
	from, to := r.span()
	type place struct{ column, lane int }
	first, counts := make(map[place]int), make(map[place]int)
	var order []place
	for i, m := range r.marks {
		p := place{int((m.at - from) * (columns - 1) / (to - from)), int(m.route)}
		if counts[p] == 0 {
			first[p] = i
			order = append(order, p)
		}
		counts[p]++
		t.Lanes[m.route].Count++
	}
	for _, p := range order {
		m := r.marks[first[p]]
		t.Dots = append(t.Dots, dot{
			X: scale(float64(m.at), float64(from), float64(to)), Y: t.Lanes[p.lane].Y,
			R:     min(laneHeight/2-2, 3+2*math.Log2(float64(counts[p]))),
			Route: lanes[p.lane], Title: r.title(first[p], counts[p]),
		})
	}
	if len(r.marks) > 0 {
		t.Ticks = timeTicks(from, to)
	}
	return t
}

// title is what is told of a dot when somebody points at it.
func (r *Report) title(i, count int) string {
	m := r.marks[i]
	s := time.UnixMilli(m.at).UTC().Format(time.DateTime) + " " + string(lanes[m.route])
	if i < len(r.words) {
		w := r.words[i]
		s += fmt.Sprintf(" · %s · settled by %s, events: %d", w.Scope, w.Reason, w.Events)
		if w.Text != "" {
			s += "\n" + w.Text
		}
	}
	if count > 1 {
		s += fmt.Sprintf("\nand %d more at about that time", count-1)
	}
	return s
}
