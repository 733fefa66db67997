package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A keeper applies a handle's retention in the background, some time after it
// added to the log.
type keeper struct {
	keep   func(context.Context) (deleted int, err error)
	poked  chan struct{}
	cancel context.CancelFunc
	end    sync.WaitGroup
}

// How long retention rests between two runs. That grows while it finds little to
// do, since each look costs the server something.
const (
	keepPause  = 50 * time.Millisecond
	keepSeldom = time.Second
)

// How long it rests after it failed, before it tries again: at first, and at
// most.
const (
	keepAgain  = 2 * time.Second
	keepAtMost = 30 * time.Second
)

// newKeeper makes one whose keep deletes what is not to be kept, and says how
// many rows. name is that of its log, for the logger.
func newKeeper(log *slog.Logger, name string, keep func(context.Context) (int, error)) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{keep: keep, poked: make(chan struct{}, 1), cancel: cancel}
	k.end.Go(func() {
		failing, pause := false, keepPause
		for {
			select {
			case <-ctx.Done():
				return
			case <-k.poked:
			}
			n, err := keep(ctx)
			if err != nil && !failing && ctx.Err() == nil && !errors.Is(err, attend.ErrClosed) {
				log.Warn("redis: retention failed; it is tried again", "log", name, "error", err)
			}
			switch failing = err != nil; {
			case failing:
				pause = min(max(2*pause, keepAgain), keepAtMost)
				k.poke()
			case n >= trimPage:
				pause = keepPause
			default:
				pause = min(2*pause, keepSeldom)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
	return k
}

// poke says that the log has grown.
func (k *keeper) poke() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

func (k *keeper) close() {
	k.cancel()
	k.end.Wait()
}
