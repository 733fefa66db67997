//go:build unix

package interop_test

import (
	"bytes"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

const extension = "io.modelcontextprotocol/events"

// A host is a way that the official TypeScript SDK reaches the server.
type host struct {
	sdk, revision string // as scripts/mcp_host.mjs takes them
	speaks        string // the revision that comes out
}

func (h host) String() string { return "sdk " + h.sdk + " " + h.speaks }

// streamed reports whether the host's revision can carry a stream over HTTP.
func (h host) streamed() bool { return h.speaks >= "2026-07-28" }

var hosts = []host{
	{"2", "2026-07-28", "2026-07-28"},
	{"2", "auto", "2026-07-28"},
	{"2", "legacy", "2025-11-25"},
	{"1", "legacy", "2025-11-25"},
}

// connect starts a host of a server.
func (h host) connect(t *testing.T, url, token string) *script {
	t.Helper()
	s := runScript(t, "mcp_host.mjs", h.sdk, h.revision, url+"/mcp", token)
	var ready struct {
		Revision     string
		Server       struct{ Name string }
		Capabilities struct {
			Tools      map[string]any
			Extensions map[string]any
		}
	}
	s.ready(&ready)
	if ready.Revision != h.speaks || ready.Server.Name == "" || ready.Capabilities.Tools == nil {
		t.Errorf("the server is %+v, want revision %s, a name and tools", ready, h.speaks)
	}
	if _, has := ready.Capabilities.Extensions[extension]; !has {
		t.Errorf("extensions = %v, want that of Events", ready.Capabilities.Extensions)
	}
	return s
}

// The official TypeScript SDK as a host: the tools and polls of the event at each
// revision, and streams at the newest.
func TestTypeScriptHost(t *testing.T) {
	t.Parallel()
	packages(t)
	for _, h := range hosts {
		t.Run(h.String()+" "+h.revision, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{config: server.Config{Tokens: tokens(t)}})
			s := h.connect(t, w.url, opsToken)
			h.lists(t, s)
			h.waits(t, s, w)
			h.looks(t, s, w)
			h.polls(t, s, w)
			if h.streamed() {
				h.streams(t, s, w)
			} else if l := s.answer(s.begin("request", request("events/stream", map[string]any{"name": "attention.decision"}))); l.Error == nil {
				t.Errorf("events/stream at %s = %s, want an error", h.speaks, l.text)
			}
			s.do("close", nil, nil)
		})
	}
}

// lists sees the tools with their schemas and hints.
func (h host) lists(t *testing.T, s *script) {
	t.Helper()
	var list struct {
		Tools []struct {
			Name, Title, Description  string
			InputSchema, OutputSchema struct {
				Type       string
				Properties map[string]any
			}
			Annotations map[string]any
		}
	}
	s.do("tools", nil, &list)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.InputSchema.Type != "object" || tool.InputSchema.Properties["scope"] == nil ||
			tool.OutputSchema.Type != "object" || len(tool.OutputSchema.Properties) == 0 || tool.Annotations["readOnlyHint"] != true {
			t.Errorf("tool %+v lacks something", tool)
		}
	}
	if slices.Sort(names); strings.Join(names, " ") != "attend_wait attend_window" {
		t.Errorf("tools = %v", names)
	}
}

// A waited is what attend_wait answers.
type waited struct {
	IsError           bool
	Content           []struct{ Type, Text string }
	StructuredContent struct {
		Decisions                     []decision
		Cursor                        string
		Truncated, TimedOut, Stopping bool
	}
}

func call(name string, args map[string]any) map[string]any {
	return map[string]any{"name": name, "args": args}
}

