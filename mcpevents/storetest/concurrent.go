package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The goroutines of a case, and how often it goes round.
const (
	team   = 8
	rounds = 30
)

func concurrentCases() []Case {
	const winner = "Of any number of concurrent writes at one version exactly one is applied."
	const share = "Servers that share one share the subscriptions"
	return []Case{
		{Name: "concurrent-winner", Rule: winner, Run: func(ctx context.Context, e Env) error { return oneWinner(ctx, true, e.Store()) }},
		{Name: "concurrent-creator", Rule: winner, Run: func(ctx context.Context, e Env) error { return oneWinner(ctx, false, e.Store()) }},
		{Name: "concurrent-groups", Rule: winner, Run: groups},
		{Name: "concurrent-methods", Rule: "Every method may be called from many goroutines at once.", Run: methods},
		{Name: "handles-share", Rule: share, Run: handlesShare},
		{Name: "handles-versions", Rule: "is never used again for this key", Run: handlesVersions},
		{Name: "handles-winner", Rule: winner, Run: func(ctx context.Context, e Env) error {
			a, b, err := e.handles()
			if err != nil {
				return err
			}
			return errors.Join(oneWinner(ctx, true, a, b), oneWinner(ctx, false, a, b))
		}},
	}
}

// together runs f in every goroutine of the team, and starts them at one time.
func together(f func(i int) error) error {
	var wg sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, team)
	for i := range team {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

// oneWinner lets the team write at one version, through the handles in turn.
func oneWinner(ctx context.Context, exists bool, handles ...store) error {
	for round := range rounds {
		key := fmt.Sprint("new", round)
		var expect uint64
		if exists {
			key = fmt.Sprint("old", round)
			versions, err := put(ctx, handles[0], change{Key: key, Value: []byte("x")})
			if err != nil {
				return err
			}
			expect = versions[0]
		}
		var won atomic.Int64
		var winner atomic.Int64
		if err := together(func(i int) error {
			versions, err := write(ctx, handles[i%len(handles)], change{Key: key, Expect: expect, Value: fmt.Append(nil, i), Due: after(time.Duration(i) * time.Second)})
			if err == nil && versions[0] != 0 {
				won.Add(1)
				winner.Store(int64(i))
			}
			return err
		}); err != nil {
			return err
		}
		if won.Load() != 1 {
			return fmt.Errorf("%d of %d writes at version %d were applied, want 1", won.Load(), team, expect)
		}
		if err := holds(ctx, handles[0], key, fmt.Sprint(winner.Load())); err != nil {
			return fmt.Errorf("what was answered as applied: %w", err)
		}
	}
	return nil
}

// Counters that many add to, in groups, lose nothing.
func groups(ctx context.Context, e Env) error {
	s := e.Store()
	names := []string{"count0", "count1", "count2"}
	added := map[string]*atomic.Int64{names[0]: {}, names[1]: {}, names[2]: {}}
	if err := together(func(i int) error {
		for round := range rounds {
			writes := make([]change, len(names))
			for k := range names {
				key := names[(k+i+round)%len(names)] // in any order: a store must not deadlock
				rec, err := load(ctx, s, key)
				if err != nil {
					return err
				}
				n, _ := strconv.Atoi(string(rec.Value))
				writes[k] = change{Key: key, Expect: rec.Version, Value: strconv.AppendInt(nil, int64(n+1), 10), Due: after(time.Duration(n) * time.Second)}
			}
			versions, err := write(ctx, s, writes...)
			if err != nil {
				return err
			}
			for k, version := range versions {
				if version != 0 {
					added[writes[k].Key].Add(1)
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, key := range names {
		n := added[key].Load()
		if err := holds(ctx, s, key, strconv.FormatInt(n, 10)); err != nil {
			return fmt.Errorf("a counter that %d writes added one to, as they were answered: %w", n, err)
		}
	}
	return nil
}

// Nothing fails, and each sees what it wrote itself.
func methods(ctx context.Context, e Env) error {
	s := e.Store()
	return together(func(i int) error {
		key := fmt.Sprint("k", i)
		for round := range rounds {
			value := fmt.Sprint(i, " ", round)
			if _, err := put(ctx, s, change{Key: key, Value: []byte(value), Due: after(time.Duration(round) * time.Second)}); err != nil {
				return err
			}
			if err := holds(ctx, s, key, value); err != nil {
				return err
			}
			found := false
			now := after(time.Hour + time.Duration(i*rounds+round)*time.Millisecond) // each another one
			for k, err := range s.Due(ctx, now) {
				if err != nil {
					return fmt.Errorf("Due: %w", err)
				}
				found = found || k == key
			}
			if !found {
				return fmt.Errorf("Due lacks %q, which was written before", key)
			}
		}
		return nil
	})
}

func handlesShare(ctx context.Context, e Env) error {
	a, b, err := e.handles()
	if err != nil {
		return err
	}
	for i, to := range []store{a, b} {
		from := []store{b, a}[i]
		value := fmt.Sprint("by ", i)
		if _, err := put(ctx, to, change{Key: "k", Value: []byte(value), Due: after(time.Duration(i) * time.Second)}); err != nil {
			return err
		}
		if err := first(
			func() error { return holds(ctx, from, "k", value) },
			func() error { return isDue(ctx, from, after(time.Minute), "k") },
		); err != nil {
			return fmt.Errorf("through the other handle: %w", err)
		}
	}
	return nil
}

// A version that one handle gave is none of the other's later ones.
func handlesVersions(ctx context.Context, e Env) error {
	a, b, err := e.handles()
	if err != nil {
		return err
	}
	seen := map[uint64]bool{}
	for i := range 10 {
		s := []store{a, b}[i%2]
		versions, err := put(ctx, s, change{Key: "k", Value: []byte("x")})
		if err != nil {
			return err
		}
		if seen[versions[0]] {
			return fmt.Errorf("a write through the other handle has version %d again", versions[0])
		}
		seen[versions[0]] = true
		if _, err := write(ctx, s, change{Key: "k", Expect: versions[0]}); err != nil {
			return err
		}
	}
	return nil
}
