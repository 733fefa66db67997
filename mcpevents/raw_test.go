package mcpevents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// rawMeta is the metadata that a request of 2026-07-28 must have.
const rawMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// A rawMessage is any JSON-RPC message, as it came.
type rawMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params rawParams       `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`
	Text   string          `json:"-"` // the whole
}

type rawParams struct {
	wireEvent
	Cursor        json.RawMessage `json:"cursor"`
	Truncated     *bool           `json:"truncated"`
	Error         *wireError      `json:"error"`
	Notifications json.RawMessage `json:"notifications"`
	RequestID     json.RawMessage `json:"requestId"`
	Meta          struct {
		ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
	} `json:"_meta"`
}

func rawDecode(t testing.TB, text string) rawMessage {
	t.Helper()
	return rawAllow(t, text, nil)
}

// rawAllow is rawDecode that allows the cancellation of what is over.
func rawAllow(t testing.TB, text string, over map[string]bool) rawMessage {
	t.Helper()
	m := rawMessage{Text: text}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("message %.200q: %v", text, err)
	}
	if m.Method == "notifications/cancelled" && !over[string(m.Params.RequestID)] || m.Method != "" && m.ID != nil { // SE-48, in every test
		t.Fatalf("a server sent %.200s", text)
	}
	return m
}

// rawCall is a request of 2026-07-28; params are further members, with a comma
// behind each.
func rawCall(id any, method, params string) string {
	raw, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, raw, method, params, rawMeta)
}

// rawType is the type that most tests offer: alerts with a level, and arguments
// that ask for the least of it.
func rawType(b Backend) Type {
	return Type{
		Name:        "alert",
		Description: "Something went over its limit.",
		Input:       json.RawMessage(`{"type":"object","properties":{"min":{"type":"integer","minimum":0}},"additionalProperties":false}`),
		Payload:     json.RawMessage(`{"type":"object","properties":{"level":{"type":"integer"}},"required":["level"]}`),
		Backend:     b,
	}
}

// rawLog is a log whose subscriptions may ask for a least level.
func rawLog(c LogConfig) *Log {
	c.Match = func(sub Subscription, v Event) bool {
		var want struct{ Min int }
		var have struct{ Level int }
		_ = json.Unmarshal(sub.Arguments, &want)
		_ = json.Unmarshal(v.Data, &have)
		return have.Level >= want.Min
	}
	return NewLog(c)
}

// rawEvent is an event of rawType.
func rawEvent(id string, level int) Event {
	return Event{ID: id, Data: json.RawMessage(fmt.Sprintf(`{"level":%d}`, level))}
}

func rawAppend(t testing.TB, l *Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := l.Append(rawEvent(fmt.Sprint("e", i), i)); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
}

// rawServer makes both servers, ready to be served.
func rawServer(t testing.TB, c ServerConfig, types ...Type) (*Server, *mcp.Server) {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Types = append(c.Types, types...)
	s, err := NewServer(c)
	if err != nil {
		t.Fatalf("NewServer: %v", err)
	}
	caps := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}
	s.Capabilities(caps)
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	mcp.AddTool(m, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Text string `json:"text"`
	}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	if err := s.Register(m); err != nil {
		t.Fatalf("Register: %v", err)
	}
	return s, m
}

// rawPatience is how long a peer may say nothing: far more than a heartbeat takes,
// and a server that is wrong fails its test and does not hang it.
const rawPatience = 2 * time.Minute

// A rawLull counts the heartbeats and errors that came without anything between. A
// test that waits for something else while they go on for ever fails.
type rawLull int

func (l *rawLull) hear(t testing.TB, m rawMessage) {
	t.Helper()
	if m.Method != noteHeartbeat && m.Method != noteError {
		*l = 0
	} else if *l++; *l > 500 {
		t.Fatalf("%d heartbeats and errors in a row, the last one %s", *l, m.Text)
	}
}

// A rawPipe is a client at the end of a pipe.
type rawPipe struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	lull rawLull
	over map[string]bool // listens that were asked for, true once they have a result
}

// rawDial serves m on a pipe.
func rawDial(t testing.TB, ctx context.Context, s *Server, m *mcp.Server) *rawPipe {
	t.Helper()
	ours, theirs := net.Pipe()
	ss, err := m.Connect(ctx, s.Transport(&mcp.IOTransport{Reader: theirs, Writer: theirs}), nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	p := &rawPipe{t: t, conn: ours, in: bufio.NewReaderSize(ours, 1<<20), over: map[string]bool{}}
	t.Cleanup(func() {
		_ = ours.Close()
		_ = ss.Wait()
	})
	return p
}

func (p *rawPipe) send(text string) {
	p.t.Helper()
	var m rawMessage
	if json.Unmarshal([]byte(text), &m) == nil && m.Method == methodListen {
		p.over[string(m.ID)] = false
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(rawPatience))
	if _, err := io.WriteString(p.conn, text+"\n"); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

func (p *rawPipe) next() rawMessage {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(rawPatience))
	line, err := p.in.ReadString('\n')
	if err != nil {
		p.t.Fatalf("next: %v", err)
	}
	m := rawAllow(p.t, line, p.over)
	if _, listen := p.over[string(m.ID)]; listen && m.Result != nil {
		p.over[string(m.ID)] = true
	}
	p.lull.hear(p.t, m)
	return m
}

// call sends a request and returns the message with its id, skipping others.
func (p *rawPipe) call(id any, method, params string) rawMessage {
	p.t.Helper()
	p.send(rawCall(id, method, params))
	want, _ := json.Marshal(id)
	for {
		if m := p.next(); bytes.Equal(m.ID, want) && m.Method == "" {
			return m
		}
	}
}

// quiet fails where anything comes within d.
func (p *rawPipe) quiet(d time.Duration) {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(d))
	if line, err := p.in.ReadString('\n'); err == nil {
		p.t.Fatalf("within %v came %s, want nothing", d, line)
	}
	_ = p.conn.SetReadDeadline(time.Time{})
}

