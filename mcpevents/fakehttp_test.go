package mcpevents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A fakeWeb speaks the wire by hand over HTTP: handshake and catalogue by its
// fields, everything else by serve.
type fakeWeb struct {
	capabilities string // of the handshake; empty: the extension
	session      string // knows initialize alone, and gives this id
	list         func(m message) string
	serve        func(w http.ResponseWriter, r *http.Request, m message)

	mu   sync.Mutex
	seen []webRequest
}

type webRequest struct {
	message
	verb   string
	header http.Header
}

func (f *fakeWeb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m message
	_ = json.Unmarshal(body, &m)
	f.mu.Lock()
	f.seen = append(f.seen, webRequest{m, r.Method, r.Header.Clone()})
	f.mu.Unlock()
	caps := f.capabilities
	if caps == "" {
		caps = offers
	}
	if f.session != "" {
		w.Header().Set("Mcp-Session-Id", f.session)
	}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == "server/discover" && f.session != "":
		http.Error(w, "no", http.StatusBadRequest)
	case m.Method == "server/discover":
		answerJSON(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+caps+`}`)
	case m.Method == "initialize":
		answerJSON(w, m, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"fake","version":"0"},"capabilities":`+caps+`}`)
	case m.Method == "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "events/list" && f.list != nil:
		answerJSON(w, m, f.list(m))
	case f.serve != nil:
		f.serve(w, r, m)
	}
}

// requests returns what came of a method so far.
func (f *fakeWeb) requests(method string) []webRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.seen), func(r webRequest) bool { return method != "" && r.Method != method })
}

func answerJSON(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func refuseJSON(w http.ResponseWriter, status int, m message, e string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, e)
}

// An sseWriter writes server-sent events by hand.
type sseWriter struct {
	w http.ResponseWriter
	m message
}

func openSSE(w http.ResponseWriter, m message) sseWriter {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	return sseWriter{w, m}
}

// raw writes text as it is.
func (s sseWriter) raw(text string) {
	_, _ = io.WriteString(s.w, text)
	_ = http.NewResponseController(s.w).Flush()
}

// text is a notification of the stream.
func (s sseWriter) text(method, params string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{%s"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, params, s.m.ID)
}

func (s sseWriter) note(method, params string) { s.raw("data: " + s.text(method, params) + "\n\n") }

func (s sseWriter) result(result string) {
	s.raw(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", s.m.ID, result))
}

// start serves the fake and connects a session.
func (f *fakeWeb) start(t testing.TB, cfg SessionConfig) *Session {
	t.Helper()
	hs := httptest.NewServer(f)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	s, err := Connect(t.Context(), c, &mcp.StreamableClientTransport{Endpoint: hs.URL, MaxRetries: -1}, cfg)
	if err != nil {
		hs.Close()
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		hs.CloseClientConnections()
		hs.Close()
	})
	return s
}
