package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"
)

func dueCases() []Case {
	return []Case{
		{Name: "due", Rule: "Due yields the keys of the records whose time is at or before now", Run: dueBoundary},
		{Name: "due-order", Rule: "the oldest first", Run: dueOrder},
		{Name: "due-never", Rule: "zero: never", Run: dueNever},
		{Name: "due-not-any-more", Rule: "zero: never", Run: dueNotAnyMore},
		{Name: "due-moves", Rule: "Due yields the keys of the records whose time is at or before now", Run: dueMoves},
		{Name: "due-milliseconds", Rule: "whole milliseconds", Run: dueMilliseconds},
		{Name: "due-many", Rule: "Due yields the keys of the records whose time is at or before now", Run: dueMany},
		{Name: "due-claims", Rule: "It reads and claims nothing", Run: dueClaims},
		{Name: "due-holds", Rule: "holds nothing while it yields", Run: dueHolds},
		{Name: "due-left", Rule: "holds nothing while it yields", Run: dueLeft},
		{Name: "due-error", Rule: "An error is its last pair, also where ctx ends it.", Run: dueError},
	}
}

func dueBoundary(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s,
		change{Key: "a", Value: []byte("x"), Due: after(-time.Hour)},
		change{Key: "b", Value: []byte("x"), Due: noon},
		change{Key: "c", Value: []byte("x"), Due: after(time.Hour)},
	); err != nil {
		return err
	}
	return first(
		func() error { return isDue(ctx, s, after(-2*time.Hour)) },
		func() error { return isDue(ctx, s, noon, "a", "b") }, // c is not, whatever the clock says
		func() error { return isDue(ctx, s, after(2*time.Hour), "a", "b", "c") },
	)
}

func dueOrder(ctx context.Context, e Env) error {
	s := e.Store()
	for _, r := range []struct {
		key string
		at  time.Duration
	}{{"c", 1}, {"a", 3}, {"e", 100}, {"b", 20}, {"d", -5}} {
		if _, err := put(ctx, s, change{Key: r.key, Value: []byte("x"), Due: after(r.at * time.Second)}); err != nil {
			return err
		}
	}
	got, err := due(ctx, s, after(time.Hour))
	if want := []string{"d", "c", "a", "b", "e"}; err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("Due = %q, want %q", got, want)
	}
	return err
}

// far is as late as anybody asks.
var far = time.UnixMilli(253_402_300_799_999) // the end of the year 9999

func dueNever(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("x")}, change{Key: "b", Value: []byte("x"), Due: noon}); err != nil {
		return err
	}
	return isDue(ctx, s, far, "b")
}

func dueNotAnyMore(ctx context.Context, e Env) error {
	s := e.Store()
	for _, at := range []time.Time{noon, {}} {
		if _, err := put(ctx, s, change{Key: "a", Value: []byte("x"), Due: at}); err != nil {
			return err
		}
	}
	return isDue(ctx, s, far)
}

// A later write moves a record's time, in both directions.
func dueMoves(ctx context.Context, e Env) error {
	s := e.Store()
	for _, at := range []time.Duration{0, time.Hour, -time.Hour} {
		if _, err := put(ctx, s, change{Key: "a", Value: []byte("x"), Due: after(at)}); err != nil {
			return err
		}
		if err := first(
			func() error { return isDue(ctx, s, after(at-time.Minute)) },
			func() error { return isDue(ctx, s, after(at+time.Minute), "a") },
		); err != nil {
			return err
		}
	}
	return nil
}

func dueMilliseconds(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("x"), Due: noon}, change{Key: "b", Value: []byte("x"), Due: after(2 * time.Millisecond)}); err != nil {
		return err
	}
	return first(
		func() error { return isDue(ctx, s, after(-time.Millisecond)) },
		func() error { return isDue(ctx, s, after(time.Millisecond), "a") },
		func() error { return isDue(ctx, s, after(3*time.Millisecond), "a", "b") },
	)
}

