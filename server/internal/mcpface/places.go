package mcpface

import "sync"

// places are what calls that wait take: so many in all, and half of them for each
// principal with a name, or one would keep all others from waiting.
type places struct {
	all int

	mu    sync.Mutex
	taken int
	of    map[string]int // of those who wait; none are 0
}

func newPlaces(n int) *places { return &places{all: n, of: make(map[string]int)} }

// take takes a place for a principal, and reports whether there was one. It must
// be given back.
func (p *places) take(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.all
	if name != "" {
		most = max(p.all/2, 1)
	}
	if p.taken >= p.all || p.of[name] >= most {
		return false
	}
	p.taken++
	p.of[name]++
	return true
}

func (p *places) leave(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[name]--; p.of[name] == 0 {
		delete(p.of, name)
	}
}
