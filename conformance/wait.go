package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	attend "github.com/attend-go/attend/core"
)

func waitCases() []Case {
	return []Case{
		{"log/wait-there", "Wait returns nil once there may be a row for q, at once where there is one already or q.After is truncated, and ctx's error when ctx ends.", "v0.1", waitThere},
		{"log/wait-truncated", "Wait returns nil once there may be a row for q, at once where there is one already or q.After is truncated, and ctx's error when ctx ends.", "v0.1", waitTruncated},
		{"log/wait-wakes", "Wait returns nil once there may be a row for q, at once where there is one already or q.After is truncated, and ctx's error when ctx ends.", "v0.1", waitWakes},
		{"log/wait-narrowed", "Wait returns nil once there may be a row for q, at once where there is one already or q.After is truncated, and ctx's error when ctx ends.", "v0.1", waitNarrowed},
		{"log/wait-ends", "Wait returns nil once there may be a row for q, at once where there is one already or q.After is truncated, and ctx's error when ctx ends.", "v0.1", waitEnds},
		{"log/wait-closed", "A closed log answers with an error that is ErrClosed.", "v0.1", waitClosed},
	}
}

// waiter returns the store's log as one that can block.
func waiter(s attend.ScopeStore) (attend.Waiter, error) {
	w, ok := s.Log().(attend.Waiter)
	if !ok {
		return nil, skip("its log is no Waiter, so it is polled")
	}
	return w, nil
}

// atOnce checks that Wait returns nil without anything happening.
func atOnce(ctx context.Context, w attend.Waiter, what string, q attend.Query) error {
	return within(ctx, "Wait "+what, func(ctx context.Context) error { return w.Wait(ctx, q) })
}

func waitThere(ctx context.Context, e Env) error {
	s := e.Store()
	w, err := waiter(s)
	if err != nil {
		return err
	}
	if err := add(ctx, s, row("ops", "a", decision), row("ops", "b", decision)); err != nil {
		return err
	}
	at, err := positions(ctx, s)
	if err != nil {
		return err
	}
	for _, c := range []attend.LogCursor{{}, at["a"]} {
		if err := atOnce(ctx, w, "where there is a row already", from(decision, c)); err != nil {
			return err
		}
	}
	return nil
}

func waitTruncated(ctx context.Context, e Env) error {
	s := e.Store()
	w, err := waiter(s)
	if err != nil {
		return err
	}
	at, err := trimmedLog(ctx, s)
	if err != nil {
		return err
	}
	ahead := at["v9"]
	ahead.Position += 1000
	for what, c := range map[string]attend.LogCursor{
		"behind a cursor of another epoch": {Epoch: "x", Position: at["9"].Position},
		"behind a cursor ahead of the log": ahead,
		"behind a trimmed cursor":          at["0"],
	} {
		if err := atOnce(ctx, w, what, from(decision, c)); err != nil {
			return err
		}
	}
	return nil
}

// follow waits and reads until it finds the id, in a goroutine. What it waits
// for at first is not there.
func follow(ctx context.Context, s attend.ScopeStore, w attend.Waiter, q attend.Query, id string) <-chan error {
	found := make(chan error, 1)
	go func() {
		found <- func() error {
			for {
				if err := w.Wait(ctx, q); err != nil {
					return fmt.Errorf("Wait: %w", err)
				}
				entries, err := read(ctx, s, q)
				if err != nil {
					return err
				}
				for _, e := range entries {
					if q.After = e.Cursor; string(e.ID) == id {
						return nil
					}
				}
			}
		}()
	}()
	return found
}

// settle lets a waiter that is on its way block. A case that depends on it
// would be no case: it only makes the likely order likely.
func settle() { time.Sleep(time.Millisecond) }

func waitWakes(ctx context.Context, e Env) error {
	s := e.Store()
	w, err := waiter(s)
	if err != nil {
		return err
	}
	for i, t := range []attend.RowType{decision, letter, verdict, decision} {
		b, err := s.Log().Bounds(ctx)
		if err != nil {
			return fmt.Errorf("Bounds: %w", err)
		}
		id := fmt.Sprint(i)
		q := from(t, attend.LogCursor{Epoch: b.Epoch, Position: b.Newest})
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		found := follow(ctx, s, w, q, id)
		settle()
		if err := add(ctx, s, row("ops", id, t)); err != nil {
			return err
		}
		if err := within(ctx, fmt.Sprintf("Wait for a %s row that was committed", t), func(context.Context) error { return <-found }); err != nil {
			return err
		}
	}
	return nil
}

