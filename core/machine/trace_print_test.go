package machine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// answers says what a step asked for, in the order in which it must happen.
func (r *traceRun) answers(e Effects) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(e.Repeats) > 0 {
		say("new %d, repeats %s", e.Fresh, r.places(e.Repeats))
	}
	switch {
	case e.Refused:
		say("refused, full")
	case e.Batch == Gone:
		say("gone")
	case e.Batch == Elsewhere:
		say("elsewhere, at %s", e.Place)
	}
	for _, t := range e.Traces {
		switch t := t.(type) {
		case attend.Settled:
			w, _ := r.state.Slot()
			text := traceWindow(w.Window)
			if !t.At.Equal(r.at) {
				text += " at " + traceTime(t.At)
			}
			say("settled %s%s", text, r.id(t.ID))
		case attend.Retried:
			stage, count := string(t.Stage), fmt.Sprintf("failed %d", t.Failed)
			if stage == "" {
				stage = "letter"
			}
			if t.Account {
				count += " and the account"
			}
			say("retry %s, %s, next %s", stage, count, traceTime(t.Next))
		case attend.DeadLettered:
			say("dead letter %s, attempts %d, %q%s", t.Stage, t.Attempts, t.Message, r.id(t.ID))
		}
	}
	for _, row := range e.Rows {
		out = append(out, r.row(row))
	}
	switch {
	case e.Forget:
		say("forgotten")
	case e.MoveDue:
		say("due %s", traceTime(e.Due))
	}
	if !e.Changed {
		say("unchanged")
	}
	switch {
	case e.Call != nil:
		out = append(out, r.call(e.Call))
	case e.Delivery != nil:
		d := e.Delivery
		say("%s %s%s", r.claimOf(LaneDecision, d.Num, d.Attempt), traceDecision(d.Decision), traceUntil(d.Until))
	case e.Letter != nil:
		l := e.Letter
		say("%s %s%s", r.claimOf(LaneLetter, l.Num, l.Attempt), traceLetter(l.Letter), traceUntil(l.Until))
	}
	return out
}

// places names the events of the last input at these places.
func (r *traceRun) places(at []int) string {
	var events []attend.Event
	for _, i := range at {
		e := r.last.Input.(Arrive).Events[i]
		e.Source = r.last.Input.(Arrive).Source
		events = append(events, e)
	}
	return traceEvents(events)
}

func (r *traceRun) id(id attend.DecisionID) string {
	if !r.ids || len(id) < 8 {
		return ""
	}
	return " id " + string(id)[:8]
}

// call tells of a window for the judge.
func (r *traceRun) call(c *Call) string {
	offer := fmt.Sprint(c.Routes)
	switch all := attend.AllRoutes(); {
	case slices.Equal(c.Routes, all):
		offer = "wait offered"
	case slices.Equal(c.Routes, all[:len(all)-1]):
		offer = "wait withheld"
	}
	name := "asked"
	if !c.Until.IsZero() {
		name = r.claimOf(LaneJudge, c.Num, c.Attempt)
	} else {
		r.claims = append(r.claims, traceClaim{LaneJudge, c.Num, c.Attempt})
	}
	recent := ""
	if len(c.Recent) > 0 {
		recent = ", recent " + traceVerdicts(c.Recent)
	}
	return fmt.Sprintf("%s %s, %s%s%s", name, traceWindow(c.Window), offer, recent, traceUntil(c.Until))
}

// claimOf calls a piece of work by its lane and the place of its claim among
// the lane's.
func (r *traceRun) claimOf(lane Lane, num, attempt uint64) string {
	claim, n := traceClaim{lane, num, attempt}, 0
	for _, c := range r.claims {
		if c.lane == lane {
			n++
		}
		if c == claim {
			return fmt.Sprintf("%s %d", traceWork[lane], n)
		}
	}
	r.claims = append(r.claims, claim)
	return fmt.Sprintf("%s %d", traceWork[lane], n+1)
}

