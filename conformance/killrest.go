package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
)

// rest lets every scope come to rest, and every reader to the end of the log. In
// the engines of the children, where those live on; else in one of this process.
func (r *killRun) rest() error {
	if !r.serves {
		if r.store == nil {
			if err := r.open(); err != nil {
				return fmt.Errorf("after %s: %w", r.before(), err)
			}
			r.read()
		}
		stop, err := r.run()
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := r.untilRest(); err != nil {
		return err
	}
	return r.untilRead()
}

// run runs an engine whose judge and sink take everything, until stop is called.
func (r *killRun) run() (stop func(), err error) {
	judge := attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
		return attend.Judgment{Route: attend.RouteQueue}, nil
	})
	sink := attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
		r.book.take(killTakenID{d.ID, d.Scope(), d.At}, 0)
		return nil
	})
	e, err := engine.New(killConfig(r.store, judge, sink))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			r.fail(err)
		}
	})
	return func() { cancel(); running.Wait() }, nil
}

// untilRest waits until no scope has work left and none is due.
func (r *killRun) untilRest() error {
	end := time.Now().Add(r.d.patience)
	scopes := r.book.scopes()
	for {
		busy, why, err := r.restless(scopes)
		if err != nil {
			return err
		}
		if busy == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%.60q does not come to rest within %v after the last kill: %s", busy, r.d.patience, why)
		}
		if err := pause(r.ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// restless returns a scope that has work left, and what.
func (r *killRun) restless(scopes []attend.Scope) (attend.Scope, string, error) {
	if n := r.unanswered(); n > 0 {
		return scopes[0], fmt.Sprintf("%d requests to children have no answer yet", n), nil
	}
	now := time.Now()
	var due []attend.Scope
	for s, err := range r.store.Due(r.ctx, now) {
		if err != nil {
			return "", "", fmt.Errorf("Due: %w", err)
		}
		due = append(due, s)
	}
	for _, scope := range scopes {
		s, err := r.state(scope)
		if err != nil {
			return "", "", err
		}
		what := work(&s)
		if what == "" {
			continue
		}
		if slices.Contains(due, scope) {
			what += ", and Due yields the scope"
		} else if next := s.Next(); !next.IsZero() && next.Before(now) {
			what += fmt.Sprintf(", since %v, and Due does not yield the scope", now.Sub(next).Round(time.Millisecond))
		}
		return scope, what, nil
	}
	if len(due) > 0 {
		return due[0], "Due yields it, and it has no work", nil
	}
	return "", "", nil
}

// unanswered is how many requests children that live on have yet to answer: the
// load has ended, but what it asked for may still land.
func (r *killRun) unanswered() (n int) {
	if !r.serves {
		return 0
	}
	for _, w := range r.workers {
		n += w.life.Load().unanswered()
	}
	return n
}

// work is what is left to do for a scope, empty: nothing.
func work(s *machine.State) string {
	if slot, ok := s.Slot(); ok {
		return fmt.Sprintf("a window of %d events (%.60s) is still in its slot", len(slot.Window.Events), idsOf(slot.Window.Events))
	}
	if held, _, ok := s.Held(); ok {
		return fmt.Sprintf("a window of %d events (%.60s) is still held", len(held.Events), idsOf(held.Events))
	}
	if n, m := len(s.Decisions()), len(s.Letters()); n+m > 0 {
		return fmt.Sprintf("%d decisions and %d dead letters are still in its lanes", n, m)
	}
	open := s.Window()
	if slices.ContainsFunc(open.Events, func(e attend.Event) bool { return e.Kind.Act() }) {
		return fmt.Sprintf("its open window of %d events (%.60s) has not settled", len(open.Events), idsOf(open.Events))
	}
	return ""
}

func (r *killRun) state(scope attend.Scope) (machine.State, error) {
	rec, err := load(r.ctx, r.store, scope)
	if err != nil {
		return machine.State{}, err
	}
	s, err := machine.Replay(rec)
	if err != nil {
		return s, fmt.Errorf("Load(%.60q) gives what can't be read: %w", scope, err)
	}
	return s, nil
}

// untilRead waits until the readers have all that they ask for, and stops them.
func (r *killRun) untilRead() error {
	end := time.Now().Add(r.d.patience)
	for _, f := range r.readers {
		for {
			q := f.query
			q.After = f.place()
			left, err := read(r.ctx, r.store, q)
			_, truncated := errors.AsType[*attend.TruncatedError](err) // it does not know yet
			if err != nil && !truncated {
				return err
			}
			if len(left) == 0 && !truncated {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("a reader of the log has not come to its end %v after the last kill: it is at %s, and %d rows are behind it",
					r.d.patience, placeOf(q.After), len(left))
			}
			if err := pause(r.ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
	}
	r.stopReaders()
	r.reading.Wait()
	return context.Cause(r.ctx)
}
