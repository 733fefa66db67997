package sqlite

import (
	"context"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// waiters are the calls that wait for a log to grow. Commits of this handle
// wake them at once. Those of other handles and processes are noticed by
// polling, on one connection for all, and only while somebody waits: SQLite
// keeps a number that changes when another connection has committed, and it
// lies in shared memory.
type waiters struct {
	d    *database
	news func(c *conn, after attend.Position) (topics []journal.Topic, newest attend.Position, err error)
	who  journal.Waiters

	mu      sync.Mutex
	polling bool
	seen    attend.Position // waiters have been told of all rows up to here
}

const (
	pollPause = 10 * time.Millisecond
	pollAgain = time.Second // after an error
)

// wait blocks until a row of one of the topics may be there. look says whether
// there is one already, and how far the log goes.
func (w *waiters) wait(ctx context.Context, topics []journal.Topic, look func(*conn) (ready bool, newest attend.Position, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// First the waiter, then the look: what is committed in between wakes it.
	told, leave := w.who.Join(topics)
	defer leave()
	var ready bool
	var newest attend.Position
	err := w.d.view(ctx, func(c *conn) (err error) {
		ready, newest, err = look(c)
		return err
	})
	if err != nil || ready {
		return err
	}
	w.poll(newest)
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.d.done:
		return attend.ErrClosed
	}
}

// tell wakes who waits for one of the topics of the rows behind after, up to
// last.
func (w *waiters) tell(topics []journal.Topic, after, last attend.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.polling && w.seen >= after {
		w.seen = max(w.seen, last)
	}
	w.who.Tell(topics)
}

// poll starts the poller, unless it is there. A waiter has looked at everything
// up to newest.
func (w *waiters) poll(newest attend.Position) {
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
	w.polling = w.who.Any()
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
			w.who.TellAll()
			pause = pollAgain
		}
	}
}

// look tells waiters of new rows if there was a commit since version. An error
// leaves it to the next look.
func (w *waiters) look(c *conn, version int64) (int64, error) {
	now, err := c.number("PRAGMA data_version")
	if err == nil {
		err = w.d.at.InPlace()
	}
	if err != nil || now == version {
		return version, err
	}
	for {
		w.mu.Lock()
		after := w.seen
		w.mu.Unlock()
		topics, newest, err := w.news(c, after)
		if err != nil {
			return version, err
		}
		if newest == after {
			return now, nil
		}
		w.tell(topics, after, newest)
	}
}
