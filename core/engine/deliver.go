package engine

import (
	"context"
	"errors"
	"runtime/debug"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

var errSinkPanicked = errors.New("engine: the sink or the dead-letter handler panicked")

// deliver hands a decision to the sink.
func (e *Engine) deliver(ctx context.Context, d *machine.Delivery) machine.Input {
	err := e.handOver(ctx, d.Decision.Scope(), func(ctx context.Context) error {
		return e.cfg.Sink.Deliver(ctx, d.Decision)
	})
	if err != nil {
		return failure(machine.LaneDecision, d.Num, d.Attempt, err)
	}
	return machine.Done{Lane: machine.LaneDecision, Num: d.Num}
}

// bury hands a dead letter to its handler.
func (e *Engine) bury(ctx context.Context, l *machine.Letter) machine.Input {
	err := e.handOver(ctx, l.Letter.Window.Scope, func(ctx context.Context) error {
		return e.cfg.DeadLetter.Letter(ctx, l.Letter)
	})
	if err != nil {
		return failure(machine.LaneLetter, l.Num, l.Attempt, err)
	}
	return machine.Done{Lane: machine.LaneLetter, Num: l.Num}
}

// handOver calls f within the delivery timeout. A panic is a failed attempt.
func (e *Engine) handOver(ctx context.Context, scope attend.Scope, f func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.DeliveryTimeout)
	defer cancel()
	defer func() {
		if recover() != nil {
			e.log.Error("attend: the sink or the dead-letter handler panicked", "scope", scope, "stack", string(debug.Stack()))
			err = errSinkPanicked
		}
	}()
	return f(ctx)
}
