package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A scriptJudge gives answers that were recorded earlier, in order, and stays on
// the last. It is not safe for concurrent use.
type scriptJudge struct {
	answers []answer
	given   int
}

// An answer is a judgment, or an error.
type answer struct {
	judgment attend.Judgment
	err      error
}

// Judge gives the next answer, whatever it is asked.
func (s *scriptJudge) Judge(context.Context, attend.JudgeInput) (attend.Judgment, error) {
	a := s.answers[min(s.given, len(s.answers)-1)]
	s.given++
	j := a.judgment
	j.Probabilities, j.Predicates = maps.Clone(j.Probabilities), maps.Clone(j.Predicates)
	return j, a.err
}

// loadScript reads a file of answers, one a line. An error names line and field.
func loadScript(file string) (*scriptJudge, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := readScript(f)
	if err != nil {
		return nil, fmt.Errorf("script:%s: %w", file, err)
	}
	return s, nil
}

func readScript(r io.Reader) (*scriptJudge, error) {
	s := new(scriptJudge)
	lines := newLineReader(r, maxLine)
	for {
		b, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var a answer
		if err == nil {
			a, err = decodeAnswer(b)
		} else if !errors.Is(err, attend.ErrTooLarge) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s", lines.number, reason(err))
		}
		s.answers = append(s.answers, a)
	}
	if len(s.answers) == 0 {
		return nil, errors.New("there is no answer in it")
	}
	return s, nil
}

// An answerLine is a line of a script as it stands there.
type answerLine struct {
	route         attend.Route
	probabilities map[attend.Route]float64
	predicates    map[string]float64
	confidence    float64

	message            string
	permanent, account bool
	retryAfterMs       int64
}

// decodeAnswer reads an answer. It is somebody's own file, so a field that is
// not known is a mistake in it. An error is an [*attend.InvalidError].
func decodeAnswer(b []byte) (answer, error) {
	var f fields
	if err := json.Unmarshal(b, &f); err != nil || f == nil {
		return answer{}, &attend.InvalidError{Field: "line", Want: "one JSON object"}
	}
	var l answerLine
	for _, name := range slices.Sorted(maps.Keys(f)) {
		to, want := l.field(name)
		if to == nil {
			return answer{}, &attend.InvalidError{Field: name, Want: "no field of this name"}
		}
		if err := json.Unmarshal(f[name], to); err != nil {
			return answer{}, &attend.InvalidError{Field: name, Want: want}
		}
	}
	if f.has("error") {
		return l.failed(f)
	}
	for _, name := range []string{"permanent", "account", "retryAfterMs"} {
		if f.has(name) {
			return answer{}, &attend.InvalidError{Field: name, Want: "an error beside it"}
		}
	}
	return l.judged()
}

// field is where a field goes and what it takes, nil for one that there is not.
func (l *answerLine) field(name string) (to any, want string) {
	switch name {
	case "route":
		return &l.route, "one of " + routeNames()
	case "probabilities":
		return &l.probabilities, "an object of routes and numbers"
	case "predicates":
		return &l.predicates, "an object of names and numbers"
	case "confidence":
		return &l.confidence, "a number from 0 to 1"
	case "error":
		return &l.message, "a string"
	case "permanent":
		return &l.permanent, "true or false"
	case "account":
		return &l.account, "true or false"
	case "retryAfterMs":
		return &l.retryAfterMs, "a whole number"
	}
	return nil, ""
}

// judged is the answer of a judge that judged.
func (l *answerLine) judged() (answer, error) {
	if !l.route.Valid() {
		return answer{}, &attend.InvalidError{Field: "route", Want: "one of " + routeNames()}
	}
	for _, r := range slices.Sorted(maps.Keys(l.probabilities)) {
		if !r.Valid() {
			return answer{}, &attend.InvalidError{Field: "probabilities", Want: "routes alone: " + routeNames()}
		}
		if err := checkProbability("probabilities."+string(r), l.probabilities[r]); err != nil {
			return answer{}, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.predicates)) {
		if err := checkProbability("predicates."+name, l.predicates[name]); err != nil {
			return answer{}, err
		}
	}
	if err := checkProbability("confidence", l.confidence); err != nil {
		return answer{}, err
	}
	return answer{judgment: attend.Judgment{
		Route: l.route, Probabilities: l.probabilities, Predicates: l.predicates, Confidence: l.confidence,
	}}, nil
}

// failed is the answer of a judge that failed.
func (l *answerLine) failed(f fields) (answer, error) {
	for _, name := range []string{"route", "probabilities", "predicates", "confidence"} {
		if f.has(name) {
			return answer{}, &attend.InvalidError{Field: name, Want: "no error beside it"}
		}
	}
	if l.message == "" {
		return answer{}, &attend.InvalidError{Field: "error", Want: "a text"}
	}
	if l.retryAfterMs < 0 || l.retryAfterMs > maxDuration.Milliseconds() {
		return answer{}, &attend.InvalidError{Field: "retryAfterMs", Want: "a whole number from 0 on, at most 100 years"}
	}
	err := errors.New(l.message)
	if l.retryAfterMs > 0 {
		err = &attend.RetryAfterError{After: time.Duration(l.retryAfterMs) * time.Millisecond, Err: err}
	}
	switch {
	case l.account:
		err = attend.PermanentAccount(err)
	case l.permanent:
		err = attend.Permanent(err)
	}
	return answer{err: err}, nil
}

func checkProbability(field string, p float64) error {
	if p >= 0 && p <= 1 {
		return nil
	}
	return &attend.InvalidError{Field: field, Want: "a number from 0 to 1"}
}

// routeNames lists the six routes for people.
func routeNames() string {
	var names []string
	for _, r := range attend.AllRoutes() {
		names = append(names, string(r))
	}
	return inWords(names)
}