// waits calls attend_wait: from now on, from its cursor on, for what comes while
// it waits, and for what the host may not see.
func (h host) waits(t *testing.T, s *script, w *world) {
	t.Helper()
	var first, next waited
	s.do("tool", call("attend_wait", map[string]any{"timeoutMs": 0}), &first)
	if c := first.StructuredContent; first.IsError || c.Cursor == "" || !c.TimedOut || len(c.Decisions) != 0 {
		t.Fatalf("attend_wait = %+v, want a cursor alone", first)
	}
	w.decide("ops/db", 1, 3)
	w.decide("other", 1, 1)
	from := map[string]any{"cursor": first.StructuredContent.Cursor, "limit": 2}
	s.do("tool", call("attend_wait", from), &next)
	counted(t, "attend_wait", next.StructuredContent.Decisions, 1, 2)
	if len(next.Content) != 1 || !strings.Contains(next.Content[0].Text, "number 2") || !strings.HasSuffix(strings.TrimSpace(next.Content[0].Text), next.StructuredContent.Cursor) {
		t.Errorf("attend_wait's text = %+v, want the notices, and the cursor last", next.Content)
	}
	from["cursor"] = next.StructuredContent.Cursor
	next = waited{}
	s.do("tool", call("attend_wait", from), &next)
	counted(t, "attend_wait behind it", next.StructuredContent.Decisions, 3, 3)

	pending := s.begin("tool", call("attend_wait", map[string]any{"cursor": next.StructuredContent.Cursor, "timeoutMs": 60000}))
	w.decide("other", 2, 2) // wakes nobody
	w.decide("ops/db", 4, 4)
	next = waited{}
	l := s.answer(pending)
	decode(t, string(l.Result), &next)
	counted(t, "attend_wait that waited", next.StructuredContent.Decisions, 4, 4)

	var foreign, wrong waited
	s.do("tool", call("attend_wait", map[string]any{"cursor": first.StructuredContent.Cursor, "scope": "other", "timeoutMs": 0}), &foreign)
	if c := foreign.StructuredContent; foreign.IsError || len(c.Decisions) != 0 || !c.TimedOut {
		t.Errorf("attend_wait for a foreign scope = %+v, want nothing", foreign)
	}
	s.do("tool", call("attend_wait", map[string]any{"timeoutMs": 70000}), &wrong)
	if !wrong.IsError || len(wrong.Content) != 1 || !strings.HasPrefix(wrong.Content[0].Text, "timeoutMs: ") {
		t.Errorf("attend_wait for too long = %+v, want an error that names the argument", wrong)
	}

	// A wait that is cancelled ends for the SDK, and the session goes on.
	pending = s.begin("tool", call("attend_wait", map[string]any{"timeoutMs": 60000}))
	s.do("abort", map[string]any{"of": pending}, nil)
	if l := s.answer(pending); l.Error == nil {
		t.Errorf("a cancelled attend_wait = %s, want the SDK's error", l.text)
	}
}

// looks calls attend_window.
func (h host) looks(t *testing.T, s *script, w *world) {
	t.Helper()
	w.push("ops/web", attend.Event{ID: "a", Name: "log", Text: "piling up"})
	w.push("other", attend.Event{ID: "a", Name: "log", Text: "nobody's business"})
	for scope, seen := range map[string]string{"ops/web": "piling up", "other": ""} {
		var got struct {
			IsError           bool
			StructuredContent struct {
				Open struct{ Events []struct{ Text string } }
			}
		}
		s.do("tool", call("attend_window", map[string]any{"scope": scope}), &got)
		text := ""
		for _, e := range got.StructuredContent.Open.Events {
			text += e.Text
		}
		if got.IsError || text != seen {
			t.Errorf("attend_window of %s = %+v, want %q", scope, got, seen)
		}
	}
}

func request(method string, params map[string]any) map[string]any {
	return map[string]any{"method": method, "params": params}
}

// A polled is what events/poll answers.
type polled struct {
	Events []struct {
		EventID, Name, Timestamp, Cursor string
		Data                             decision
	}
	Cursor             string
	Truncated, HasMore bool
}

func (p polled) decisions() []decision {
	var out []decision
	for _, e := range p.Events {
		out = append(out, e.Data)
	}
	return out
}

