package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
	"github.com/attend-go/attend/server/access"
)

// A journal is a log that a test reads while it is written.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// A world is an engine and a server of it.
type world struct {
	store  attend.ScopeStore
	engine *engine.Engine
	server *server.Server
	log    *journal
}

// kind makes its kind of an event's name: flush.x is a flush.
func kind(e attend.Event) attend.Kind {
	name, _, _ := strings.Cut(e.Name, ".")
	if k := attend.Kind(name); k.Valid() {
		return k
	}
	return attend.KindConsequence
}

// newWorld makes a world of what is given; what is not is the simplest there is.
func newWorld(t testing.TB, e engine.Config, c server.Config) *world {
	t.Helper()
	w := &world{log: new(journal)}
	logger := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if e.Store == nil {
		e.Store = memory.New()
	}
	if e.Kind == nil {
		e.Kind = kind
	}
	if e.Judge == nil {
		e.Judge = attend.RuleJudge
	}
	if e.Sink == nil {
		e.Sink = attend.LogOnly
	}
	if e.DeadLetter == nil {
		e.DeadLetter = attend.LogLetters
	}
	e.Logger, c.Logger = logger, logger
	w.store = e.Store
	var err error
	if w.engine, err = engine.New(e); err != nil {
		t.Fatalf("engine.New: %v", err)
	}
	if w.server, err = server.New(w.engine, w.store, c); err != nil {
		t.Fatalf("server.New: %v", err)
	}
	return w
}

// A reply is what came back.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends one request to the handler, without a network.
func (w *world) ask(method, target, body string, header ...string) reply {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(rec, r)
	return reply{rec.Code, rec.Header(), rec.Body.String()}
}

// problem checks that a reply is a problem, and returns its detail.
func (p reply) problem(t testing.TB) string {
	t.Helper()
	if got := p.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type of a %d is %q, want application/problem+json; body %q", p.status, got, p.body)
	}
	var v struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal([]byte(p.body), &v); err != nil || v.Status != p.status || v.Title == "" || v.Detail == "" {
		t.Fatalf("problem %q of a %d: %v, want its status, a title and a detail", p.body, p.status, err)
	}
	return v.Detail
}

const (
	readToken   = "a-token-that-reads-ops"
	ingestToken = "a-token-that-brings-events"
)

func tokens(t testing.TB) *access.Tokens {
	t.Helper()
	list, err := access.NewTokens([]access.Token{
		{Secret: readToken, Principal: access.Principal{Name: "reader", Scopes: []attend.Prefix{"ops"}, Read: true}},
		{Secret: ingestToken, Principal: access.Principal{Name: "sender", Scopes: []attend.Prefix{""}, Ingest: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// serving runs a server until the test ends or stop is called, and returns its
// base address. Stop returns what Serve did.
func (w *world) serving(t testing.TB, l server.Listen) (url string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	l.Ready = func(url string) { ready <- url }
	go func() { ended <- w.server.Serve(ctx, l) }()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() {
			cancel()
			result = <-ended
		})
		return result
	}
	t.Cleanup(func() { _ = stop() })
	select {
	case url = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("Serve = %v, before it was ready", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the server is not ready after 10 s")
	}
	return url, stop
}

// get asks over a network.
func get(t testing.TB, c *http.Client, url string) reply {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return reply{res.StatusCode, res.Header, string(b)}
}

// withLocal says on which address a request came in.
func withLocal(r *http.Request, a net.Addr) *http.Request {
	//check:allow context net/http has no other way to say it
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, a))
}

// send asks over a network with a token and a body.
func send(t testing.TB, method, url, token, body, media string) reply {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return reply{res.StatusCode, res.Header, string(b)}
}

// until waits for what comes by itself, and gives up after a while.
func (w *world) until(t testing.TB, there func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !there(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come in 20 s")
		}
	}
}

// decided counts the decisions in the log.
func (w *world) decided(t testing.TB) int {
	t.Helper()
	n := 0
	for _, err := range w.engine.Log().Read(t.Context(), attend.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
