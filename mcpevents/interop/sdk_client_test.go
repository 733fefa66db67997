package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
)

// An sdkClient is a way that the official TypeScript SDK reaches our server.
type sdkClient struct {
	sdk, revision string // as scripts/sdk_client.mjs takes them
	speaks        string // the revision that comes out
	pipe, compat  bool
}

func (c sdkClient) String() string {
	over := "http"
	if c.pipe {
		over = "stdio"
	}
	if c.compat {
		over += " compat"
	}
	if c.revision == "auto" {
		over += " auto"
	}
	return fmt.Sprintf("sdk %s %s %s", c.sdk, c.speaks, over)
}

var sdkClients = []sdkClient{
	{sdk: "2", revision: "2026-07-28", speaks: "2026-07-28", pipe: true},
	{sdk: "2", revision: "auto", speaks: "2026-07-28", pipe: true},
	{sdk: "2", revision: "2026-07-28", speaks: "2026-07-28"},
	{sdk: "2", revision: "auto", speaks: "2026-07-28"},
	{sdk: "2", revision: "2026-07-28", speaks: "2026-07-28", compat: true},
	{sdk: "2", revision: "legacy", speaks: "2025-11-25", pipe: true, compat: true},
	{sdk: "2", revision: "legacy", speaks: "2025-11-25", compat: true},
	{sdk: "1", revision: "legacy", speaks: "2025-11-25", pipe: true, compat: true},
	{sdk: "1", revision: "legacy", speaks: "2025-11-25", compat: true},
}

// streams reports whether events/stream reaches this client: an older revision
// over HTTP has polls alone.
func (c sdkClient) streams() bool { return c.pipe || c.speaks >= "2026-07-28" }

// number is that of an error for this client.
func (c sdkClient) number(code, older int) int {
	if c.compat {
		return older
	}
	return code
}

// connect starts a client of a server of its own.
func (c sdkClient) connect(t *testing.T) *script {
	t.Helper()
	var s *script
	if c.pipe {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		kind := "plain"
		if c.compat {
			kind = "compat"
		}
		s = runScript(t, []string{childEnv + "=" + kind}, "sdk_client.mjs", c.sdk, c.revision, "stdio", self, "-test.run=^TestChild$")
	} else {
		_, url := serveHTTP(t, mcpevents.ServerConfig{Compat: c.compat})
		s = runScript(t, nil, "sdk_client.mjs", c.sdk, c.revision, "http", url, token)
	}
	var ready struct {
		Revision     string
		Capabilities struct{ Extensions map[string]map[string]any }
	}
	s.ready(&ready)
	if ready.Revision != c.speaks {
		t.Errorf("revision = %q, want %q", ready.Revision, c.speaks)
	}
	if events := ready.Capabilities.Extensions[mcpevents.Extension]; events["listChanged"] != true {
		t.Errorf("extension's settings = %v, want listChanged", events)
	}
	return s
}

// The official TypeScript SDK, which knows nothing of Events, lists, polls,
// streams and listens by its interface for requests and notifications of any
// name.
func TestTypeScriptClient(t *testing.T) {
	for _, c := range sdkClients {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			s := c.connect(t)
			c.lists(t, s)
			c.polls(t, s)
			c.isRefused(t, s)
			if c.streams() {
				c.follows(t, s)
				c.losesItsType(t, s)
			}
			if c.speaks >= "2026-07-28" {
				c.listens(t, s)
			}
			s.do("close", nil, nil)
		})
	}
}

func request(method string, params map[string]any) map[string]any {
	if params == nil {
		params = map[string]any{}
	}
	return map[string]any{"method": method, "params": params}
}

// call calls one of the server's tools.
func call(s *script, tool string, args map[string]any, v any) {
	s.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	var res struct {
		IsError           bool
		StructuredContent json.RawMessage
	}
	s.do("request", request("tools/call", map[string]any{"name": tool, "arguments": args}), &res)
	if res.IsError {
		s.t.Fatalf("tool %s failed; the script said\n%s", tool, s.tail())
	}
	if v != nil {
		decode(s.t, res.StructuredContent, v)
	}
}

