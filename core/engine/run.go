package engine

import (
	"context"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// Run settles, judges and delivers until ctx ends. Then it takes no new work,
// lets what is in flight finish for ShutdownGrace, ends the contexts of what is
// left, gives those leases back, and returns nil once everything that it
// started has stopped; it waits for a judge or a sink that does not heed its
// context. An engine runs once at a time: a second Run returns an error that is
// attend.ErrInvalid.
func (e *Engine) Run(ctx context.Context) error {
	if !e.ran.CompareAndSwap(false, true) {
		return &attend.InvalidError{Field: "Run", Want: "one at a time for an engine"}
	}
	defer e.ran.Store(false)
	if ctx.Err() != nil {
		return nil
	}
	workCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	e.workCtx.Store(&workCtx)
	e.setRunning(true)

	var loops sync.WaitGroup
	loops.Go(func() { e.watch(ctx) })
	loops.Go(func() { e.sweep(ctx) })
	e.wakeAll()

	<-ctx.Done()
	e.setRunning(false)
	loops.Wait()
	finished := make(chan struct{})
	go func() {
		e.work.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(e.cfg.ShutdownGrace):
		stop()
		<-finished
	}
	e.calls.clear()
	e.sends.clear()
	return nil
}

func (e *Engine) setRunning(on bool) {
	e.gate.Lock()
	defer e.gate.Unlock()
	e.running.Store(on)
}

// wakeAll looks for work in every resident scope: what was pushed before Run.
func (e *Engine) wakeAll() {
	var scopes []attend.Scope
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		for c := s.ring.newer; c != &s.ring; c = c.newer {
			scopes = append(scopes, c.scope)
		}
		s.mu.Unlock()
	}
	e.fetch(scopes, false)
	e.together(func() {
		for _, scope := range scopes {
			e.background(scope, &op{in: machine.Tick{}})
			e.rearm(scope)
		}
	})
}

// rearm sets the alarm of a scope that did not change.
func (e *Engine) rearm(scope attend.Scope) {
	c := e.cell(scope)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded && !c.busy {
		e.arm(c)
	}
}
