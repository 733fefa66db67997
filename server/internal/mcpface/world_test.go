package mcpface

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

const (
	modern = "2026-07-28"
	older  = "2025-11-25"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// people are the principals of the tests, by name.
var people = map[string]*access.Principal{
	"ann":  {Name: "ann", Scopes: []attend.Prefix{"ops"}, Read: true},
	"bob":  {Name: "bob", Scopes: []attend.Prefix{"dev", "ops/db"}, Read: true},
	"root": {Name: "root", Scopes: []attend.Prefix{""}, Read: true, Ingest: true},
	"deaf": {Name: "deaf", Scopes: []attend.Prefix{""}, Ingest: true},
}

func named(name string) *access.Principal { return people[name] }

// A world is a face over a store in memory, with an engine that does not run.
type world struct {
	t      testing.TB
	store  *memory.Store
	engine *engine.Engine
	face   *Face
	at     time.Time // of the last decision
	n      int
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(), at: time.UnixMilli(1_790_000_000_000)}
	var err error
	w.engine, err = engine.New(engine.Config{
		Store: w.store, Kind: func(attend.Event) attend.Kind { return attend.KindConsequence }, Judge: attend.RuleJudge,
		Sink: new(attendtest.Sink), DeadLetter: new(attendtest.Letters), Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Feed: decisions.NewFeed(w.store.Log(), quiet()), Engine: w.engine, Version: "1", Logger: quiet()}
	if change != nil {
		change(&c)
	}
	if w.face, err = New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.face.Close() })
	return w
}

// decide appends a decision to the log, of events with these texts.
func (w *world) decide(scope attend.Scope, route attend.Route, texts ...string) attend.Decision {
	w.t.Helper()
	var events []attend.Event
	for _, text := range texts {
		w.n++
		events = append(events, attend.Event{ID: fmt.Sprint("e", w.n), Name: "said", Text: text, Kind: attend.KindFlush})
	}
	return w.append(scope, route, events)
}

func (w *world) append(scope attend.Scope, route attend.Route, events []attend.Event) attend.Decision {
	w.t.Helper()
	w.at = w.at.Add(time.Second)
	d := attend.Decision{
		ID: attend.NewDecisionID(scope, events), At: w.at, Judgment: attend.Judgment{Route: route, Confidence: 0.5},
		Window: attend.Window{Scope: scope, Events: events, Reason: attend.ReasonFlush, Opened: w.at, Settled: w.at},
	}
	w.row(d)
	return d
}

// row appends a decision to the log, as the engine does.
func (w *world) row(d attend.Decision) {
	w.t.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rows(attend.Row{Scope: d.Scope(), ID: d.ID, Type: attend.RowDecision, At: d.At, Body: body})
}

func (w *world) rows(rows ...attend.Row) {
	w.t.Helper()
	for range 100 {
		const writer = "writer" // no engine knows it
		r, err := w.store.Load(context.Background(), writer)
		if err != nil {
			w.t.Fatal(err)
		}
		out, err := w.store.Commit(context.Background(), []attend.Write{{Scope: writer, Expect: r.Version, Rows: rows}})
		if err != nil {
			w.t.Fatal(err)
		}
		if !out[0].Conflict() {
			return
		}
	}
	w.t.Fatal("a row was not taken")
}

