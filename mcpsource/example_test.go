package mcpsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// alarms is an MCP server in memory that tells of alarms, and what connects to it.
func alarms(events *mcpevents.Log) func(ctx context.Context) (*mcpevents.Session, error) {
	ev, err := mcpevents.NewServer(mcpevents.ServerConfig{Types: []mcpevents.Type{{Name: "alarm", Backend: events}}})
	if err != nil {
		log.Fatal(err)
	}
	caps := &mcp.ServerCapabilities{}
	ev.Capabilities(caps)
	server := mcp.NewServer(&mcp.Implementation{Name: "alarms", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	if err := ev.Register(server); err != nil {
		log.Fatal(err)
	}
	return func(ctx context.Context) (*mcpevents.Session, error) {
		a, b := mcp.NewInMemoryTransports()
		if _, err := server.Connect(context.WithoutCancel(ctx), ev.Transport(a), nil); err != nil {
			return nil, err
		}
		c := mcp.NewClient(&mcp.Implementation{Name: "app", Version: "1"}, nil)
		return mcpevents.Connect(ctx, c, b, mcpevents.SessionConfig{})
	}
}

// An engine attaches the alarms of a server; the session ends the source when it
// closes.
func ExampleNew() {
	events := mcpevents.NewLog(mcpevents.LogConfig{})
	ctx, stop := context.WithCancel(context.Background())
	session, err := alarms(events)(ctx)
	if err != nil {
		log.Fatal(err)
	}
	src, err := mcpsource.New(session, mcpsource.Config{Name: "alarm", Server: "plant"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(src.Key())

	decided := make(chan attend.Decision, 1)
	e, err := engine.New(engine.Config{
		Store: memory.New(),
		Kind:  func(attend.Event) attend.Kind { return attend.KindFlush },
		Judge: attend.RuleJudge,
		Sink: attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			decided <- d
			return nil
		}),
		DeadLetter: attend.LogLetters,
	})
	if err != nil {
		log.Fatal(err)
	}
	go e.Run(ctx)
	attached := make(chan error)
	go func() { attached <- e.Attach(ctx, "plant/7", src) }()

	for s, _ := e.State(ctx, "plant/7"); s.Cursor(src.Key()) == ""; s, _ = e.State(ctx, "plant/7") {
		time.Sleep(time.Millisecond) // it begins from now: an alarm before is none of its business
	}
	if err := events.Append(mcpevents.Event{ID: "a1", Data: json.RawMessage(`{"pump":3}`)}); err != nil {
		log.Fatal(err)
	}
	d := <-decided
	fmt.Println(d.Route, d.Window.Events[0].Name, string(d.Window.Events[0].Data))
	_ = session.Close()
	fmt.Println("closed:", errors.Is(<-attached, mcpevents.ErrClosed))
	stop()
	// Output:
	// mcp:plant:alarm:{}
	// interrupt alarm {"pump":3}
	// closed: true
}

// With a function that makes sessions, one that closed is replaced, and the
// sources on it go on where they were.
func ExampleNewSessions() {
	events := mcpevents.NewLog(mcpevents.LogConfig{})
	sessions := mcpsource.NewSessions(alarms(events))
	defer sessions.Close()
	pumps, err := mcpsource.New(sessions, mcpsource.Config{Name: "alarm"})
	if err != nil {
		log.Fatal(err)
	}
	for b, err := range pumps.Batches(context.Background(), "") { // what an engine does
		if err != nil {
			log.Fatal(err)
		}
		for _, v := range b.Events {
			fmt.Println(v.ID, string(v.Data))
		}
		if len(b.Events) > 0 {
			break
		}
		if err := events.Append(mcpevents.Event{ID: "a1", Data: json.RawMessage(`{"pump":3}`)}); err != nil {
			log.Fatal(err)
		}
	}
	// Output: a1 {"pump":3}
}
