package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// A committedLine is any line of the committed file; fields that are not here
// fail the test.
type committedLine struct {
	Scope string          `json:"scope"`
	ID    string          `json:"id"`
	At    int64           `json:"at"`
	Name  string          `json:"name"`
	Text  string          `json:"text"`
	Data  json.RawMessage `json:"data"`
	Flush bool            `json:"flush"`
	End   bool            `json:"end"`
}

func (l committedLine) control() bool { return l.Flush || l.End }

// read returns the lines of a file, each without its line feed.
func read(t *testing.T, file string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(b, []byte("\n")) {
		t.Errorf("%s does not end with a line feed", file)
	}
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

func strict(t *testing.T, where string, line []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if d.More() {
		t.Fatalf("%s: more than one value", where)
	}
}

func committed(t *testing.T) []committedLine {
	t.Helper()
	var out []committedLine
	for i, line := range read(t, "../github-day.ndjson") {
		if len(line) > 1<<20 {
			t.Errorf("line %d has %d bytes, want at most 1 MiB", i+1, len(line))
		}
		var l committedLine
		strict(t, fmt.Sprintf("line %d", i+1), line, &l)
		out = append(out, l)
	}
	return out
}

func TestCommittedDay(t *testing.T) {
	check := func(where, what, s string, most int) {
		if s == "" || len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("%s: %s %q, want 1 to %d bytes of UTF-8 without control characters", where, what, s, most)
		}
	}
	type key struct{ scope, id string }
	ids := make(map[key]bool)
	var at int64
	for i, l := range committed(t) {
		where := fmt.Sprintf("line %d", i+1)
		check(where, "scope", l.Scope, 512)
		if l.control() {
			if l.Flush && l.End || l.ID != "" || l.Name != "" || l.At != 0 || l.Text != "" || l.Data != nil {
				t.Errorf("%s: a control line holds more than its scope and one of flush and end", where)
			}
			if i == 0 {
				t.Errorf("%s: a control line has no line before it to happen with", where)
			}
			continue
		}
		check(where, "id", l.ID, 256)
		check(where, "name", l.Name, 256)
		check(where, "text", l.Text, 4*maxText)
		if k := (key{l.Scope, l.ID}); ids[k] {
			t.Errorf("%s: id %s is in scope %s twice", where, l.ID, l.Scope)
		} else {
			ids[k] = true
		}
		if l.At < at {
			t.Errorf("%s: at goes back from %d to %d", where, at, l.At)
		}
		at = l.At
		if when := time.UnixMilli(at).UTC(); when.Before(start) || !when.Before(start.Add(16*time.Hour)) {
			t.Errorf("%s: at is %v, want the day from %v on", where, when, start)
		}
		if len(l.Data) < 2 || l.Data[0] != '{' {
			t.Errorf("%s: data is %.20q, want an object", where, l.Data)
		}
	}
}

// TestCommittedDayIsLean: the file was made with this program's extract, and
// nothing private came through.
func TestCommittedDayIsLean(t *testing.T) {
	file, err := os.ReadFile("../github-day.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	if len(file) > 600_000 {
		t.Errorf("the file has %d bytes, want at most 600,000", len(file))
	}
	file = bytes.ReplaceAll(file, []byte(`"html_url":`), nil)
	for _, pattern := range []string{`"node_id":`, `"[a-z_]*url":`, `https?://api\.`, `ssh-rsa`, `[a-z0-9]@[a-z0-9-]+\.[a-z]`} {
		if m := regexp.MustCompile(pattern).Find(file); m != nil {
			t.Errorf("the file holds %q", m)
		}
	}
}

// TestCommittedDayHasEachStep: a step of the day that no payload takes is a
// slip in its name.
func TestCommittedDayHasEachStep(t *testing.T) {
	roles := make(map[string]bool)
	controls := maps.Clone(controls)
	var last string
	for _, l := range committed(t) {
		if l.control() {
			delete(controls, last)
			continue
		}
		last = l.Name
		event, _, _ := strings.Cut(l.Name, ".")
		roles[role(decode(t, event, string(l.Data)))] = true
	}
	for _, b := range day {
		for _, s := range b.steps {
			if !roles[s.role] {
				t.Errorf("no event takes the step %s", s.role)
			}
		}
	}
	for name := range controls {
		t.Errorf("no line follows a %s", name)
	}
}

