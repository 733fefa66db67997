package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// child does nothing but in a child of the test that calls it. There it runs an
// engine until this process is killed, and never returns.
func (d Durable) child(test string) {
	text, ok := os.LookupEnv(killEnv)
	if !ok {
		return
	}
	var spec killSpec
	err := json.Unmarshal([]byte(text), &spec)
	c := &killChild{d: d, spec: spec, random: rand.New(rand.NewPCG(spec.Seed, uint64(spec.Life)<<1+1))}
	c.out.w = os.Stdout //check:allow output the pipe to the process that kills
	if err != nil || spec.Test != test {
		c.broken(fmt.Errorf("it was started for %s, and came to %s first", spec.Test, test))
	}
	requests := make(chan *killRequest)
	// Nobody is left to kill this process when its parent is gone.
	go func() {
		err := lines(os.Stdin, func(r *killRequest) error {
			requests <- r
			return nil
		})
		if err != nil {
			c.broken(fmt.Errorf("read requests: %w", err))
		}
		os.Exit(0)
	}()
	c.broken(c.run(requests))
}

// A killChild is a process that is killed.
type killChild struct {
	d    Durable
	spec killSpec
	out  lineWriter

	mu     sync.Mutex
	random *rand.Rand
}

// say tells the parent. Where that is gone there is nobody to tell.
func (c *killChild) say(r killReply) {
	if err := c.out.line(r); err != nil {
		os.Exit(1)
	}
}

// broken ends the process with what it can't live with.
func (c *killChild) broken(err error) {
	c.say(killReply{Broken: err.Error()})
	os.Exit(1)
}

// chance draws a number from 0 to n-1.
func (c *killChild) chance(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *killChild) run(requests <-chan *killRequest) error {
	ctx := context.Background()
	store, err := c.d.Open(c.spec.Place)
	if err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	cfg := killConfig(store, attend.JudgeFunc(c.judge), attend.SinkFunc(c.deliver))
	if c.chance(4) == 0 { // a life in which windows are decided as they settle
		cfg.Judge = killPure{c}
	}
	e, err := engine.New(cfg)
	if err != nil {
		return err
	}
	for i, q := range killQueries() {
		if c.spec.After == nil {
			break
		}
		f := &killReader{index: i, query: q, cursor: c.spec.After[i]}
		f.tell = func(r killRow) { c.say(killReply{Row: &r}) }
		go func() { c.broken(fmt.Errorf("a reader of the log: %w", f.follow(ctx, store.Log(), false))) }()
	}
	go func() { c.broken(fmt.Errorf("Run returned: %w", errors.Join(e.Run(ctx)))) }()
	c.say(killReply{Ready: true})
	for r := range requests {
		go c.serve(ctx, e, r)
	}
	return io.EOF
}

// serve does what a request asks for, and acknowledges it once the engine has
// returned.
func (c *killChild) serve(ctx context.Context, e *engine.Engine, r *killRequest) {
	var err error
	switch r.Do {
	case "push":
		_, err = e.Push(ctx, r.Scope, r.Events...)
	case "flush":
		err = e.Flush(ctx, r.Scope)
	case "end":
		err = e.End(ctx, r.Scope)
	}
	a := &killAnswer{Number: r.Number}
	if err != nil {
		a.Err = err.Error()
		a.Again = errors.Is(err, attend.ErrConflict) || errors.Is(err, attend.ErrOutboxFull)
	}
	c.say(killReply{Answer: a})
}

var errKillJudge = errors.New("the judge fails")

// judge answers at once, later, too late, or not at all.
func (c *killChild) judge(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	switch n := c.chance(100); {
	case n < 8:
		return attend.Judgment{}, errKillJudge
	case n < 9:
		return attend.Judgment{}, attend.Permanent(errKillJudge)
	case n < 12:
		<-ctx.Done()
		return attend.Judgment{}, ctx.Err()
	case n < 50:
		if err := pause(ctx, time.Duration(c.chance(30))*time.Millisecond); err != nil {
			return attend.Judgment{}, err
		}
	}
	return c.judgment(in), nil
}

// judgment picks any route that is on offer.
func (c *killChild) judgment(in attend.JudgeInput) attend.Judgment {
	return attend.Judgment{Route: in.Routes[c.chance(len(in.Routes))], Confidence: 0.5}
}

// A killPure is a judge that is asked inside the commit.
type killPure struct{ c *killChild }

func (killPure) Pure() {}
func (j killPure) Judge(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	return j.c.judgment(in), nil
}

// deliver tells the parent before it takes a decision: what was taken, and is
// not in the log, was an effect of what had not been committed.
func (c *killChild) deliver(ctx context.Context, d attend.Decision) error {
	switch n := c.chance(100); {
	case n < 4:
		return errors.New("the sink fails")
	case n < 5:
		return attend.Permanent(errors.New("the sink refuses"))
	case n < 6:
		<-ctx.Done()
		return ctx.Err()
	case n < 30:
		if err := pause(ctx, time.Duration(c.chance(20))*time.Millisecond); err != nil {
			return err
		}
	}
	c.say(killReply{Taken: &killTakenID{d.ID, d.Scope(), d.At}})
	return nil
}

// killConfig is the settings of all engines. Everything is short beside a life,
// so that a window may go through several.
func killConfig(store attend.ScopeStore, judge attend.Judge, sink attend.Sink) engine.Config {
	return engine.Config{
		Store: store, Judge: judge, Sink: sink, DeadLetter: attend.LogLetters,
		Kind: func(e attend.Event) attend.Kind {
			kind, _, _ := strings.Cut(e.Name, ".")
			return attend.Kind(kind)
		},
		Settle: engine.Settle{
			ClosingGrace: 5 * time.Millisecond, StreamGap: 10 * time.Millisecond, PassiveQuiet: 20 * time.Millisecond,
			WaitHorizon: 50 * time.Millisecond, MaxWindow: time.Second,
		},
		JudgeTimeout: 60 * time.Millisecond, DeliveryTimeout: 60 * time.Millisecond,
		RetryBackoff: []time.Duration{
			5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
			80 * time.Millisecond, 160 * time.Millisecond,
		},
		SweepInterval: 20 * time.Millisecond, SweepGrace: 50 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}
