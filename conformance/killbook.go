package conformance

import (
	"maps"
	"slices"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A killBook is what the producers know, and what the sinks took. It lives in the
// process that nobody kills.
type killBook struct {
	mu     sync.Mutex
	pushes []*killPush
	events map[killEvent]*killPush
	taken  map[attend.DecisionID]killTaken
	errors map[string]int // answers to requests, by text
	acked  int
}

// A killEvent is an event's identity.
type killEvent struct {
	scope attend.Scope
	id    string
}

// A killPush is one push, which its producer repeats until it is acknowledged.
type killPush struct {
	scope  attend.Scope
	events []attend.Event
	tries  int
	sent   time.Time // the last try
	acked  time.Time // zero: never
	life   int       // of who acknowledged it
}

// A killTaken is when a sink took a decision first.
type killTaken struct {
	scope attend.Scope
	made  time.Time // the decision's own time
	at    time.Time
	life  int
}

func newKillBook() *killBook {
	return &killBook{events: make(map[killEvent]*killPush), taken: make(map[attend.DecisionID]killTaken), errors: make(map[string]int)}
}

// push notes a push that is about to be made.
func (b *killBook) push(p *killPush) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pushes = append(b.pushes, p)
	for _, e := range p.events {
		b.events[killEvent{p.scope, e.ID}] = p
	}
}

// try notes that a push is made once more.
func (b *killBook) try(p *killPush) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.tries, p.sent = p.tries+1, time.Now()
}

// ack notes that a push was acknowledged.
func (b *killBook) ack(p *killPush, life int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.acked, p.life = time.Now(), life
	b.acked++
}

func (b *killBook) acknowledged() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acked
}

// take notes that a sink took a decision.
func (b *killBook) take(t killTakenID, life int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.taken[t.ID]; !ok {
		b.taken[t.ID] = killTaken{t.Scope, t.At, time.Now(), life}
	}
}

// refused notes a request that was answered with an error.
func (b *killBook) refused(err string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) < 100 {
		b.errors[err]++
	}
}

// scopes are those that something was pushed to.
func (b *killBook) scopes() []attend.Scope {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[attend.Scope]bool)
	for _, p := range b.pushes {
		all[p.scope] = true
	}
	return slices.Sorted(maps.Keys(all))
}
