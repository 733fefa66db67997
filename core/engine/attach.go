package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

type attachment struct {
	scope attend.Scope
	key   string
}

// Attach runs a source into a scope until ctx ends, the source ends, or its
// error is permanent. It goes on from the committed cursor; each batch is
// committed with its cursor before the next is asked for. On a plain error it
// starts the source again after RetryBackoff, whose last rung repeats; a batch
// that meets a full lane is kept and tried again. An event that no kind takes
// becomes a dead letter of stage intake.
//
// It returns nil when the source ended by itself, ctx's error, the permanent
// error, [attend.ErrAttached] where this engine runs the source in that scope
// already, [attend.ErrRemoved] where the scope was removed meanwhile, or
// attend.ErrInvalid for a bad scope or key. Another process may run the same
// source: then both read it, and each batch is taken once.
func (e *Engine) Attach(ctx context.Context, scope attend.Scope, src attend.Source) error {
	if err := scope.Check(); err != nil {
		return err
	}
	key := src.Key()
	if err := checkKey(key); err != nil {
		return err
	}
	a := attachment{scope, key}
	if _, taken := e.attached.LoadOrStore(a, struct{}{}); taken {
		return fmt.Errorf("engine: attach to %q: %w", scope, attend.ErrAttached)
	}
	defer e.attached.Delete(a)
	for fails := 0; ; {
		moved, err := e.follow(ctx, scope, src, key)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil || permanent(err):
			return err
		case errors.Is(err, errMoved):
			continue // another process was faster; go on from its cursor
		}
		if moved {
			fails = 0
		}
		fails++
		e.log.Warn("attend: a source failed and is started again", "scope", scope, "source", key, "err", err)
		if err := e.pause(ctx, fails, err); err != nil {
			return err
		}
	}
}

// checkKey checks a source's key as an event with it would be.
func checkKey(key string) error {
	if key == "" {
		return &attend.InvalidError{Field: "source key", Want: "1 to 1024 bytes"}
	}
	_, err := attend.Event{ID: "x", Name: "x", Source: key}.Clean()
	return err
}

// errMoved: another process has moved the source's cursor.
var errMoved = errors.New("engine: the source runs elsewhere too")

func permanent(err error) bool {
	_, ok := errors.AsType[*attend.PermanentError](err)
	return ok || errors.Is(err, attend.ErrRemoved)
}

// follow runs a source from the committed cursor on, and reports whether any
// batch was committed.
func (e *Engine) follow(ctx context.Context, scope attend.Scope, src attend.Source, key string) (moved bool, err error) {
	s, err := e.State(ctx, scope)
	if err != nil {
		return false, err
	}
	after := s.Cursor(key)
	for b, err := range src.Batches(ctx, after) {
		if err != nil {
			return moved, err
		}
		if after, err = e.take(ctx, scope, key, after, b); err != nil {
			return moved, err
		}
		moved = true
	}
	return moved, nil
}

// take commits one batch, and returns the cursor behind it. A batch over the
// limits of a push goes in parts, of which the last moves the cursor.
func (e *Engine) take(ctx context.Context, scope attend.Scope, key string, after attend.Cursor, b attend.Batch) (attend.Cursor, error) {
	if len(b.Cursor) > attend.MaxCursorBytes {
		return after, attend.Permanent(&attend.InvalidError{Field: "cursor of " + key, Want: "at most 4096 bytes"})
	}
	in := machine.Arrive{Source: key, After: after, Cursor: after, Gap: b.Gap}
	now, bytes := time.Now(), 0
	for _, v := range b.Events {
		v.Source = key
		clean, err := e.intake(v, now)
		if err != nil {
			clean = keepable(v)
		}
		size := clean.Size()
		if n := len(in.Events) + len(in.Rejected); n > 0 && (n == MaxPushEvents || bytes+size > MaxPushBytes) {
			if err := e.takePart(ctx, scope, in); err != nil {
				return after, err
			}
			in.Events, in.Rejected, in.Gap, bytes = nil, nil, false, 0
		}
		bytes += size
		if err != nil {
			in.Rejected = append(in.Rejected, machine.Rejected{Event: clean, Message: err.Error()})
			continue
		}
		in.Events = append(in.Events, clean)
	}
	in.Cursor = b.Cursor
	if b.Cursor == "" {
		in.Cursor = after
	}
	return in.Cursor, e.takePart(ctx, scope, in)
}

// takePart commits events of a source, and waits while a lane is full.
func (e *Engine) takePart(ctx context.Context, scope attend.Scope, in machine.Arrive) error {
	for fails := 1; ; fails++ {
		o := op{in: &in, events: len(in.Events)}
		err := e.do(ctx, scope, &o)
		switch {
		case err != nil:
			return err
		case o.eff.Batch == machine.Gone:
			return fmt.Errorf("engine: source %q in %q: %w", in.Source, scope, attend.ErrRemoved)
		case o.eff.Batch == machine.Elsewhere:
			return errMoved
		case !o.eff.Refused:
			return nil
		}
		if err := e.pause(ctx, fails, nil); err != nil {
			return err
		}
	}
}

// pause waits for the n-th rung of RetryBackoff, whose last repeats, or for
// what err asks for, and returns ctx's error if that comes first.
func (e *Engine) pause(ctx context.Context, n int, err error) error {
	d := time.Second
	if rungs := e.policy.RetryBackoff; len(rungs) > 0 {
		d = max(rungs[min(n, len(rungs))-1], time.Millisecond)
	}
	if r, ok := errors.AsType[*attend.RetryAfterError](err); ok {
		d = max(d, min(r.After, machine.MaxRetryAfter))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keepable is as much of a refused event as a store can keep.
func keepable(v attend.Event) attend.Event {
	v.Kind = "" // no kind took it
	v.ID, v.Name = attend.Readable(v.ID, attend.MaxIDBytes), attend.Readable(v.Name, attend.MaxNameBytes)
	if clean, err := v.Clean(); err == nil {
		return clean
	}
	v.At, v.Data, v.Text = time.Time{}, nil, attend.Readable(v.Text, 4096)
	return v
}