// polls reads the event by polls, after it has read the catalogue.
func (h host) polls(t *testing.T, s *script, w *world) {
	t.Helper()
	var list struct {
		Events []struct {
			Name, Description          string
			Delivery                   []string
			InputSchema, PayloadSchema struct{ Properties map[string]any }
		}
	}
	s.do("request", request("events/list", map[string]any{}), &list)
	if len(list.Events) != 1 {
		t.Fatalf("events/list = %+v, want one", list)
	}
	e := list.Events[0]
	for _, mode := range []string{"poll", "push", "webhook"} {
		if has := slices.Contains(e.Delivery, mode); has != (mode != "push" || h.streamed()) {
			t.Errorf("events/list at %s has the modes %v: %s is among them: %v", h.speaks, e.Delivery, mode, has)
		}
	}
	if e.Name != "attention.decision" || e.InputSchema.Properties["scope"] == nil || e.InputSchema.Properties["routes"] == nil || e.PayloadSchema.Properties["notice"] == nil {
		t.Errorf("events/list = %+v", e)
	}
	poll := func(params map[string]any) (p polled) {
		params["name"] = "attention.decision"
		s.do("request", request("events/poll", params), &p)
		return p
	}
	now := poll(map[string]any{"cursor": nil})
	if len(now.Events) != 0 || now.Cursor == "" {
		t.Fatalf("events/poll = %+v, want from now on", now)
	}
	w.decide("ops/poll", 1, 5)
	w.decide("other", 3, 3)
	p := poll(map[string]any{"cursor": now.Cursor, "maxEvents": 3})
	counted(t, "events/poll", p.decisions(), 1, 3)
	if !p.HasMore || p.Truncated {
		t.Errorf("events/poll = %+v, want more", p)
	}
	p = poll(map[string]any{"cursor": p.Cursor, "maxEvents": 3})
	counted(t, "events/poll behind it", p.decisions(), 4, 5)
	if p.HasMore || p.Truncated || p.Events[0].Data.Notice == "" {
		t.Errorf("events/poll = %+v, want the last ones, with notices", p)
	}
	none := poll(map[string]any{"cursor": now.Cursor, "arguments": map[string]any{"scope": "other"}})
	queued := poll(map[string]any{"cursor": now.Cursor, "arguments": map[string]any{"routes": []string{"queue"}}})
	if len(none.Events)+len(queued.Events) != 0 {
		t.Errorf("events/poll of a foreign scope = %+v, of another route = %+v, want none", none, queued)
	}
	if lost := poll(map[string]any{"cursor": "of another server"}); !lost.Truncated || len(lost.Events) == 0 {
		t.Errorf("events/poll with a cursor of another server = %+v, want truncated", lost)
	}
}

// open begins a stream of the event and returns the command and the stream's id.
func open(s *script, params map[string]any) (command int64, id json.RawMessage) {
	s.t.Helper()
	params["name"] = "attention.decision"
	before := len(s.said())
	command = s.begin("request", request("events/stream", params))
	active := func(l line) bool { return l.Wire != nil && l.Wire.Method == "notifications/events/active" }
	known := 0
	for _, text := range s.said()[:before] {
		if active(s.line(text)) {
			known++
		}
	}
	seen := 0
	l := s.hear("active", func(l line) bool {
		if active(l) {
			seen++
		}
		return seen > known
	})
	return command, l.Wire.Params.Meta.Subscription
}

// streamed waits until a stream has brought n decisions, and returns them.
func streamed(s *script, id json.RawMessage, n int) []decision {
	s.t.Helper()
	seen := 0
	s.hear("decision", func(l line) bool {
		if ofStream(l, id) {
			seen++
		}
		return seen == n
	})
	var out []decision
	for _, l := range s.heard() {
		if ofStream(l, id) {
			d := l.Wire.Params.Data
			if l.Wire.Params.Cursor != d.Cursor || !strings.HasPrefix(l.Wire.Params.EventID, d.ID+":") {
				s.t.Errorf("event %s has cursor %s, want those of decision %s, %s", l.Wire.Params.EventID, l.Wire.Params.Cursor, d.ID, d.Cursor)
			}
			out = append(out, d)
		}
	}
	return out
}

