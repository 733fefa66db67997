//go:build unix

package interop_test

import (
	"context"
	"encoding/json"
	"maps"
	"sync/atomic"
	"testing"
)

// A script is one of scripts/*.mjs that runs and takes commands, see
// scripts/lines.mjs.
type script struct {
	*program
	last atomic.Int64 // command's id
}

// A line is what a script said.
type line struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *failure        `json:"error"`
	Ready  json.RawMessage `json:"ready"`
	Wire   *message        `json:"wire"`

	text string
}

// A failure is an error of an SDK.
type failure struct {
	Code    any             `json:"code"` // SDKs have numbers and words
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// A message is a notification of Events.
type message struct {
	Method string `json:"method"`
	Params struct {
		Meta struct {
			Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
		EventID   string   `json:"eventId"`
		Name      string   `json:"name"`
		Timestamp string   `json:"timestamp"`
		Data      decision `json:"data"`
		Cursor    string   `json:"cursor"`
		Truncated bool     `json:"truncated"`
	} `json:"params"`
}

// runScript starts a script, which ends with the test.
func runScript(t testing.TB, name string, args ...string) *script {
	t.Helper()
	dir := packages(t)
	return &script{program: run(t, command(context.Background(), dir, name, args...))} // it ends in a cleanup, behind t.Context
}

// line reads what a script said.
func (s *script) line(text string) line {
	l := line{text: text}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		l = line{text: text}
	}
	return l
}

// hear waits for the first line that matches.
func (s *script) hear(what string, match func(line) bool) line {
	s.t.Helper()
	return s.line(s.await(what, func(text string) bool { return match(s.line(text)) }))
}

// heard returns all lines up to now.
func (s *script) heard() []line {
	var out []line
	for _, text := range s.said() {
		out = append(out, s.line(text))
	}
	return out
}

// ready waits until the script is, and reads what it said of itself into v.
func (s *script) ready(v any) {
	s.t.Helper()
	l := s.hear("ready", func(l line) bool { return l.Ready != nil })
	decode(s.t, string(l.Ready), v)
}

// begin gives a command and returns its id.
func (s *script) begin(do string, args map[string]any) int64 {
	s.t.Helper()
	id := s.last.Add(1)
	command := map[string]any{"id": id, "do": do}
	maps.Copy(command, args)
	b, err := json.Marshal(command)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(string(b))
	return id
}

// answer waits for that of a command.
func (s *script) answer(id int64) line {
	s.t.Helper()
	return s.hear("answer", func(l line) bool { return l.ID == id && (l.Result != nil || l.Error != nil) })
}

// do gives a command, waits for its answer, and reads the result into v.
func (s *script) do(do string, args map[string]any, v any) {
	s.t.Helper()
	l := s.answer(s.begin(do, args))
	if l.Error != nil {
		s.t.Fatalf("command %s %v = %s", do, args, l.text)
	}
	if v != nil {
		decode(s.t, string(l.Result), v)
	}
}
