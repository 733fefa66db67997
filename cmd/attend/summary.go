package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
)

// table prints what the replay came to.
func (p *textPrinter) table(t *table) error {
	if p.day != "" {
		fmt.Fprintln(p.w)
	}
	if t.From != 0 {
		fmt.Fprintf(p.w, "from %s to %s UTC, %s\n", moment(t.From), moment(t.To), span(t.SpanMs))
	}
	hours := (time.Duration(t.SpanMs) * time.Millisecond).Hours()
	row := func(name string, n int, rate bool) {
		line := fmt.Sprintf("%-20s %7d", name, n)
		if rate && hours > 0 {
			line += fmt.Sprintf(" %10.2f", float64(n)/hours)
		}
		fmt.Fprintln(p.w, line)
	}
	some := func(name string, n int, rate bool) {
		if n > 0 {
			row("  "+name, n, rate)
		}
	}
	fmt.Fprintf(p.w, "%-20s %7s %10s\n", "", "count", "per hour")
	row("lines", t.Lines, false)
	row("  rejected", t.Rejected, false)
	row("  duplicates", t.Duplicates, false)
	some("flush", t.Flushes, false)
	some("end", t.Ends, false)
	some("out of order", t.OutOfOrder, false)
	row("scopes", t.Scopes, false)
	row("events", t.Events, true)
	row("  dropped", t.Dropped, false)
	row("  unsettled", t.Unsettled, false)
	row("windows", sum(t.Windows), true)
	for _, r := range attend.Reasons() {
		some(string(r), t.Windows[r], true)
	}
	row("verdicts", sum(t.Verdicts), true)
	for _, r := range attend.AllRoutes() {
		some(string(r), t.Verdicts[r], true)
	}
	some("changed", t.Changed, true)
	row("retries", t.Retries, false)
	row("dead letters", sum(t.DeadLetters), false)
	row("decisions", sum(t.Decisions), true)
	for _, r := range attend.AllRoutes() {
		some(string(r), t.Decisions[r], true)
	}
	row("interruptions", t.Decisions[attend.RouteInterrupt], true)
	p.thresholds(t)
	return nil
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateTime) }

// span is a duration for people: without milliseconds, unless it is short.
func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return shortDuration(d)
}

// shownCandidates is how many thresholds people are shown.
const shownCandidates = 16

func (p *textPrinter) thresholds(t *table) {
	s := t.Threshold
	if s == nil {
		return
	}
	fmt.Fprintf(p.w, "\n%-20s %7s %10s\n", "act threshold", "acts", "per hour")
	rows := s.shown()
	for _, at := range rows {
		c := s.Candidates[at]
		mark := ""
		if s.Suggested != nil && c.Threshold == *s.Suggested {
			mark = "  <- the lowest for " + s.most()
		}
		fmt.Fprintf(p.w, "  %-18s %7d %10.2f%s\n", decimal(c.Threshold), c.Acts, c.PerHour, mark)
	}
	if hidden := len(s.Candidates) - len(rows); hidden > 0 {
		fmt.Fprintf(p.w, "(%d more between them, see --json)\n", hidden)
	}
	if s.MaxPerHour != nil && s.Suggested == nil {
		fmt.Fprintf(p.w, "(none is high enough for %s)\n", s.most())
	}
	if s.Without > 0 {
		fmt.Fprintf(p.w, "(of %s without probabilities %d acted, whatever the threshold)\n", count(s.Without, "judgment"), s.WithoutActs)
	}
}

// most is the rate that was asked for.
func (s *thresholds) most() string {
	return strconv.FormatFloat(*s.MaxPerHour, 'g', -1, 64) + " an hour"
}

// shown are the places of the candidates that people are shown: all of them
// where they are few, else some from end to end, with the one suggested.
func (s *thresholds) shown() []int {
	n := len(s.Candidates)
	var places []int
	for i := range min(n, shownCandidates) {
		if n <= shownCandidates {
			places = append(places, i)
		} else {
			places = append(places, i*(n-1)/(shownCandidates-1))
		}
	}
	if s.Suggested != nil {
		at := slices.IndexFunc(s.Candidates, func(c candidate) bool { return c.Threshold == *s.Suggested })
		if i, found := slices.BinarySearch(places, at); !found {
			places = slices.Insert(places, i, at)
		}
	}
	return places
}
