package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

func handleCases() []Case {
	return []Case{
		{"concurrent/handles-share", "A ScopeStore holds each scope's latest snapshot, the inputs committed since it, when it is due, and the decision log.", "v0.1", handlesShare},
		{"concurrent/handles-conflict", "Commit applies each write whose Expect is the scope's stored version (0: there is no such scope).", "v0.1", handlesConflict},
		{"concurrent/handles-winner", "of any number of concurrent writes at one version exactly one is applied", "v0.1", handlesWinner},
		{"concurrent/handles-epoch", "made at random with the store", "v0.1", handlesEpoch},
		{"concurrent/handles-log", "A reader that has read up to position p never later finds a row at or before p.", "v0.1", handlesLog},
		{"concurrent/handles-wait", "A wake-up for nothing is allowed, a missed one only costs time.", "v0.1", handlesWait},
		{"concurrent/handles-close", "A closed store answers every call with an error that is ErrClosed.", "v0.1", handlesClose},
	}
}

// handles returns a store and a second handle on its data.
func handles(e Env) (a, b attend.ScopeStore, err error) {
	if e.Reopen == nil {
		return nil, nil, skip("Reopen is nil: one process only")
	}
	a = e.Store()
	return a, e.Reopen(a), nil
}

func handlesShare(ctx context.Context, e Env) error {
	a, b, err := handles(e)
	if err != nil {
		return err
	}
	for i := range 3 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		snapshot, due := fmt.Sprint("state-", i), attend.Scope(fmt.Sprint("due-", i))
		if err := put(ctx, from, attend.Write{Scope: "ops", Snapshot: []byte(snapshot)}); err != nil {
			return err
		}
		if err := holds(ctx, to, "ops", snapshot); err != nil {
			return fmt.Errorf("through the other handle: %w", err)
		}
		if err := put(ctx, from, attend.Write{Scope: due, Inputs: in("x"), Due: noon, Rows: []attend.Row{row(due, fmt.Sprint(i), decision)}}); err != nil {
			return err
		}
		if err := holds(ctx, to, due, "", "x"); err != nil {
			return fmt.Errorf("through the other handle: %w", err)
		}
		if got, err := dueAt(ctx, to, after(time.Second)); err != nil || !slices.Contains(got, due) {
			return fmt.Errorf("through the other handle: Due = %q, %v, want %q among them", got, err, due)
		}
		if err := from.Remove(ctx, due); err != nil {
			return fmt.Errorf("Remove: %w", err)
		}
		if err := absent(ctx, to, due); err != nil {
			return fmt.Errorf("through the other handle: %w", err)
		}
		if _, err := to.Log().Find(ctx, attend.DecisionID(fmt.Sprint(i)), decision); err != nil {
			return fmt.Errorf("through the other handle: Find: %w", err)
		}
	}
	return nil
}

func handlesConflict(ctx context.Context, e Env) error {
	a, b, err := handles(e)
	if err != nil {
		return err
	}
	if err := put(ctx, a, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
		return err
	}
	seen, err := load(ctx, b, "ops")
	if err != nil {
		return err
	}
	if err := put(ctx, a, attend.Write{Scope: "ops", Inputs: in("b")}); err != nil {
		return err
	}
	out, err := commit(ctx, b, attend.Write{Scope: "ops", Expect: seen.Version, Inputs: in("x")})
	if err != nil {
		return err
	}
	if !out[0].Conflict() {
		return errors.New("a write at a version that the other handle has moved on from was applied, want a conflict")
	}
	return holds(ctx, a, "ops", "", "a", "b")
}

func handlesWinner(ctx context.Context, e Env) error {
	a, b, err := handles(e)
	if err != nil {
		return err
	}
	either := func(i int) attend.ScopeStore {
		if i%2 == 0 {
			return a
		}
		return b
	}
	return rounds(ctx, e, 40, func(i int) error {
		scope := attend.Scope(fmt.Sprint("s-", i))
		v, err := version(ctx, a, attend.Write{Scope: scope, Inputs: in("first")})
		if err != nil {
			return err
		}
		return race(ctx, 6, either, scope, v, 1)
	})
}

func handlesEpoch(ctx context.Context, e Env) error {
	a, b, err := handles(e)
	if err != nil {
		return err
	}
	x, err := a.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	y, err := b.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	if x.Epoch != y.Epoch {
		return fmt.Errorf("two handles on one store have the epochs %q and %q", x.Epoch, y.Epoch)
	}
	return nil
}

// Writers on both handles, a reader on each.
func handlesLog(ctx context.Context, e Env) error {
	a, b, err := handles(e)
	if err != nil {
		return err
	}
	var done atomic.Bool
	w, r := newTeam(ctx), newTeam(ctx)
	var found [2][]attend.Entry
	for i, s := range []attend.ScopeStore{a, b} {
		r.run(func(ctx context.Context) (err error) {
			found[i], err = tail(ctx, s, decisions, &done)
			return err
		})
		for k := range 4 {
			w.run(func(ctx context.Context) error {
				return rounds(ctx, e, 20, func(n int) error {
					scope := attend.Scope(fmt.Sprintf("s-%d-%d", i, k))
					return add(ctx, s, row(scope, fmt.Sprintf("%d-%d-%d", i, k, n), decision))
				})
			})
		}
	}
	err = w.wait()
	done.Store(true)
	if err := errors.Join(err, r.wait()); err != nil {
		return err
	}
	want, err := read(ctx, a, decisions)
	if err != nil {
		return err
	}
	for i := range found {
		if err := same(fmt.Sprintf("rows that a reader on handle %d of 2 found while both committed", i+1), ids(want), ids(found[i])); err != nil {
			return err
		}
	}
	return nil
}

func handlesWait(ctx context.Context, e Env) error {
	a, b, err := handles(e)
	if err != nil {
		return err
	}
	w, err := waiter(b)
	if err != nil {
		return err
	}
	at, err := b.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := from(decision, attend.LogCursor{Epoch: at.Epoch, Position: at.Newest})
	found := follow(ctx, b, w, q, "d")
	settle()
	if err := add(ctx, a, row("ops", "d", decision)); err != nil {
		return err
	}
	return within(ctx, "Wait for a row that another handle committed", func(context.Context) error { return <-found })
}

func handlesClose(ctx context.Context, e Env) error {
	a, b, err := handles(e)
	if err != nil {
		return err
	}
	if _, ok := a.(io.Closer); !ok {
		return skip("it is no io.Closer")
	}
	if err := put(ctx, a, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
		return err
	}
	if err := closer(a); err != nil {
		return err
	}
	for _, s := range []attend.ScopeStore{b, e.Reopen(a)} {
		if err := holds(ctx, s, "ops", "", "a"); err != nil {
			return fmt.Errorf("on another handle, after one was closed: %w", err)
		}
		if err := put(ctx, s, attend.Write{Scope: "new", Snapshot: []byte("b")}); err != nil {
			return fmt.Errorf("on another handle, after one was closed: %w", err)
		}
	}
	return nil
}
