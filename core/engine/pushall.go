package engine

import (
	"context"
	"sync"
	"sync/atomic"

	attend "github.com/attend-go/attend/core"
)

// A ScopePush is one push of a [Engine.PushAll]: what goes into a scope, and
// what became of it.
type ScopePush struct {
	Scope  attend.Scope
	Events []attend.Event

	// Set by PushAll, as Push would return them:

	Receipt Receipt
	Err     error
}

// PushAll is a [Engine.Push] for each of a list, all at once: they are committed
// in as few groups as they fit in, without a goroutine each. Each lands or fails
// by itself. It returns once each has its answer, or ctx has ended; the list is
// PushAll's until then. Pushes to one scope land in their order.
func (e *Engine) PushAll(ctx context.Context, list []ScopePush) {
	ops := make([]*push, len(list))
	for i := range list {
		x := &list[i]
		x.Receipt, x.Err = Receipt{}, ctx.Err()
		if x.Err == nil {
			ops[i], x.Err = e.newPush(x.Scope, x.Events)
		}
	}
	e.warm(list, ops)
	// In parts, each about a group: nobody else commits while one gathers.
	for from := 0; from < len(ops); from += maxGroupWrites {
		part := ops[from:min(from+maxGroupWrites, len(ops))]
		e.together(func() {
			for i, p := range part {
				if p != nil {
					e.submit(list[from+i].Scope, &p.op)
				}
			}
		})
	}
	for i, p := range ops {
		if p == nil {
			continue
		}
		x := &list[i]
		if x.Err = p.answer.wait(ctx); x.Err == nil {
			x.Err = p.err
		}
		if x.Err == nil {
			x.Receipt, x.Err = p.receipt(x.Scope)
		}
	}
}

// warm makes the scopes of a list resident, some at a time: a load while their
// writes gather would keep everybody waiting. What a load fails with, the push
// finds too.
func (e *Engine) warm(list []ScopePush, ops []*push) {
	var cold []attend.Scope
	for i, p := range ops {
		if p != nil && !e.cell(list[i].Scope).isLoaded() {
			cold = append(cold, list[i].Scope)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(fetchers, len(cold)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(cold); i = int(next.Add(1)) - 1 {
				o := &op{fetch: true}
				e.submit(cold[i], o)
			}
		})
	}
	wg.Wait()
}

func (c *cell) isLoaded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loaded
}
