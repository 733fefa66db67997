package attend

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of a notice (rule E27).
const (
	MaxNoticeLine  = 500      // characters of one event's line, the mark of the cut included
	MaxNoticeBytes = 16 << 10 // of the whole notice
)

// DefaultNotice returns what the agent reads about a decision: a line for each
// event (its text, else its name and data), the agent's own output left out; a
// line for events that were lost or dropped; and last a line that says what to
// do. Long lines are cut, and where the whole would be over 16 KiB the oldest
// events are left out and counted. Every control character is escaped, so no
// event can forge a line.
func DefaultNotice(d Decision) string {
	last := routeLine(d.Route)
	lost := lostLine(d.Window)
	budget := MaxNoticeBytes - len(last) - len(lost) - 64 // 64: the line that counts those left out

	var lines []string
	left := 0
	for i := len(d.Window.Events) - 1; i >= 0; i-- {
		e := &d.Window.Events[i]
		if e.Kind == KindContext {
			continue
		}
		if left > 0 {
			left++
			continue
		}
		line := eventLine(e)
		if budget -= len(line) + 1; budget < 0 {
			left++
			continue
		}
		lines = append(lines, line)
	}

	var b strings.Builder
	if left > 0 {
		fmt.Fprintf(&b, "(%s left out)\n", count(left, "earlier event"))
	}
	for i := len(lines) - 1; i >= 0; i-- {
		b.WriteString(lines[i])
		b.WriteByte('\n')
	}
	b.WriteString(lost)
	b.WriteString(last)
	return b.String()
}

func eventLine(e *Event) string {
	line := e.Text
	if line == "" {
		line = e.Name
		if data := string(e.Data); data != "" && data != "{}" {
			line += " " + data
		}
	}
	if most := 4 * (MaxNoticeLine + 1); len(line) > most { // it is cut in any case: no need to escape a megabyte
		line = line[:most]
	}
	return cut(escapeLine(validText(line)), MaxNoticeLine)
}

// cut returns s in at most n characters, the last an ellipsis where it was cut.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return s
}

func lostLine(w Window) string {
	switch {
	case w.Gap && w.Dropped > 0:
		return fmt.Sprintf("(%s dropped, and a source lost others)\n", count(w.Dropped, "event"))
	case w.Gap:
		return "(a source lost events here)\n"
	case w.Dropped > 0:
		return fmt.Sprintf("(%s dropped)\n", count(w.Dropped, "event"))
	}
	return ""
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func routeLine(r Route) string {
	switch r {
	case RouteInterrupt:
		return "This needs you now: stop and attend to it."
	case RouteQueue:
		return "Attend to this when your present turn has ended."
	case RouteNote:
		return "For your information: keep it in mind, and do not answer it."
	case RouteAsk:
		return "Do not act on this yet: the user is asked whether to call you in."
	default:
		return "Nothing is to be done about this."
	}
}
