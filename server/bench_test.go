package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server"
	"github.com/attend-go/attend/stores/bolt"
)

// benchStores are what the latencies are measured on: one that keeps nothing,
// and one that syncs each commit.
var benchStores = map[string]func(b *testing.B) attend.ScopeStore{
	"memory": func(*testing.B) attend.ScopeStore { return memory.New() },
	"bolt": func(b *testing.B) attend.ScopeStore {
		s, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "store"), bolt.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	},
}

// BenchmarkSubscriber is the time from the begin of a push to a subscriber that
// has the decision, over SSE and over an MCP stream, with a judge that answers at
// once, a push at a time. Beside it, in turns, are two bare commits, which is the
// least it takes to keep an event and to keep what was decided about it.
func BenchmarkSubscriber(b *testing.B) {
	for name, open := range benchStores {
		for transport, follow := range map[string]func(context.Context, *testing.B, string, chan<- string){"sse": followSSE, "mcp": followMCP} {
			b.Run(name+"/"+transport, func(b *testing.B) {
				w := newWorld(b, engine.Config{Store: open(b)}, server.Config{})
				base, stop := w.serving(b, server.Listen{})
				defer stop()
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				heard := make(chan string, 1)
				go follow(ctx, b, base, heard)
				begins(b, w, heard)
				bare := newBareCommits(b, w.store)
				var took, commits []time.Duration
				n := 0
				for b.Loop() {
					n++
					id := fmt.Sprint("event-", n)
					begun := time.Now()
					if _, err := w.engine.Push(ctx, "ops/db", attend.Event{ID: id, Name: "flush"}); err != nil {
						b.Fatal(err)
					}
					if got := <-heard; got != id {
						b.Fatalf("heard of %q, want %q", got, id)
					}
					took = append(took, time.Since(begun))
					commits = append(commits, bare.two(b))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(micros(took, 0.5), "p50-µs")
				b.ReportMetric(micros(took, 0.99), "p99-µs")
				b.ReportMetric(micros(commits, 0.5), "two-commits-p50-µs")
				b.ReportMetric(micros(commits, 0.99), "two-commits-p99-µs")
				b.ReportMetric(micros(took, 0.5)/micros(commits, 0.5), "of-two-commits")
			})
		}
	}
}

// begins waits until a subscriber hears what is pushed.
func begins(b *testing.B, w *world, heard <-chan string) {
	b.Helper()
	for i := 0; ; i++ {
		if _, err := w.engine.Push(b.Context(), "ops/db", attend.Event{ID: fmt.Sprint("begin-", i), Name: "flush"}); err != nil {
			b.Fatal(err)
		}
		select {
		case <-heard:
		case <-time.After(100 * time.Millisecond):
			if i == 100 {
				b.Fatal("the subscriber hears nothing")
			}
			continue
		}
		for quiet := false; !quiet; { // those that were under way
			select {
			case <-heard:
			case <-time.After(200 * time.Millisecond):
				quiet = true
			}
		}
		return
	}
}

// firstEvent is the id of the only event of a decision.
func firstEvent(b *testing.B, data []byte) string {
	var d attend.Decision
	if err := json.Unmarshal(data, &d); err != nil || len(d.Window.Events) != 1 {
		b.Errorf("a decision of %d events, %v", len(d.Window.Events), err)
		return ""
	}
	return d.Window.Events[0].ID
}

func followSSE(ctx context.Context, b *testing.B, base string, heard chan<- string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/decisions?scope=ops", nil)
	if err != nil {
		b.Error(err)
		return
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for decision := false; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			decision = name == "decision\n"
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && decision {
			heard <- firstEvent(b, []byte(data))
		}
	}
}

func followMCP(ctx context.Context, b *testing.B, base string, heard chan<- string) {
	s, err := connect(b, base, "")
	if err != nil {
		b.Error(err)
		return
	}
	defer s.Close()
	sub := mcpevents.Subscription{Name: "attention.decision", Arguments: json.RawMessage(`{"scope":"ops"}`)}
	for note, err := range s.Stream(ctx, sub, mcpevents.StreamQuery{}) {
		if err != nil {
			return
		}
		if note.Kind == mcpevents.NoteEvent {
			heard <- firstEvent(b, note.Event.Data)
		}
	}
}

// bareCommits writes to a scope of its own.
type bareCommits struct {
	store   attend.ScopeStore
	version uint64
}

func newBareCommits(b *testing.B, s attend.ScopeStore) *bareCommits {
	c := &bareCommits{store: s}
	c.two(b)
	return c
}

func (c *bareCommits) two(b *testing.B) time.Duration {
	b.Helper()
	begun := time.Now()
	for range 2 {
		out, err := c.store.Commit(b.Context(), []attend.Write{{Scope: "bare", Expect: c.version, Snapshot: make([]byte, 400)}})
		if err != nil || out[0].Conflict() {
			b.Fatal("a bare commit does not land:", err)
		}
		c.version = out[0].Version
	}
	return time.Since(begun)
}

func micros(d []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(d))
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / float64(time.Microsecond)
}

// BenchmarkTool is a call of attend_window by the SDK's client, beside a request
// of the same server that reads the same scope over plain HTTP.
func BenchmarkTool(b *testing.B) {
	w := newWorld(b, engine.Config{}, server.Config{})
	base, stop := w.serving(b, server.Listen{})
	defer stop()
	if _, err := w.engine.Push(b.Context(), "ops/db", attend.Event{ID: "1", Name: "log", Text: "compile: ok"}); err != nil {
		b.Fatal(err)
	}
	s, err := connect(b, base, "")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var calls, plain []time.Duration
	for b.Loop() {
		begun := time.Now()
		res, err := s.MCP().CallTool(b.Context(), &mcp.CallToolParams{Name: "attend_window", Arguments: map[string]any{"scope": "ops/db"}})
		if err != nil || res.IsError {
			b.Fatal("attend_window fails:", err)
		}
		calls = append(calls, time.Since(begun))

		begun = time.Now()
		resp, err := http.Get(base + "/v1/scopes/ops%2Fdb")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal("GET fails:", resp.Status, err)
		}
		resp.Body.Close()
		plain = append(plain, time.Since(begun))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(calls, 0.5), "p50-µs")
	b.ReportMetric(micros(plain, 0.5), "http-p50-µs")
	b.ReportMetric(micros(calls, 0.5)-micros(plain, 0.5), "overhead-µs")
}
