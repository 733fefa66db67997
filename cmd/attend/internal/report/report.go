package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	attend "github.com/attend-go/attend/core"
)

// What a page holds at most: it is to open at once, whatever was recorded.
const (
	maxRows   = 1000   // decisions in the list
	maxTitles = 20_000 // marks whose words are kept
)

// A Mark is a verdict: one that left attend, or skip or wait.
type Mark struct {
	At     time.Time
	Scope  attend.Scope
	Route  attend.Route
	Reason attend.Reason
	Events int    // in the window
	Text   string // what it is about, in one line; empty for one that stayed
}

// A Candidate is an act threshold, and how often it would call the agent.
type Candidate struct {
	Threshold float64
	PerHour   float64
}

// A Summary is what a replay came to.
type Summary struct {
	Title         string // what was replayed
	From, To      time.Time
	Events        int
	Windows       int
	Decisions     int
	Interruptions int
	DeadLetters   int

	Candidates []Candidate // rising; empty where no judgment had probabilities
	Suggested  *float64    // nil: none
	MaxPerHour *float64    // nil: nobody asked
}

// A Report collects the marks of a replay. The zero Report has none. It is for
// one goroutine.
type Report struct {
	marks []mark
	words []Mark // of the first maxTitles marks
}

// mark is all that is kept of each.
type mark struct {
	at    int64 // Unix milliseconds
	route uint8 // its place in lanes
}

// lanes are the routes from the loudest to the quietest.
var lanes = []attend.Route{
	attend.RouteInterrupt, attend.RouteAsk, attend.RouteQueue, attend.RouteNote, attend.RouteWait, attend.RouteSkip,
}

// Add adds a mark. One of an unknown route is left out.
func (r *Report) Add(m Mark) {
	for i, route := range lanes {
		if route != m.Route {
			continue
		}
		r.marks = append(r.marks, mark{m.At.UnixMilli(), uint8(i)})
		if len(r.words) < maxTitles {
			r.words = append(r.words, m)
		}
	}
}

//go:embed page.html
var page string

var tmpl = template.Must(template.New("page").Funcs(template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format(time.DateTime) },
	"n":     number,
}).Parse(page))

// view is what the page shows.
type view struct {
	Summary
	Span      string
	Line      timeLine
	Threshold thresholdChart
	Hours     hourChart
	Rows      []Mark
	Hidden    int // decisions that are not in Rows
	Lanes     []attend.Route
}

// Write writes the page. An error is w's.
func (r *Report) Write(w io.Writer, s Summary) error {
	v := view{Summary: s, Span: s.To.Sub(s.From).Round(time.Second).String(), Lanes: lanes}
	v.Line = r.timeLine()
	v.Threshold = newThresholdChart(s)
	v.Hours = r.hourChart()
	for _, m := range r.words {
		if m.Route.Delivered() && len(v.Rows) < maxRows {
			v.Rows = append(v.Rows, m)
		}
	}
	v.Hidden = max(0, s.Decisions-len(v.Rows))
	if err := tmpl.Execute(w, v); err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	return nil
}

// span is from the first mark to the last, at least a minute.
func (r *Report) span() (from, to int64) {
	for i, m := range r.marks {
		if i == 0 || m.at < from {
			from = m.at
		}
		to = max(to, m.at)
	}
	return from, max(to, from+time.Minute.Milliseconds())
}

// number is n with a thin space between thousands.
func number(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u2009" + s[i:]
	}
	return s
}
