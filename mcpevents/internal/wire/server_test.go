package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAsks(t *testing.T) {
	for params, want := range map[string][2]bool{
		`{"notifications":{"eventsListChanged":true}}`:                                  {true, false},
		`{"notifications":{"eventsListChanged":true,"toolsListChanged":false}}`:         {true, false},
		`{"notifications":{"eventsListChanged": true ,"resourceSubscriptions":[]}}`:     {true, false},
		`{"notifications":{"eventsListChanged":true,"toolsListChanged":true}}`:          {true, true},
		`{"notifications":{"eventsListChanged":true,"resourceSubscriptions":["x:/y"]}}`: {true, true},
		`{"notifications":{"eventsListChanged":true,"somethingNew":{"a":1}}}`:           {true, true},
		`{"notifications":{"toolsListChanged":true}}`:                                   {false, true},
		`{"notifications":{"eventsListChanged":false,"toolsListChanged":true}}`:         {false, true},
		`{"notifications":{"eventsListChanged":"true"}}`:                                {false, true}, // the SDK's to refuse
		`{"notifications":{"EventsListChanged":true}}`:                                  {false, true},
		`{"notifications":null}`: {false, false},
		`{}`:                     {false, true},
		`[]`:                     {false, true},
		``:                       {false, true},
	} {
		events, others := asks(json.RawMessage(params))
		if events != want[0] || others != want[1] {
			t.Errorf("asks(%s) = %v, %v, want %v, %v", params, events, others, want[0], want[1])
		}
	}
}

func TestBaseOf(t *testing.T) {
	const v, c = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for params, sound := range map[string]bool{
		`{"_meta":{` + v + `,` + c + `}}`: true,
		`{"_meta":{` + v + `,` + c + `,"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"}}}`: true,
		`{"_meta":{` + v + `,` + c + `,"io.modelcontextprotocol/clientInfo":null}}`:                       false,
		`{"_meta":{` + v + `,` + c + `,"io.modelcontextprotocol/clientInfo":5}}`:                          false,
		`{"_meta":{` + v + `}}`:           false,
		`{"_meta":{` + c + `}}`:           false,
		`{"_Meta":{` + v + `,` + c + `}}`: false,
		`{"_meta":{` + strings.Replace(v, "2026", "2099", 1) + `,` + c + `}}`: false,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":5,` + c + `}}`:   false,
		`null`: false,
		``:     false,
	} {
		if got := baseOf(json.RawMessage(params)).sound; got != sound {
			t.Errorf("baseOf(%s).sound = %v, want %v", params, got, sound)
		}
	}
}

func TestOpenIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		`1`: true, `-7`: true, `"x"`: true, `""`: true, `9007199254740993`: true,
		`null`: false, `1.5`: false, `1e3`: false, `{}`: false, `[1]`: false, `true`: false,
		`"` + strings.Repeat("x", maxID) + `"`: false,
	} {
		if e := open([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"m"}`)); (e.id != nil) != ok || e.method != "m" {
			t.Errorf("open with id %.20s = %.20q, %q, want it taken: %v", id, e.id, e.method, ok)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:80": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:8": true, "::1": true, "[::1]": true,
		"localhost.evil.example": false, "evil.example:80": false, "": false, "10.0.0.1": false, "127.0.0.1.evil.example": false,
	} {
		if got := loopback(host); got != want {
			t.Errorf("loopback(%q) = %v, want %v", host, got, want)
		}
	}
}

func TestAccepts(t *testing.T) {
	for header, want := range map[string]bool{
		"text/event-stream": true, "application/json, text/event-stream;q=0.5": true, "*/*": true, "text/*": true, "TEXT/Event-Stream": true,
		"application/json": false, "": false, "text/event-streams": false,
	} {
		if got := accepts(header, "text/event-stream", "text/*"); got != want {
			t.Errorf("accepts(%q) = %v, want %v", header, got, want)
		}
	}
}

func TestAnswerIsNeverTheText(t *testing.T) {
	own := &jsonrpc.Error{Code: -32023, Message: "NotFound"}
	if got := Answer(own); got != own {
		t.Errorf("Answer of a wire error = %v", got)
	}
	if got := Answer(errors.New("secret")); got.Code != jsonrpc.CodeInternalError || strings.Contains(got.Message, "secret") {
		t.Errorf("Answer of another = %v", got)
	}
	if got := string(response(json.RawMessage("1"), nil, &jsonrpc.Error{Code: -1, Data: json.RawMessage(`{`)})); !json.Valid([]byte(got)) {
		t.Errorf("response with data that is no JSON = %s", got)
	}
}

// The SDK may write its messages in any pieces.
func TestJointTakesPieces(t *testing.T) {
	text := "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}` +
		"\n\nevent: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}` +
		"\n\nevent: message\ndata: " + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n"
	for _, size := range []int{1, 2, 7, len(text)} {
		rec := httptest.NewRecorder()
		w := newGuard(rec, time.Second)
		j := &joint{guard: w, acked: make(chan struct{}), ours: true, sse: sse{w: w, pool: new(sync.Pool)}}
		j.Header().Set("Content-Type", "text/event-stream")
		for i := 0; i < len(text); i += size {
			if _, err := j.Write([]byte(text[i:min(i+size, len(text))])); err != nil {
				t.Fatal(err)
			}
		}
		j.Flush()
		select {
		case <-j.acked:
		default:
			t.Error("the acknowledgement was not seen")
		}
		want := `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"eventsListChanged":true}}}` +
			"\n\n" + `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}` + "\n\n"
		if got := rec.Body.String(); got != want {
			t.Errorf("pieces of %d: wrote %q, want %q", size, got, want)
		}
		if string(j.held) != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Errorf("held %q, want the result", j.held)
		}
	}
}

func TestJointPassesRefusals(t *testing.T) {
	rec := httptest.NewRecorder()
	w := newGuard(rec, time.Second)
	j := &joint{guard: w, acked: make(chan struct{}), ours: true, sse: sse{w: w, pool: new(sync.Pool)}}
	http.Error(j, "no", http.StatusBadRequest)
	if rec.Code != http.StatusBadRequest || rec.Body.String() != "no\n" {
		t.Errorf("wrote %d %q", rec.Code, rec.Body)
	}
}

// A closed connection ends what it serves, and holds nothing.
func TestPipeCloseEndsCalls(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	here, there := mcp.NewInMemoryTransports()
	c, err := Pipe(here, &Routes{Stream: func(ctx context.Context, c *Call) (json.RawMessage, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}}).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := there.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() { _, err := c.Read(t.Context()); read <- err }()
	id, _ := jsonrpc.MakeID("s")
	params := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`
	if err := peer.Write(t.Context(), &jsonrpc.Request{ID: id, Method: methodStream, Params: json.RawMessage(params)}); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := c.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	<-ended
	if err := <-read; err == nil {
		t.Error("Read after Close = nil")
	}
}

// A panic of a handler is an answer.
func TestPipeCatchesPanics(t *testing.T) {
	here, there := mcp.NewInMemoryTransports()
	c, err := Pipe(here, &Routes{Stream: func(context.Context, *Call) (json.RawMessage, error) { panic("secret") }}).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := there.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Read(t.Context()) }()
	id, _ := jsonrpc.MakeID("s")
	params := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`
	if err := peer.Write(t.Context(), &jsonrpc.Request{ID: id, Method: methodStream, Params: json.RawMessage(params)}); err != nil {
		t.Fatal(err)
	}
	m, err := peer.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, ok := m.(*jsonrpc.Response)
	if !ok || r.ID != id {
		t.Fatalf("got %v, want the answer", m)
	}
	if e, ok := errors.AsType[*jsonrpc.Error](r.Error); !ok || e.Code != jsonrpc.CodeInternalError || strings.Contains(e.Message, "secret") {
		t.Errorf("answer = %v, want an internal error without text", r.Error)
	}
	_ = c.Close()
	_ = peer.Close()
}

// The versions that a transport serves are still asked of it.
func TestPipeForwardsVersions(t *testing.T) {
	if !Pipe(&mcp.StdioTransport{}, nil).(mcp.ProtocolVersionSupporter).SupportsProtocolVersion("x") {
		t.Error("a transport without an opinion supports everything")
	}
	if Pipe(&mcp.StreamableServerTransport{}, nil).(mcp.ProtocolVersionSupporter).SupportsProtocolVersion(firstStateless) {
		t.Error("a transport with sessions does not serve 2026-07-28")
	}
}

// FuzzRequest reads bodies as the front of HTTP does.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\u0000","method":"subscriptions/listen","params":{"notifications":{"eventsListChanged":true,"x":[{}]}}}`))
	f.Add([]byte(`[{"id":1e1}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e := open(body)
		if e.id != nil && (!json.Valid(e.id) || strings.ContainsAny(string(e.id), "\r\n")) {
			t.Fatalf("open(%q): id %q", body, e.id)
		}
		if e.base.sound && e.base.version != firstStateless {
			t.Fatalf("open(%q): version %q is sound", body, e.base.version)
		}
		asks(e.params)
		subscriptionOf(e.params)
		named(http.Header{headerName: {"x"}}, e.params)
		if out := acknowledge(e.params); len(e.params) > 0 && !json.Valid(out) {
			t.Fatalf("acknowledge(%q) = %q", e.params, out)
		}
		if e.id != nil && !json.Valid(Complete(e.id)) {
			t.Fatalf("Complete(%q) is no JSON", e.id)
		}
	})
}

// A brokenWriter takes a number of writes, and then none.
type brokenWriter struct {
	*httptest.ResponseRecorder
	left int
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("broken")
	}
	return w.ResponseRecorder.Write(p)
}

// A listen whose reader takes nothing more ends, though the SDK's part would not.
func TestJoinEndsWhenNothingCanBeWritten(t *testing.T) {
	for _, filter := range []string{`{"toolsListChanged":true,"eventsListChanged":true}`, `{"toolsListChanged":true}`} {
		synctest.Test(t, func(t *testing.T) {
			changed, stopped := make(chan struct{}, 1), false
			h := &HTTP{MaxBody: 1 << 20, Timeout: time.Second, AnyHost: true, Routes: &Routes{
				Listen: func(context.Context) (*Watch, error) {
					return &Watch{Changed: changed, Stop: func() { stopped = true }}, nil
				},
				Closing: t.Context(),
			}}
			h.Modern = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as the SDK does
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(http.StatusOK)
				_, _ = w.Write([]byte("data: " + `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}` + "\n\n"))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			r := httptest.NewRequest("POST", "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":`+filter+
				`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
			r.Header.Set(headerVersion, firstStateless)
			r.Header.Set(headerMethod, methodListen)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			changed <- struct{}{}
			began := time.Now()
			h.ServeHTTP(&brokenWriter{httptest.NewRecorder(), 1}, r.WithContext(t.Context()))
			if took := time.Since(began); took > keepAlive {
				t.Errorf("%s: it ended after %v", filter, took)
			}
			if stopped != strings.Contains(filter, filterEvents) {
				t.Errorf("%s: watch stopped: %v", filter, stopped)
			}
		})
	}
}
