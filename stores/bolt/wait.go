package bolt

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// A topic is what a waiter waits for and a row is about: a row type, and a
// prefix or scope.
type topic struct{ typ, name string }

// A waiter has room for one token, which wakes it.
type waiter chan struct{}

// waiters are the calls that wait for a log to grow.
type waiters struct {
	d      *database
	mu     sync.Mutex
	topics map[topic]map[waiter]struct{}
}

// waitPause is how long a waiter sleeps when nothing wakes it.
const waitPause = 250 * time.Millisecond

// wait blocks until look finds something. It is woken for one of the topics.
func (w *waiters) wait(ctx context.Context, topics []topic, look func(*bbolt.Tx) (bool, error)) error {
	// First the waiter, then the look: what is committed in between wakes it.
	me := make(waiter, 1)
	w.add(me, topics)
	defer w.remove(me, topics)
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
		case <-me:
			return nil
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-w.d.done:
			return attend.ErrClosed
		}
	}
}

func (w *waiters) add(me waiter, topics []topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.topics == nil {
		w.topics = make(map[topic]map[waiter]struct{})
	}
	for _, t := range topics {
		if w.topics[t] == nil {
			w.topics[t] = make(map[waiter]struct{})
		}
		w.topics[t][me] = struct{}{}
	}
}

func (w *waiters) remove(me waiter, topics []topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range topics {
		delete(w.topics[t], me)
		if len(w.topics[t]) == 0 {
			delete(w.topics, t)
		}
	}
}

// tell wakes who waits for one of the topics.
func (w *waiters) tell(topics []topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.topics) == 0 {
		return
	}
	for _, t := range topics {
		for me := range w.topics[t] {
			select {
			case me <- struct{}{}:
			default:
			}
		}
	}
}
