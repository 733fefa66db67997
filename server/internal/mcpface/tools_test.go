package mcpface

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

// waited is what attend_wait answers.
type waited struct {
	Decisions                     []json.RawMessage
	Cursor                        string
	Truncated, TimedOut, Stopping bool
}

func (r waited) texts(t testing.TB) (out []string) {
	t.Helper()
	for _, b := range r.Decisions {
		d, _ := decisionOf(t, b)
		out = append(out, d.Window.Events[0].Text)
	}
	return out
}

// tool calls a tool and returns its text and whether it is an error.
func tool(t testing.TB, s *mcp.ClientSession, name, arguments string, out any) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s(%s): %v", name, arguments, err)
	}
	text = r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		return text, true
	}
	b, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	conforms(t, map[string]string{WaitTool: waitOutput, WindowTool: windowOutput}[name], b)
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			t.Fatal(err)
		}
	}
	return text, false
}

// conforms checks JSON against a schema, with the help of a log that takes nothing
// else.
func conforms(t testing.TB, schema string, data []byte) {
	t.Helper()
	log := mcpevents.NewLog(mcpevents.LogConfig{})
	if _, err := mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{Name: "x", Payload: json.RawMessage(schema), Backend: log}}}); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(mcpevents.Event{ID: "x", Data: data}); err != nil {
		t.Errorf("%v: %.300s", err, data)
	}
}

func wait(t testing.TB, s *mcp.ClientSession, arguments string) (r waited, text string) {
	t.Helper()
	text, failed := tool(t, s, WaitTool, arguments, &r)
	if failed {
		t.Fatalf("attend_wait(%s): %s", arguments, text)
	}
	if r.Cursor == "" || r.Decisions == nil || !strings.HasSuffix(text, "Next cursor: "+r.Cursor) {
		t.Fatalf("attend_wait(%s) = %+v, %q: want a cursor in both", arguments, r, text)
	}
	return r, text
}

func TestM3TheToolsAreDescribed(t *testing.T) {
	for _, version := range []string{modern, older} {
		s := newWorld(t, nil).session("", "ann", version).MCP()
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if a := tool.Annotations; a == nil || !a.ReadOnlyHint || a.OpenWorldHint == nil || *a.OpenWorldHint || tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil {
				t.Errorf("%s: %+v", tool.Name, tool)
			}
		}
		if !slices.Equal(names, []string{WaitTool, WindowTool}) {
			t.Errorf("the tools are %v", names)
		}
		if s.InitializeResult().Instructions == "" {
			t.Error("there are no instructions")
		}
	}
}

// The life of a model with attend_wait: it begins now, passes the cursor back, and
// misses nothing.
func TestM3WaitPassesTheCursorBack(t *testing.T) {
	for _, version := range []string{modern, older} {
		for _, over := range []string{"memory", "http"} {
			w := newWorld(t, nil)
			url := ""
			if over == "http" {
				url = w.serve()
			}
			s := w.session(url, "ann", version).MCP()
			w.decide("ops", attend.RouteNote, "before")
			r, text := wait(t, s, `{"timeoutMs":0}`)
			if !r.TimedOut || len(r.Decisions) != 0 || r.Truncated || !strings.HasPrefix(text, "Nothing yet.") {
				t.Errorf("a wait from now on = %+v, %q", r, text)
			}
			w.decide("dev", attend.RouteNote, "foreign")
			d := w.decide("ops/db", attend.RouteInterrupt, "one")
			w.decide("ops", attend.RouteNote, "two")
			w.decide("ops", attend.RouteNote, "three")
			r, text = wait(t, s, fmt.Sprintf(`{"cursor":%q,"limit":2}`, r.Cursor))
			if r.TimedOut || r.Truncated || !slices.Equal(r.texts(t), []string{"one", "two"}) {
				t.Errorf("the next wait = %+v", r)
			}
			if want := "[interrupt] ops/db\n" + attend.DefaultNotice(d); !strings.HasPrefix(text, want) {
				t.Errorf("its text is %q, want it to begin with %q", text, want)
			}
			if r, _ = wait(t, s, fmt.Sprintf(`{"cursor":%q}`, r.Cursor)); !slices.Equal(r.texts(t), []string{"three"}) {
				t.Errorf("the wait after it = %+v", r)
			}
			// One that waits is answered by what comes.
			done := make(chan waited)
			cursor := r.Cursor
			go func() {
				r, _ := wait(t, s, fmt.Sprintf(`{"cursor":%q,"scope":"ops/","timeoutMs":60000}`, cursor))
				done <- r
			}()
			until(t, "a call waits", func() bool { return w.face.c.Feed.Subscribers()["wait"] == 1 })
			w.decide("ops", attend.RouteNote, "not below")
			w.decide("ops/x", attend.RouteNote, "four")
			if r := <-done; !slices.Equal(r.texts(t), []string{"four"}) || r.TimedOut {
				t.Errorf("the wait = %+v", r)
			}
			if n := w.face.c.Feed.Subscribers()["wait"]; n != 0 {
				t.Errorf("%d calls are counted as waiting, want none", n)
			}
		}
	}
}

