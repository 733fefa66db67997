package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

func eventWaitCases() []Case {
	return []Case{
		{"events/wait-there", "WaitEvents returns nil once the scope's log may hold something behind after, at once where it does, and ctx's error when ctx ends.", "v0.1", eventWaitThere},
		{"events/wait-wakes", "WaitEvents returns nil once the scope's log may hold something behind after, at once where it does, and ctx's error when ctx ends.", "v0.1", eventWaitWakes},
		{"events/wait-ends", "WaitEvents returns nil once the scope's log may hold something behind after, at once where it does, and ctx's error when ctx ends.", "v0.1", eventWaitEnds},
		{"events/wait-closed", "A closed one answers with an error that is ErrClosed.", "v0.1", eventWaitClosed},
		{"events/concurrent", "Every method may be called from many goroutines at once.", "v0.1", eventConcurrent},
		{"events/handles", "An EventLog is a durable shared log in front of attend, for producers in other processes.", "v0.1", eventHandles},
		{"events/handles-order", "Batches yields what the scope's log holds behind after, oldest first", "v0.1", eventHandlesOrder},
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
	long := strings.Repeat("x", 511)
	for i, c := range []struct{ scope, other attend.Scope }{
		{"ops", "other"}, {"ops", "other"}, {"ops", "other"},
		{"a'\"\\{b} [c]*%:é ", "a'\"\\{b} [c]*%:é"}, {attend.Scope(long + "a"), attend.Scope(long + "b")},
	} {
		first, id := fmt.Sprint("first-", i), fmt.Sprint(i)
		if err := push(ctx, l, c.scope, first); err != nil {
			return err
		}
		bs, err := batches(ctx, l, c.scope, "")
		if err != nil {
			return err
		}
		_, at := eventIDs(bs, "")
		found := followEvents(ctx, l, w, c.scope, at, id)
		settle()
		if err := push(ctx, l, c.other, "x"+id); err != nil {
			return err
		}
		if err := push(ctx, l, c.scope, id); err != nil {
			return err
		}
		what := fmt.Sprintf("WaitEvents for an event of scope %.40q that was appended", c.scope)
		if err := within(ctx, what, func(context.Context) error { return <-found }); err != nil {
			return err
		}
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

func eventWaitClosed(ctx context.Context, e Env) error {
	l := e.EventLog()
	w, err := eventWaiter(l)
	if err != nil {
		return err
	}
	if err := push(ctx, l, "ops", "a"); err != nil {
		return err
	}
	at, err := follows(ctx, l, "the first event", "ops", "", "a")
	if err != nil {
		return err
	}
	return closedMeanwhile(ctx, l, []call{
		{"WaitEvents of a scope behind its newest", func(ctx context.Context) error { return w.WaitEvents(ctx, "ops", at) }},
		{"WaitEvents of a scope without events", func(ctx context.Context) error { return w.WaitEvents(ctx, "new", "") }},
		{"WaitEvents of another scope without events", func(ctx context.Context) error { return w.WaitEvents(ctx, "new/2", "") }},
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

// Five producers on each handle, two of which append the same ids as two of the
// other's, and a reader on each. Each round repeats the last event of the one
// before. The readers find one order: that in which the log stays.
func eventHandlesOrder(ctx context.Context, e Env) error {
	if e.ReopenLog == nil {
		return skip("Reopen is nil: one process only")
	}
	const each, shared = 5, 2
	const names = 2*each - shared
	breath := time.Duration(0)
	if e.Soak > 0 {
		breath = 5 * time.Millisecond // the readers keep all that they find
	}
	a := e.EventLog()
	handles := [2]attend.EventLog{a, e.ReopenLog(a)}
	var done atomic.Bool
	var sent [names][len(handles)]int // by name and handle: each has one writer
	var found [len(handles)][]string
	var places [len(handles)][]place
	p, r := newTeam(ctx), newTeam(ctx)
	for i, l := range handles {
		r.run(func(ctx context.Context) (err error) {
			found[i], places[i], err = tailEvents(ctx, l, "ops", &done)
			return err
		})
		for name := range each {
			if name >= shared {
				name += i * (each - shared)
			}
			p.run(func(ctx context.Context) error {
				return rounds(ctx, e, 12, func(n int) error {
					time.Sleep(breath)
					sent[name][i] = n + 2
					return push(ctx, l, "ops", fmt.Sprintf("%d-%06d", name, n), fmt.Sprintf("%d-%06d", name, n+1))
				})
			})
		}
	}
	err := p.wait()
	done.Store(true)
	if err := errors.Join(err, r.wait()); err != nil {
		return err
	}
	log, _, err := tailEvents(ctx, a, "ops", &done)
	if err != nil {
		return err
	}
	if err := eachInOrder(log, func(name int) int { return slices.Max(sent[name][:]) }, names); err != nil {
		return err
	}
	for i := range found {
		if err := sameEvents(fmt.Sprintf("a reader that followed on handle %d of 2", i+1), log, found[i]); err != nil {
			return err
		}
	}
	for _, l := range handles {
		for _, at := range slices.Concat(someOf(places[0]), someOf(places[1])) {
			bs, err := batches(ctx, l, "ops", at.cursor)
			if err != nil {
				return err
			}
			got, _ := eventIDs(bs, "")
			if err := sameEvents(fmt.Sprintf("a read behind the cursor of event %d", at.n), log[at.n:], got); err != nil {
				return err
			}
		}
	}
	return nil
}

// A place is the cursor behind the first n events of a scope.
type place struct {
	n      int
	cursor attend.Cursor
}

// someOf are about eight of the places, the last one among them.
func someOf(all []place) (some []place) {
	for i := len(all) - 1; i >= 0; i -= len(all)/8 + 1 {
		some = append(some, all[i])
	}
	return some
}

// tailEvents follows a scope until done says that no more will come and it has
// read everything.
func tailEvents(ctx context.Context, l attend.EventLog, scope attend.Scope, done *atomic.Bool) (found []string, places []place, err error) {
	var at attend.Cursor
	for {
		last := done.Load()
		bs, err := batches(ctx, l, scope, at)
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(bs, func(b attend.Batch) bool { return b.Gap }) {
			return nil, nil, fmt.Errorf("a reader that has followed for %d events is told of a gap", len(found))
		}
		var ids []string
		ids, at = eventIDs(bs, at)
		if len(ids) > 0 {
			found = append(found, ids...)
			places = append(places, place{len(found), at})
		}
		if last {
			return found, places, nil
		}
		if len(ids) == 0 {
			time.Sleep(100 * time.Microsecond) // the producers' turn
		}
	}
}

// eachInOrder checks that ids, name-number, hold the numbers of each name from 0
// up to below sent, once and in order.
func eachInOrder(ids []string, sent func(name int) int, names int) error {
	next := make([]int, names)
	for _, id := range ids {
		who, number, _ := strings.Cut(id, "-")
		name, err := strconv.Atoi(who)
		n, err2 := strconv.Atoi(number)
		if err := errors.Join(err, err2); err != nil || name >= names || n != next[name] {
			return fmt.Errorf("the log holds event %q where its producer's next is number %d", id, next[min(name, names-1)])
		}
		next[name]++
	}
	for name, n := range next {
		if n != sent(name) {
			return fmt.Errorf("the log holds %d of a producer's %d events", n, sent(name))
		}
	}
	return nil
}

// sameEvents names the first place where the ids differ.
func sameEvents(who string, want, got []string) error {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("%s found %d events, and the log holds %d there: %q is missing", who, len(got), len(want), want[i])
		case i >= len(want):
			return fmt.Errorf("%s found %d events, and the log holds %d there: %q is too many", who, len(got), len(want), got[i])
		case got[i] != want[i]:
			return fmt.Errorf("%s found %q as its number %d, and the log holds %q there", who, got[i], i+1, want[i])
		}
	}
	return nil
}