// TestKinds finds each name's kind as --kinds does.
func TestKinds(t *testing.T) {
	file, err := os.ReadFile("../kinds.json")
	if err != nil {
		t.Fatal(err)
	}
	var kinds map[string]string
	strict(t, "kinds.json", file, &kinds)
	if n := bytes.Count(file, []byte(`":`)); n != len(kinds) {
		t.Errorf("kinds.json has %d entries of %d names", n, len(kinds))
	}
	valid := []string{"closing", "flush", "continuous", "passive", "consequence", "context"}
	for name, kind := range kinds {
		if !slices.Contains(valid, kind) {
			t.Errorf("%s is of kind %q", name, kind)
		}
		if name == "*" {
			t.Error("a name that fits everything hides a name that was forgotten")
		}
	}
	used := make(map[string]bool)
	for _, l := range committed(t) {
		if l.control() {
			continue
		}
		kind := kindOf(kinds, l.Name)
		if kind == "" {
			t.Errorf("%s has no kind", l.Name)
		}
		used[kind] = true
	}
	for _, kind := range valid {
		if !used[kind] {
			t.Errorf("no event is of kind %s", kind)
		}
	}
	for name, want := range map[string]string{"check_run.created": "context", "check_run.completed": "consequence",
		"pull_request.closed": "closing", "pull_request.synchronize": "continuous", "push": "closing", "pushy": ""} {
		if got := kindOf(kinds, name); got != want {
			t.Errorf("kind of %s = %q, want %q", name, got, want)
		}
	}
}

// kindOf is the kind of the longest pattern that fits a name, and empty where
// none does.
func kindOf(kinds map[string]string, name string) string {
	var longest string
	for pattern := range kinds {
		prefix, open := strings.CutSuffix(pattern, "*")
		fits := pattern == name || open && strings.HasPrefix(name, prefix)
		if fits && len(pattern) > len(longest) {
			longest = pattern
		}
	}
	return kinds[longest]
}

func TestAnswers(t *testing.T) {
	type answer struct {
		Route         string             `json:"route"`
		Probabilities map[string]float64 `json:"probabilities"`
		Confidence    float64            `json:"confidence"`
		Error         string             `json:"error"`
		Permanent     bool               `json:"permanent"`
	}
	routes := map[string]int{"interrupt": 0, "queue": 0, "note": 0, "ask": 0, "skip": 0, "wait": 0}
	var last answer
	for i, line := range read(t, "../answers.ndjson") {
		where := fmt.Sprintf("line %d", i+1)
		var a answer
		strict(t, where, line, &a)
		last = a
		if a.Error != "" {
			if a.Route != "" || a.Probabilities != nil || a.Confidence != 0 {
				t.Errorf("%s: an error and an answer", where)
			}
			continue
		}
		if _, ok := routes[a.Route]; !ok || a.Permanent {
			t.Errorf("%s: route %q, permanent %v", where, a.Route, a.Permanent)
		}
		routes[a.Route]++
		if a.Confidence < 0 || a.Confidence > 1 {
			t.Errorf("%s: confidence %v", where, a.Confidence)
		}
		sum := 0.0
		for route, p := range a.Probabilities {
			if _, ok := routes[route]; !ok || p < 0 || p > a.Probabilities[a.Route] {
				t.Errorf("%s: probability %v of %q, beside %s", where, p, route, a.Route)
			}
			sum += p
		}
		if a.Probabilities != nil && math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s: the probabilities add up to %v, want 1", where, sum)
		}
	}
	for route, n := range routes {
		if n == 0 {
			t.Errorf("no answer is %s", route)
		}
	}
	// The last answer is given again and again, to windows of every reason.
	if last.Route == "" || last.Route == "wait" {
		t.Errorf("the last answer is %+v, want a route that is always on offer", last)
	}
}

func TestReadmeCounts(t *testing.T) {
	scopes, names := make(map[string]bool), make(map[string]bool)
	events, controls := 0, 0
	for _, l := range committed(t) {
		if l.control() {
			controls++
			continue
		}
		events++
		scopes[l.Scope], names[l.Name] = true, true
	}
	want := fmt.Sprintf("%d events of %d names in %d scopes, and %d lines", events, len(names), len(scopes), controls)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(readme, []byte(want)) {
		t.Errorf("README.md does not say %q", want)
	}
}
