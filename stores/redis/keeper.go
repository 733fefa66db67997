package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A keeper applies a handle's retention in the background, some time after it
// added to the log.
type keeper struct {
	poked  chan struct{}
	cancel context.CancelFunc
	end    sync.WaitGroup
}

// keepPause is how long retention rests between two runs.
const keepPause = 50 * time.Millisecond

func newKeeper(l *link, keep func(context.Context) error) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{poked: make(chan struct{}, 1), cancel: cancel}
	k.end.Go(func() {
		failing := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-k.poked:
			}
			err := keep(ctx)
			if err != nil && !failing && ctx.Err() == nil && !errors.Is(err, attend.ErrClosed) {
				l.log.Warn("redis: retention failed; it is tried again", "log", l.head, "error", err)
			}
			failing = err != nil
			select {
			case <-ctx.Done():
				return
			case <-time.After(keepPause):
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