func (c sdkClient) lists(t *testing.T, s *script) {
	t.Helper()
	have := map[string]string{}
	for cursor := ""; ; {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var page struct {
			Events []struct {
				Name, Description          string
				Delivery                   []string
				InputSchema, PayloadSchema map[string]any
			}
			NextCursor string
		}
		s.do("request", request("events/list", params), &page)
		for _, e := range page.Events {
			have[e.Name] = strings.Join(e.Delivery, " ")
			if e.Description == "" || e.InputSchema["type"] != "object" || e.PayloadSchema["type"] != "object" {
				t.Errorf("events/list: %+v lacks something", e)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	want := map[string]string{"build.finished": "poll push", "disk.full": "poll", "key.pressed": "push"}
	if !c.streams() {
		want = map[string]string{"build.finished": "poll", "disk.full": "poll"}
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("events/list = %v, want %v", have, want)
	}
}

// A pollResult is one of events/poll.
type pollResult struct {
	Events []struct {
		EventID   string
		Name      string
		Timestamp time.Time
		Data      struct{ N int }
	}
	Cursor     *string
	Truncated  *bool
	HasMore    *bool
	NextPollMs *int
}

func (p pollResult) String() string {
	b, _ := json.Marshal(p)
	return string(b)
}

func poll(s *script, params map[string]any) pollResult {
	s.t.Helper()
	params["name"] = "build.finished"
	var p pollResult
	s.do("request", request("events/poll", params), &p)
	if p.Cursor == nil || *p.Cursor == "" || p.Truncated == nil || p.HasMore == nil || p.NextPollMs == nil {
		s.t.Fatalf("events/poll = %v, want all members", p)
	}
	return p
}

// check compares a poll's events with the builds from and to (including).
func (p pollResult) check(t *testing.T, from, to int, more, truncated bool) {
	t.Helper()
	ok := len(p.Events) == to-from+1 && *p.HasMore == more && *p.Truncated == truncated
	for i, e := range p.Events {
		ok = ok && e.Data.N == from+i && e.EventID == idOf("acme/api", from+i) && e.Name == "build.finished" && !e.Timestamp.IsZero()
	}
	if !ok {
		t.Errorf("events/poll = %v, want builds %d to %d, hasMore %v, truncated %v", p, from, to, more, truncated)
	}
}

func (c sdkClient) polls(t *testing.T, s *script) {
	t.Helper()
	api := map[string]any{"repo": "acme/api"}
	first := poll(s, map[string]any{"arguments": api, "cursor": nil})
	first.check(t, 1, 0, false, false)
	call(s, "finish", map[string]any{"repo": "acme/api", "From": 1, "To": 5}, nil)
	call(s, "finish", map[string]any{"repo": "other", "From": 1, "To": 3}, nil)
	p := poll(s, map[string]any{"arguments": api, "cursor": *first.Cursor, "maxEvents": 3})
	p.check(t, 1, 3, true, false)
	p = poll(s, map[string]any{"arguments": api, "cursor": *p.Cursor, "maxEvents": 3})
	p.check(t, 4, 5, false, false)
	poll(s, map[string]any{"arguments": api, "cursor": *p.Cursor}).check(t, 6, 5, false, false)

	// More than are held: what is left comes, and tells of the gap.
	call(s, "finish", map[string]any{"repo": "acme/api", "From": 6, "To": 5 + kept + 2}, nil)
	p = poll(s, map[string]any{"arguments": api, "cursor": *p.Cursor})
	p.check(t, 8, 5+kept+2, false, true)
	poll(s, map[string]any{"arguments": api, "cursor": "of another server"}).check(t, 8, 5+kept+2, false, true)
}

func (c sdkClient) isRefused(t *testing.T, s *script) {
	t.Helper()
	for _, r := range []struct {
		method      string
		params      map[string]any
		code, older int
		data        string
	}{
		{"events/poll", map[string]any{"name": "nobody.knows"}, -32023, -32011, `"kind":"event"`},
		{"events/poll", map[string]any{"name": "build.finished", "arguments": map[string]any{"repo": 7}}, -32602, -32602, `"path":"/arguments"`},
		{"events/poll", map[string]any{"name": "build.finished", "maxEvents": 0}, -32602, -32602, `"path":"/maxEvents"`},
		{"events/poll", map[string]any{"name": "build.finished", "cursor": 7}, -32602, -32602, `"path":"/cursor"`},
		{"events/poll", map[string]any{"name": "key.pressed"}, -32026, -32014, `"feature":"deliveryMode"`},
		{"events/stream", map[string]any{"name": "disk.full"}, -32026, -32014, `"feature":"deliveryMode"`},
		{"events/stream", map[string]any{"name": "nobody.knows"}, -32023, -32011, `"kind":"event"`},
		{"events/subscribe", map[string]any{"name": "build.finished"}, -32601, -32601, ""},
		{"events/nonsense", nil, -32601, -32601, ""},
	} {
		if r.method == "events/nonsense" && !c.streams() {
			continue // the Go SDK answers an unknown method over HTTP in words alone, at older revisions
		}
		if r.code == -32601 && !c.pipe && c.speaks >= "2026-07-28" {
			c.isUnknown(t, s, r.method, r.params)
			continue
		}
		l := s.refused("request", request(r.method, r.params), c.number(r.code, r.older))
		if !bytes.Contains(l.Error.Data, []byte(r.data)) {
			t.Errorf("%s %v: data = %s, want %s in it", r.method, r.params, l.Error.Data, r.data)
		}
	}
	if !c.streams() {
		l := s.refused("request", request("events/stream", map[string]any{"name": "build.finished"}), c.number(-32026, -32014))
		if !bytes.Contains(l.Error.Data, []byte(`"feature":"deliveryMode"`)) {
			t.Errorf("events/stream: data = %s, want the delivery mode", l.Error.Data)
		}
	}
}

// isUnknown calls a method that is not there over HTTP. The answer has status 404,
// as the protocol wants it, and the SDK reads no answer with that.
func (c sdkClient) isUnknown(t *testing.T, s *script, method string, params map[string]any) {
	t.Helper()
	l := s.answer(s.begin("request", request(method, params)))
	var http struct {
		Status int
		Text   string
	}
	if l.Error != nil {
		decode(t, l.Error.Data, &http)
	}
	if http.Status != 404 || !strings.Contains(http.Text, "-32601") {
		t.Errorf("%s = %s, want status 404 and error -32601", method, l.text)
	}
}

// wire returns the notifications of Events that came for a request, in order.
func wire(s *script, id json.RawMessage) []message {
	var out []message
	for _, l := range s.said() {
		if l.Wire != nil && strings.HasPrefix(l.Wire.Method, "notifications/events/") && bytes.Equal(l.Wire.Params.Meta.Subscription, id) {
			out = append(out, *l.Wire)
		}
	}
	return out
}

// open begins a stream and returns the command and the request's id.
func open(s *script, params map[string]any) (command int, id json.RawMessage) {
	s.t.Helper()
	var known []string
	isActive := func(l line) bool { return l.Wire != nil && l.Wire.Method == "notifications/events/active" }
	for _, l := range s.said() {
		if isActive(l) {
			known = append(known, string(l.Wire.Params.Meta.Subscription))
		}
	}
	command = s.begin("request", request("events/stream", params))
	l := s.await("active", func(l line) bool {
		return isActive(l) && !slices.Contains(known, string(l.Wire.Params.Meta.Subscription))
	})
	id = l.Wire.Params.Meta.Subscription
	if len(id) == 0 || id[0] == '"' {
		s.t.Errorf("the stream's id is %s, want a number as the SDK sends it", id)
	}
	return command, id
}

func is(method, event string, id json.RawMessage) func(line) bool {
	return func(l line) bool {
		m := l.Wire
		return m != nil && m.Method == method && bytes.Equal(m.Params.Meta.Subscription, id) && (event == "" || m.Params.EventID == event)
	}
}

// follows streams from a cursor on, with what comes meanwhile, beside another
// stream and ordinary requests, and cancels.
func (c sdkClient) follows(t *testing.T, s *script) {
	t.Helper()
	begin := poll(s, map[string]any{})
	call(s, "finish", map[string]any{"repo": "acme/web", "From": 1, "To": 5}, nil)
	command, id := open(s, map[string]any{"name": "build.finished", "cursor": *begin.Cursor})
	_, keys := open(s, map[string]any{"name": "key.pressed"})
	const last = 105
	call(s, "finish", map[string]any{"repo": "acme/web", "From": 6, "To": last, "pause": 1}, nil)
	call(s, "press", nil, nil)
	s.await("last build", is("notifications/events/event", idOf("acme/web", last), id))
	s.await("key", is("notifications/events/event", "", keys))
	s.await("heartbeat", is("notifications/events/heartbeat", "", id))
	var n int
	cursor := *begin.Cursor
	for i, m := range wire(s, id) {
		p := m.Params
		switch {
		case (m.Method == "notifications/events/active") != (i == 0):
			t.Errorf("message %d of the stream is %s, want active as the first one and no other", i, m.Method)
		case i == 0 && (p.Truncated || p.Cursor == nil || *p.Cursor != cursor):
			t.Errorf("active = %+v, want the cursor %s", p, cursor)
		case m.Method == "notifications/events/event":
			if n++; p.EventID != idOf("acme/web", n) || p.Name != "build.finished" {
				t.Fatalf("event %d of the stream is %s of %s, want %s of build.finished", n, p.EventID, p.Name, idOf("acme/web", n))
			}
			cursor = *p.Cursor
		case m.Method == "notifications/events/heartbeat" && *p.Cursor != cursor:
			t.Errorf("heartbeat's cursor = %s, want %s", *p.Cursor, cursor)
		}
	}
	if n != last {
		t.Errorf("%d builds came, want %d", n, last)
	}
	for _, m := range wire(s, keys) {
		if m.Params.Cursor != nil || m.Params.Truncated {
			t.Errorf("%s of a type without replay = %+v, want no cursor", m.Method, m.Params)
		}
	}
	// The SDK hands each on to the handler of notifications, too.
	s.await("notification at its handler", func(l line) bool {
		return l.Note != nil && l.Note.Params.EventID == idOf("acme/web", last)
	})

	c.cancels(t, s, command, id)

	// The stream goes on where the last event was, at another request.
	call(s, "finish", map[string]any{"repo": "acme/web", "From": last + 1, "To": last + 2}, nil)
	command, id = open(s, map[string]any{"name": "build.finished", "cursor": cursor, "arguments": map[string]any{"repo": "acme/web"}})
	s.await("next build", is("notifications/events/event", idOf("acme/web", last+1), id))
	// What is lost meanwhile is told.
	s.do("abort", map[string]any{"of": command}, nil)
	call(s, "finish", map[string]any{"repo": "acme/web", "From": 1, "To": kept + 3}, nil)
	_, id = open(s, map[string]any{"name": "build.finished", "cursor": cursor})
	if m := wire(s, id)[0]; !m.Params.Truncated {
		t.Errorf("active behind a gap = %+v, want truncated", m.Params)
	}
	s.await("oldest build", is("notifications/events/event", idOf("acme/web", 4), id))
}

// cancels ends a stream and sees that the server let go of it.
func (c sdkClient) cancels(t *testing.T, s *script, command int, id json.RawMessage) {
	t.Helper()
	var open struct{ N int }
	call(s, "streams", nil, &open)
	if open.N != 1 {
		t.Errorf("%d streams are open, want 1", open.N)
	}
	s.do("abort", map[string]any{"of": command}, nil)
	if l := s.answer(command); l.Error == nil {
		t.Errorf("a cancelled stream ended with %s, want the SDK's error", l.text)
	}
	for end := time.Now().Add(patience); open.N != 0; {
		if time.Now().After(end) {
			t.Fatalf("the server still has the stream %v after it was cancelled", patience)
		}
		call(s, "streams", nil, &open)
	}
	before := len(wire(s, id))
	call(s, "finish", map[string]any{"repo": "nobody", "From": 1, "To": 2}, nil)
	poll(s, map[string]any{})
	if after := len(wire(s, id)); after != before {
		t.Errorf("%d messages came for a stream after the server had let go of it", after-before)
	}
	for _, l := range s.said() {
		if l.Wire != nil && bytes.Equal(l.Wire.ID, id) && l.Wire.Method == "" {
			t.Errorf("a cancelled stream was answered: %s", l.text)
		}
	}
}

// losesItsType sees a stream end with its type.
func (c sdkClient) losesItsType(t *testing.T, s *script) {
	t.Helper()
	call(s, "offer", map[string]any{"name": "short.lived"}, nil)
	command, id := open(s, map[string]any{"name": "short.lived"})
	call(s, "withdraw", map[string]any{"name": "short.lived"}, nil)
	l := s.await("terminated", is("notifications/events/terminated", "", id))
	e := l.Wire.Params.Error
	if want := c.number(-32023, -32011); e == nil || e.Code != int64(want) || !bytes.Contains(e.Data, []byte(`"kind":"event"`)) {
		t.Errorf("terminated = %s, want NotFound, %d", l.text, want)
	}
	var result struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	end := s.answer(command)
	if end.Error != nil {
		t.Fatalf("the stream ended with %s, want a result", end.text)
	}
	decode(t, end.Result, &result)
	if got := result.Meta["io.modelcontextprotocol/subscriptionId"]; !bytes.Equal(got, id) {
		t.Errorf("the closing result is of %s, want %s", got, id)
	}
}

// listens hears that the list of types changed, on a subscription that is for
// nothing else, and on one that is for the SDK's own notifications, too.
func (c sdkClient) listens(t *testing.T, s *script) {
	t.Helper()
	var known [][]byte
	for n, filter := range []map[string]any{{"eventsListChanged": true}, {"eventsListChanged": true, "toolsListChanged": true}} {
		s.do("listen", map[string]any{"filter": filter}, nil)
		ack := s.await("acknowledgement", func(l line) bool {
			return l.Wire != nil && l.Wire.Method == "notifications/subscriptions/acknowledged" &&
				!slices.ContainsFunc(known, func(id []byte) bool { return bytes.Equal(id, l.Wire.Params.Meta.Subscription) })
		})
		if have := ack.Wire.Params.Notifications; fmt.Sprint(have) != fmt.Sprint(filter) {
			t.Errorf("acknowledged %v, want %v", have, filter)
		}
		id := ack.Wire.Params.Meta.Subscription
		known = append(known, id)
		call(s, "offer", map[string]any{"name": fmt.Sprint("new.type.", n)}, nil)
		s.await("list_changed", is("notifications/events/list_changed", "", id))
		s.await("list_changed at its handler", func(l line) bool {
			return l.Note != nil && l.Note.Method == "notifications/events/list_changed" && bytes.Equal(l.Note.Params.Meta.Subscription, id)
		})
		s.do("unlisten", nil, nil)
	}
}
