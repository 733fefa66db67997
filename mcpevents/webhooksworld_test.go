package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An endpoint stands for the network and all callbacks behind it. It works in a
// bubble.
type endpoint struct {
	t *testing.T

	mu    sync.Mutex
	posts []post
	// answer tells what becomes of a delivery; nil accepts. Challenges are
	// echoed where it is not asked.
	answer    func(p post) (status int, header http.Header, err error)
	challenge func(p post) (status int, body string, err error)
	wellKnown string
	handler   http.Handler // takes everything in place of all that
}

// A post is one request that came.
type post struct {
	at     time.Time
	url    string
	header http.Header
	raw    []byte
	body   struct {
		Type      string          `json:"type"`
		Challenge string          `json:"challenge"`
		EventID   string          `json:"eventId"`
		Name      string          `json:"name"`
		Data      json.RawMessage `json:"data"`
		Cursor    *string         `json:"cursor"`
		Error     *wireError      `json:"error"`
	}
}

func (p post) cursor() Cursor {
	if p.body.Cursor == nil {
		return ""
	}
	return Cursor(*p.body.Cursor)
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.handler != nil {
		return e.serve(r)
	}
	if r.Method == http.MethodGet {
		if e.wellKnown == "" {
			return answerOf(404, nil, ""), nil
		}
		return answerOf(200, nil, e.wellKnown), nil
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p := post{at: time.Now(), url: r.URL.String(), header: r.Header, raw: raw}
	if err := json.Unmarshal(raw, &p.body); err != nil {
		e.t.Errorf("body %q is no JSON: %v", raw, err)
	}
	e.mu.Lock()
	e.posts = append(e.posts, p)
	challenge, answer := e.challenge, e.answer
	e.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if p.body.Type == "verification" {
		if challenge == nil {
			return answerOf(200, nil, `{"challenge":"`+p.body.Challenge+`"}`), nil
		}
		status, body, err := challenge(p)
		if err != nil {
			return nil, err
		}
		return answerOf(status, nil, body), nil
	}
	if answer == nil {
		return answerOf(200, nil, ""), nil
	}
	status, header, err := answer(p)
	if err != nil {
		return nil, err
	}
	if status == 0 { // hang
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return answerOf(status, header, strings.Repeat("x", 100)), nil
}

// serve lets the handler answer, for as long as the request waits.
func (e *endpoint) serve(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p := post{at: time.Now(), url: r.URL.String(), header: r.Header, raw: raw}
	_ = json.Unmarshal(raw, &p.body)
	e.mu.Lock()
	e.posts = append(e.posts, p)
	answer := e.answer
	e.mu.Unlock()
	if answer != nil && p.body.Type != "verification" {
		if status, header, err := answer(p); status != 200 || err != nil {
			return answerOf(status, header, ""), err
		}
	}
	in := r.Clone(r.Context())
	in.Body = io.NopCloser(bytes.NewReader(raw))
	done := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		e.handler.ServeHTTP(w, in)
		done <- w.Result()
	}()
	select {
	case res := <-done:
		return res, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func answerOf(status int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

// all returns the posts of a type so far; empty is events, "*" everything.
func (e *endpoint) all(kind string) []post {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []post
	for _, p := range e.posts {
		if kind == "*" || p.body.Type == kind {
			out = append(out, p)
		}
	}
	return out
}

func (e *endpoint) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.posts = nil
}

func (e *endpoint) set(answer func(p post) (int, http.Header, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func eventIDs(posts []post) string {
	var out []string
	for _, p := range posts {
		out = append(out, p.body.EventID)
	}
	return strings.Join(out, " ")
}

// A world is a server with webhooks, its log, its store and the endpoint.
type world struct {
	t     *testing.T
	e     *endpoint
	log   *Log
	store SubscriptionStore
	out   bytes.Buffer // what was logged
	c     ServerConfig
	w     WebhookConfig
	s     *Server
	stop  func()
}

type principalKey struct{}

// newWorld makes a world in a bubble; change may be nil.
func newWorld(t *testing.T, change func(w *world)) *world {
	t.Helper()
	w := &world{t: t, e: &endpoint{t: t}, log: NewLog(LogConfig{}), store: NewMemorySubscriptions()}
	w.c = ServerConfig{
		Principal: func(ctx context.Context) string { s, _ := ctx.Value(principalKey{}).(string); return s },
		Types:     []Type{{Name: "tick", Modes: []Mode{Webhook, Poll}}, {Name: "polled", Modes: []Mode{Poll}, Backend: NewLog(LogConfig{})}},
	}
	w.c.Types[0].Backend = w.log
	w.w = WebhookConfig{Parallel: 16}
	if change != nil {
		change(w)
	}
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

// start starts a server on the world's store, as after a restart.
func (w *world) start() {
	w.t.Helper()
	w.s = w.server()
	w.stop = w.run(w.s)
}

func (w *world) server() *Server {
	w.t.Helper()
	wc := w.w
	wc.Store, wc.tripper = w.store, w.e
	c := w.c
	c.Webhooks = &wc
	c.Logger = slog.New(slog.NewTextHandler(&lockedWriter{w: &w.out}, nil))
	s, err := NewServer(c)
	if err != nil {
		w.t.Fatalf("NewServer: %v", err)
	}
	return s
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// run runs a server's deliveries and returns what stops them.
func (w *world) run(s *Server) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run = %v, want nil", err)
		}
	})
}

func (w *world) end() { w.stop() }

// add appends events with these ids.
func (w *world) add(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if err := w.log.Append(Event{ID: id, Name: "tick", Data: json.RawMessage(`{"n":1}`)}); err != nil {
			w.t.Fatalf("Append: %v", err)
		}
	}
}

const (
	testURL    = "https://relay.example.net/h/7"
	testSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	nextSecret = "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM="
)

// ask is the params of a subscribe; members replaces or, by null values of Go, removes.
func ask(members map[string]any) *pollParams {
	p := map[string]any{
		"name": "tick", "arguments": map[string]any{}, "cursor": nil,
		"delivery": map[string]any{"mode": "webhook", "url": testURL, "secret": testSecret},
	}
	for name, value := range members {
		in := p
		if name == "url" || name == "secret" || name == "mode" {
			in = p["delivery"].(map[string]any)
		}
		if in[name] = value; value == missing {
			delete(in, name)
		}
	}
	b, _ := json.Marshal(p)
	var out pollParams
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	// A null raw message is not left out.
	var raw map[string]json.RawMessage
	_ = json.Unmarshal(b, &raw)
	out.Cursor, out.TTL, out.Arguments = raw["cursor"], raw["ttlMs"], raw["arguments"]
	return &out
}

// missing takes a member out.
const missing = "\x00missing"

func as(principal string) context.Context {
	return context.WithValue(context.Background(), principalKey{}, principal) //check:allow context the SDK's principal travels in the context, too
}

func (w *world) subscribe(members map[string]any) *subscribeResult {
	w.t.Helper()
	res, err := w.s.webhooks.subscribe(as("ann"), ask(members))
	if err != nil {
		w.t.Fatalf("subscribe(%v): %v", members, err)
	}
	return res
}

// refused asserts the kind of an error, and a member of its data.
func refused(t *testing.T, what string, err error, kind Kind, member, value string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != kind {
		t.Errorf("%s: %v, want %s", what, err, kind)
		return
	}
	var data map[string]any
	_ = json.Unmarshal(e.Data, &data)
	if member != "" && fmt.Sprint(data[member]) != value {
		t.Errorf("%s: data %s, want %s %s", what, e.Data, member, value)
	}
}

// bubble runs f in a bubble. What goes round and round in there, so that its clock
// stands still or runs on for ever, is ended by the clock outside.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer time.AfterFunc(3*time.Minute, func() {
		debug.SetTraceback("all")
		panic(t.Name() + " does not end")
	}).Stop()
	synctest.Test(t, f)
}

// settle lets everything come to rest.
func settle() { synctest.Wait() }

// after lets time pass.
func after(d time.Duration) { time.Sleep(d); synctest.Wait() }

// signed reports whether a post is signed by a secret.
func signed(t *testing.T, p post, secret string) bool {
	t.Helper()
	s, err := ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	return Verify(p.header.Get(headerID), p.header.Get(headerTimestamp), p.header.Get(headerSignature), p.raw, s)
}

func seconds(p post) int64 {
	n, _ := strconv.ParseInt(p.header.Get(headerTimestamp), 10, 64)
	return n
}

// connectTo connects a client to a server over a pipe.
func connectTo(t *testing.T, s *Server) *Session {
	t.Helper()
	caps := &mcp.ServerCapabilities{}
	s.Capabilities(caps)
	m := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := s.Register(m); err != nil {
		t.Fatal(err)
	}
	here, there := mcp.NewInMemoryTransports()
	served, err := m.Connect(as("ann"), s.Transport(there), nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil), here, SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		_ = served.Close()
	})
	return session
}
