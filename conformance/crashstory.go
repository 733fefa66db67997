package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A story is what happens to some scopes, as data: which events come when, what
// the judge, the sink and the dead-letter handler say, and what has to come of
// it. It is read from text, a line each:
//
//	set ClosingGrace=20s ...         settings of every process
//	judge a2 fail fail queue         its answers for the window whose last event is a2
//	sink a2 fail, letters a2 fail    how they take its decision, its dead letter
//	20s repo push a2:closing         20 s after the start, in scope repo
//	20s p2 repo flush busy           in the second process, while something is under way
//	meanwhile p2 repo push b1:flush  before the process above hears of its commit
//	want repo queue a1 a2            a decision, or a stage for a dead letter
//	left repo l1                     events that no window has settled with
//	twice a1                         an event that was forgotten, and came again
//
// Between its lines every scope comes to rest, but for those that say busy:
// while a dead process's lease runs, later events join other windows than they
// would have. Those that say busy are such that it makes no difference.
type story struct {
	name     string
	settings []string
	steps    []step
	judge    map[string]reply
	sink     map[string]reply
	letters  map[string]reply
	want     []string
	left     []string
	twice    []string
}

// A step is one line that happens.
type step struct {
	line      string
	at        time.Duration // from the start
	by        int           // the process, from 0
	scope     attend.Scope
	do        string
	events    []attend.Event
	source    string // of a batch
	after     attend.Cursor
	cursor    attend.Cursor
	gap       bool
	words     []string // the settings of a deployment, the events that go with a scope
	busy      bool
	meanwhile []step
}

// A reply is how the judge, the sink or the handler answers for one window.
type reply struct {
	first  []answer          // the first answers, which don't come again
	always error             // instead of judgments
	routes []attend.Judgment // by how often the window has waited; the last one stays
}

// An answer is a judgment or an error. Where stop is set, the process is asked
// to end while it waits for it.
type answer struct {
	attend.Judgment
	err  error
	stop bool
}

var errRefused = errors.New("it was refused")

// tell reads a story. A text that is none is a mistake of this package.
func tell(name, text string) *story {
	s := &story{name: name, judge: make(map[string]reply), sink: make(map[string]reply), letters: make(map[string]reply)}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		line = strings.Join(words, " ")
		if err := s.read(line, words[0], words[1:]); err != nil {
			panic(fmt.Sprintf("conformance: story %s: %s: %v", name, line, err))
		}
	}
	return s
}

func (s *story) read(line, first string, rest []string) error {
	switch first {
	case "set":
		s.settings = append(s.settings, rest...)
	case "judge":
		return answers(s.judge, rest)
	case "sink":
		return answers(s.sink, rest)
	case "letters":
		return answers(s.letters, rest)
	case "want":
		s.want = append(s.want, strings.Join(rest, " "))
	case "left":
		s.left = append(s.left, strings.Join(rest, " "))
	case "twice":
		s.twice = append(s.twice, rest...)
	default:
		st, err := readStep(line, first, rest)
		if err != nil {
			return err
		}
		if first != "meanwhile" {
			s.steps = append(s.steps, st)
			return nil
		}
		last := &s.steps[len(s.steps)-1]
		st.at = last.at
		last.meanwhile = append(last.meanwhile, st)
	}
	return nil
}

func readStep(line, first string, rest []string) (step, error) {
	st := step{line: line}
	if first != "meanwhile" {
		var err error
		if st.at, err = time.ParseDuration(first); err != nil {
			return st, err
		}
	}
	if len(rest) > 0 && (rest[0] == "p1" || rest[0] == "p2") {
		st.by = int(rest[0][1] - '1')
		rest = rest[1:]
	}
	if len(rest) < 2 {
		return st, errors.New("no scope, or nothing to do")
	}
	st.scope, st.do = attend.Scope(rest[0]), rest[1]
	rest = rest[2:]
	if n := len(rest); n > 0 && rest[n-1] == "busy" {
		st.busy, rest = true, rest[:n-1]
	}
	switch st.do {
	case "batch", "rival":
		st.source, rest = rest[0], rest[1:]
	case "deploy", "remove":
		st.words, rest = rest, nil
	case "push", "flush", "end":
	default:
		return st, errors.New("unknown verb")
	}
	for _, word := range rest {
		after, cursor, isCursor := strings.Cut(word, ">")
		switch {
		case isCursor:
			st.after, st.cursor = attend.Cursor(after), attend.Cursor(cursor)
		case word == "gap":
			st.gap = true
		default:
			e, err := readEvent(word)
			if err != nil {
				return st, err
			}
			e.At = storyTime(st.at)
			st.events = append(st.events, e)
		}
	}
	return st, nil
}