// The times of a wait, on a fake clock.
func TestM3WaitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, row := range []struct {
			arguments string
			want      time.Duration
		}{
			{`{}`, 25 * time.Second}, {`{"timeoutMs":60000}`, time.Minute}, {`{"timeoutMs":null,"cursor":null}`, 25 * time.Second}, {`{"timeoutMs":0}`, 0},
		} {
			s := w.session("", "ann", modern)
			began := time.Now()
			r, _ := wait(t, s.MCP(), row.arguments)
			if took := time.Since(began); took != row.want || !r.TimedOut {
				t.Errorf("attend_wait(%s) took %v, want %v: %+v", row.arguments, took, row.want, r)
			}
			_ = s.Close()
		}
	})
}

func TestM3WaitSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session("", "ann", modern).MCP()
	for _, row := range []struct{ arguments, want string }{
		{`{"timeoutMs":60001}`, "timeoutMs: want a whole number from 0 to 60000"},
		{`{"timeoutMs":-1}`, "timeoutMs"}, {`{"timeoutMs":"5"}`, "timeoutMs"}, {`{"timeoutMs":1.5}`, "timeoutMs"},
		{`{"limit":0}`, "limit: want a whole number from 1 to 100"}, {`{"limit":101}`, "limit"},
		{`{"cursor":"garbage"}`, "cursor: want one that an earlier call answered"}, {`{"cursor":7}`, "cursor: want a string"},
		{`{"scope":["ops"]}`, "scope: want a string"}, {`{"scope":"a\u0000b"}`, "scope: want at most 512 bytes"},
		{`{"Scope":"ops"}`, "an argument is unknown; there are cursor, limit, scope, timeoutMs"},
		{`{"secret-word":1}`, "unknown"},
	} {
		text, failed := tool(t, s, WaitTool, row.arguments, nil)
		if !failed || !strings.Contains(text, row.want) || strings.Contains(text, "garbage") || strings.Contains(text, "secret") {
			t.Errorf("attend_wait(%s) = %q, error %v, want an error with %q", row.arguments, text, failed, row.want)
		}
	}
	deaf := w.session("", "deaf", modern).MCP()
	for _, call := range []struct{ name, arguments string }{{WaitTool, `{}`}, {WindowTool, `{"scope":"ops"}`}} {
		if text, failed := tool(t, deaf, call.name, call.arguments, nil); !failed || text != "you have no right to read here" {
			t.Errorf("%s by who may not read = %q", call.name, text)
		}
	}
}

// M6, for attend_wait.
func TestM6WaitTellsTruncated(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session("", "ann", modern).MCP()
	r, _ := wait(t, s, `{"timeoutMs":0}`)
	start := r.Cursor
	for i := range 4 {
		w.decide("ops", attend.RouteNote, fmt.Sprint("n", i))
	}
	w.trim(1)
	now, err := w.face.c.Feed.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, cursor := range map[string]string{
		"behind retention": start, "another epoch": attend.LogCursor{Epoch: "other", Position: 1}.String(),
		"ahead": attend.LogCursor{Epoch: now.Epoch, Position: now.Position + 9}.String(),
	} {
		r, text := wait(t, s, fmt.Sprintf(`{"cursor":%q}`, cursor))
		if !r.Truncated || !slices.Equal(r.texts(t), []string{"n3"}) || !strings.Contains(text, "are not kept any more") {
			t.Errorf("%s: %+v, %q", name, r, text)
		}
		// It is told at once, also where there is nothing to read.
		if r, _ = wait(t, s, fmt.Sprintf(`{"cursor":%q,"scope":"dev"}`, cursor)); !r.Truncated || len(r.Decisions) != 0 || r.TimedOut {
			t.Errorf("%s, of a foreign scope: %+v", name, r)
		}
		if r, _ = wait(t, s, fmt.Sprintf(`{"cursor":%q,"timeoutMs":0}`, r.Cursor)); r.Truncated || !r.TimedOut {
			t.Errorf("%s, the wait after it: %+v", name, r)
		}
	}
}

// An answer is bounded, and the cursor stands behind what is in it.
func TestM3AnAnswerIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session("", "ann", modern).MCP()
	r, _ := wait(t, s, `{"timeoutMs":0}`)
	const n = 9
	for i := range n {
		w.decide("ops", attend.RouteNote, fmt.Sprint("n", i), strings.Repeat("x", 50<<10))
	}
	var heard []string
	for calls := 0; len(heard) < n; calls++ {
		if calls == n {
			t.Fatalf("after %d calls only %v", calls, heard)
		}
		r, _ = wait(t, s, fmt.Sprintf(`{"cursor":%q}`, r.Cursor))
		size := 0
		for _, b := range r.Decisions {
			size += len(b)
		}
		if size > maxAnswer || len(r.Decisions) == 0 {
			t.Errorf("an answer has %d decisions of %d bytes", len(r.Decisions), size)
		}
		heard = append(heard, r.texts(t)...)
	}
	if want := []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"}; !slices.Equal(heard, want) {
		t.Errorf("heard %v", heard)
	}
}

