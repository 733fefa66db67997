package mcpevents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/attend-go/attend/mcpevents"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client follows a subscription of a server over HTTP, and keeps the cursor.
func ExampleClient_Follow() {
	c := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	client := mcpevents.Client{Dial: func(ctx context.Context) (*mcpevents.Session, error) {
		return mcpevents.Connect(ctx, c, &mcp.StreamableClientTransport{Endpoint: "https://ci.example.com/mcp"}, mcpevents.SessionConfig{})
	}}
	sub := mcpevents.Subscription{Name: "build.finished", Arguments: json.RawMessage(`{"branch":"main"}`)}
	kept := mcpevents.Cursor("") // from where it was kept

	for batch, err := range client.Follow(context.Background(), sub, mcpevents.FollowConfig{
		Cursor:    kept,
		OnTrouble: func(err error) { slog.Warn("builds", "error", err) },
	}) {
		if err != nil {
			slog.Error("builds", "error", err) // permanent
			return
		}
		for _, v := range batch.Events {
			fmt.Println(v.At, v.ID, string(v.Data))
		}
		kept = batch.Cursor // keep events and cursor before the next batch
	}
}

// A session asks once, in a pipe to a server in the same process.
func ExampleSession_Poll() {
	events := mcpevents.NewLog(mcpevents.LogConfig{})
	server, err := mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{Name: "tick", Description: "It ticks.", Backend: events}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	caps := &mcp.ServerCapabilities{}
	server.Capabilities(caps)
	m := mcp.NewServer(&mcp.Implementation{Name: "ticker", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := server.Register(m); err != nil {
		fmt.Println(err)
		return
	}
	here, there := mcp.NewInMemoryTransports()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if _, err := m.Connect(ctx, server.Transport(there), nil); err != nil {
		fmt.Println(err)
		return
	}

	c := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	session, err := mcpevents.Connect(ctx, c, here, mcpevents.SessionConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	sub := mcpevents.Subscription{Name: "tick"}
	start, err := session.Poll(ctx, sub, mcpevents.PollQuery{}) // from now on
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := events.Append(mcpevents.Event{ID: "t-1", Name: "tick", At: time.Now(), Data: json.RawMessage(`{"n":1}`)}); err != nil {
		fmt.Println(err)
		return
	}
	next, err := session.Poll(ctx, sub, mcpevents.PollQuery{Cursor: start.Cursor})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(start.Events), next.Events[0].ID, string(next.Events[0].Data))
	// Output: 0 t-1 {"n":1}
}
