package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime/debug"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// judge asks the judge about a window, and returns its answer as an input. A
// probe is to show whether the judge's account works again.
func (e *Engine) judge(ctx context.Context, scope attend.Scope, call *machine.Call, probe bool) machine.Input {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.JudgeTimeout)
	defer cancel()
	in := e.judgeInput(call)
	e.look(ctx, scope, &in)
	j, err := e.ask(ctx, in)
	e.account.answered(e, err, probe)
	if err != nil {
		return failure(machine.LaneJudge, call.Num, call.Attempt, err)
	}
	return machine.Judged{Num: call.Num, Attempt: call.Attempt, Judgment: j}
}

// judgeInput is what the engine's settings add to a call.
func (e *Engine) judgeInput(call *machine.Call) attend.JudgeInput {
	criteria := make(map[attend.Route]string, len(call.Routes))
	for _, r := range call.Routes {
		criteria[r] = e.cfg.Criteria[r]
	}
	return attend.JudgeInput{
		Window: call.Window, Routes: call.Routes, Criteria: criteria, Guidance: e.cfg.Guidance,
		Predicates: maps.Clone(e.cfg.Predicates), Recent: call.Recent,
	}
}

var errJudgePanicked = errors.New("engine: the judge panicked")

// ask calls the judge. A panic is a failed attempt: one scope's window must not
// take every scope's process down again and again.
func (e *Engine) ask(ctx context.Context, in attend.JudgeInput) (j attend.Judgment, err error) {
	defer func() {
		if recover() != nil {
			e.log.Error("attend: the judge panicked", "scope", in.Window.Scope, "stack", string(debug.Stack()))
			err = errJudgePanicked
		}
	}()
	return e.cfg.Judge.Judge(ctx, in)
}

// look adds the live facts and the images to what the judge is told, as far as
// they are there in time.
func (e *Engine) look(ctx context.Context, scope attend.Scope, in *attend.JudgeInput) {
	if e.cfg.Facts == nil && e.cfg.Capture == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CaptureTimeout)
	defer cancel()
	facts := glance(ctx, e, e.cfg.Facts, scope)
	images := glance(ctx, e, e.cfg.Capture, scope)
	if f := <-facts; f.err == nil && (f.v == nil || json.Valid(f.v)) {
		in.Facts = f.v
	} else {
		if f.err == nil {
			f.err = &attend.InvalidError{Field: "facts", Want: "one JSON value"}
		}
		e.trace(attend.CaptureFailed{Scope: scope, At: time.Now(), What: "facts", Err: f.err})
	}
	if i := <-images; i.err == nil {
		in.Images = i.v
	} else {
		e.trace(attend.CaptureFailed{Scope: scope, At: time.Now(), What: "capture", Err: i.err})
	}
}

// A seen is what a glance brought.
type seen[T any] struct {
	v   T
	err error
}

var (
	errGlancePanicked = errors.New("engine: Facts or Capture panicked")
	errGlancesHang    = errors.New("engine: too many earlier calls of Facts or Capture hang")
)

// glance calls f and gives its answer, or ctx's end where that comes first. One
// that hangs on is left behind, for the end of Run to wait for; there is a limit
// to how many may.
func glance[T any](ctx context.Context, e *Engine, f func(context.Context, attend.Scope) (T, error), scope attend.Scope) <-chan seen[T] {
	out := make(chan seen[T], 2)
	if f == nil {
		out <- seen[T]{}
		return out
	}
	if e.glances.Add(1) > int64(4*e.cfg.MaxCalls) {
		e.glances.Add(-1)
		out <- seen[T]{err: errGlancesHang}
		return out
	}
	e.work.Go(func() { // a job is under way, so work is not at 0
		var s seen[T]
		defer func() {
			e.glances.Add(-1)
			if recover() != nil {
				s = seen[T]{err: errGlancePanicked}
			}
			out <- s
		}()
		s.v, s.err = f(ctx, scope)
	})
	context.AfterFunc(ctx, func() {
		select {
		case out <- seen[T]{err: context.Cause(ctx)}:
		default:
		}
	})
	return out
}
