//go:build unix

package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
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

// The tokens of a closed server.
const (
	allToken  = "a-token-with-every-right"
	opsToken  = "a-token-that-reads-ops-alone"
	sendToken = "a-token-that-brings-events"
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

// A world is a server of attend that runs, in this process.
type world struct {
	t      testing.TB
	store  attend.ScopeStore
	engine *engine.Engine
	log    journal
	url    string
	stop   func() error // once it has ended: what Serve returned
}

// A setup says what is served. The zero setup is open, and on memory.
type setup struct {
	store  attend.ScopeStore
	config server.Config
	listen server.Listen
}

// kind makes its kind of an event's name: flush.x is a flush.
func kind(e attend.Event) attend.Kind {
	name, _, _ := strings.Cut(e.Name, ".")
	if k := attend.Kind(name); k.Valid() {
		return k
	}
	return attend.KindConsequence
}

// compose makes an engine and a server of it.
func compose(store attend.ScopeStore, c server.Config, metrics *server.Metrics) (*engine.Engine, *server.Server, error) {
	store = metrics.Store(store)
	e, err := engine.New(engine.Config{
		Store: store, Kind: kind, Judge: metrics.Judge("rule", attend.RuleJudge), Sink: attend.LogOnly,
		DeadLetter: attend.LogLetters, Observer: metrics.Observe, Logger: c.Logger,
	})
	if err != nil {
		return nil, nil, err
	}
	c.Metrics = metrics
	s, err := server.New(e, store, c)
	return e, s, err
}

// start runs a server until the test ends or its stop is called.
func start(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, store: s.store}
	if w.store == nil {
		w.store = memory.New()
	}
	s.config.Logger = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e, srv, err := compose(w.store, s.config, server.NewMetrics("test"))
	if err != nil {
		t.Fatal(err)
	}
	w.engine = e
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	s.listen.Ready = func(url string) { ready <- url }
	go func() { ended <- srv.Serve(ctx, s.listen) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Errorf("Serve = %v", err)
		}
		if t.Failed() {
			text := w.log.String()
			t.Logf("the server's log ends:\n%s", text[max(0, len(text)-4000):])
		}
	})
	select {
	case w.url = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("Serve = %v, before it was ready", err)
	case <-time.After(patience):
		t.Fatalf("the server is not ready after %v", patience)
	}
	return w
}

// tokens are those of a closed server.
func tokens(t testing.TB) *access.Tokens {
	t.Helper()
	list, err := access.NewTokens([]access.Token{
		{Secret: allToken, Principal: access.Principal{Name: "all", Scopes: []attend.Prefix{""}, Read: true, Ingest: true}},
		{Secret: opsToken, Principal: access.Principal{Name: "ops", Scopes: []attend.Prefix{"ops"}, Read: true}},
		{Secret: sendToken, Principal: access.Principal{Name: "sender", Scopes: []attend.Prefix{"ops"}, Ingest: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// push brings an event into a scope, not by way of the server.
func (w *world) push(scope attend.Scope, e attend.Event) {
	w.t.Helper()
	if _, err := w.engine.Push(w.t.Context(), scope, e); err != nil {
		w.t.Fatal(err)
	}
}

// decide makes a decision about each of the numbers from to (including) to.
func (w *world) decide(scope attend.Scope, from, to int) {
	w.t.Helper()
	for n := from; n <= to; n++ {
		w.push(scope, attend.Event{ID: strconv.Itoa(n), Name: "flush.now", Text: fmt.Sprint("number ", n)})
	}
}

// metric waits until one of the server's metrics is a value.
func (w *world) metric(name, token string, want float64) {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got, ok := readMetric(w.t, w.url, name, token)
		if ok && got == want {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s = %v, want %v", name, got, want)
		}
	}
}

// readMetric reads a metric of a server; false: it is not there.
func readMetric(t testing.TB, base, name, token string) (float64, bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics = %d, %v", res.StatusCode, err)
	}
	for line := range strings.Lines(b.String()) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatalf("metric %s: %v", name, err)
			}
			return v, true
		}
	}
	return 0, false
}

// A decision is one on the wire.
type decision struct {
	ID, Scope, Route, Notice, Cursor string
	At                               int64
	Window                           struct {
		Reason string
		Events []struct {
			ID, Name, Text, Kind string
			At                   int64
			Data                 json.RawMessage
		}
	}
}

// number is what a decision of [world.decide] is about.
func (d decision) number(t testing.TB) int {
	t.Helper()
	if len(d.Window.Events) != 1 {
		t.Fatalf("decision %s has %d events, want one", d.ID, len(d.Window.Events))
	}
	n, err := strconv.Atoi(d.Window.Events[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// counted checks that decisions are about the numbers from to (including) to,
// each once and in order.
func counted(t testing.TB, what string, list []decision, from, to int) {
	t.Helper()
	var got []int
	ok := len(list) == to-from+1
	for i, d := range list {
		got = append(got, d.number(t))
		ok = ok && got[i] == from+i && d.Cursor != "" && d.ID != ""
	}
	if !ok {
		t.Errorf("%s: decisions about %v, want %d to %d, each once", what, got, from, to)
	}
}

func decode(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("decode %.400q: %v", text, err)
	}
}
