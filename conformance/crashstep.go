package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// step lets time pass until a step, and makes it happen: its producer goes on
// until it knows that it has, as often as the process dies under it.
func (r *crashRun) step(ctx context.Context, st *step) error {
	if err := r.advance(ctx, st.at); err != nil {
		return err
	}
	if !st.busy {
		if err := r.rests(ctx, st.scope); err != nil {
			return err
		}
	}
	// What happens meanwhile happens before the answer, if that is lost, and else
	// a while later, when no dead process's lease runs any more.
	left := st.meanwhile
	meanwhile := func(at time.Duration, busy bool) error {
		for len(left) > 0 {
			next := left[0]
			left = left[1:]
			next.at, next.busy = at, busy
			if err := r.step(ctx, &next); err != nil {
				return fmt.Errorf("%s: %w", next.line, err)
			}
		}
		return nil
	}
	const patience = 20
	at := st.at
	for range patience {
		p := r.procs[st.by]
		landed := p.landed
		p.meanwhile = func() error { return meanwhile(at, true) }
		err := r.do(ctx, p, storyTime(at), st)
		p.meanwhile = nil
		if errors.Is(err, attend.ErrOutboxFull) {
			at += 10 * time.Second
			if err := r.advance(ctx, at); err != nil {
				return err
			}
			continue
		}
		// A commit that landed was the step's own: what came after it is work
		// that nobody waits for.
		known := err == nil || p.landed > landed
		if err := r.survive(ctx, p, err); err != nil {
			return err
		}
		if known {
			return meanwhile(at+20*time.Second, false)
		}
	}
	return errors.New("it does not come through")
}

// do makes one try.
func (r *crashRun) do(ctx context.Context, p *process, at time.Time, st *step) error {
	switch st.do {
	case "push":
		_, err := p.drive.Push(p.ctx, at, st.scope, st.events...)
		return err
	case "batch":
		return r.batch(ctx, p, at, st)
	case "rival":
		eff, err := p.drive.Batch(p.ctx, at, st.scope, st.source, st.after, st.batch())
		if err == nil && (eff.Fresh > 0 || eff.Batch == machine.Taken) {
			err = fmt.Errorf("a batch behind cursor %q was taken once more", st.after)
		}
		return err
	case "flush":
		return p.drive.Flush(p.ctx, at, st.scope)
	case "end":
		return p.drive.End(p.ctx, at, st.scope)
	case "deploy":
		r.settings = slices.Concat(r.settings, st.words)
		return r.replace(ctx, p)
	case "remove":
		return p.store.Remove(p.ctx, st.scope)
	}
	return fmt.Errorf("%s is nothing that can be done", st.do)
}

func (st *step) batch() attend.Batch {
	return attend.Batch{Events: st.events, Cursor: st.cursor, Gap: st.gap}
}

// batch brings a source's batch, unless the scope's cursor says that it is
// there. A source that can't resume brings it in any case.
func (r *crashRun) batch(ctx context.Context, p *process, at time.Time, st *step) error {
	if st.cursor != "" {
		s, err := r.state(ctx, st.scope)
		if err != nil {
			return err
		}
		switch place := s.Cursor(st.source); place {
		case st.cursor:
			return nil
		case st.after:
		default:
			return fmt.Errorf("the cursor of source %q is %q, want %q or %q", st.source, place, st.after, st.cursor)
		}
	}
	eff, err := p.drive.Batch(p.ctx, at, st.scope, st.source, st.after, st.batch())
	switch {
	case err != nil:
		return err
	case eff.Refused:
		return attend.ErrOutboxFull
	case eff.Batch != machine.Taken:
		return fmt.Errorf("the batch of source %q behind %q was not taken: the scope is at %q", st.source, st.after, eff.Place)
	}
	return nil
}
