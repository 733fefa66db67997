package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

// A printer shows what a replay does.
type printer interface {
	step(step)
	table(*table) error
}

// The columns of a line, which is width characters long.
const (
	width      = 100
	scopeWidth = 22
	restWidth  = width - len("15:04:05 +86400.000  ") - scopeWidth - len("  decision continuous ")
)

// A textPrinter prints lines for people.
type textPrinter struct {
	w     *bufio.Writer
	color bool
	day   string // of the line before
}

func (p *textPrinter) step(s step) {
	at := time.UnixMilli(s.At).UTC()
	if day := at.Format(time.DateOnly); day != p.day {
		p.day = day
		fmt.Fprintf(p.w, "%s UTC\n", day)
	}
	detail, rest := describe(s)
	line := fmt.Sprintf("%s %+10.3f  %s  %-8s %-10s %s", at.Format(time.TimeOnly), float64(s.SinceMs)/1000,
		pad(head(plain(string(s.Scope)), scopeWidth), scopeWidth), s.Step, detail, cut(plain(rest), restWidth))
	line = strings.TrimRight(line, " ")
	if on := p.style(s); on != "" {
		line = on + line + "\x1b[0m"
	}
	fmt.Fprintln(p.w, line)
}

// style is how a terminal sets a line: what the agent hears stands out.
func (p *textPrinter) style(s step) string {
	switch {
	case !p.color:
		return ""
	case s.Step == stepLetter || s.Step == stepRetry:
		return "\x1b[31m" // red
	case s.Step == stepDecision && s.Route == attend.RouteInterrupt:
		return "\x1b[1m" // bold
	case s.Step == stepDecision:
		return ""
	}
	return "\x1b[2m" // faint
}

// describe is what stands behind the step's name.
func describe(s step) (detail, rest string) {
	switch s.Step {
	case stepSettle:
		rest = count(s.Events, "event") + "  " + short(s.ID)
		if s.Waits > 0 {
			rest += "  waited " + strconv.Itoa(s.Waits) + "x"
		}
		return string(s.Reason), rest
	case stepVerdict:
		if len(s.Probabilities) > 0 {
			rest = "p(act) " + decimal(s.Probabilities[attend.RouteInterrupt]+s.Probabilities[attend.RouteAsk])
		}
		if s.Confidence > 0 {
			rest += "  confidence " + decimal(s.Confidence)
		}
		return string(s.Route), strings.TrimSpace(rest)
	case stepChange:
		return string(s.Route), "was " + string(s.From)
	case stepDecision:
		return string(s.Route), headline(s.Decision.Window)
	case stepRetry:
		rest = "in " + time.Duration((s.NextAt-s.At)*int64(time.Millisecond)).String() + ": " + s.Message
		if s.Account {
			rest = "account, " + rest
		}
		return string(s.Stage), rest
	case stepDrop:
		return string(s.Why), count(s.Events, "event") + ": " + strings.Join(s.IDs, " ")
	}
	return string(s.Stage), count(s.Failed, "failure") + ": " + s.Message
}

// short is enough of an id to tell it from others nearby.
func short(id attend.DecisionID) string { return string(id)[:min(8, len(id))] }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// decimal is a probability in so few digits that a threshold of that number
// still acts on it (within 1e-9).
func decimal(p float64) string {
	s := strings.TrimRight(strconv.FormatFloat(p, 'f', 9, 64), "0")
	return strings.TrimSuffix(s, ".")
}

// plain is s with a mark in place of every character that could move what stands
// beside it on a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// cut is s in at most n characters, without its end.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// head is s in at most n characters, without its beginning: scopes differ in
// their ends.
func head(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}
