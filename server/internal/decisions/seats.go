package decisions

import (
	"sync"
	"time"
)

// seats are the subscribers of the process.
type seats struct {
	mu    sync.Mutex
	taken map[*Seat]struct{}
}

// A Seat is one subscriber, as long as it is there. Its methods may be called
// from many goroutines at once.
type Seat struct {
	feed      *Feed
	transport string
	last      time.Time // guarded by the feed's seats
}

// Join notes a subscriber of a transport, such as "sse" or "mcp". It must
// [Seat.Leave].
func (f *Feed) Join(transport string) *Seat {
	s := &Seat{feed: f, transport: transport, last: time.Now()}
	f.seats.mu.Lock()
	defer f.seats.mu.Unlock()
	if f.seats.taken == nil {
		f.seats.taken = make(map[*Seat]struct{})
	}
	f.seats.taken[s] = struct{}{}
	return s
}

// Reached notes that something was delivered to the subscriber just now, a sign
// of life included.
func (s *Seat) Reached() {
	s.feed.seats.mu.Lock()
	defer s.feed.seats.mu.Unlock()
	s.last = time.Now()
}

// Leave notes that the subscriber is gone.
func (s *Seat) Leave() {
	s.feed.seats.mu.Lock()
	defer s.feed.seats.mu.Unlock()
	delete(s.feed.seats.taken, s)
}

// Subscribers counts the subscribers of each transport that has any, in a map of
// the caller's own.
func (f *Feed) Subscribers() map[string]int {
	f.seats.mu.Lock()
	defer f.seats.mu.Unlock()
	n := make(map[string]int)
	for s := range f.seats.taken {
		n[s.transport]++
	}
	return n
}

// Stalest is how long ago the subscriber was reached that was reached the longest
// ago; 0: there is none.
func (f *Feed) Stalest(now time.Time) time.Duration {
	f.seats.mu.Lock()
	defer f.seats.mu.Unlock()
	var worst time.Duration
	for s := range f.seats.taken {
		worst = max(worst, now.Sub(s.last))
	}
	return worst
}
