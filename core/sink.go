package attend

import (
	"context"
	"fmt"
)

// A Sink carries decisions out in process.
//
// Deliver is called from many goroutines at once, for one scope one at a time
// and oldest first, as long as it returns soon after ctx ends. It may see a
// decision again after a crash or a lost answer, so key on its ID. It must not
// change d's slices and maps. An error is a failed attempt and tried again,
// unless it is a [*PermanentError].
type Sink interface {
	Deliver(ctx context.Context, d Decision) error
}

// A SinkFunc is a function as a [Sink].
type SinkFunc func(ctx context.Context, d Decision) error

// Deliver calls f.
func (f SinkFunc) Deliver(ctx context.Context, d Decision) error { return f(ctx, d) }

// Routes is a [Sink] with a handler for each route that leaves attend. All four
// are required: engine.New refuses a nil one.
type Routes struct {
	Interrupt, Queue, Note, Ask SinkFunc
}

// Deliver calls the handler of d's route.
func (r Routes) Deliver(ctx context.Context, d Decision) error {
	switch d.Route {
	case RouteInterrupt:
		return r.Interrupt(ctx, d)
	case RouteQueue:
		return r.Queue(ctx, d)
	case RouteNote:
		return r.Note(ctx, d)
	case RouteAsk:
		return r.Ask(ctx, d)
	default:
		return Permanent(fmt.Errorf("attend: route %q is not delivered", d.Route))
	}
}

// Check names the first route without a handler, as an error that is
// [ErrInvalid], or returns nil.
func (r Routes) Check() error {
	for _, h := range []struct {
		name string
		f    SinkFunc
	}{{"Interrupt", r.Interrupt}, {"Queue", r.Queue}, {"Note", r.Note}, {"Ask", r.Ask}} {
		if h.f == nil {
			return &InvalidError{Field: "Sink.Routes." + h.name, Want: "a handler"}
		}
	}
	return nil
}

// LogOnly is the [Sink] of an app that reads the decision log: a decision is
// delivered by the row that was committed with it, and no lane is kept.
var LogOnly Sink = logOnly{}

type logOnly struct{}

func (logOnly) Deliver(context.Context, Decision) error { return nil }
