package journal

import (
	"sync"

	attend "github.com/attend-go/attend/core"
)

// A Topic is what a waiter waits for and a row is about: a row's type and a
// beginning of its scope, or an event's scope and no type.
type Topic struct {
	Type attend.RowType
	Name string
}

// RowTopics appends to to the topics of a row of the log.
func RowTopics(to []Topic, t attend.RowType, s attend.Scope) []Topic {
	for name := range names(s) {
		to = append(to, Topic{t, name})
	}
	return to
}

// Waiters are the calls of one handle that wait for a log to grow. The zero
// Waiters are none. Methods may be called from many goroutines at once.
type Waiters struct {
	mu     sync.Mutex
	topics map[Topic]map[chan struct{}]struct{}
}

// Join adds a waiter: its channel has a token once somebody told of one of the
// topics. It ends with a call of leave.
func (w *Waiters) Join(topics []Topic) (told <-chan struct{}, leave func()) {
	me := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.topics == nil {
		w.topics = make(map[Topic]map[chan struct{}]struct{})
	}
	for _, t := range topics {
		if w.topics[t] == nil {
			w.topics[t] = make(map[chan struct{}]struct{})
		}
		w.topics[t][me] = struct{}{}
	}
	return me, func() { w.leave(me, topics) }
}

func (w *Waiters) leave(me chan struct{}, topics []Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range topics {
		delete(w.topics[t], me)
		if len(w.topics[t]) == 0 {
			delete(w.topics, t)
		}
	}
}

// Tell wakes who waits for one of the topics.
func (w *Waiters) Tell(topics []Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.topics) == 0 {
		return
	}
	for _, t := range topics {
		wake(w.topics[t])
	}
}

// TellAll wakes everybody, to find out themselves.
func (w *Waiters) TellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ws := range w.topics {
		wake(ws)
	}
}

// Any reports whether somebody waits.
func (w *Waiters) Any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.topics) > 0
}

func wake(ws map[chan struct{}]struct{}) {
	for me := range ws {
		select {
		case me <- struct{}{}:
		default:
		}
	}
}
