package mcpsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// A world is an MCP server in process, with one type of event from a log.
type world struct {
	t   testing.TB
	log *mcpevents.Log
	ev  *mcpevents.Server
	mcp *mcp.Server
}

// bubble is synctest.Test with an end on the clock outside: what spins in there, or
// waits for what is not in there, would hang until go test's own limit.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer time.AfterFunc(3*time.Minute, func() {
		debug.SetTraceback("all")
		panic(t.Name() + " does not end")
	}).Stop()
	synctest.Test(t, f)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// alert is the type that a world offers.
func alert(log *mcpevents.Log) mcpevents.Type {
	return mcpevents.Type{Name: "alert", Payload: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`), Backend: log}
}

// newWorld makes a server of types, of alert alone where there are none.
func newWorld(t testing.TB, c mcpevents.ServerConfig, log *mcpevents.Log) *world {
	t.Helper()
	if log == nil {
		log = mcpevents.NewLog(mcpevents.LogConfig{})
	}
	c.Logger = quiet()
	if c.Types == nil {
		c.Types = []mcpevents.Type{alert(log)}
	}
	ev, err := mcpevents.NewServer(c)
	if err != nil {
		t.Fatalf("NewServer: %v", err)
	}
	caps := &mcp.ServerCapabilities{}
	ev.Capabilities(caps)
	m := mcp.NewServer(&mcp.Implementation{Name: "world", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := ev.Register(m); err != nil {
		t.Fatalf("Register: %v", err)
	}
	return &world{t: t, log: log, ev: ev, mcp: m}
}

// append adds the events e<from> … to the log, to excluded.
func (w *world) append(from, to int) {
	w.t.Helper()
	var list []mcpevents.Event
	for i := from; i < to; i++ {
		list = append(list, mcpevents.Event{ID: id(i), Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	if err := w.log.Append(list...); err != nil {
		w.t.Fatalf("Append: %v", err)
	}
}

func id(i int) string { return fmt.Sprint("e", i) }

func ids(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, id(i))
	}
	return out
}

func client() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
}

// dial connects a session in memory.
func (w *world) dial(ctx context.Context, cfg mcpevents.SessionConfig) (*mcpevents.Session, error) {
	a, b := mcp.NewInMemoryTransports()
	if _, err := w.mcp.Connect(context.WithoutCancel(ctx), w.ev.Transport(a), nil); err != nil {
		return nil, err
	}
	return mcpevents.Connect(ctx, client(), b, cfg)
}

// session is a session in memory, closed at the end of the test.
func (w *world) session(cfg mcpevents.SessionConfig) *mcpevents.Session {
	w.t.Helper()
	s, err := w.dial(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatalf("Connect: %v", err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// serve serves the world over HTTP, until the end of the test.
func (w *world) serve() string {
	w.t.Helper()
	s := httptest.NewServer(w.ev.Handler(w.mcp, mcpevents.HandlerConfig{}))
	w.t.Cleanup(func() {
		_ = w.ev.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// over connects a session over HTTP.
func over(ctx context.Context, url string, c *http.Client) (*mcpevents.Session, error) {
	return mcpevents.Connect(ctx, client(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: c}, mcpevents.SessionConfig{})
}

// source makes a source, of the type alert where c has no name.
func source(t testing.TB, from mcpsource.Follower, c mcpsource.Config) *mcpsource.Source {
	t.Helper()
	if c.Name == "" {
		c.Name = "alert"
	}
	s, err := mcpsource.New(from, c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s
}

// A rig is an engine at work, whose windows settle with each batch.
type rig struct {
	*engine.Engine
	sink    *attendtest.Sink
	letters *attendtest.Letters
	stop    func() // ends Run and waits for it
}

// kindOf has every event speak to the agent, but those that no kind takes.
func kindOf(e attend.Event) attend.Kind {
	if string(e.Data) == `{"kind":"none"}` {
		return "none"
	}
	return attend.KindFlush
}

func newRig(t testing.TB, store attend.ScopeStore) *rig {
	t.Helper()
	if store == nil {
		store = memory.New()
	}
	r := &rig{sink: &attendtest.Sink{}, letters: &attendtest.Letters{}}
	e, err := engine.New(engine.Config{
		Store: store, Kind: kindOf, Judge: attend.RuleJudge, Sink: r.sink, DeadLetter: r.letters, Logger: quiet(),
	})
	if err != nil {
		t.Fatalf("engine.New: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = e.Run(ctx)
	}()
	r.Engine = e
	r.stop = func() { cancel(); <-ran }
	t.Cleanup(r.stop)
	return r
}

const repo = attend.Scope("repo")

// attach attaches a source until the returned function is called, which returns
// how that ended.
func (r *rig) attach(t testing.TB, s attend.Source) (detach func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Attach(ctx, repo, s) }()
	var err error
	ended := false
	detach = func() error {
		if !ended {
			cancel()
			err, ended = <-done, true
		}
		return err
	}
	t.Cleanup(func() { _ = detach() })
	return detach
}

// heard are the ids of all events in decisions, in order.
func (r *rig) heard() (out []string) {
	for _, d := range r.sink.Delivered() {
		for _, v := range d.Window.Events {
			out = append(out, v.ID)
		}
	}
	return out
}

// cursor is the committed cursor of a source.
func (r *rig) cursor(t testing.TB, s attend.Source) attend.Cursor {
	t.Helper()
	st, err := r.State(t.Context(), repo)
	if err != nil {
		t.Fatalf("State: %v", err)
	}
	return st.Cursor(s.Key())
}

// gaps counts the decisions whose window has a gap.
func (r *rig) gaps() (n int) {
	for _, d := range r.sink.Delivered() {
		if d.Window.Gap {
			n++
		}
	}
	return n
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

func (r *rig) untilHeard(t testing.TB, want []string) {
	t.Helper()
	until(t, fmt.Sprintf("%d events in decisions", len(want)), func() bool { return len(r.heard()) >= len(want) })
	if got := r.heard(); !slices.Equal(got, want) {
		t.Fatalf("heard %v, want %v", got, want)
	}
}
