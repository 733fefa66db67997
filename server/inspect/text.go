package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	attend "github.com/attend-go/attend/core"
)

const clock = "2006-01-02 15:04:05.000"

// Text tells the story for a person, a line a step, with times of a place; nil:
// UTC. Nothing in it can steer a terminal: control characters and those that
// turn the reading order around are escaped.
func (x Explanation) Text(in *time.Location) string {
	if in == nil {
		in = time.UTC
	}
	var b strings.Builder
	if len(x.Lives) == 0 {
		fmt.Fprintf(&b, "Nothing is known of event %s in %s.\n", safe(x.Event), safe(string(x.Scope)))
	}
	for i := range x.Lives {
		l := &x.Lives[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "Event %s in %s", safe(x.Event), safe(string(x.Scope)))
		if l.Source != "" {
			fmt.Fprintf(&b, ", from %s", safe(l.Source))
		}
		if l.Name != "" {
			fmt.Fprintf(&b, ": %s", safe(l.Name))
			if l.Kind != "" {
				fmt.Fprintf(&b, " (%s)", safe(string(l.Kind)))
			}
		}
		b.WriteByte('\n')
		for j := range l.Steps {
			b.WriteString("  " + stamp(l.Steps[j], in) + "  " + l.Steps[j].sentence(in) + "\n")
		}
		if l.Kind == attend.KindContext && l.Fate == FateOpen {
			b.WriteString("It is the agent's own output: it goes along with what others do, and wakes nobody.\n")
		}
	}
	switch {
	case x.Limited && x.Since.IsZero():
		b.WriteString("The scope has too many rows in the log: they were not looked at.\n")
	case x.Limited:
		fmt.Fprintf(&b, "The scope has too many rows in the log: those before %s were not looked at.\n", x.Since.In(in).Format(clock))
	}
	if x.Trimmed {
		b.WriteString("Retention has trimmed the log: what is older may have been there.\n")
	}
	if x.Unreadable > 0 {
		fmt.Fprintf(&b, "%s of the log can't be read.\n", count(x.Unreadable, "row"))
	}
	return b.String()
}

// stamp is a step's time in a column.
func stamp(s Step, in *time.Location) string {
	switch {
	case !s.At.IsZero():
		return s.At.In(in).Format(clock)
	case s.What == WhatLost, s.What == WhatGaveUp:
		return fmt.Sprintf("%-*s", len(clock), "then")
	default:
		return fmt.Sprintf("%-*s", len(clock), "now")
	}
}

// sentence tells a step without its time.
func (s Step) sentence(in *time.Location) string {
	switch s.What {
	case WhatOpened:
		if s.Place == 1 {
			return "it is taken in, and opens a window"
		}
		return "its window opens; it is taken in now or later"
	case WhatSettled:
		t := "the window settles: " + safe(string(s.Reason)) + ", with " + count(s.Events, "event")
		if s.Events > 1 {
			t += ", of which it is number " + strconv.Itoa(s.Place)
		}
		if s.Waits > 0 {
			t += "; it was held " + times(s.Waits) + " before"
		}
		if s.Dropped > 0 {
			t += "; " + count(s.Dropped, "event") + " had been dropped"
		}
		if s.Gap {
			t += "; a source had lost others"
		}
		return t
	case WhatJudged:
		t := "judged " + safe(string(s.Route))
		if s.Reason != "" {
			t += ", with " + count(s.Events, "event") + ", settled for " + safe(string(s.Reason))
		}
		return t + numbers(s.Judgment)
	case WhatChanged:
		return "the act threshold makes it " + safe(string(s.Route)) + " in place of " + safe(string(s.From))
	case WhatDecided:
		return "decided: " + safe(string(s.Route)) + ", as " + safe(string(s.Window))
	case WhatDelivered:
		return "delivered, at attempt " + strconv.Itoa(s.Attempts)
	case WhatSkipped:
		return "let go: the agent hears nothing of it"
	case WhatWaited:
		return "held, to be judged again with what comes"
	case WhatDropped:
		return "dropped: " + dropped(s.Why)
	case WhatRefused:
		return "refused, and made a dead letter: " + message(s.Message)
	case WhatGaveUp:
		who := "the judge"
		if s.Stage == attend.StageSink {
			who = "the sink"
		}
		return who + " failed " + times(s.Attempts) + ", which makes a dead letter; the last time: " + message(s.Message)
	case WhatTaken:
		return buried(s) + "; the handler takes its dead letter, at attempt " + strconv.Itoa(s.Attempts)
	case WhatLogged:
		if s.Stage != "" {
			return "the dead letter is in the log, where it is read"
		}
		return "the decision is in the log, where it is read"
	case WhatLost:
		if s.Window != "" {
			return "whether the decision was delivered is not known: " + s.Message
		}
		return "what became of it is not known: " + s.Message
	default:
		return s.now(in)
	}
}

