package server

import (
	"context"
	"errors"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// How a call of a judge or a sink ended.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"     // tried again
	outcomeTimeout   = "timeout"   // tried again
	outcomeInvalid   = "invalid"   // a route that was not on offer
	outcomePermanent = "permanent" // not tried again
	outcomeAccount   = "account"   // the judge's account is at fault
	outcomePanic     = "panic"
)

func outcomeOf(err error) string {
	p, permanent := errors.AsType[*attend.PermanentError](err)
	switch {
	case err == nil:
		return outcomeOK
	case permanent && p.Account:
		return outcomeAccount
	case permanent:
		return outcomePermanent
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return outcomeTimeout
	default:
		return outcomeError
	}
}

// Judge returns j with its calls measured, under a name. It is a PureJudge and a
// Budgeter where j is. Each judge of a fallback chain can be measured by itself.
// A nil judge comes back as it is.
func (m *Metrics) Judge(name string, j attend.Judge) attend.Judge {
	if f, ok := j.(attend.JudgeFunc); j == nil || ok && f == nil {
		return j
	}
	w := &measuredJudge{m, name, j}
	b, budget := j.(attend.Budgeter)
	p, pure := j.(attend.PureJudge)
	switch {
	case pure && budget:
		return struct {
			*pureJudge
			attend.Budgeter
		}{&pureJudge{w, p}, b}
	case pure:
		return &pureJudge{w, p}
	case budget:
		return struct {
			*measuredJudge
			attend.Budgeter
		}{w, b}
	default:
		return w
	}
}

type measuredJudge struct {
	m    *Metrics
	name string
	to   attend.Judge
}

// Judge is of [attend.Judge].
func (w *measuredJudge) Judge(ctx context.Context, in attend.JudgeInput) (j attend.Judgment, err error) {
	if w.m.logSink.Load() != nil {
		w.m.opened.put(in.Window.Scope, in.Window.Opened)
	}
	began, outcome := time.Now(), outcomePanic
	defer func() {
		w.m.judgeSeconds.WithLabelValues(w.name).Observe(time.Since(began).Seconds())
		w.m.judgeRequests.WithLabelValues(w.name, outcome).Inc()
	}()
	j, err = w.to.Judge(ctx, in)
	if outcome = outcomeOf(err); err == nil && !slices.Contains(in.Routes, j.Route) {
		outcome = outcomeInvalid
	}
	return j, err
}

type pureJudge struct {
	*measuredJudge
	to attend.PureJudge
}

// Pure is of [attend.PureJudge]: to measure is no effect that the answer knows.
func (p *pureJudge) Pure() { p.to.Pure() }

// Sink returns s with its deliveries measured, under a name. [attend.LogOnly]
// comes back as it is, since an engine knows it by that; its deliveries are
// counted as the decisions are made. A nil sink comes back as it is, too.
func (m *Metrics) Sink(name string, s attend.Sink) attend.Sink {
	if f, ok := s.(attend.SinkFunc); s == nil || ok && f == nil {
		return s
	}
	if s == attend.LogOnly {
		m.logSink.Store(&name)
		return s
	}
	return &measuredSink{m, name, s}
}

type measuredSink struct {
	m    *Metrics
	name string
	to   attend.Sink
}

// Deliver is of [attend.Sink].
func (w *measuredSink) Deliver(ctx context.Context, d attend.Decision) error {
	outcome := outcomePanic
	defer func() { w.m.deliveries.WithLabelValues(w.name, outcome).Inc() }()
	err := w.to.Deliver(ctx, d)
	if outcome = outcomeOf(err); err == nil && !d.Window.Opened.IsZero() {
		w.m.deliveryLag.Observe(since(d.Window.Opened))
	}
	return err
}

// Check is what an engine asks a sink of routes, so that it names a missing
// handler.
func (w *measuredSink) Check() error {
	if c, ok := w.to.(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}
