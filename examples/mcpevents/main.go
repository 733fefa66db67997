// Command mcpevents follows an MCP server with attend: a CI server in the same
// process streams a short story over HTTP, and each event and each decision is
// printed.
//
//	go run ./examples/mcpevents
//
// It ends by itself. This file is the app: connect, make a source, attach it to an
// engine. The server is in ci.go.
package main

import (
	"context"
	"encoding/json"
	"iter"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

func main() {
	out := log.New(os.Stdout, "", 0)
	if err := follow(context.Background(), out); err != nil {
		log.Fatal(err)
	}
}

// follow follows the CI server until its story is told.
func follow(ctx context.Context, out *log.Logger) error {
	server, err := newCI()
	if err != nil {
		return err
	}
	defer server.close()

	// The sessions of the app's own MCP client; one that closes is replaced.
	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
		return mcpevents.Connect(ctx, client, &mcp.StreamableClientTransport{Endpoint: server.url}, mcpevents.SessionConfig{})
	})
	defer sessions.Close()

	// One subscription is one source.
	ci, err := mcpsource.New(sessions, mcpsource.Config{
		Name:      "ci.activity",
		Arguments: json.RawMessage(`{"repository":"attend"}`),
		Server:    "ci",
		OnError:   func(err error) { out.Print("trouble: ", err) },
	})
	if err != nil {
		return err
	}

	// An engine takes its events in. A store on disk in place of memory, and a
	// restart goes on where this process stopped.
	decided := make(chan struct{}, 1)
	e, err := engine.New(engine.Config{
		Store: memory.New(),
		Kind:  kindOf,
		Judge: attend.RuleJudge,
		Sink: attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			notice := strings.ReplaceAll(attend.DefaultNotice(d), "\n", "\n  | ")
			out.Printf("decision: %s, settled by %s\n  | %s", d.Route, d.Window.Reason, notice)
			decided <- struct{}{}
			return nil
		}),
		DeadLetter: attend.LogLetters,
	})
	if err != nil {
		return err
	}
	live := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { _ = e.Run(ctx) })
	work.Go(func() {
		if err := e.Attach(ctx, "repo/attend", printed{ci, out, sync.OnceFunc(func() { close(live) })}); ctx.Err() == nil {
			log.Fatal("the source has ended: ", err)
		}
	})

	<-live // a new subscription starts from now
	return server.tell(decided)
}

// kindOf says what an event does to the window that it joins.
func kindOf(e attend.Event) attend.Kind {
	var a activity
	if err := json.Unmarshal(e.Data, &a); err != nil {
		return attend.KindConsequence
	}
	switch a.What {
	case "comment":
		return attend.KindFlush // somebody speaks: settle now
	case "test", "deploy":
		return attend.KindClosing // the end of something: settle soon
	}
	return attend.KindConsequence // output that waits for the end
}

// A printed source prints events before the engine gets them. Live is called once
// the first batch is committed.
type printed struct {
	attend.Source
	out  *log.Logger
	live func()
}

// Batches yields what the source does.
func (p printed) Batches(ctx context.Context, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for b, err := range p.Source.Batches(ctx, after) {
			for _, v := range b.Events {
				p.out.Printf("event: %s %s", v.Name, v.Data)
			}
			if !yield(b, err) || err != nil {
				return
			}
			p.live()
		}
	}
}