// row tells of a row of the log.
func (r *traceRun) row(row attend.Row) string {
	switch row.Type {
	case attend.RowDecision:
		var d attend.Decision
		if err := d.UnmarshalJSON(row.Body); err != nil {
			return err.Error()
		}
		return "log " + traceDecision(d) + r.id(row.ID)
	case attend.RowLetter:
		var l attend.DeadLetter
		if err := l.UnmarshalJSON(row.Body); err != nil {
			return err.Error()
		}
		return "log letter " + traceLetter(l) + r.id(row.ID)
	}
	var m attend.Mark
	if err := m.UnmarshalJSON(row.Body); err != nil {
		return err.Error()
	}
	words := []string{"mark", string(m.Step)}
	for _, word := range []string{string(m.Why), string(m.Stage), string(m.Reason)} {
		if word != "" {
			words = append(words, word)
		}
	}
	if m.From != "" {
		words = append(words, "from", string(m.From), "to")
	}
	if m.From != "" || m.Step == attend.StepDelivered {
		words = append(words, string(m.Route))
	}
	if len(m.Events) > 0 {
		words = append(words, traceRefs(m.Events))
	}
	text := strings.Join(words, " ") + traceOdds(m.Judgment)
	if m.Attempts > 0 {
		text += fmt.Sprintf(", attempts %d", m.Attempts)
	}
	return text + r.id(row.ID)
}

func traceUntil(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", until " + traceTime(t)
}

// traceWindow tells of a window, its odd sides only where it has them.
func traceWindow(w attend.Window) string {
	text := traceEvents(w.Events)
	if text == "" {
		text = "nothing"
	}
	if w.Reason != "" {
		text = string(w.Reason) + " " + text
	}
	if w.Waits > 0 {
		text += fmt.Sprintf(", waits %d", w.Waits)
	}
	if w.Dropped > 0 {
		text += fmt.Sprintf(", dropped %d", w.Dropped)
	}
	if w.Gap {
		text += ", gap"
	}
	return text
}

func traceDecision(d attend.Decision) string {
	return fmt.Sprintf("%s %s%s", d.Route, traceWindow(d.Window), traceOdds(d.Judgment))
}

func traceLetter(l attend.DeadLetter) string {
	text := fmt.Sprintf("%s %s, attempts %d, %q", l.Stage, traceWindow(l.Window), l.Attempts, l.Message)
	if l.Decision != nil {
		text += fmt.Sprintf(", decided %s at %s", l.Decision.Route, traceTime(l.Decision.At))
	}
	return text
}

func traceVerdicts(list []attend.Verdict) string {
	var routes []string
	for _, v := range list {
		routes = append(routes, string(v.Route))
	}
	return strings.Join(routes, ",")
}

// traceOdds tells of what a judge may say beside a route.
func traceOdds(j attend.Judgment) string {
	var words []string
	for _, r := range attend.AllRoutes() {
		if p, ok := j.Probabilities[r]; ok {
			words = append(words, fmt.Sprintf("%s=%v", r, p))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Predicates)) {
		words = append(words, fmt.Sprintf("?%s=%v", name, j.Predicates[name]))
	}
	if j.Confidence != 0 {
		words = append(words, fmt.Sprintf("confidence=%v", j.Confidence))
	}
	if words == nil {
		return ""
	}
	return " (" + strings.Join(words, " ") + ")"
}

// traceEvents names events by their ids, with their source where they have one.
func traceEvents(events []attend.Event) string {
	return traceRefs(attend.Mark{Events: traceRefsOf(events)}.Events)
}

func traceRefsOf(events []attend.Event) []attend.EventRef {
	var refs []attend.EventRef
	for _, e := range events {
		refs = append(refs, attend.EventRef{Source: e.Source, ID: e.ID})
	}
	return refs
}

// traceRefs says e1..e9 for nine that follow one another.
func traceRefs(refs []attend.EventRef) string {
	var words []string
	for i := 0; i < len(refs); {
		name, first := traceNumber(refs[i].ID)
		n := 1
		for first >= 0 && i+n < len(refs) && refs[i+n] == (attend.EventRef{Source: refs[i].Source, ID: name + strconv.Itoa(first+n)}) {
			n++
		}
		word := refs[i].ID
		if n > 2 {
			word += ".." + refs[i+n-1].ID
		} else {
			n = 1
		}
		if refs[i].Source != "" {
			word = refs[i].Source + "/" + word
		}
		words = append(words, word)
		i += n
	}
	return strings.Join(words, ",")
}

// traceTime is a time since the trace's begin.
func traceTime(t time.Time) string {
	const day = 24 * time.Hour
	d := t.Sub(traceBegin)
	days := ""
	if n := d / day; n > 0 {
		days, d = fmt.Sprintf("%dd", n), d%day
	}
	switch {
	case t.IsZero():
		return "never"
	case days != "" && d == 0:
		return days
	case d.Abs() < time.Second:
		return fmt.Sprintf("%s%dms", days, d.Milliseconds())
	case d.Abs() < 2*time.Minute && d%time.Minute != 0:
		return days + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return days + text
}