// Who cancels a call ends its wait, over both transports and at both revisions.
func TestM3CancellationEndsAWait(t *testing.T) {
	for _, version := range []string{modern, older} {
		for _, over := range []string{"memory", "http"} {
			w := newWorld(t, nil)
			url := ""
			if over == "http" {
				url = w.serve()
			}
			s := w.session(url, "ann", version).MCP()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: WaitTool, Arguments: json.RawMessage(`{"timeoutMs":60000}`)})
				done <- err
			}()
			waiting := func(n int) func() bool {
				return func() bool { return w.face.c.Feed.Subscribers()["wait"] == n }
			}
			until(t, "the call waits", waiting(1))
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s at %s: %v", over, version, err)
			}
			until(t, over+" at "+version+": the server's wait has ended", waiting(0))
		}
	}
}

// The end of the server is an answer with the cursor; streams end with their result.
func TestM3TheEndOfTheServerEndsAWait(t *testing.T) {
	w := newWorld(t, nil)
	url := w.serve()
	s := w.session(url, "ann", modern).MCP()
	next := raw{t, url, "ann"}.stream(t.Context(), `{"name":"attention.decision"}`)
	if f := next(); f.Method != "notifications/events/active" {
		t.Fatalf("%+v", f)
	}
	done := make(chan waited)
	go func() {
		r, _ := wait(t, s, `{"timeoutMs":60000}`)
		done <- r
	}()
	until(t, "the call waits", func() bool { return w.face.c.Feed.Subscribers()["wait"] == 1 })
	if err := w.face.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-done:
		if !r.Stopping || r.TimedOut || len(r.Decisions) != 0 {
			t.Errorf("the wait = %+v", r)
		}
	case <-time.After(20 * time.Second):
		t.Error("the wait goes on 20 s after the server's end")
	}
	if f := next(); f.Result == nil {
		t.Errorf("the stream's last frame is %+v", f)
	}
	if err := w.face.Close(); err != nil {
		t.Errorf("Close after Shutdown: %v", err)
	}
}

// So many calls wait and no more, and nobody keeps the others from it.
func TestM3TooManyWaits(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Waits = 4 })
	sessions := make(map[string]*mcp.ClientSession)
	for _, who := range []string{"ann", "bob", "root"} {
		sessions[who] = w.session("", who, modern).MCP()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for i, who := range []string{"ann", "ann", "bob", "bob"} {
		if text, failed := tool(t, sessions[who], WaitTool, `{"timeoutMs":0}`, nil); failed {
			t.Errorf("%s has %d calls of his own among %d: %q", who, i%2, i, text)
		}
		calls.Go(func() { _, _ = sessions[who].CallTool(ctx, &mcp.CallToolParams{Name: WaitTool}) })
		until(t, "the call waits", func() bool { return w.face.c.Feed.Subscribers()["wait"] == i+1 })
		if i%2 == 0 {
			continue
		}
		if text, failed := tool(t, sessions[who], WaitTool, `{}`, nil); !failed || !strings.Contains(text, "too many") {
			t.Errorf("a call of %s beyond half = %q", who, text)
		}
	}
	if text, failed := tool(t, sessions["root"], WaitTool, `{}`, nil); !failed || !strings.Contains(text, "too many") {
		t.Errorf("the call beyond = %q", text)
	}
	cancel()
	calls.Wait()
	until(t, "the calls are over", func() bool { return w.face.c.Feed.Subscribers()["wait"] == 0 })
	if text, failed := tool(t, sessions["root"], WaitTool, `{"timeoutMs":0}`, nil); failed {
		t.Errorf("a call once they are over = %q", text)
	}
}

// A store that fails is said in words of ours.
func TestM3AFailingStore(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Engine = broken{}
		c.Feed = decisions.NewFeed(broken{}, quiet())
	})
	s := w.session("", "ann", modern).MCP()
	for _, call := range []struct{ name, arguments string }{{WaitTool, `{}`}, {WindowTool, `{"scope":"ops"}`}} {
		if text, failed := tool(t, s, call.name, call.arguments, nil); !failed || text != "the store does not answer" {
			t.Errorf("%s = %q", call.name, text)
		}
	}
}

// A log that can be read but fails to wait is looked at.
func TestM3ALogThatFailsToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		w := newWorld(t, func(c *Config) { c.Feed = decisions.NewFeed(restless{store.Log()}, quiet()) })
		w.store = store
		time.AfterFunc(10*time.Second, func() { w.decide("ops", attend.RouteNote, "one") })
		a, err := parseArgs(nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := w.face.wait(access.With(t.Context(), named("ann")), a)
		if err != nil || !strings.Contains(res.text, "one") {
			t.Errorf("attend_wait = %v, %v, want what came", res, err)
		}
	})
}

type restless struct{ attend.DecisionLog }

func (restless) Wait(context.Context, attend.Query) error { return errBroken }

type broken struct{ attend.DecisionLog }

var errBroken = errors.New("postgres://user:hunter2@db refused")

func (broken) Bounds(context.Context) (attend.Bounds, error) { return attend.Bounds{}, errBroken }

func (broken) State(context.Context, attend.Scope) (machine.State, error) {
	return machine.State{}, errBroken
}
