package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

func eventWaitCases() []Case {
	return []Case{
		{"events/wait-there", "WaitEvents returns nil once the scope's log may hold something behind after, at once where it does, and ctx's error when ctx ends.", "v0.1", eventWaitThere},
		{"events/wait-wakes", "WaitEvents returns nil once the scope's log may hold something behind after, at once where it does, and ctx's error when ctx ends.", "v0.1", eventWaitWakes},
		{"events/wait-ends", "WaitEvents returns nil once the scope's log may hold something behind after, at once where it does, and ctx's error when ctx ends.", "v0.1", eventWaitEnds},
		{"events/concurrent", "Every method may be called from many goroutines at once.", "v0.1", eventConcurrent},
		{"events/handles", "An EventLog is a durable shared log in front of attend, for producers in other processes.", "v0.1", eventHandles},
	}
}

func eventWaiter(l attend.EventLog) (attend.EventWaiter, error) {
	w, ok := l.(attend.EventWaiter)
	if !ok {
		return nil, skip("it is no EventWaiter, so it is polled")
	}
	return w, nil
}

func eventWaitThere(ctx context.Context, e Env) error {
	l := e.EventLog()
	w, err := eventWaiter(l)
	if err != nil {
		return err
	}
	if err := push(ctx, l, "ops", "a"); err != nil {
		return err
	}
	return within(ctx, "WaitEvents where there is an event already", func(ctx context.Context) error { return w.WaitEvents(ctx, "ops", "") })
}

func eventWaitWakes(ctx context.Context, e Env) error {
	l := e.EventLog()
	w, err := eventWaiter(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := push(ctx, l, "ops", "first"); err != nil {
		return err
	}
	at, err := follows(ctx, l, "the first event", "ops", "", "first")
	if err != nil {
		return err
	}
	for i := range 3 {
		id := fmt.Sprint(i)
		found := followEvents(ctx, l, w, "ops", at, id)
		settle()
		if err := push(ctx, l, "other", "x"+id); err != nil {
			return err
		}
		if err := push(ctx, l, "ops", id); err != nil {
			return err
		}
		if err := within(ctx, "WaitEvents for an event that was appended", func(context.Context) error { return <-found }); err != nil {
			return err
		}
		bs, err := batches(ctx, l, "ops", at)
		if err != nil {
			return err
		}
		_, at = eventIDs(bs, at)
	}
	return nil
}

// followEvents waits and reads until it finds the id, in a goroutine.
func followEvents(ctx context.Context, l attend.EventLog, w attend.EventWaiter, scope attend.Scope, at attend.Cursor, id string) <-chan error {
	found := make(chan error, 1)
	go func() {
		found <- func() error {
			for {
				if err := w.WaitEvents(ctx, scope, at); err != nil {
					return fmt.Errorf("WaitEvents: %w", err)
				}
				bs, err := batches(ctx, l, scope, at)
				if err != nil {
					return err
				}
				var ids []string
				if ids, at = eventIDs(bs, at); slices.Contains(ids, id) {
					return nil
				}
			}
		}()
	}()
	return found
}

func eventWaitEnds(ctx context.Context, e Env) error {
	l := e.EventLog()
	w, err := eventWaiter(l)
	if err != nil {
		return err
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for range 10_000 { // a wake-up for nothing is allowed
			if err := w.WaitEvents(short, "ops", ""); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	settle()
	cancel()
	return within(ctx, "WaitEvents whose context ended", func(context.Context) error {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return fmt.Errorf("got %v, want context.Canceled", err)
		}
		return nil
	})
}

// Sixteen producers, half of what they send sent twice, and one reader: each
// event once, and a producer's own in its order.
func eventConcurrent(ctx context.Context, e Env) error {
	l := e.EventLog()
	const producers = 16
	var done atomic.Bool
	var sent [producers]atomic.Int64
	p, r := newTeam(ctx), newTeam(ctx)
	next := make(map[int]int)
	r.run(func(ctx context.Context) error {
		var at attend.Cursor
		for {
			last := done.Load()
			bs, err := batches(ctx, l, "ops", at)
			if err != nil {
				return err
			}
			var ids []string
			ids, at = eventIDs(bs, at)
			for _, id := range ids {
				var who, n int
				if _, err := fmt.Sscanf(id, "%d-%d", &who, &n); err != nil || n != next[who] {
					return fmt.Errorf("event %q follows the producer's number %d", id, next[who]-1)
				}
				next[who]++
			}
			if last {
				return nil
			}
			if len(ids) == 0 {
				time.Sleep(100 * time.Microsecond) // the producers' turn
			}
		}
	})
	for i := range producers {
		p.run(func(ctx context.Context) error {
			return rounds(ctx, e, 12, func(n int) error {
				for range n%2 + 1 {
					if err := push(ctx, l, "ops", fmt.Sprintf("%d-%d", i, 2*n), fmt.Sprintf("%d-%d", i, 2*n+1)); err != nil {
						return err
					}
				}
				sent[i].Add(2)
				return nil
			})
		})
	}
	err := p.wait()
	done.Store(true)
	if err := errors.Join(err, r.wait()); err != nil {
		return err
	}
	for i := range sent {
		if n := sent[i].Load(); int64(next[i]) != n {
			return fmt.Errorf("the reader found %d of a producer's %d events", next[i], n)
		}
	}
	return nil
}

func eventHandles(ctx context.Context, e Env) error {
	if e.ReopenLog == nil {
		return skip("Reopen is nil: one process only")
	}
	a := e.EventLog()
	b := e.ReopenLog(a)
	if err := push(ctx, a, "ops", "a"); err != nil {
		return err
	}
	at, err := follows(ctx, b, "through another handle", "ops", "", "a")
	if err != nil {
		return err
	}
	if err := push(ctx, b, "ops", "a", "b"); err != nil {
		return err
	}
	if at, err = follows(ctx, a, "behind the other handle's cursor", "ops", at, "b"); err != nil {
		return err
	}
	if w, ok := a.(attend.EventWaiter); ok {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		found := followEvents(ctx, a, w, "ops", at, "c")
		settle()
		if err := push(ctx, b, "ops", "c"); err != nil {
			return err
		}
		return within(ctx, "WaitEvents for an event that another handle appended", func(context.Context) error { return <-found })
	}
	return nil
}
