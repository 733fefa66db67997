package mcpface

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

func TestNewSaysWhatIsWrong(t *testing.T) {
	good := Config{Feed: decisions.NewFeed(memory.New().Log(), quiet()), Engine: broken{}, Logger: quiet()}
	for want, change := range map[string]func(*Config){
		"Feed": func(c *Config) { c.Feed = nil }, "Engine": func(c *Config) { c.Engine = nil }, "Waits": func(c *Config) { c.Waits = -1 },
		"Named": func(c *Config) { c.Store = memory.New() }, "Heartbeat": func(c *Config) { c.Events.Heartbeat = time.Hour },
		"Lease": func(c *Config) { c.Store, c.Named, c.Webhooks.Lease = memory.New(), named, -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want an error that names %s", err, want)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("New = %v", err)
	}
}

// rpc posts one message of an older revision.
func rpc(t *testing.T, url, who, session, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-Who": who,
		"Mcp-Session-Id": session, "Mcp-Protocol-Version": older, "Authorization": "Bearer a-token-of-" + who,
	} {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// A session of an older revision keeps the rights of who began it, and so nobody
// else may use it: neither another name nor the same name with other rights.
func TestAnOldSessionIsForWhoBeganIt(t *testing.T) {
	w := newWorld(t, nil)
	url := w.serve()
	resp, body := rpc(t, url, "ann", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	session := resp.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("initialize: %d %s", resp.StatusCode, body)
	}
	rpc(t, url, "ann", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"attend_wait","arguments":{"timeoutMs":0}}}`
	if resp, body := rpc(t, url, "ann", session, call); resp.StatusCode != http.StatusOK || !strings.Contains(body, "timedOut") {
		t.Errorf("a call of its own: %d %s", resp.StatusCode, body)
	}
	for _, who := range []string{"bob", "root", "nobody"} {
		if resp, body := rpc(t, url, who, session, call); resp.StatusCode != http.StatusForbidden {
			t.Errorf("a call of %s: %d %s, want 403", who, resp.StatusCode, body)
		}
	}
}

// The standing stream of an older session ends with the server.
func TestAStandingStreamEndsWithTheServer(t *testing.T) {
	w := newWorld(t, nil)
	url := w.serve()
	resp, _ := rpc(t, url, "ann", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Accept": "text/event-stream", "X-Who": "ann", "Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": older} {
		req.Header.Set(k, v)
	}
	ended := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the stream ended by itself: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := w.face.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the stream is there 10 s after the server's end")
	}
}

// V4: a page of another origin is refused.
func TestV4AForeignOriginIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.serve(), strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://elsewhere.example")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, want 403", resp.StatusCode)
	}
}

func ExampleNew() {
	store := memory.New()
	face, err := New(Config{Feed: decisions.NewFeed(store.Log(), nil), Engine: broken{}, Version: "1"}) // an *engine.Engine in a server
	if err != nil {
		fmt.Println(err)
		return
	}
	defer face.Close()
	here, there := mcp.NewInMemoryTransports()
	ctx := access.With(context.Background(), access.Anyone())
	if err := face.Connect(ctx, here); err != nil { // face.Handler() over HTTP
		fmt.Println(err)
		return
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(ctx, there, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: WaitTool, Arguments: json.RawMessage(`{"timeoutMs":0}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, _, _ := strings.Cut(r.Content[0].(*mcp.TextContent).Text, "\n")
	fmt.Println(text)
	// Output: Nothing yet.
}

func ExampleNewSubscriptions() {
	s, ctx := NewSubscriptions(memory.New()), context.Background()
	due := time.UnixMilli(1_790_000_000_000)
	if _, err := s.Write(ctx, []mcpevents.SubscriptionWrite{{Key: "sub_1", Value: []byte("…"), Due: due}}); err != nil {
		fmt.Println(err)
		return
	}
	for key, err := range s.Due(ctx, due) {
		fmt.Println(key, err)
	}
	// Output: sub_1 <nil>
}
