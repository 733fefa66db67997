package mcpevents

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// maxWaitingBytes is the most that the deliveries may have that wait in an inbox.
const maxWaitingBytes = 8 << 20

// oldSecret is how long a secret is still good after the server has a new one:
// as long as servers sign with it, and some more.
const oldSecret = 30 * time.Minute

// An inbox is one subscription of a [Receiver]: its secrets, and the deliveries
// that wait for the consumer.
type inbox struct {
	max   int
	ready chan struct{} // something waits

	mu      sync.Mutex
	id      string
	keys    []inboxSecret // the newest first
	waiting []*handover
	bytes   int
	closed  bool

	envelopes *Seen // that were taken; of the goroutine that takes alone
}

type inboxSecret struct {
	Secret
	made  time.Time
	until time.Time // zero: it is in use
}

// A handover is a delivery on its way to the consumer.
type handover struct {
	received
	done  chan struct{} // closed when taken is decided
	taken bool
}

func newInbox(most int) *inbox {
	return &inbox{envelopes: NewSeen(maxEnvelopes, 0), max: most, ready: make(chan struct{}, 1), keys: []inboxSecret{{Secret: NewSecret(), made: time.Now()}}}
}

// bound reports whether the id is known.
func (b *inbox) bound() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id != ""
}

func (b *inbox) knows(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id == id
}

// bind sets the id and returns the one before.
func (b *inbox) bind(id string) (old string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, b.id = b.id, id
	return old
}

// secrets returns those that a delivery may be signed with.
func (b *inbox) secrets() []Secret {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Secret
	for _, k := range b.keys {
		if k.until.IsZero() || time.Now().Before(k.until) {
			out = append(out, k.Secret)
		}
	}
	return out
}

// secret returns the one to subscribe with: a new one where the last is older
// than rotate, which is zero for never, and the server has it. Deliveries may be
// signed with it from now on; the one before stays good, since the server may not
// get this one.
func (b *inbox) secret(rotate time.Duration) Secret {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	known := len(b.keys) == 1 || !b.keys[1].until.IsZero() // or they would become more and more
	if rotate > 0 && known && now.Sub(b.keys[0].made) >= rotate {
		b.keys = append([]inboxSecret{{Secret: NewSecret(), made: now}}, b.keys...)
	}
	return b.keys[0].Secret
}

// confirm notes that the server has the secret: older ones end after a while.
func (b *inbox) confirm(s Secret) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	var keep []inboxSecret
	after := false
	for _, k := range b.keys {
		if after && k.until.IsZero() {
			k.until = now.Add(oldSecret)
		}
		if k.until.IsZero() || now.Before(k.until) {
			keep = append(keep, k)
		}
		after = after || k.Equal(s)
	}
	b.keys = keep
}

// hand gives a delivery to the consumer and returns what it is answered with.
// One that is answered with 503 may still be taken later, and is then a
// duplicate when it comes again.
func (b *inbox) hand(ctx context.Context, m *received, take time.Duration) int {
	h := &handover{received: *m, done: make(chan struct{})}
	b.mu.Lock()
	if b.closed || len(b.waiting) >= b.max || b.bytes+len(m.body) > maxWaitingBytes {
		b.mu.Unlock()
		return http.StatusServiceUnavailable
	}
	b.waiting = append(b.waiting, h)
	b.bytes += len(m.body)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
	timer := time.NewTimer(take)
	defer timer.Stop()
	select {
	case <-h.done:
		if h.taken {
			return http.StatusOK
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return http.StatusServiceUnavailable
}

// take returns the deliveries that wait, up to max of them.
func (b *inbox) take(most int) []*handover {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), most)
	list := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	for _, h := range list {
		b.bytes -= len(h.body)
	}
	if len(b.waiting) > 0 {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
	return list
}

// settle answers deliveries: taken, or not.
func settleAll(list []*handover, taken bool) {
	for _, h := range list {
		h.taken = taken
		close(h.done)
	}
}

// close refuses what waits and what comes.
func (b *inbox) close() {
	b.mu.Lock()
	list := b.waiting
	b.waiting, b.bytes, b.closed = nil, 0, true
	b.mu.Unlock()
	settleAll(list, false)
}
