package mcpevents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/attend-go/attend/mcpevents"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server of an app that has one type of event. The client is the SDK's: list
// and poll are ordinary requests.
func ExampleNewServer() {
	builds := mcpevents.NewLog(mcpevents.LogConfig{})
	events, err := mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{
		Name:        "build.finished",
		Description: "A build ended.",
		Input:       json.RawMessage(`{"type":"object","properties":{"repo":{"type":"string"}}}`),
		Payload:     json.RawMessage(`{"type":"object","properties":{"passed":{"type":"boolean"}},"required":["passed"]}`),
		Backend:     builds,
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	caps := &mcp.ServerCapabilities{}
	events.Capabilities(caps)
	server := mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := events.Register(server); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	here, there := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, events.Transport(here), nil); err != nil { // events.Transport(&mcp.StdioTransport{}) in a program
		fmt.Println(err)
		return
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	type params struct{ mcp.ParamsBase }
	type result struct {
		mcp.ResultBase
		Events []struct {
			Name     string   `json:"name"`
			Delivery []string `json:"delivery"`
		} `json:"events"`
	}
	if err := mcp.AddSendingCustomMethod[*params, *result](client, "events/list"); err != nil {
		fmt.Println(err)
		return
	}
	session, err := client.Connect(ctx, there, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	list, err := mcp.CallCustomMethod[*params, *result](ctx, session, "events/list", &params{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(list.Events[0].Name, list.Events[0].Delivery)
	// Output: build.finished [push poll]
}

// A stream over HTTP, as it travels.
func ExampleServer() {
	builds := mcpevents.NewLog(mcpevents.LogConfig{})
	events, err := mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{Name: "build.finished", Backend: builds}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	caps := &mcp.ServerCapabilities{}
	events.Capabilities(caps)
	server := mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := events.Register(server); err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(events.Handler(server, mcpevents.HandlerConfig{}))
	defer web.Close()
	defer events.Close() // first: it ends the streams

	body := `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"build.finished","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequest(http.MethodPost, web.URL, strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "events/stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	if err := builds.Append(mcpevents.Event{ID: "b1", Data: json.RawMessage(`{"passed":false}`)}); err != nil {
		fmt.Println(err)
		return
	}
	lines := bufio.NewScanner(resp.Body)
	for seen := 0; seen < 2 && lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		seen++
		var message struct {
			Method string
			Params struct {
				EventID string
				Data    json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(data), &message); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(strings.TrimSpace(fmt.Sprint(message.Method, " ", message.Params.EventID, " ", string(message.Params.Data))))
	}
	// Output:
	// notifications/events/active
	// notifications/events/event b1 {"passed":false}
}

func ExampleNewLog() {
	log := mcpevents.NewLog(mcpevents.LogConfig{
		MaxEvents: 1000,
		MaxAge:    24 * time.Hour,
		Match: func(sub mcpevents.Subscription, v mcpevents.Event) bool {
			var want, have struct {
				Repo string `json:"repo"`
			}
			_ = json.Unmarshal(sub.Arguments, &want)
			_ = json.Unmarshal(v.Data, &have)
			return want.Repo == "" || want.Repo == have.Repo
		},
	})
	ctx, sub := context.Background(), mcpevents.Subscription{Name: "build.finished", Arguments: json.RawMessage(`{"repo":"api"}`)}
	start, err := log.Head(ctx, sub)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = log.Append(
		mcpevents.Event{ID: "b1", Data: json.RawMessage(`{"repo":"api","passed":true}`)},
		mcpevents.Event{ID: "b2", Data: json.RawMessage(`{"repo":"web","passed":true}`)},
		mcpevents.Event{ID: "b3", Data: json.RawMessage(`{"repo":"api","passed":false}`)},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := log.Read(ctx, sub, mcpevents.Query{After: start, Limit: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range page.Events {
		fmt.Println(v.ID, string(v.Data))
	}
	fmt.Println(page.More, page.Truncated)
	// Output:
	// b1 {"repo":"api","passed":true}
	// b3 {"repo":"api","passed":false}
	// false false
}
