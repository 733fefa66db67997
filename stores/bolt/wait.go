package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// waiters are the calls that wait for a log to grow.
type waiters struct {
	d *database
	journal.Waiters
}

// waitPause is how long a waiter sleeps when nothing wakes it.
const waitPause = 250 * time.Millisecond

// wait blocks until look finds something. It is woken for one of the topics, by
// what this handle commits; it looks four times a second for what others of this
// process do.
func (w *waiters) wait(ctx context.Context, topics []journal.Topic, look func(*bbolt.Tx) (bool, error)) error {
	// First the waiter, then the look: what is committed in between wakes it.
	told, leave := w.Join(topics)
	defer leave()
	pause := time.NewTicker(waitPause)
	defer pause.Stop()
	for {
		ready := false
		err := w.d.view(ctx, func(tx *bbolt.Tx) (err error) {
			ready, err = look(tx)
			return err
		})
		if err != nil || ready {
			return err
		}
		select {
		case <-told:
			return nil
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-w.d.done:
			return attend.ErrClosed
		}
	}
}