func ofStream(l line, id json.RawMessage) bool {
	return l.Wire != nil && l.Wire.Method == "notifications/events/event" && bytes.Equal(l.Wire.Params.Meta.Subscription, id)
}

// streams follows the event, leaves, and goes on where it was.
func (h host) streams(t *testing.T, s *script, w *world) {
	t.Helper()
	command, id := open(s, map[string]any{"arguments": map[string]any{"scope": "ops/stream"}})
	w.decide("other", 4, 4)
	w.decide("ops/stream", 1, 50)
	got := streamed(s, id, 50)
	counted(t, "events/stream", got, 1, 50)
	s.do("abort", map[string]any{"of": command}, nil)
	if l := s.answer(command); l.Error == nil {
		t.Errorf("a stream that was left = %s, want the SDK's error", l.text)
	}
	w.metric(`attend_subscribers{transport="mcp"}`, allToken, 0)
	w.decide("ops/stream", 51, 60)
	command, id = open(s, map[string]any{"cursor": got[49].Cursor, "arguments": map[string]any{"scope": "ops/stream"}})
	w.decide("ops/stream", 61, 65)
	counted(t, "events/stream from its cursor", streamed(s, id, 15), 51, 65)
	s.do("abort", map[string]any{"of": command}, nil)
}

// A server that ends tells who waits, and the next one at its address goes on.
func TestTypeScriptHostSeesTheEnd(t *testing.T) {
	t.Parallel()
	packages(t)
	for _, h := range hosts {
		if h.revision == "auto" {
			continue
		}
		t.Run(h.String(), func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			w := start(t, setup{store: store})
			s := h.connect(t, w.url, "")
			var cursor string
			var stream int64
			if h.streamed() {
				var id json.RawMessage
				stream, id = open(s, map[string]any{})
				w.decide("ops", 1, 2)
				cursor = streamed(s, id, 2)[1].Cursor
			} else {
				w.decide("ops", 1, 2)
			}
			wait := s.begin("tool", call("attend_wait", map[string]any{"timeoutMs": 60000}))
			w.metric(`attend_subscribers{transport="wait"}`, "", 1)
			if err := w.stop(); err != nil {
				t.Fatalf("Serve = %v, want nil with a stream and a wait open", err)
			}
			var ended waited
			decode(t, string(s.answer(wait).Result), &ended)
			if c := ended.StructuredContent; !c.Stopping || c.Cursor == "" || len(c.Decisions) != 0 {
				t.Errorf("attend_wait at the end = %+v, want stopping and a cursor", ended)
			}
			if h.streamed() {
				if l := s.answer(stream); l.Error != nil {
					t.Errorf("events/stream at the end = %s, want its closing result", l.text)
				}
			}

			// Another server, at the same address, on the same store.
			ln, err := net.Listen("tcp", strings.TrimPrefix(w.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			w = start(t, setup{store: store, listen: server.Listen{Listener: ln}})
			if !h.streamed() { // its session went with the server: a host has to begin anew
				if l := s.answer(s.begin("tool", call("attend_wait", map[string]any{"timeoutMs": 0}))); l.Error == nil {
					t.Errorf("a session of a server that has ended = %s, want an error", l.text)
				}
				s = h.connect(t, w.url, "")
			}
			w.decide("ops", 3, 4)
			if h.streamed() {
				_, id := open(s, map[string]any{"cursor": cursor})
				counted(t, "events/stream at the next server", streamed(s, id, 2), 3, 4)
			}
			var next waited
			s.do("tool", call("attend_wait", map[string]any{"cursor": ended.StructuredContent.Cursor, "timeoutMs": 60000}), &next)
			counted(t, "attend_wait at the next server", next.StructuredContent.Decisions, 3, 4)
		})
	}
}
