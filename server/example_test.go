package server_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
	"github.com/attend-go/attend/server/access"
)

// An app that embeds an engine serves it, too: its own agent gets decisions in
// process, others over HTTP and MCP.
func ExampleNew() {
	metrics := server.NewMetrics("")
	store := metrics.Store(memory.New())
	heard := make(chan attend.Decision, 1)
	e, err := engine.New(engine.Config{
		Store: store,
		Kind:  func(attend.Event) attend.Kind { return attend.KindFlush },
		Judge: metrics.Judge("rule", attend.RuleJudge),
		Sink: metrics.Sink("agent", attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			heard <- d
			return nil
		})),
		DeadLetter: attend.LogLetters,
		Observer:   metrics.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := access.NewTokens([]access.Token{{
		Secret:    "an-example-do-not-use-it",
		Principal: access.Principal{Name: "ci", Scopes: []attend.Prefix{"repo/"}, Ingest: true},
	}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(e, store, server.Config{Tokens: tokens, Metrics: metrics})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string), make(chan error)
	go func() {
		ended <- s.Serve(ctx, server.Listen{Port: 0, Ready: func(url string) { ready <- url }})
	}()
	url := <-ready

	r, err := http.NewRequest("POST", url+"/v1/ingest", strings.NewReader(
		`{"scope":"repo/app","id":"1","name":"comment","text":"please have a look"}`+"\n"))
	if err != nil {
		log.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer an-example-do-not-use-it")
	r.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	d := <-heard
	fmt.Println(d.Scope(), d.Route)

	stop()
	fmt.Println(<-ended)
	// Output:
	// {"accepted":1,"duplicates":0,"rejected":[]}
	// repo/app interrupt
	// <nil>
}

// An app with an HTTP server of its own mounts the handler, and runs what the
// server does beside requests.
func ExampleServer_Handler() {
	store := memory.New()
	e, err := engine.New(engine.Config{
		Store: store, Kind: func(attend.Event) attend.Kind { return attend.KindFlush },
		Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(e, store, server.Config{
		Principal: func(r *http.Request) (*access.Principal, error) {
			user := r.Header.Get("X-User") // set by the app's own front
			if user == "" {
				return nil, nil
			}
			return &access.Principal{Name: user, Scopes: []attend.Prefix{attend.Prefix(user)}, Read: true, Ingest: true}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/attend/", http.StripPrefix("/attend", s.Handler()))
	web := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}

	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = e.Run(ctx) }()
	go func() { _ = s.Run(ctx) }()
	// go web.ListenAndServe(), and in the end:
	if err := s.Drain(ctx); err != nil {
		log.Print(err)
	}
	if err := web.Shutdown(ctx); err != nil {
		log.Print(err)
	}
	stop()
	fmt.Println("drained")
	// Output: drained
}

func ExampleNewMetrics() {
	m := server.NewMetrics("1.0.0")
	sink := m.Sink("agent", attend.SinkFunc(func(context.Context, attend.Decision) error { return nil }))
	if err := sink.Deliver(context.Background(), attend.Decision{}); err != nil {
		log.Fatal(err)
	}
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if strings.HasPrefix(line, "attend_deliveries_total{") {
			fmt.Print(line)
		}
	}
	// Output: attend_deliveries_total{outcome="ok",sink="agent"} 1
}
