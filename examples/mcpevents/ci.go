package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/attend-go/attend/mcpevents"
)

// An activity is the data of an event.
type activity struct {
	Repository string `json:"repository"`
	What       string `json:"what"`
	Text       string `json:"text"`
}

// A ci is an MCP server that tells what happens to a repository.
type ci struct {
	url    string
	log    *mcpevents.Log
	events *mcpevents.Server
	http   *http.Server
}

// newCI serves on a free loopback port.
func newCI() (*ci, error) {
	c := &ci{log: mcpevents.NewLog(mcpevents.LogConfig{Match: wanted})}
	var err error
	c.events, err = mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{
		Name:        "ci.activity",
		Description: "Something happened to a repository.",
		Input:       json.RawMessage(`{"type":"object","properties":{"repository":{"type":"string"}}}`),
		Payload:     json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`),
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
		return nil, err
	}
	c.url = "http://" + l.Addr().String()
	c.http = &http.Server{Handler: c.events.Handler(server, mcpevents.HandlerConfig{})}
	go c.http.Serve(l) // until close
	return c, nil
}

// wanted matches the repository that a subscription asks for.
func wanted(sub mcpevents.Subscription, v mcpevents.Event) bool {
	var want, have activity
	_ = json.Unmarshal(sub.Arguments, &want) // its schema was checked
	_ = json.Unmarshal(v.Data, &have)
	return want.Repository == "" || want.Repository == have.Repository
}

// close ends streams first, which the HTTP server would wait for.
func (c *ci) close() {
	_ = c.events.Close()
	_ = c.http.Close()
}

// tell tells a story, and waits for a decision after each chapter.
func (c *ci) tell(decided <-chan struct{}) error {
	n := 0
	for _, chapter := range [][]activity{
		{
			{"attend", "build", "build 7 has started"},
			{"attend", "log", "compile: ok"},
			{"other", "test", "what happens elsewhere is not heard here"},
			{"attend", "log", "vet: ok"},
			{"attend", "test", "TestSettle failed"},
		},
		{{"attend", "comment", "ann: can somebody look at TestSettle?"}},
		{
			{"attend", "log", "build 8: TestSettle passes"},
			{"attend", "deploy", "build 8 is live"},
		},
	} {
		for _, a := range chapter {
			n++
			data, err := json.Marshal(a)
			if err != nil {
				return err
			}
			if err := c.log.Append(mcpevents.Event{ID: fmt.Sprint("ci-", n), Data: data}); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		<-decided
	}
	return nil
}
