package engine

import (
	"context"
	"sync"
	"sync/atomic"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A ScopePush is one push of a [Engine.PushAll]: what goes into a scope, and
// what became of it.
type ScopePush struct {
	Scope  attend.Scope
	Events []attend.Event
	// Lenient leaves out events that break a rule, or that no kind takes, and
	// takes the others. Otherwise one such event fails the whole push.
	Lenient bool
	// Flush makes it an [Engine.Flush], and End an [Engine.End], in its place
	// among the pushes to its scope. It has no Events then.
	Flush, End bool

	// Set by PushAll, as Push would return them:

	Receipt Receipt
	Err     error
	// Left is what was left out, in the order of Events. Only a Lenient push has
	// any; the others of its events are counted in Receipt.
	Left []*attend.EventError
}

// PushAll is a [Engine.Push] for each of a list, all at once: they are committed
// in as few groups as they fit in, without a goroutine each. Each lands or fails
// by itself. It returns once each has its answer, or ctx has ended; the list is
// PushAll's until then. What goes to one scope lands in its order.
func (e *Engine) PushAll(ctx context.Context, list []ScopePush) {
	ops := make([]*op, len(list))
	pushed := make([]*push, len(list))
	for i := range list {
		x := &list[i]
		x.Receipt, x.Left, x.Err = Receipt{}, nil, ctx.Err()
		if x.Err == nil {
			ops[i], pushed[i], x.Err = e.newOp(x)
		}
	}
	e.warm(list, ops)
	// In parts, each about a group: nobody else commits while one gathers.
	for from := 0; from < len(ops); from += maxGroupWrites {
		part := ops[from:min(from+maxGroupWrites, len(ops))]
		e.together(func() {
			for i, o := range part {
				if o != nil {
					e.submit(list[from+i].Scope, o)
				}
			}
		})
	}
	for i, o := range ops {
		if o == nil {
			continue
		}
		x := &list[i]
		if x.Err = o.answer.wait(ctx); x.Err == nil {
			x.Err = o.err
		}
		if x.Err == nil && pushed[i] != nil {
			x.Receipt, x.Err = pushed[i].receipt(x.Scope)
		}
	}
}

// newOp returns the operation of an entry, and the push that it is, where it is
// one.
func (e *Engine) newOp(x *ScopePush) (*op, *push, error) {
	if x.Flush || x.End {
		switch err := x.Scope.Check(); {
		case err != nil:
			return nil, nil, err
		case x.Flush && x.End:
			return nil, nil, &attend.InvalidError{Field: "Flush", Want: "no End beside it"}
		case len(x.Events) > 0:
			return nil, nil, &attend.InvalidError{Field: "Events", Want: "none beside Flush or End"}
		case x.Flush:
			return &op{in: machine.Flush{}}, nil, nil
		default:
			return &op{in: machine.End{}}, nil, nil
		}
	}
	var left *[]*attend.EventError
	if x.Lenient {
		left = &x.Left
	}
	p, err := e.newPush(x.Scope, x.Events, left)
	if p == nil {
		return nil, nil, err
	}
	return &p.op, p, nil
}

// warm makes the scopes of a list resident, some at a time: a load while their
// writes gather would keep everybody waiting. What a load fails with, the push
// finds too.
func (e *Engine) warm(list []ScopePush, ops []*op) {
	var cold []attend.Scope
	for i, o := range ops {
		if o != nil && !e.cell(list[i].Scope).isLoaded() {
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
