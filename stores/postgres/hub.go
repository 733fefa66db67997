package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A hub wakes those who wait for a log of rows that are Ts. It follows the log
// for all of them with one query, which it makes when somebody says that there
// may be news: this process, which has committed, the server, which has heard of
// another's commit, or a clock. A query finds everything that is behind the
// last one's place, so whatever was not told of is found by the next.
type hub[T any] struct {
	db      *db
	channel string // of the server's notifications
	news    func(ctx context.Context, after int64) (news[T], error)
	kicks   chan struct{} // with room for one
	once    sync.Once
	heard   atomic.Bool // notifications come in

	mu      sync.Mutex
	waiting map[*waiter[T]]struct{}
	at      place // nothing before it is news; not valid while nobody waits
	valid   bool
}

// A place is how far a log goes, or was read.
type place struct {
	epoch string
	pos   int64
}

// news is what a log has behind a place.
type news[T any] struct {
	rows    []T
	places  []int64 // of each row, rising
	epoch   string
	newest  int64
	trimmed int64         // rows up to here may be gone
	bounds  attend.Bounds // of a decision log
	more    bool          // there may be more behind the last row
}

// A waiter is somebody who waits.
type waiter[T any] struct {
	wants func(*T) bool
	lost  func(*news[T]) bool // its cursor is of no use any more
	after int64               // rows up to here are none that it waits for
	wake  chan struct{}       // with room for one
}

func newHub[T any](d *db, channel string, n func(context.Context, int64) (news[T], error)) *hub[T] {
	return &hub[T]{
		db: d, channel: d.cfg.named(channel), news: n,
		kicks: make(chan struct{}, 1), waiting: make(map[*waiter[T]]struct{}),
	}
}

// kick says that there may be news.
func (h *hub[T]) kick() {
	select {
	case h.kicks <- struct{}{}:
	default:
	}
}

// wait blocks until there is news for w. It first asks check, which looks at
// what is there and says how far that goes.
func (h *hub[T]) wait(ctx context.Context, what string, w *waiter[T], check func() (ready bool, at place, err error)) error {
	h.once.Do(func() {
		h.db.start(h.run)
		if h.db.cfg.Listen != "" {
			h.db.start(func(ctx context.Context) { listen(ctx, h.db.cfg, h.channel, &h.heard, h.kick) })
		}
	})
	w.wake = make(chan struct{}, 1)
	h.add(w) // before it looks: what comes now is seen by it or by the hub
	defer h.drop(w)
	ready, at, err := check()
	if ready || err != nil {
		return err
	}
	h.begin(at)
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("postgres: %s: %w", what, ctx.Err())
	case <-h.db.life.Done():
		return closedError(what)
	}
}

func (h *hub[T]) add(w *waiter[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[w] = struct{}{}
}

func (h *hub[T]) drop(w *waiter[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, w)
	h.valid = h.valid && len(h.waiting) > 0
}

// begin makes sure that what is behind at counts as news.
func (h *hub[T]) begin(at place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.valid && h.at.epoch != at.epoch {
		h.wakeAll()
	}
	if !h.valid || h.at.epoch != at.epoch || at.pos < h.at.pos {
		h.at, h.valid = at, true
	}
	h.kick()
}

// safety is how often a log is asked that notifications are heard of, in case
// one was lost.
const safety = 2 * time.Second

// run follows the log while somebody waits.
func (h *hub[T]) run(ctx context.Context) {
	t := time.NewTimer(safety)
	defer t.Stop()
	for {
		select {
		case <-h.kicks:
		case <-t.C:
		case <-ctx.Done():
			return
		}
		for h.look(ctx) {
		}
		if d := h.db.cfg.Poll; h.heard.Load() {
			t.Reset(max(d, safety))
		} else {
			t.Reset(d)
		}
	}
}

// look asks once, wakes whom it concerns, and reports whether to ask on.
func (h *hub[T]) look(ctx context.Context) (more bool) {
	h.mu.Lock()
	at, valid := h.at, h.valid
	h.mu.Unlock()
	if !valid {
		return false
	}
	n, err := h.news(ctx, at.pos)
	if err != nil {
		return false // the clock asks again
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.epoch != at.epoch || n.trimmed > at.pos || n.newest < at.pos {
		h.wakeAll() // their cursors may be truncated
	}
	for w := range h.waiting {
		if w.lost(&n) {
			w.rouse()
		}
		for i := range n.rows {
			if n.places[i] > w.after && w.wants(&n.rows[i]) {
				w.rouse()
			}
		}
	}
	if h.at != at { // somebody came meanwhile who has not looked so far
		return true
	}
	h.at = place{n.epoch, max(n.newest, at.pos)}
	if n.more {
		h.at.pos = n.places[len(n.places)-1]
	} else if n.newest < at.pos {
		h.at.pos = n.newest
	}
	return n.more
}

func (h *hub[T]) wakeAll() {
	for w := range h.waiting {
		w.rouse()
	}
}

func (w *waiter[T]) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