// now is the sentence of where an event is.
func (s Step) now(in *time.Location) string {
	until := ""
	if !s.Until.IsZero() {
		until = s.Until.In(in).Format(clock)
	}
	switch Fate(s.What) {
	case FateOpen:
		t := "in the open window, number " + strconv.Itoa(s.Place) + " of " + count(s.Events, "event")
		switch {
		case s.Asked:
			t += ", which waits for the window before it to be judged"
		case until != "":
			t += ", which is looked at next at " + until
		default:
			t += ", of which none can call for the agent: it waits for one that can"
		}
		return t
	case FateHeld:
		return "held since, with " + count(s.Events, "event") + ", until " + until + " at the latest"
	case FateJudging:
		t := "a judge is asked, until " + until + " at the latest"
		if !s.Asked {
			t = "it waits for a judge, which may be asked from " + until + " on"
		}
		if s.Attempts > 0 {
			t += "; so far it failed " + times(s.Attempts)
			if s.Message != "" {
				t += ", the last time: " + message(s.Message)
			}
		}
		return t
	case FateDelivering:
		if s.Place > 0 {
			return "the decision waits for the sink, number " + strconv.Itoa(s.Place) + " in its lane"
		}
		return "the decision waits for the sink"
	case FateLetter:
		return "the dead letter waits for its handler, number " + strconv.Itoa(s.Place) + " in its lane"
	default:
		return safe(string(s.What))
	}
}

// buried says why there was a dead letter, of which only that is known.
func buried(s Step) string {
	switch s.Stage {
	case attend.StageIntake:
		return "it could not be taken in"
	case attend.StageSink:
		return "the sink did not take its decision"
	default:
		return "its window settled for " + safe(string(s.Reason)) + ", and no judge could judge it"
	}
}

func dropped(why attend.Why) string {
	switch why {
	case attend.WhyCount:
		return "the window had too many events, and it can't call for the agent"
	case attend.WhySize:
		return "the window was too big, and it can't call for the agent"
	case attend.WhyStale:
		return "it waited too long for an event that can call for the agent"
	case attend.WhyExpired:
		return "nothing came to the scope for so long that it forgot itself"
	default:
		return safe(string(why))
	}
}

// numbers are a judgment's, in the order of the routes and of the names.
func numbers(j attend.Judgment) string {
	var list []string
	for _, r := range attend.AllRoutes() {
		if p, ok := j.Probabilities[r]; ok {
			list = append(list, string(r)+" "+number(p))
		}
	}
	if j.Confidence > 0 {
		list = append(list, "confidence "+number(j.Confidence))
	}
	for _, name := range slices.Sorted(maps.Keys(j.Predicates)) {
		list = append(list, safe(name)+"? "+number(j.Predicates[name]))
	}
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

func number(p float64) string { return strconv.FormatFloat(p, 'g', 3, 64) }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return strconv.Itoa(n) + " times"
	}
}

const maxShown = 300 // characters of an error's text

func message(s string) string {
	if s == "" {
		return "(no message)"
	}
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown-1]) + "…"
	}
	return safe(s)
}

// safe returns s with everything escaped that could begin a line, steer a
// terminal or turn the reading order around, and what can't be seen.
func safe(s string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if plain(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}
