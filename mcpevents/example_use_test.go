package mcpevents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/attend-go/attend/mcpevents"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server over HTTP with one type of event.
func ExampleServer_Handler() {
	builds := mcpevents.NewLog(mcpevents.LogConfig{MaxEvents: 10_000, MaxAge: 24 * time.Hour})
	events, err := mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{
		Name:        "build.finished",
		Description: "A build ended.",
		Payload:     json.RawMessage(`{"type":"object","properties":{"passed":{"type":"boolean"}},"required":["passed"]}`),
		Backend:     builds,
	}}})
	if err != nil {
		log.Fatal(err)
	}
	caps := &mcp.ServerCapabilities{}
	events.Capabilities(caps)
	server := mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := events.Register(server); err != nil {
		log.Fatal(err)
	}

	go func() { // wherever a build ends
		if err := builds.Append(mcpevents.Event{ID: "build-7", Data: json.RawMessage(`{"passed":false}`)}); err != nil {
			log.Print(err)
		}
	}()

	web := &http.Server{
		Addr:              "127.0.0.1:8080",
		Handler:           events.Handler(server, mcpevents.HandlerConfig{}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	web.RegisterOnShutdown(func() { _ = events.Close() }) // its Shutdown waits for streams
	log.Fatal(web.ListenAndServe())
}

// A type that not everybody may have, behind the SDK's bearer tokens.
func ExampleType() {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if token != "secret" { // ask whoever gave the tokens
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: "ada", Expiration: time.Now().Add(time.Hour)}, nil
	}
	events, err := mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{
		Name:    "build.finished",
		Backend: mcpevents.NewLog(mcpevents.LogConfig{}),
		Check: func(_ context.Context, sub mcpevents.Subscription) error {
			if sub.Principal != "ada" {
				return mcpevents.ErrForbidden
			}
			return nil
		},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	caps := &mcp.ServerCapabilities{}
	events.Capabilities(caps)
	server := mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := events.Register(server); err != nil {
		log.Fatal(err)
	}
	handler := auth.RequireBearerToken(verify, nil)(events.Handler(server, mcpevents.HandlerConfig{}))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", handler))
}

// A server that delivers by webhook as well.
func ExampleServer_Run() {
	store := mcpevents.NewMemorySubscriptions() // or one of your own, which outlives the process
	events, err := mcpevents.NewServer(mcpevents.ServerConfig{
		Types: []mcpevents.Type{{
			Name:    "build.finished",
			Modes:   []mcpevents.Mode{mcpevents.Webhook, mcpevents.Push, mcpevents.Poll},
			Backend: mcpevents.NewLog(mcpevents.LogConfig{}),
		}},
		Webhooks: &mcpevents.WebhookConfig{Store: store},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Capabilities, Register and Handler as above, and beside the serving:
	if err := events.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// A client that is delivered to by webhook, and streams or polls where that is
// refused.
func ExampleReceiver() {
	receiver, err := mcpevents.NewReceiver(mcpevents.ReceiverConfig{URL: "https://client.example.net/events"})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/events", receiver) // where a proxy ends TLS, or of a server with ListenAndServeTLS
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:8081", nil)) }()

	c := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	client := mcpevents.Client{Dial: func(ctx context.Context) (*mcpevents.Session, error) {
		return mcpevents.Connect(ctx, c, &mcp.StreamableClientTransport{Endpoint: "https://ci.example.com/mcp"}, mcpevents.SessionConfig{})
	}}
	sub := mcpevents.Subscription{Name: "build.finished"}
	for batch, err := range client.Follow(context.Background(), sub, mcpevents.FollowConfig{Receiver: receiver}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, v := range batch.Events {
			fmt.Println(v.ID, string(v.Data))
		}
	}
}

// How an error of a follower is told.
func ExamplePermanent() {
	for _, err := range []error{
		&mcpevents.TerminatedError{Cause: &mcpevents.Error{Kind: mcpevents.Forbidden}},
		&mcpevents.Error{Kind: mcpevents.ResourceExhausted},
		&mcpevents.StatusError{Status: 503},
		mcpevents.ErrNoMode,
	} {
		_, ended := errors.AsType[*mcpevents.TerminatedError](err)
		fmt.Println(mcpevents.Permanent(err), ended, errors.Is(err, mcpevents.ErrForbidden))
	}
	// Output:
	// true true true
	// false false false
	// false false false
	// true false false
}