func waitNarrowed(ctx context.Context, e Env) error {
	s := e.Store()
	w, err := waiter(s)
	if err != nil {
		return err
	}
	for i, c := range []struct {
		prefix attend.Prefix
		scope  attend.Scope
	}{{"ops", "ops"}, {"ops", "ops/db"}, {"ops", "ops:x"}, {"ops/", "ops/db/1"}, {"team:", "team:a"}, {"", "any"}} {
		b, err := s.Log().Bounds(ctx)
		if err != nil {
			return fmt.Errorf("Bounds: %w", err)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		id := fmt.Sprint("wanted-", i)
		q := attend.Query{Prefix: c.prefix, Types: []attend.RowType{decision}, After: attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}}
		found := follow(ctx, s, w, q, id)
		settle()
		if err := add(ctx, s, row("opsx", "noise", decision), row(c.scope, "noise", verdict), row(c.scope, id, decision)); err != nil {
			return err
		}
		what := fmt.Sprintf("Wait with prefix %q for a row of scope %q that was committed", c.prefix, c.scope)
		if err := within(ctx, what, func(context.Context) error { return <-found }); err != nil {
			return err
		}
	}
	return nil
}

func waitEnds(ctx context.Context, e Env) error {
	s := e.Store()
	w, err := waiter(s)
	if err != nil {
		return err
	}
	if err := add(ctx, s, row("ops", "a", decision)); err != nil {
		return err
	}
	at, err := positions(ctx, s)
	if err != nil {
		return err
	}
	q := from(decision, at["a"])
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for range 10_000 { // a wake-up for nothing is allowed
			if err := w.Wait(short, q); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	settle()
	cancel()
	return within(ctx, "Wait whose context ended", func(context.Context) error {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return fmt.Errorf("got %v, want context.Canceled", err)
		}
		return nil
	})
}

func waitClosed(ctx context.Context, e Env) error {
	s := e.Store()
	w, err := waiter(s)
	if err != nil {
		return err
	}
	if err := add(ctx, s, row("ops", "a", decision)); err != nil {
		return err
	}
	at, err := positions(ctx, s)
	if err != nil {
		return err
	}
	var calls []call
	for _, q := range []attend.Query{
		from(decision, at["a"]), from(letter, at["a"]), {Types: everything, After: at["a"], Prefix: "ops"}, {Prefix: "new"},
	} {
		calls = append(calls, call{fmt.Sprintf("Wait for %+v", q), func(ctx context.Context) error { return w.Wait(ctx, q) }})
	}
	return closedMeanwhile(ctx, s, calls)
}

// closedMeanwhile closes a store or a log while each of the calls blocks, and
// while each is on its way, and checks that they all answer ErrClosed. A
// wake-up for nothing is allowed, so a call that returned nil is made again.
func closedMeanwhile(ctx context.Context, s any, calls []call) error {
	if _, ok := s.(io.Closer); !ok {
		return skip("it is no io.Closer")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make([]chan error, 2*len(calls))
	for i := range ended {
		if i == len(calls) {
			time.Sleep(10 * time.Millisecond) // settle, where the way is longer
		}
		ended[i] = make(chan error, 1)
		began := make(chan struct{})
		go func() {
			close(began)
			for range 10_000 {
				if err := calls[i%len(calls)].do(ctx); err != nil {
					ended[i] <- err
					return
				}
			}
			ended[i] <- nil
		}()
		<-began
	}
	if err := within(ctx, "Close under calls that block", func(context.Context) error { return closer(s) }); err != nil {
		return err
	}
	for i := range ended {
		what := calls[i%len(calls)].name + ", closed meanwhile"
		if err := within(ctx, what, func(context.Context) error {
			if err := <-ended[i]; !errors.Is(err, attend.ErrClosed) {
				return fmt.Errorf("got %v, want an error that is ErrClosed", err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
