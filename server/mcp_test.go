package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server"
)

// A bearer adds a token to each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t testing.TB, base, token string) (*mcpevents.Session, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	return mcpevents.Connect(ctx, client, &mcp.StreamableClientTransport{
		Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: bearer{token}}, MaxRetries: -1,
	}, mcpevents.SessionConfig{})
}

// MCP is behind the front: who asks is known there, and sees what is his.
func TestMCPBehindTheFront(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     server.Config
		token   string
		webhook bool
	}{
		"open":   {server.Config{}, "", false},
		"tokens": {server.Config{Tokens: tokens(t)}, readToken, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, engine.Config{}, c.cfg)
			base, stop := w.serving(t, server.Listen{})
			if c.token != "" {
				if _, err := connect(t, base, "a-token-that-nobody-knows"); err == nil {
					t.Error("Connect with a wrong token succeeds")
				}
			}
			s, err := connect(t, base, c.token)
			if err != nil {
				t.Fatalf("Connect: %v", err)
			}
			for _, scope := range []attend.Scope{"ops/a", "other"} {
				if _, err := w.engine.Push(t.Context(), scope, attend.Event{ID: "1", Name: "log", Text: "in " + string(scope)}); err != nil {
					t.Fatal(err)
				}
			}
			for scope, seen := range map[string]bool{"ops/a": true, "other": c.token == ""} {
				res, err := s.MCP().CallTool(t.Context(), &mcp.CallToolParams{Name: "attend_window", Arguments: map[string]any{"scope": scope}})
				if err != nil {
					t.Fatalf("attend_window: %v", err)
				}
				b, err := json.Marshal(res)
				if err != nil || strings.Contains(string(b), "in "+scope) != seen {
					t.Errorf("attend_window of %s sees its event: %v, want %v: %s %v", scope, !seen, seen, b, err)
				}
			}
			var types []mcpevents.Descriptor
			for d, err := range s.List(t.Context()) {
				if err != nil {
					t.Fatalf("events/list: %v", err)
				}
				types = append(types, d)
			}
			if len(types) != 1 {
				t.Fatalf("events/list = %v, want one", types)
			}
			// A webhook belongs to a name; nobody in particular has none.
			if got := slices.Contains(types[0].Delivery, mcpevents.Webhook); got != c.webhook {
				t.Errorf("webhooks are offered: %v, want %v", got, c.webhook)
			}
			if c.webhook {
				if err := w.server.Run(ended()); err == nil {
					t.Error("Run beside Serve succeeds: Serve does not deliver to webhooks")
				}
			}
			if err := stop(); err != nil {
				t.Errorf("Serve = %v, want nil with a session open", err)
			}
			_ = s.Close() // its server is gone
		})
	}
}

// A session of an older revision has a standing stream, which does not hold up
// the end.
func TestMCPOfAnOlderRevision(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{})
	base, stop := w.serving(t, server.Listen{})
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := mcpevents.Connect(t.Context(), client, &mcp.StreamableClientTransport{Endpoint: base + "/mcp", MaxRetries: -1},
		mcpevents.SessionConfig{ProtocolVersion: "2025-06-18"})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if res, err := s.MCP().ListTools(t.Context(), nil); err != nil || len(res.Tools) != 2 {
		t.Errorf("tools/list = %v, %v, want two", res, err)
	}
	w.until(t, w.server.Busy) // with the standing stream
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	_ = s.Close() // its server is gone
}
