package killed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
)

const repo = attend.Scope("repo")

func id(i int) string { return fmt.Sprint("e", i) }

func ids(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, id(i))
	}
	return out
}

// newServer makes an MCP server of the events that a backend has.
func newServer(b mcpevents.Backend) (*mcpevents.Server, *mcp.Server, error) {
	ev, err := mcpevents.NewServer(mcpevents.ServerConfig{
		Types: []mcpevents.Type{{Name: "alert", Backend: b}}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	caps := &mcp.ServerCapabilities{}
	ev.Capabilities(caps)
	m := mcp.NewServer(&mcp.Implementation{Name: "alerts", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	return ev, m, ev.Register(m)
}

// serve serves the events of a log over HTTP, until the end of the test.
func serve(t *testing.T, events *mcpevents.Log) (url string) {
	t.Helper()
	ev, m, err := newServer(events)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(ev.Handler(m, mcpevents.HandlerConfig{}))
	t.Cleanup(func() {
		_ = ev.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// appendTo adds the events e<from> … to a log, to excluded.
func appendTo(t *testing.T, events *mcpevents.Log, from, to int) {
	t.Helper()
	var list []mcpevents.Event
	for i := from; i < to; i++ {
		list = append(list, mcpevents.Event{ID: id(i), Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	if err := events.Append(list...); err != nil {
		t.Errorf("Append: %v", err)
	}
}

// connect connects a session.
func connect(ctx context.Context, t mcp.Transport) (*mcpevents.Session, error) {
	return mcpevents.Connect(ctx, mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil), t, mcpevents.SessionConfig{})
}

func overHTTP(ctx context.Context, url string) (*mcpevents.Session, error) {
	return connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: http.DefaultClient})
}
