package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for anything; the machine may be busy.
const patience = time.Minute

// A script is a running script of this folder, see scripts/lines.mjs.
type script struct {
	t  testing.TB
	in io.WriteCloser

	mu    sync.Mutex
	lines []line
	ended bool
	grown chan struct{} // closed at the next line
	last  int           // the last command's id
}

// A line is what a script said.
type line struct {
	// The answer to the command of this id.
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    any             `json:"code"` // SDKs have numbers and words
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	// Once, when it is ready.
	Ready json.RawMessage `json:"ready"`
	// A client of an SDK: a message as it came, and a notification as the
	// SDK's handler got it.
	Wire *message `json:"wire"`
	Note *message `json:"note"`
	// An end of webhooks.
	Event       json.RawMessage `json:"event"`
	Gap         json.RawMessage `json:"gap"`
	Termination json.RawMessage `json:"termination"`
	Answered    json.RawMessage `json:"answered"`
	Upserted    json.RawMessage `json:"upserted"`

	text string
}

// A message is one of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta struct {
			Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
		EventID   string          `json:"eventId"`
		Name      string          `json:"name"`
		Timestamp string          `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
		Cursor    *string         `json:"cursor"`
		Truncated bool            `json:"truncated"`
		Error     *struct {
			Code int64           `json:"code"`
			Data json.RawMessage `json:"data"`
		} `json:"error"`
		Notifications map[string]any `json:"notifications"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code int64           `json:"code"`
		Data json.RawMessage `json:"data"`
	} `json:"error"`
}

// runScript starts a script, which ends with the test.
func runScript(t testing.TB, env []string, name string, args ...string) *script {
	t.Helper()
	dir := packages(t)
	ctx, cancel := context.WithCancel(context.Background()) // t.Context ends before Cleanup
	cmd := command(ctx, dir, name, args...)
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, in: in, grown: make(chan struct{})}
	var reader sync.WaitGroup
	reader.Go(func() { s.read(out) })
	t.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(5*time.Second, cancel)
		reader.Wait()
		err := cmd.Wait()
		kill.Stop()
		cancel()
		if t.Failed() {
			t.Logf("%s ended: %v\n%s", name, err, stderr.String())
		}
	})
	return s
}

func (s *script) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		l := line{text: lines.Text()}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			l.text = "no JSON: " + l.text
		}
		s.mu.Lock()
		s.lines = append(s.lines, l)
		close(s.grown)
		s.grown = make(chan struct{})
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.ended = true
	close(s.grown)
	s.grown = make(chan struct{})
	s.mu.Unlock()
}

// said returns all lines up to now.
func (s *script) said() []line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[:len(s.lines):len(s.lines)]
}

// await returns the first line that matches, and waits for it.
func (s *script) await(what string, match func(line) bool) line {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for from := 0; ; {
		s.mu.Lock()
		lines, ended, grown := s.lines, s.ended, s.grown
		s.mu.Unlock()
		for _, l := range lines[from:] {
			if match(l) {
				return l
			}
		}
		from = len(lines)
		if ended {
			s.t.Fatalf("the script ended before %s; it said\n%s", what, s.tail())
		}
		select {
		case <-grown:
		case <-late.C:
			s.t.Fatalf("no %s within %v; the script said\n%s", what, patience, s.tail())
		}
	}
}

// tail is the end of what was said.
func (s *script) tail() string {
	lines := s.said()
	lines = lines[max(0, len(lines)-12):]
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text[:min(len(l.text), 400)] + "\n")
	}
	return b.String()
}

// ready waits until the script is, and reads what it said of itself into v.
func (s *script) ready(v any) {
	s.t.Helper()
	l := s.await("ready", func(l line) bool { return l.Ready != nil })
	if v != nil {
		decode(s.t, l.Ready, v)
	}
}

// begin gives a command and returns its id.
func (s *script) begin(do string, args map[string]any) int {
	s.t.Helper()
	s.mu.Lock()
	s.last++
	id := s.last
	s.mu.Unlock()
	command := map[string]any{"id": id, "do": do}
	maps.Copy(command, args)
	b, err := json.Marshal(command)
	if err == nil {
		_, err = s.in.Write(append(b, '\n'))
	}
	if err != nil {
		s.t.Fatalf("command %s: %v", do, err)
	}
	return id
}

// answer waits for that of a command.
func (s *script) answer(id int) line {
	s.t.Helper()
	return s.await("answer", func(l line) bool { return l.ID == id && (l.Result != nil || l.Error != nil) })
}

// do gives a command, waits for its answer, and reads the result into v.
func (s *script) do(do string, args map[string]any, v any) {
	s.t.Helper()
	l := s.answer(s.begin(do, args))
	if l.Error != nil {
		s.t.Fatalf("command %s %v = %s", do, args, l.text)
	}
	if v != nil {
		decode(s.t, l.Result, v)
	}
}

// refused gives a command that is to fail with a code.
func (s *script) refused(do string, args map[string]any, code int) line {
	s.t.Helper()
	l := s.answer(s.begin(do, args))
	if l.Error == nil || l.Error.Code != float64(code) {
		s.t.Fatalf("command %s %v = %s, want error %d", do, args, l.text, code)
	}
	return l
}

func decode(t testing.TB, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("decode %s: %v", b, err)
	}
}
