package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
)

// kindOf takes messages for talk to the agent, and everything else for output.
func kindOf(e attend.Event) attend.Kind {
	switch {
	case strings.HasPrefix(e.Name, "message."):
		return attend.KindFlush
	case e.Name == "build.finished":
		return attend.KindClosing
	}
	return attend.KindConsequence
}

// An engine that tells a build's end to the agent: push, run, deliver.
func ExampleNew() {
	decided := make(chan attend.Decision)
	e, err := engine.New(engine.Config{
		Store: memory.New(),
		Kind:  kindOf,
		Judge: attend.RuleJudge,
		Sink: attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			decided <- d
			return nil
		}),
		DeadLetter: attend.LogLetters,
		Settle:     engine.Settle{ClosingGrace: 20 * time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- e.Run(ctx) }()

	_, err = e.Push(ctx, "repo/attend",
		attend.Event{ID: "1", Name: "build.log", Text: "compile: ok"},
		attend.Event{ID: "2", Name: "build.finished", Text: "build 7 is green"})
	if err != nil {
		log.Fatal(err)
	}
	d := <-decided
	fmt.Println(d.Scope(), "settled by", d.Window.Reason, "takes route", d.Route)
	for _, v := range d.Window.Events {
		fmt.Println("-", v.Text)
	}
	stop()
	fmt.Println(<-ran)
	// Output:
	// repo/attend settled by closing takes route queue
	// - compile: ok
	// - build 7 is green
	// <nil>
}

// A push returns when its events are committed, and tells what the scope had
// seen: after an error it is safe to push them again.
func ExampleEngine_Push() {
	e, err := engine.New(engine.Config{
		Store: memory.New(), Kind: kindOf, Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	events := []attend.Event{
		{ID: "1", Name: "build.log", Data: json.RawMessage(`{"step": "compile"}`)},
		{ID: "2", Name: "build.log", Data: json.RawMessage(`{"step": "test"}`)},
	}
	for range 2 {
		r, err := e.Push(ctx, "repo/attend", events...)
		fmt.Println(r.New, "new,", r.Duplicates, "seen before,", err)
	}
	_, err = e.Push(ctx, "repo/attend", events[0], attend.Event{Name: "build.log"})
	fmt.Println(err)
	// Output:
	// 2 new, 0 seen before, <nil>
	// 0 new, 2 seen before, <nil>
	// attend: event 1: attend: id: want 1 to 256 bytes
}

// A source hands over batches; each is committed with its cursor. Attach goes on
// from there, also in the next process.
func ExampleEngine_Attach() {
	store, events := memory.New(), memory.NewEventLog()
	e, err := engine.New(engine.Config{
		Store: store, Kind: kindOf, Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := events.Append(ctx, "repo/attend", []attend.Event{
		{ID: "1", Name: "build.log"}, {ID: "2", Name: "message.sent", Text: "is it green?"},
	}); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	err = e.Attach(ctx, "repo/attend", attend.LogSource("builds", events, "repo/attend"))
	fmt.Println("attached until:", err)

	for row := range e.Log().Read(context.Background(), attend.Query{}) {
		var d attend.Decision
		if err := d.UnmarshalJSON(row.Body); err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Route, "for", len(d.Window.Events), "events of", d.Window.Events[0].Source)
	}
	// Output:
	// attached until: context deadline exceeded
	// interrupt for 2 events of log:builds
}

// Apply brings its own time, for tools and tests.
func ExampleApply() {
	ctx, store := context.Background(), memory.New()
	policy := machine.DefaultPolicy()
	at := time.UnixMilli(1_767_225_600_000)
	done := attend.Event{ID: "1", At: at, Name: "build.finished", Kind: attend.KindClosing}

	s, eff, err := engine.Apply(ctx, store, "repo/attend", &policy, machine.Arrive{At: at, Events: []attend.Event{done}})
	fmt.Println(eff.Fresh, "new, due in", s.Due().Sub(at), err)

	s, _, err = engine.Apply(ctx, store, "repo/attend", &policy, machine.Tick{At: s.Due()})
	slot, _ := s.Slot()
	fmt.Println(slot.Window.Reason, "with", len(slot.Window.Events), "event waits for a judge", err)
	// Output:
	// 1 new, due in 500ms <nil>
	// closing with 1 event waits for a judge <nil>
}

// A sink with a handler for each route that leaves attend.
func ExampleConfig() {
	say := func(what string) attend.SinkFunc {
		return func(_ context.Context, d attend.Decision) error {
			fmt.Println(what, d.Window.Events[len(d.Window.Events)-1].Text)
			return nil
		}
	}
	cfg := engine.Config{
		Store: memory.New(),
		Kind:  kindOf,
		Judge: attend.RuleJudge,
		Sink: attend.Routes{
			Interrupt: say("stop, somebody speaks:"),
			Queue:     say("next:"),
			Note:      say("by the way:"),
			Ask:       say("shall the agent see this?"),
		},
		DeadLetter: attend.LogLetters,
	}
	// A drive runs it on given times; an app calls engine.New.
	d, err := engine.NewDrive(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx, at := context.Background(), time.UnixMilli(1_767_225_600_000)
	if _, err := d.Push(ctx, at, "repo/attend", attend.Event{ID: "1", Name: "build.finished", Text: "build 7 is green"}); err != nil {
		log.Fatal(err)
	}
	if err := d.Advance(ctx, at.Add(time.Second)); err != nil {
		log.Fatal(err)
	}
	if _, err := d.Push(ctx, at.Add(2*time.Second), "repo/attend", attend.Event{ID: "2", Name: "message.sent", Text: "is it green?"}); err != nil {
		log.Fatal(err)
	}

	cfg.Sink = attend.Routes{Interrupt: say("stop:")}
	_, err = engine.New(cfg)
	fmt.Println(err)
	// Output:
	// next: build 7 is green
	// stop, somebody speaks: is it green?
	// attend: Sink.Routes.Queue: want a handler
}

// A drive is an engine on times that it is given: a recorded hour in no time,
// the same each time.
func ExampleNewDrive() {
	d, err := engine.NewDrive(engine.Config{
		Store: memory.New(), Kind: kindOf, Judge: attend.RuleJudge, DeadLetter: attend.LogLetters,
		Sink: attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			fmt.Println(d.At.UTC().Format(time.TimeOnly), d.Route, len(d.Window.Events))
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, at := context.Background(), time.UnixMilli(1_767_225_600_000)
	for i, name := range []string{"build.log", "build.finished", "message.sent", "build.finished"} {
		next := at.Add(time.Duration(i) * 15 * time.Minute)
		if err := d.Advance(ctx, next); err != nil { // what is due before
			log.Fatal(err)
		}
		if _, err := d.Push(ctx, next, "repo/attend", attend.Event{ID: fmt.Sprint(i), Name: name}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("next is due at", d.Next().UTC().Format("15:04:05.000"))
	// Output:
	// 00:15:00 queue 1
	// 00:30:00 interrupt 1
	// next is due at 00:45:00.500
}
