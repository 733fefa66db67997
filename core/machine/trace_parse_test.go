package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A traceLine is a line taken apart. What is read from it is taken out of
// words, so that what is left over was not understood.
type traceLine struct {
	timed bool
	at    time.Duration
	verb  string
	words []string
	err   error
}

// traceParse takes a line apart. A text in quotes is one word.
func traceParse(line string) (*traceLine, error) {
	l := new(traceLine)
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if q, err := strconv.QuotedPrefix(line); err == nil {
			l.words = append(l.words, q)
			line = line[len(q):]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		l.words = append(l.words, word)
		line = rest
	}
	if at, err := traceDuration(l.words[0]); err == nil {
		l.timed, l.at, l.words = true, at, l.words[1:]
	}
	if len(l.words) == 0 {
		return nil, fmt.Errorf("a time and nothing else")
	}
	l.verb, l.words = l.words[0], l.words[1:]
	return l, nil
}

// rest is an error if anything was not understood.
func (l *traceLine) rest() error {
	if l.err == nil && len(l.words) > 0 {
		l.err = fmt.Errorf("what is %q", l.words)
	}
	return l.err
}

func (l *traceLine) clear() { l.words = nil }

// next takes the first word.
func (l *traceLine) next() string {
	if len(l.words) == 0 {
		l.fail("too short")
		return ""
	}
	word := l.words[0]
	l.words = l.words[1:]
	return word
}

// flag takes a word, wherever it is.
func (l *traceLine) flag(name string) bool {
	i := slices.Index(l.words, name)
	if i >= 0 {
		l.words = slices.Delete(l.words, i, i+1)
	}
	return i >= 0
}

// after takes a word and the one behind it, which it returns.
func (l *traceLine) after(name string) (string, bool) {
	i := slices.Index(l.words, name)
	if i < 0 {
		return "", false
	}
	if i == len(l.words)-1 {
		l.fail("nothing behind " + name)
		return "", false
	}
	word := l.words[i+1]
	l.words = slices.Delete(l.words, i, i+2)
	return word, true
}

func (l *traceLine) fail(why string) {
	if l.err == nil {
		l.err = fmt.Errorf("%s: %s", l.verb, why)
	}
}

// duration takes a word and the duration behind it.
func (l *traceLine) duration(name string, otherwise time.Duration) time.Duration {
	word, ok := l.after(name)
	if !ok {
		return otherwise
	}
	d, err := traceDuration(word)
	if err != nil {
		l.fail(err.Error())
	}
	return d
}

// traceDuration reads a duration that may begin with days, such as 30d500ms.
func traceDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.Atoi(days)
	if err != nil {
		return 0, err
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}

func (l *traceLine) quoted(word string) string {
	s, err := strconv.Unquote(word)
	if err != nil {
		l.fail("want text in quotes, not " + word)
	}
	return s
}

func (l *traceLine) cursor(name string) attend.Cursor {
	word, ok := l.after(name)
	if !ok {
		l.fail("no " + name)
	}
	if word == "-" {
		return ""
	}
	return attend.Cursor(word)
}

// traceSecret is in each event's data and text, and nowhere where no data of an
// event may be.
const traceSecret = "nobody else's business"

func traceEvent(id string) attend.Event {
	return attend.Event{ID: id, Name: "event", Data: json.RawMessage(`"` + traceSecret + `"`)}
}

// traceRange reads e1..e300, which is three hundred ids.
func traceRange(s string) ([]string, error) {
	from, to, ok := strings.Cut(s, "..")
	if !ok {
		return []string{s}, nil
	}
	name, first := traceNumber(from)
	same, last := traceNumber(to)
	if name != same || first < 0 || last < first {
		return nil, fmt.Errorf("no range: %s", s)
	}
	var ids []string
	for n := first; n <= last; n++ {
		ids = append(ids, name+strconv.Itoa(n))
	}
	return ids, nil
}

// traceNumber splits e12 into e and 12; -1 where there is no number.
func traceNumber(s string) (string, int) {
	name := strings.TrimRight(s, "0123456789")
	n, err := strconv.Atoi(s[len(name):])
	if err != nil || strconv.Itoa(n) != s[len(name):] {
		return s, -1
	}
	return name, n
}
