package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A team is goroutines that stop together: when one fails, when the others are
// done, or when the case is over.
type team struct {
	ctx  context.Context
	stop context.CancelCauseFunc
	wg   sync.WaitGroup
}

func newTeam(ctx context.Context) *team {
	t := new(team)
	t.ctx, t.stop = context.WithCancelCause(ctx)
	return t
}

// run starts f, whose first error stops the team.
func (t *team) run(f func(ctx context.Context) error) {
	t.wg.Go(func() {
		if err := f(t.ctx); err != nil {
			t.stop(err)
		}
	})
}

// wait returns the first error once all have ended.
func (t *team) wait() error {
	t.wg.Wait()
	err := context.Cause(t.ctx)
	t.stop(nil)
	return err
}

// rounds calls f a number of times, and in a soak until it is over.
func rounds(ctx context.Context, e Env, n int, f func(i int) error) error {
	end := time.Now().Add(e.Soak)
	for i := 0; i < n || e.Soak > 0 && time.Now().Before(end); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// race lets n writers commit at one version, at the same moment, each its own
// number. It checks that one wins, and that its input is the one that landed.
func race(ctx context.Context, n int, store func(int) attend.ScopeStore, scope attend.Scope, expect uint64, tail int) error {
	won := make([]bool, n)
	start := make(chan struct{})
	t := newTeam(ctx)
	for i := range n {
		t.run(func(ctx context.Context) error {
			w := attend.Write{Scope: scope, Expect: expect, Inputs: in(fmt.Sprintf("%d-%d", tail, i))}
			<-start
			out, err := commit(ctx, store(i), w)
			if err == nil {
				won[i] = !out[0].Conflict()
			}
			return err
		})
	}
	close(start)
	if err := t.wait(); err != nil {
		return err
	}
	winner := slices.Index(won, true)
	if winner < 0 || slices.Contains(won[winner+1:], true) {
		return fmt.Errorf("of %d writers at one version these won: %v, want one", n, won)
	}
	rec, err := load(ctx, store(0), scope)
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%d-%d", tail, winner)
	if len(rec.Tail) != tail+1 || !slices.ContainsFunc(rec.Tail, func(in []byte) bool { return string(in) == want }) {
		return fmt.Errorf("writer %s won, and the store holds %q, want %d inputs and its own among them", want, rec.Tail, tail+1)
	}
	return nil
}

// tail follows the log until done says that no more will come and it has read
// everything.
func tail(ctx context.Context, s attend.ScopeStore, q attend.Query, done *atomic.Bool) ([]attend.Entry, error) {
	var all []attend.Entry
	for {
		last := done.Load()
		got, err := read(ctx, s, q)
		if err != nil {
			return nil, err
		}
		for _, e := range got {
			if len(all) > 0 && e.Cursor.Position <= q.After.Position {
				return nil, fmt.Errorf("a reader at position %d finds a row at %d", q.After.Position, e.Cursor.Position)
			}
			all, q.After = append(all, e), e.Cursor
		}
		if last {
			return all, nil
		}
		if len(got) == 0 {
			time.Sleep(100 * time.Microsecond) // the writers' turn
		}
	}
}
