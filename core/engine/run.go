package engine

import (
	"context"
	"math/rand/v2"
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
	workCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	e.workCtx.Store(&workCtx)
	e.setRunning(true)

	var loops sync.WaitGroup
	loops.Go(func() { e.watch(ctx) })
	loops.Go(func() { e.sweep(ctx) })
	e.together(e.wakeAll)

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
	return nil
}

func (e *Engine) setRunning(on bool) {
	e.gate.Lock()
	defer e.gate.Unlock()
	e.running.Store(on)
}

// wakeAll looks for work in every resident scope: what was pushed before Run.
func (e *Engine) wakeAll() {
	for i := range e.shards {
		s := &e.shards[i]
		var scopes []attend.Scope
		s.mu.Lock()
		for c := s.ring.newer; c != &s.ring; c = c.newer {
			scopes = append(scopes, c.scope)
		}
		s.mu.Unlock()
		for _, scope := range scopes {
			e.submit(scope, &op{in: machine.Tick{}})
			e.rearm(scope)
		}
	}
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

// sweep goes through the overdue scopes of the store each SweepInterval, for
// the work of processes that are gone or only push (E36).
func (e *Engine) sweep(ctx context.Context) {
	t := time.NewTicker(e.cfg.SweepInterval)
	defer t.Stop()
	f := failing{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			e.sweepOnce(ctx, f)
		}
	}
}

// sweepOnce goes through all overdue scopes, a page at a time, each page in an
// order of its own, so that replicas don't race for the same scope.
func (e *Engine) sweepOnce(ctx context.Context, f failing) {
	now := time.Now()
	swept := attend.Swept{At: now}
	page := make([]attend.Scope, 0, e.cfg.SweepLimit)
	work := func() {
		rand.Shuffle(len(page), func(i, j int) { page[i], page[j] = page[j], page[i] })
		e.together(func() {
			for _, scope := range page {
				if !e.sweepScope(ctx, scope, f, now) {
					swept.Failed++
				}
			}
		})
		swept.Scopes += len(page)
		page = page[:0]
	}
	for scope, err := range e.store.Due(ctx, now.Add(-e.cfg.SweepGrace)) {
		if err != nil {
			if ctx.Err() == nil {
				e.log.Warn("attend: overdue scopes could not be listed", "err", err)
			}
			break
		}
		if page = append(page, scope); len(page) == cap(page) {
			work()
		}
	}
	if len(page) > 0 {
		work()
	}
	f.forget(now)
	if swept.Scopes > 0 {
		e.trace(swept)
	}
}

// sweepScope works one overdue scope, and reports whether that was possible.
func (e *Engine) sweepScope(ctx context.Context, scope attend.Scope, f failing, now time.Time) bool {
	if ctx.Err() != nil || e.calls.waits(scope) || e.sends.waits(scope) {
		return true // it has its place in a line
	}
	if f.waits(scope, now) {
		return false
	}
	o := &op{in: machine.Tick{}, reload: true, done: make(chan struct{})}
	e.submit(scope, o)
	select {
	case <-o.done:
	default:
		return true // its write is on its way
	}
	if o.err != nil {
		e.log.Warn("attend: an overdue scope can't be worked; it is passed over for a while", "scope", scope, "err", o.err)
		f.failed(scope, now)
		return false
	}
	delete(f, scope)
	return true
}

// failing remembers the scopes that could not be worked, and when each is tried
// again.
type failing map[attend.Scope]retry

type retry struct {
	pause time.Duration
	next  time.Time
}

const longestRetry = time.Minute

func (f failing) waits(scope attend.Scope, now time.Time) bool { return now.Before(f[scope].next) }

func (f failing) failed(scope attend.Scope, now time.Time) {
	pause := min(max(2*f[scope].pause, time.Second), longestRetry)
	f[scope] = retry{pause, now.Add(pause)}
}

// forget drops what has not failed for long, so that the map does not grow.
func (f failing) forget(now time.Time) {
	for scope, r := range f {
		if now.Sub(r.next) > 2*longestRetry {
			delete(f, scope)
		}
	}
}