func storyTime(d time.Duration) time.Time { return time.UnixMilli(noon.Add(d).UnixMilli()) }

// readEvent reads id:kind, or id:kind*900 for one with so many bytes of data.
func readEvent(word string) (attend.Event, error) {
	id, kind, ok := strings.Cut(word, ":")
	if !ok {
		return attend.Event{}, errors.New("an event is id:kind")
	}
	kind, size, _ := strings.Cut(kind, "*")
	n := 0
	if size != "" {
		var err error
		if n, err = strconv.Atoi(size); err != nil {
			return attend.Event{}, err
		}
	}
	return attend.Event{
		ID: id, Name: kind + ".event", Text: "this is " + id,
		Data: []byte(`{"fill":"` + strings.Repeat("x", n) + `"}`),
	}, nil
}

// storyKind is the kind of an event of a story, or none.
func storyKind(e attend.Event) attend.Kind {
	kind, _, _ := strings.Cut(e.Name, ".")
	return attend.Kind(kind)
}

// answers reads an id and the answers for the window that ends with it.
func answers(to map[string]reply, words []string) error {
	if len(words) < 2 {
		return errors.New("no answer")
	}
	var r reply
	for _, word := range words[1:] {
		what, number, _ := strings.Cut(word, ":")
		switch what {
		case "fail":
			r.first = append(r.first, answer{err: errRefused})
		case "later":
			d, err := time.ParseDuration(number)
			if err != nil {
				return err
			}
			r.first = append(r.first, answer{err: &attend.RetryAfterError{After: d, Err: errRefused}})
		case "account":
			r.first = append(r.first, answer{err: attend.PermanentAccount(errRefused)})
		case "bad": // a judgment that breaks a rule
			r.first = append(r.first, answer{Judgment: attend.Judgment{Route: attend.RouteQueue, Confidence: 2}})
		case "stop":
			r.first = append(r.first, answer{stop: true})
		case "first": // a judgment that doesn't come again, as it can't be taken
			r.first = append(r.first, answer{Judgment: attend.Judgment{Route: attend.Route(number)}})
		case "down":
			r.always = errRefused
		case "permanent":
			r.always = attend.Permanent(errRefused)
		case "outage":
			r.always = attend.PermanentAccount(errRefused)
		default:
			j, err := readJudgment(word)
			if err != nil {
				return err
			}
			r.routes = append(r.routes, j)
		}
	}
	to[words[0]] = r
	return nil
}

// readJudgment reads a route, or one with probabilities: skip(interrupt=0.5,ask=0.3).
func readJudgment(word string) (attend.Judgment, error) {
	route, rest, _ := strings.Cut(strings.TrimSuffix(word, ")"), "(")
	j := attend.Judgment{Route: attend.Route(route)}
	if !slices.Contains(attend.AllRoutes(), j.Route) {
		return j, errors.New("unknown answer")
	}
	if rest == "" {
		return j, nil
	}
	j.Probabilities, j.Predicates, j.Confidence = make(map[attend.Route]float64), map[string]float64{"urgent": 0.25}, 0.75
	for pair := range strings.SplitSeq(rest, ",") {
		r, p, _ := strings.Cut(pair, "=")
		v, err := strconv.ParseFloat(p, 64)
		if err != nil {
			return j, err
		}
		j.Probabilities[attend.Route(r)] = v
	}
	return j, nil
}