// rawListen serves m over HTTP.
func rawListen(t testing.TB, s *Server, m *mcp.Server, c HandlerConfig) *httptest.Server {
	t.Helper()
	h := httptest.NewServer(s.Handler(m, c))
	t.Cleanup(func() {
		_ = s.Close()
		h.Close()
	})
	return h
}

// rawServe serves a handler that has more in front of it.
func rawServe(t testing.TB, s *Server, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
	})
	return srv.URL
}

// A rawStream is an HTTP answer that is read event by event.
type rawStream struct {
	t      testing.TB
	resp   *http.Response
	in     *bufio.Reader
	cancel context.CancelFunc
	closer sync.Once
	lull   rawLull
}

// rawPost sends a request of 2026-07-28. Header values of the empty string are
// left out.
func rawPost(t testing.TB, url, body string, header ...string) *rawStream {
	t.Helper()
	return rawPostBy(t, http.DefaultClient, url, body, header...)
}

// rawPostBy is rawPost by another client.
func rawPostBy(t testing.TB, client *http.Client, url, body string, header ...string) *rawStream {
	t.Helper()
	var m rawMessage
	_ = json.Unmarshal([]byte(body), &m)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", m.Method)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
		} else if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := client.Do(r)
	if err != nil {
		cancel()
		t.Fatalf("post: %v", err)
	}
	st := &rawStream{t: t, resp: resp, in: bufio.NewReaderSize(resp.Body, 1<<16), cancel: cancel}
	t.Cleanup(st.close)
	return st
}

func (s *rawStream) close() {
	s.closer.Do(func() {
		s.cancel()
		_ = s.resp.Body.Close()
	})
}

// frame returns the next message, and false at the end of the answer.
func (s *rawStream) frame() (rawMessage, bool) {
	s.t.Helper()
	if s.cancel != nil {
		defer time.AfterFunc(rawPatience, s.cancel).Stop() // comments do not count
	}
	for {
		line, err := s.in.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			m := rawDecode(s.t, data)
			s.lull.hear(s.t, m)
			return m, true
		}
		if errors.Is(err, io.EOF) {
			return rawMessage{}, false
		}
		if err != nil {
			s.t.Fatalf("frame: %v", err)
		}
	}
}

func (s *rawStream) next() rawMessage {
	s.t.Helper()
	m, ok := s.frame()
	if !ok {
		s.t.Fatal("the answer ended, want a message")
	}
	return m
}

// answer is the message that is the whole answer.
func (s *rawStream) answer() rawMessage {
	s.t.Helper()
	if strings.HasPrefix(s.resp.Header.Get("Content-Type"), "text/event-stream") {
		return s.next()
	}
	b, err := io.ReadAll(s.resp.Body)
	if err != nil {
		s.t.Fatalf("answer: %v", err)
	}
	if !json.Valid(b) {
		s.t.Fatalf("answer %d %.200q, want JSON", s.resp.StatusCode, b)
	}
	return rawDecode(s.t, string(b))
}

// A rawNext is either end.
type rawNext interface{ next() rawMessage }

// want takes the next message and checks its method.
func want(t testing.TB, p rawNext, method string) rawMessage {
	t.Helper()
	m := p.next()
	if m.Method != method {
		t.Fatalf("got %.300s, want %s", m.Text, method)
	}
	return m
}

// wantError checks an error answer.
func wantError(t testing.TB, m rawMessage, code int64, data string) {
	t.Helper()
	if m.Error == nil || m.Error.Code != code || data != "" && string(m.Error.Data) != data {
		t.Fatalf("got %.300s, want error %d with data %s", m.Text, code, data)
	}
}

func rawPoll(t testing.TB, m rawMessage) pollResult {
	t.Helper()
	var r pollResult
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		t.Fatalf("got %.300s, want the result of a poll", m.Text)
	}
	return r
}

func ids(events []wireEvent) string {
	var s []string
	for _, v := range events {
		s = append(s, v.ID)
	}
	return strings.Join(s, " ")
}

// A rawCaller sends one request and returns its answer.
type rawCaller func(id any, method, params string) rawMessage

// overBoth runs a test against a server on a pipe and over HTTP.
func overBoth(t *testing.T, c ServerConfig, types func() []Type, test func(t *testing.T, s *Server, call rawCaller)) {
	t.Run("pipe", func(t *testing.T) {
		s, m := rawServer(t, c, types()...)
		test(t, s, rawDial(t, t.Context(), s, m).call)
	})
	t.Run("http", func(t *testing.T) {
		s, m := rawServer(t, c, types()...)
		h := rawListen(t, s, m, HandlerConfig{})
		test(t, s, func(id any, method, params string) rawMessage {
			t.Helper()
			st := rawPost(t, h.URL, rawCall(id, method, params))
			defer st.close()
			return st.answer()
		})
	})
}
