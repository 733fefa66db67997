package redis

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A hub wakes a handle's waiters. It hears of its own commits at once, and of
// those of others over one subscription, which it makes when the first waiter
// comes. Now and then it looks whether the log has grown unheard: much more
// often while the subscription is down. So a connection that died in silence,
// or a user without the right to subscribe, costs time and no row.
type hub struct {
	l      *link
	ctx    context.Context
	cancel context.CancelFunc
	end    sync.WaitGroup
	came   chan struct{} // has room for one: somebody waits
	rest   time.Duration // for how long it listens when nobody waits

	mu      sync.Mutex
	left    time.Time // when the last waiter went
	started bool
	taken   chan dedicated // listen's: a connection that was asked for; nil: none
	waiting map[*waiter]struct{}
	epoch   string
	known   attend.Position // how far the log had grown at the last look
	ear     ear
}

// An ear is the state of a subscription.
type ear struct {
	open   bool
	heard  attend.Position // the newest that a message told
	looked bool            // there was a look since it opened, at
	last   attend.Position
	due    attend.Position // what has to be heard by the next look
	deaf   chan struct{}   // closed when it was not
}

type waiter struct {
	wake  chan struct{} // has room for one
	after attend.Position
	wants func(topic string) bool
}

// How often a hub looks after a log whose growth it hears of, and after one
// that it is deaf to.
const (
	lookHearing = 2 * time.Second
	lookDeaf    = 250 * time.Millisecond
)

func newHub(l *link) *hub {
	h := &hub{l: l, waiting: make(map[*waiter]struct{}), came: make(chan struct{}, 1), rest: listenIdle}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

func (h *hub) close() {
	h.cancel()
	h.mu.Lock()
	h.started = true // so that nobody starts it now
	h.mu.Unlock()
	h.end.Wait()
}

// wait blocks until ready says yes, or something that wants takes is told that
// is behind after. It asks ready once it can't miss anything any more.
func (h *hub) wait(ctx context.Context, after attend.Position, wants func(string) bool, ready func() (bool, error)) error {
	w := &waiter{wake: make(chan struct{}, 1), after: after, wants: wants}
	h.mu.Lock()
	h.waiting[w] = struct{}{}
	select {
	case h.came <- struct{}{}:
	default:
	}
	if !h.started {
		h.started = true
		h.end.Go(h.listen)
		h.end.Go(h.look)
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.waiting, w)
		h.left = time.Now()
		h.mu.Unlock()
	}()
	if ok, err := ready(); ok || err != nil {
		return err
	}
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.l.done:
		return attend.ErrClosed
	}
}

// grown wakes who waits for one of the topics; no topics are everyone's.
func (h *hub) grown(newest attend.Position, topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting {
		if w.after < newest && (len(topics) == 0 || w.wantsAny(topics)) {
			w.tell()
		}
	}
}

func (w *waiter) wantsAny(topics []string) bool {
	for _, t := range topics {
		if w.wants(t) {
			return true
		}
	}
	return false
}

func (w *waiter) tell() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting {
		w.tell()
	}
}

// message takes what a script has published: the newest position before and
// after, and topics each behind its length. Where before isn't what was heard
// last, something was not told: nobody knows whom it is for.
func (h *hub) message(text string) {
	from, rest, _ := strings.Cut(text, " ")
	to, rest, _ := strings.Cut(rest, " ")
	before, newest := position(from), position(to)
	var topics []string
	for b := []byte(rest); len(b) > 0; {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			topics = nil // it is none of ours
			break
		}
		topics = append(topics, string(b[k:k+int(n)]))
		b = b[k+int(n):]
	}
	h.mu.Lock()
	missed := before != h.ear.heard
	h.ear.heard = max(h.ear.heard, newest)
	h.mu.Unlock()
	if missed {
		h.wakeAll()
		return
	}
	h.grown(newest, topics)
}

// look finds out by itself whether the log has grown.
func (h *hub) look() {
	for pause := lookDeaf; ; {
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(pause):
		}
		h.mu.Lock()
		idle := len(h.waiting) == 0
		pause = lookDeaf
		if h.ear.open {
			pause = lookHearing
		}
		h.mu.Unlock()
		if idle {
			continue
		}
		ctx, end := context.WithTimeout(h.ctx, h.l.timeout)
		p, err := h.l.page(ctx, span{})
		end()
		if err == nil {
			h.found(p.epoch, p.newest)
		}
	}
}

// found compares what there is with what was heard.
func (h *hub) found(epoch string, newest attend.Position) {
	h.mu.Lock()
	e := &h.ear
	wake := epoch != h.epoch || newest > max(h.known, e.heard)
	if epoch != h.epoch { // positions of another life say nothing
		e.heard, e.looked, e.due = newest, false, 0
	}
	h.epoch, h.known = epoch, newest
	switch {
	case !e.open:
	case e.heard < e.due:
		close(e.deaf)
		*e = ear{}
	default:
		// A message may still be on its way, but not as long as until the next
		// look.
		e.due = 0
		if e.looked && newest > e.last {
			e.due = newest
		}
		e.looked, e.last = true, newest
	}
	h.mu.Unlock()
	if wake {
		h.wakeAll()
	}
}