// trim keeps the newest n decisions.
func (w *world) trim(n int) {
	w.t.Helper()
	if err := w.store.Log().Trim(context.Background(), attend.Retain{Count: n}, time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

// serve serves the face over HTTP. The header X-Who names who asks.
func (w *world) serve() string {
	w.t.Helper()
	h := w.face.Handler()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p := named(r.Header.Get("X-Who"))
		if p == nil {
			p = new(access.Principal)
		}
		h.ServeHTTP(rw, r.WithContext(access.With(r.Context(), p)))
	}))
	w.t.Cleanup(func() {
		_ = w.face.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// As is an HTTP client that says who it is.
type as string

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Who", string(a))
	return http.DefaultTransport.RoundTrip(r)
}

// session connects mcpevents' own client, over HTTP where there is a URL, and else
// in memory.
func (w *world) session(url, who, version string) *mcpevents.Session {
	w.t.Helper()
	ctx := context.Background()
	var t mcp.Transport = &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: as(who)}}
	if url == "" {
		here, there := mcp.NewInMemoryTransports()
		if err := w.face.Connect(access.With(ctx, named(who)), here); err != nil {
			w.t.Fatal(err)
		}
		t = there
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := mcpevents.Connect(ctx, c, t, mcpevents.SessionConfig{ProtocolVersion: version, Compat: true})
	if err != nil {
		w.t.Fatalf("Connect at %s: %v", version, err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

func subscription(arguments string) mcpevents.Subscription {
	return mcpevents.Subscription{Name: EventName, Arguments: json.RawMessage(arguments)}
}

// decisionOf decodes a payload.
func decisionOf(t testing.TB, data []byte) (d attend.Decision, extra struct {
	Notice    string
	EventsCut int
	Cursor    string
}) {
	t.Helper()
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &extra); err != nil {
		t.Fatal(err)
	}
	return d, extra
}

// A raw client speaks JSON-RPC over HTTP by hand.
type raw struct {
	t   testing.TB
	url string
	who string
}

var rawID atomic.Int64

func (c raw) request(ctx context.Context, method, params string) *http.Response {
	c.t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	if params != "{}" {
		meta += ","
	}
	id := rawID.Add(1)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}`, id, method, meta, params[1:])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": modern, "Mcp-Method": method, "X-Who": c.who,
	} {
		req.Header.Set(k, v)
	}
	if method == "tools/call" {
		var p struct{ Name string }
		_ = json.Unmarshal([]byte(params), &p)
		req.Header.Set("Mcp-Name", p.Name)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// An answer is a JSON-RPC response.
type rpcAnswer struct {
	Status int
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// call asks once. The answer may be JSON or the last event of a stream.
func (c raw) call(method, params string) rpcAnswer {
	c.t.Helper()
	resp := c.request(context.Background(), method, params)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(b) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				b = data
			}
		}
	}
	a := rpcAnswer{Status: resp.StatusCode}
	if err := json.Unmarshal(b, &a); err != nil {
		c.t.Fatalf("%s: %v: %.300s", method, err, b)
	}
	return a
}

// into decodes a result.
func (a rpcAnswer) into(t testing.TB, v any) {
	t.Helper()
	if a.Error != nil {
		t.Fatalf("the answer is an error: %d %s %s", a.Error.Code, a.Error.Message, a.Error.Data)
	}
	if err := json.Unmarshal(a.Result, v); err != nil {
		t.Fatalf("%v: %.300s", err, a.Result)
	}
}

// A frame is a notification on a stream, or its end.
type frame struct {
	Method string
	Params struct {
		EventID, Name, Timestamp string
		Data                     json.RawMessage
		Cursor                   string
		Truncated                bool
		Error                    json.RawMessage
	}
	Result json.RawMessage
}

// stream opens a stream; next reads from it.
func (c raw) stream(ctx context.Context, params string) (next func() frame) {
	c.t.Helper()
	resp := c.request(ctx, "events/stream", params)
	c.t.Cleanup(func() { _ = resp.Body.Close() })
	if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
		b, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("no stream: %s", b)
	}
	lines := bufio.NewReaderSize(resp.Body, 1<<20)
	return func() frame {
		c.t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				c.t.Fatalf("the stream ended: %v", err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var f frame
				if err := json.Unmarshal([]byte(data), &f); err != nil {
					c.t.Fatal(err)
				}
				if f.Method != "notifications/events/heartbeat" {
					return f
				}
			}
		}
	}
}

// until waits for a condition, and fails the test after 20 s without it.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
