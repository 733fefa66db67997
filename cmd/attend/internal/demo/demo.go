package demo

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

const scope attend.Scope = "repo/attend"

// A Step is one line of the demo.
type Step struct {
	Since  time.Duration // since the start
	Step   string        // event, settle, judge or deliver
	What   string        // of an event; the reason of a settle; else the route
	Text   string        // in words
	Notice string        // what the agent reads, of a deliver step
}

// A Result says how the demo ended.
type Result struct {
	Events     int // that went in
	Deliveries int // that came out
}

// A Config says how to tell the story.
type Config struct {
	// Speed is how much faster than the story it runs, from 0.1 to 10. 0: 1.
	Speed float64
	// Print gets each step as it happens, from one goroutine at a time.
	Print func(Step)
}

// A teller runs the story through attend.
type teller struct {
	Config
	ci     *ci
	begun  time.Time
	steps  chan Step // the observer may not wait for a slow printer
	fails  chan error
	settle engine.Settle

	mu     sync.Mutex
	result Result
	held   int // events that wait
}

// Run tells the story and returns once it is over, or ctx has ended.
func Run(ctx context.Context, c Config) (Result, error) {
	if c.Speed == 0 {
		c.Speed = 1
	}
	if !(c.Speed >= 0.1 && c.Speed <= 10) {
		return Result{}, errors.New("speed: want a number from 0.1 to 10")
	}
	server, err := newCI()
	if err != nil {
		return Result{}, err
	}
	defer server.close()
	t := &teller{Config: c, ci: server, steps: make(chan Step, 256), fails: make(chan error, 1)}
	t.settle = engine.Settle{ClosingGrace: t.pace(500 * time.Millisecond), WaitHorizon: t.pace(10 * time.Second)}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		for s := range t.steps {
			c.Print(s)
		}
	}()
	err = t.run(ctx)
	close(t.steps)
	<-printed
	return t.result, err
}

// pace is how long something takes at the demo's speed, in whole milliseconds.
func (t *teller) pace(d time.Duration) time.Duration {
	return max(time.Millisecond, time.Duration(float64(d)/t.Speed).Round(time.Millisecond))
}

// run is all that an app does: connect, make a source, attach it to an engine.
func (t *teller) run(ctx context.Context) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "attend demo", Version: "1"}, nil)
	sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
		return mcpevents.Connect(ctx, client, &mcp.StreamableClientTransport{Endpoint: t.ci.url}, mcpevents.SessionConfig{})
	})
	defer sessions.Close()
	source, err := mcpsource.New(sessions, mcpsource.Config{Name: eventType, Server: "ci"})
	if err != nil {
		return err
	}
	decided := make(chan struct{}, len(story))
	e, err := engine.New(engine.Config{
		Store:      memory.New(),
		Kind:       kindOf,
		Judge:      attend.JudgeFunc(judge),
		Sink:       attend.SinkFunc(func(_ context.Context, d attend.Decision) error { return t.deliver(d, decided) }),
		DeadLetter: attend.LogLetters,
		Settle:     t.settle,
		Observer:   t.observe,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	live := make(chan struct{})
	work.Go(func() { _ = e.Run(ctx) })
	work.Go(func() {
		if err := e.Attach(ctx, scope, watched{source, t, sync.OnceFunc(func() { close(live) })}); ctx.Err() == nil {
			t.fails <- err
		}
	})
	if err := t.await(ctx, live); err != nil { // a new subscription starts from now
		return err
	}
	return t.tell(ctx, decided)
}

// await returns when something has happened, or an error if nothing will.
func (t *teller) await(ctx context.Context, happened <-chan struct{}) error {
	select {
	case <-happened:
		return nil
	case err := <-t.fails:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell lets the story happen, and waits for its two decisions.
func (t *teller) tell(ctx context.Context, decided <-chan struct{}) error {
	t.begun = time.Now()
	for i, c := range story {
		select {
		case <-time.After(time.Until(t.begun.Add(time.Duration(float64(c.at) / t.Speed)))):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := t.ci.tell(i+1, c.activity); err != nil {
			return err
		}
	}
	for range 2 {
		if err := t.await(ctx, decided); err != nil {
			return err
		}
	}
	return nil
}

// A watched source shows events as they come from the server.
type watched struct {
	attend.Source
	t    *teller
	live func() // once the first batch is committed
}

// Batches is of [attend.Source].
func (w watched) Batches(ctx context.Context, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for b, err := range w.Source.Batches(ctx, after) {
			for _, e := range b.Events {
				w.t.event(e)
			}
			if !yield(b, err) || err != nil {
				return
			}
			w.live()
		}
	}
}
