package demo

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/attend-go/attend/mcpevents"
)

const eventType = "ci.activity"

// A ci is an MCP server that streams what happens to a repository.
type ci struct {
	url    string
	log    *mcpevents.Log
	events *mcpevents.Server
	http   *http.Server
}

// newCI serves on a free loopback port.
func newCI() (*ci, error) {
	c := &ci{log: mcpevents.NewLog(mcpevents.LogConfig{})}
	var err error
	c.events, err = mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{
		Name:        eventType,
		Description: "Something happened to the repository.",
		Payload:     json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"},"text":{"type":"string"}},"required":["what"]}`),
		Backend:     c.log,
	}}})
	if err != nil {
		return nil, err
	}
	caps := &mcp.ServerCapabilities{}
	c.events.Capabilities(caps)
	server := mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := c.events.Register(server); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the story's server: %w", err)
	}
	c.url = "http://" + l.Addr().String()
	c.http = &http.Server{Handler: c.events.Handler(server, mcpevents.HandlerConfig{})}
	go func() { _ = c.http.Serve(l) }() // until close
	return c, nil
}

// tell lets something happen.
func (c *ci) tell(n int, a activity) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return c.log.Append(mcpevents.Event{ID: fmt.Sprint("ci-", n), Data: data})
}

// close ends streams first, which the HTTP server would wait for.
func (c *ci) close() {
	_ = c.events.Close()
	_ = c.http.Close()
}
