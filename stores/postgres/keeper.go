package postgres

import (
	"context"
	"sync/atomic"
	"time"
)

// A keeper applies retention in the background: when this process has added a
// good part of what is kept, and from time to time for what others add.
type keeper struct {
	kicks chan struct{} // with room for one
	step  int64
	n     atomic.Int64 // rows since the last time
}

const (
	keepEvery   = time.Minute
	largestStep = 10_000
)

// newKeeper makes one for logs that keep so many rows; 0 sets no limit.
func newKeeper(counts ...int) *keeper {
	k := &keeper{kicks: make(chan struct{}, 1), step: largestStep}
	for _, n := range counts {
		if n > 0 {
			k.step = min(k.step, max(int64(n/16), 1))
		}
	}
	return k
}

// added says that rows were added. A nil keeper keeps everything.
func (k *keeper) added(n int) {
	if k == nil || k.n.Add(int64(n)) < k.step {
		return
	}
	select {
	case k.kicks <- struct{}{}:
	default:
	}
}

// run calls apply until ctx ends.
func (k *keeper) run(ctx context.Context, apply func(context.Context)) {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	for {
		select {
		case <-k.kicks:
		case <-t.C:
		case <-ctx.Done():
			return
		}
		k.n.Store(0)
		apply(ctx)
	}
}
