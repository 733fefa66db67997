package mcpevents

import "sync"

// places are what requests take before they are made: so many in all, and a
// quarter of them for each principal, whose endpoints may all be slow.
type places struct {
	all  chan struct{}
	each int

	mu sync.Mutex
	of map[string]*share // of who has a request under way, or one that waits
}

type share struct {
	taken chan struct{}
	users int
}

func newPlaces(n int) *places {
	return &places{all: make(chan struct{}, n), each: max(n/4, 1), of: make(map[string]*share)}
}

// enter waits for a place and returns what gives it back; nil: done was closed.
func (p *places) enter(principal string, done <-chan struct{}) (leave func()) {
	s := p.share(principal)
	select {
	case s.taken <- struct{}{}:
	case <-done:
		p.drop(principal, s)
		return nil
	}
	select {
	case p.all <- struct{}{}:
	case <-done:
		<-s.taken
		p.drop(principal, s)
		return nil
	}
	return func() {
		<-p.all
		<-s.taken
		p.drop(principal, s)
	}
}

func (p *places) share(principal string) *share {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of[principal]
	if s == nil {
		s = &share{taken: make(chan struct{}, p.each)}
		p.of[principal] = s
	}
	s.users++
	return s
}

func (p *places) drop(principal string, s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(p.of, principal)
	}
}
