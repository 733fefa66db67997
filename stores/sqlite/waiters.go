package sqlite

import (
	"context"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A topic is what a waiter waits for and a row is about: a row type, and a
// prefix or scope.
type topic struct{ typ, name string }

// A waiter has room for one token, which wakes it.
type waiter chan struct{}

// waiters are the calls that wait for a log to grow. Commits of this handle
// wake them at once. Those of other handles and processes are noticed by
// polling, on one connection for all, and only while somebody waits: SQLite
// keeps a number that changes when another connection has committed, and it
// lies in shared memory.
type waiters struct {
	d    *database
	news func(c *conn, after int64) (topics []topic, newest int64, err error)

	mu      sync.Mutex
	topics  map[topic]map[waiter]struct{}
	waiting int
	polling bool
	seen    int64 // waiters have been told of all rows up to here
}

const (
	pollPause = 10 * time.Millisecond
	pollAgain = time.Second // after an error
)

// wait blocks until a row of one of the topics may be there. look says whether
// there is one already, and how far the log goes.
func (w *waiters) wait(ctx context.Context, topics []topic, look func(*conn) (ready bool, newest int64, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// First the waiter, then the look: what is committed in between wakes it.
	me := make(waiter, 1)
	w.add(me, topics)
	defer w.remove(me, topics)
	var ready bool
	var newest int64
	err := w.d.view(ctx, func(c *conn) (err error) {
		ready, newest, err = look(c)
		return err
	})
	if err != nil || ready {
		return err
	}
	w.poll(newest)
	select {
	case <-me:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.d.done:
		return attend.ErrClosed
	}
}

func (w *waiters) add(me waiter, topics []topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
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
	w.waiting--
	for _, t := range topics {
		delete(w.topics[t], me)
		if len(w.topics[t]) == 0 {
			delete(w.topics, t)
		}
	}
}

// tell wakes who waits for one of the topics of the rows behind after, up to
// last.
func (w *waiters) tell(topics []topic, after, last int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.polling && w.seen >= after {
		w.seen = max(w.seen, last)
	}
	for _, t := range topics {
		wake(w.topics[t])
	}
}

func wake(ws map[waiter]struct{}) {
	for me := range ws {
		select {
		case me <- struct{}{}:
		default:
		}
	}
}

// all wakes everybody, to find out themselves.
func (w *waiters) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ws := range w.topics {
		wake(ws)
	}
}

// poll starts the poller, unless it is there. A waiter has looked at everything
// up to newest.
func (w *waiters) poll(newest int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.polling {
		w.polling, w.seen = true, newest
		w.d.run(w.run)
	}
}

// needed reports whether somebody waits still. Otherwise the poller ends.
func (w *waiters) needed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polling = w.waiting > 0
	return w.polling
}

func (w *waiters) run() {
	var c *conn
	defer func() {
		if c != nil {
			c.close() // there is nobody to tell
		}
	}()
	version, pause := int64(-1), pollPause
	for w.needed() {
		select {
		case <-w.d.done:
			return
		case <-time.After(pause):
		}
		var err error
		pause = pollPause
		if c == nil {
			version = -1
			c, err = w.d.connect(context.Background(), time.Now().Add(w.d.patience), false)
		}
		if err == nil {
			err = c.hold(func() error { version, err = w.look(c, version); return err })
		}
		if busy(err) {
			continue
		}
		if err != nil {
			// Waiters are woken for nothing, and meet the error themselves.
			if c != nil {
				c.close()
				c = nil
			}
			w.all()
			pause = pollAgain
		}
	}
}

// look tells waiters of new rows if there was a commit since version.
func (w *waiters) look(c *conn, version int64) (int64, error) {
	now, err := c.number("PRAGMA data_version")
	if err != nil || now == version {
		return version, err
	}
	for {
		w.mu.Lock()
		after := w.seen
		w.mu.Unlock()
		topics, newest, err := w.news(c, after)
		if err != nil || newest == after {
			return now, err
		}
		w.tell(topics, after, newest)
	}
}
