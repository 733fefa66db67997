package engine

import (
	"container/heap"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A pool limits how many calls or deliveries run at a time. Work is claimed
// once it can start, so that a queue eats no leases (E49); scopes that have to
// wait stand in line, those that somebody spoke in first, then the longest
// settled.
type pool struct {
	mu      sync.Mutex
	free    int
	line    line
	in      map[attend.Scope]bool
	blocked func(now time.Time) bool // nil: never; called under mu
}

// A permit lets one call or delivery run.
type permit struct{ of *pool }

// try returns a permit, or nil and puts the scope in line.
func (p *pool) try(scope attend.Scope, w machine.Work) *permit {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 && (p.blocked == nil || !p.blocked(time.Now())) {
		p.free--
		return &permit{p}
	}
	if !p.in[scope] {
		if p.in == nil {
			p.in = make(map[attend.Scope]bool)
		}
		p.in[scope] = true
		urgent := w.Reason == attend.ReasonForced || w.Reason == attend.ReasonFlush
		heap.Push(&p.line, place{scope, urgent, w.Settled})
	}
	return nil
}

// back takes a permit back, or hands it to the first in line.
func (p *pool) back(m *permit) (attend.Scope, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) == 0 || p.blocked != nil && p.blocked(time.Now()) {
		p.free++
		return "", false
	}
	return p.first(), true
}

// first takes the first out of the line.
func (p *pool) first() attend.Scope {
	scope := heap.Pop(&p.line).(place).scope
	delete(p.in, scope)
	return scope
}

// next hands a free permit to the first in line, if there are both.
func (p *pool) next() (attend.Scope, *permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 || len(p.line) == 0 || p.blocked != nil && p.blocked(time.Now()) {
		return "", nil
	}
	p.free--
	return p.first(), &permit{p}
}

// waits reports whether the scope stands in line.
func (p *pool) waits(scope attend.Scope) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in[scope]
}

// release gives a permit back; whoever is first in line goes on with it. It may
// be called with a cell locked.
func (e *Engine) release(m *permit) {
	if m == nil {
		return
	}
	if m.of == &e.calls {
		e.account.probed()
	}
	if scope, ok := m.of.back(m); ok {
		go e.submit(scope, &op{grant: m})
	}
}

// A place in line.
type place struct {
	scope  attend.Scope
	urgent bool
	since  time.Time
}

type line []place

func (l line) Len() int { return len(l) }

func (l line) Less(i, j int) bool {
	if l[i].urgent != l[j].urgent {
		return l[i].urgent
	}
	return l[i].since.Before(l[j].since)
}

func (l line) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push is for package heap.
func (l *line) Push(x any) { *l = append(*l, x.(place)) }

// Pop is for package heap.
func (l *line) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}
