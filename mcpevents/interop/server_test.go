package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// kept is how many events a log of the server holds.
const kept = 20

// token is the bearer token that the server over HTTP takes, and whose it is.
const token = "alice"

// A server is ours, offered to the packages, with tools that make things happen.
type server struct {
	events *mcpevents.Server
	mcp    *mcp.Server
	build  *watchedLog
	keys   *mcpevents.Log
}

// A watchedLog counts who waits for its events: the streams that are open.
type watchedLog struct {
	*mcpevents.Log
	waiting atomic.Int64
}

func (l *watchedLog) Wait(ctx context.Context, sub mcpevents.Subscription, after mcpevents.Cursor) error {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	return l.Log.Wait(ctx, sub, after)
}

// newServer makes the server with what c says beside its types.
func newServer(c mcpevents.ServerConfig) (*server, error) {
	s := &server{
		build: &watchedLog{Log: mcpevents.NewLog(mcpevents.LogConfig{MaxEvents: kept, Match: sameRepo})},
		keys:  mcpevents.NewLog(mcpevents.LogConfig{}),
	}
	modes := []mcpevents.Mode{mcpevents.Poll, mcpevents.Push}
	if c.Webhooks != nil {
		modes = append(modes, mcpevents.Webhook)
	}
	c.Types = []mcpevents.Type{
		{
			Name:        "build.finished",
			Description: "A build came to its end.",
			Modes:       modes,
			Input:       json.RawMessage(`{"type":"object","properties":{"repo":{"type":"string"}},"additionalProperties":false}`),
			Payload:     json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"repo":{"type":"string"}},"required":["n","repo"]}`),
			Backend:     s.build,
		},
		{Name: "disk.full", Description: "A disk has no room.", Modes: []mcpevents.Mode{mcpevents.Poll}, Backend: mcpevents.NewLog(mcpevents.LogConfig{})},
		{Name: "key.pressed", Description: "Somebody types.", NoReplay: true, Backend: s.keys},
	}
	c.PageSize = 2
	c.Heartbeat = 200 * time.Millisecond
	c.NextPoll = 50 * time.Millisecond
	c.Logger = slog.New(slog.DiscardHandler)
	var err error
	if s.events, err = mcpevents.NewServer(c); err != nil {
		return nil, err
	}
	caps := &mcp.ServerCapabilities{}
	s.events.Capabilities(caps)
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	s.tools()
	return s, s.events.Register(s.mcp)
}

// sameRepo is what the argument of build.finished means.
func sameRepo(sub mcpevents.Subscription, v mcpevents.Event) bool {
	var want, have struct{ Repo string }
	_ = json.Unmarshal(sub.Arguments, &want)
	_ = json.Unmarshal(v.Data, &have)
	return want.Repo == "" || want.Repo == have.Repo
}

// finish appends the builds from to (including) to of a repository.
func (s *server) finish(repo string, from, to int) error {
	for n := from; n <= to; n++ {
		data := json.RawMessage(fmt.Sprintf(`{"n":%d,"repo":%q}`, n, repo))
		if err := s.build.Append(mcpevents.Event{ID: idOf(repo, n), Data: data}); err != nil {
			return err
		}
	}
	return nil
}

// idOf is the id of a build's event.
func idOf(repo string, n int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(repo, "/", "_"), n)
}

// tools lets a client make things happen.
func (s *server) tools() {
	type nothing = struct{}
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "finish"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Repo     string `json:"repo"`
		From, To int
		Pause    int `json:"pause,omitempty"` // milliseconds between two
	}) (*mcp.CallToolResult, nothing, error) {
		for n := in.From; n <= in.To; n++ {
			if err := s.finish(in.Repo, n, n); err != nil {
				return nil, nothing{}, err
			}
			time.Sleep(time.Duration(in.Pause) * time.Millisecond)
		}
		return nil, nothing{}, nil
	})
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "press"}, func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, nothing, error) {
		return nil, nothing{}, s.keys.Append(mcpevents.Event{ID: fmt.Sprint("key-", time.Now().UnixNano()), Data: json.RawMessage(`{}`)})
	})
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "offer"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, nothing, error) {
		return nil, nothing{}, s.events.Offer(mcpevents.Type{Name: in.Name, Backend: mcpevents.NewLog(mcpevents.LogConfig{})})
	})
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "withdraw"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, nothing, error) {
		if !s.events.Withdraw(in.Name) {
			return nil, nothing{}, fmt.Errorf("no type %q", in.Name)
		}
		return nil, nothing{}, nil
	})
	type count struct {
		N int64 `json:"n"`
	}
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "streams"}, func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, count, error) {
		return nil, count{s.build.waiting.Load()}, nil
	})
}

// serveHTTP serves a server of its own until the test ends and returns its URL.
func serveHTTP(t testing.TB, c mcpevents.ServerConfig) (*server, string) {
	t.Helper()
	s, err := newServer(c)
	if err != nil {
		t.Fatal(err)
	}
	h := auth.RequireBearerToken(verify, nil)(s.events.Handler(s.mcp, mcpevents.HandlerConfig{}))
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		if err := s.events.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		web.Close()
	})
	return s, web.URL
}

// childEnv says what the process that runs [TestChild] is to be.
const childEnv = "MCPEVENTS_INTEROP_CHILD"

// TestChild is our server over stdio, in a process of its own.
func TestChild(t *testing.T) {
	kind := os.Getenv(childEnv)
	if kind == "" {
		t.Skip("this test is a part of others")
	}
	s, err := newServer(mcpevents.ServerConfig{Compat: kind == "compat"})
	if err == nil {
		err = s.mcp.Run(context.Background(), s.events.Transport(&mcp.StdioTransport{}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	os.Exit(0) // before the test says so on stdout
}

// verify knows one bearer token.
func verify(_ context.Context, given string, _ *http.Request) (*auth.TokenInfo, error) {
	if given != token {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
}