// More than a page of any size, many of them at one time.
func dueMany(ctx context.Context, e Env) error {
	const n, group = 1500, 50
	s := e.Store()
	var want []string
	for from := 0; from < n; from += group {
		var writes []change
		for i := from; i < from+group; i++ {
			key := fmt.Sprintf("k%04d", i)
			want = append(want, key)
			writes = append(writes, change{Key: key, Value: []byte("x"), Due: after(time.Duration(i/700) * time.Second)})
		}
		if _, err := write(ctx, s, writes...); err != nil {
			return err
		}
	}
	got, err := due(ctx, s, after(time.Hour))
	if err != nil {
		return err
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("Due yields %d keys, of which %d are different ones, want each of %d once", len(got), len(slices.Compact(slices.Clone(got))), n)
	}
	return nil
}

func dueClaims(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("x"), Due: noon}); err != nil {
		return err
	}
	before, err := load(ctx, s, "a")
	if err != nil {
		return err
	}
	for range 3 {
		if err := isDue(ctx, s, after(time.Hour), "a"); err != nil {
			return fmt.Errorf("asked again: %w", err)
		}
	}
	now, err := load(ctx, s, "a")
	if err == nil && now.Version != before.Version {
		err = fmt.Errorf("Due changed the version from %d to %d", before.Version, now.Version)
	}
	return err
}

// Every method can be called in the loop.
func dueHolds(ctx context.Context, e Env) error {
	s := e.Store()
	for _, key := range []string{"a", "b", "c"} {
		if _, err := put(ctx, s, change{Key: key, Value: []byte("x"), Due: noon}); err != nil {
			return err
		}
	}
	seen := 0
	for key, err := range s.Due(ctx, after(time.Second)) {
		if err != nil {
			return fmt.Errorf("Due: %w", err)
		}
		seen++
		if err := within(ctx, func() error {
			if _, err := due(ctx, s, after(time.Minute)); err != nil {
				return err
			}
			_, err := put(ctx, s, change{Key: key, Value: []byte("y"), Due: after(time.Hour)})
			return err
		}); err != nil {
			return fmt.Errorf("in the loop of Due: %w", err)
		}
	}
	if seen == 0 {
		return fmt.Errorf("Due yields nothing, want at least the first of three")
	}
	return nil
}

// A loop that is left leaves nothing behind.
func dueLeft(ctx context.Context, e Env) error {
	s := e.Store()
	for _, key := range []string{"a", "b", "c"} {
		if _, err := put(ctx, s, change{Key: key, Value: []byte("x"), Due: noon}); err != nil {
			return err
		}
	}
	for range 50 { // a pool of connections has an end
		if err := within(ctx, func() error {
			for _, err := range s.Due(ctx, after(time.Second)) {
				return err
			}
			return nil
		}); err != nil {
			return fmt.Errorf("Due, of which the first is taken: %w", err)
		}
	}
	return within(ctx, func() error {
		_, err := put(ctx, s, change{Key: "a", Value: []byte("y")})
		return err
	})
}

// A context that ends on the way may end the loop: with an error then, and nothing
// behind it.
func dueError(ctx context.Context, e Env) error {
	s := e.Store()
	var writes []change
	for i := range 100 {
		writes = append(writes, change{Key: fmt.Sprint("k", i), Value: []byte("x"), Due: noon})
	}
	if _, err := write(ctx, s, writes...); err != nil {
		return err
	}
	for at := range 3 {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		n, failed := 0, false
		if at == 0 {
			cancel()
		}
		for _, err := range s.Due(ctx, after(time.Duration(at+1)*time.Second)) {
			if failed {
				return fmt.Errorf("Due goes on behind an error")
			}
			if failed = err != nil; failed {
				continue
			}
			if n++; n == at*10 {
				cancel()
			}
		}
		if !failed && n != len(writes) {
			return fmt.Errorf("Due yields %d of %d keys and no error, where its context ended", n, len(writes))
		}
	}
	return nil
}

// within is for what must not wait for anything else.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	wait := time.Minute
	if end, ok := ctx.Deadline(); ok {
		wait = time.Until(end) / 2
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return fmt.Errorf("a call did not return in %v", wait.Round(time.Millisecond))
	}
}
