package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// sweep goes through the overdue scopes of the store each SweepInterval, for
// the work of processes that are gone or only push (E36).
func (e *Engine) sweep(ctx context.Context) {
	t := time.NewTicker(e.cfg.SweepInterval)
	defer t.Stop()
	f := failing{retries: make(map[attend.Scope]retry), tried: make(map[attend.Scope]*op)}
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
	e.learn(f, now)
	page := make([]attend.Scope, 0, e.cfg.SweepLimit)
	for scope, err := range e.store.Due(ctx, now.Add(-e.cfg.SweepGrace)) {
		if err != nil {
			if ctx.Err() == nil {
				e.log.Warn("attend: overdue scopes could not be listed", "err", err)
			}
			break
		}
		if page = append(page, scope); len(page) == cap(page) {
			e.sweepPage(page, f, &swept)
			page = page[:0]
		}
	}
	e.sweepPage(page, f, &swept)
	f.forget(now)
	if swept.Scopes > 0 {
		e.trace(swept)
	}
}

// sweepPage works overdue scopes, but for those that have a place in a line.
func (e *Engine) sweepPage(page []attend.Scope, f failing, swept *attend.Swept) {
	swept.Scopes += len(page)
	rand.Shuffle(len(page), func(i, j int) { page[i], page[j] = page[j], page[i] })
	work := make([]attend.Scope, 0, len(page))
	for _, scope := range page {
		switch {
		case f.waits(scope, swept.At):
			swept.Failed++
		case f.tried[scope] != nil: // and its write is still on its way
		case !e.calls.waits(scope) && !e.sends.waits(scope):
			work = append(work, scope)
		}
	}
	ready := work[:0]
	for i, err := range e.fetch(work, true) {
		switch {
		case err == nil:
			ready = append(ready, work[i])
		case !errors.Is(err, errBusy):
			e.passOver(f, work[i], swept.At, err)
			swept.Failed++
		}
	}
	e.together(func() {
		for _, scope := range ready {
			o := &op{in: machine.Tick{}, sweep: true}
			f.tried[scope] = o
			e.background(scope, o)
		}
	})
}

// learn finds out what became of the scopes that the last sweep tried.
func (e *Engine) learn(f failing, now time.Time) {
	for scope, o := range f.tried {
		if !o.answer.isSet() {
			continue
		}
		delete(f.tried, scope)
		if o.err != nil {
			e.passOver(f, scope, now, o.err)
		} else {
			delete(f.retries, scope)
		}
	}
}

func (e *Engine) passOver(f failing, scope attend.Scope, now time.Time, err error) {
	e.log.Warn("attend: an overdue scope can't be worked; it is passed over for a while", "scope", scope, "err", err)
	f.failed(scope, now)
}

// errBusy: a write of the scope is on its way, or Run is ending.
var errBusy = errors.New("engine: busy")

// errSlow: a load takes long, and goes on by itself.
var errSlow = errors.New("engine: the store is slow to load it")

const (
	fetchers      = 16
	fetchPatience = 5 * time.Second
)

// fetch makes scopes resident, some at a time, and returns for each why that
// was not possible. Nobody waits for these loads but the caller, and not for
// ever: a commit that gathered them would keep everybody waiting, and one that
// hangs must not hold up the others.
func (e *Engine) fetch(scopes []attend.Scope, reload bool) []error {
	errs := make([]error, len(scopes))
	for i := range errs {
		errs[i] = errSlow
	}
	var mu sync.Mutex // of errs
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(fetchers, len(scopes)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(scopes); i = int(next.Add(1)) - 1 {
				o := &op{fetch: true, reload: reload}
				e.background(scopes[i], o)
				mu.Lock()
				if errs[i] = errBusy; o.answer.isSet() {
					errs[i] = o.err
				}
				mu.Unlock()
			}
		})
	}
	all := make(chan struct{})
	go func() {
		wg.Wait()
		close(all)
	}()
	t := time.NewTimer(fetchPatience)
	defer t.Stop()
	select {
	case <-all:
	case <-t.C:
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(errs)
}

// failing remembers the scopes that could not be worked, and when each is tried
// again; and what the last sweep tried.
type failing struct {
	retries map[attend.Scope]retry
	tried   map[attend.Scope]*op
}

type retry struct {
	pause time.Duration
	next  time.Time
}

const longestRetry = time.Minute

func (f failing) waits(scope attend.Scope, now time.Time) bool {
	return now.Before(f.retries[scope].next)
}

func (f failing) failed(scope attend.Scope, now time.Time) {
	pause := min(max(2*f.retries[scope].pause, time.Second), longestRetry)
	f.retries[scope] = retry{pause, now.Add(pause)}
}

// forget drops what has not failed for long, so that the map does not grow.
func (f failing) forget(now time.Time) {
	for scope, r := range f.retries {
		if now.Sub(r.next) > 2*longestRetry {
			delete(f.retries, scope)
		}
	}
}
