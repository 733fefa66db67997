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
	turns   uint64   // places in line so far
	account *breaker // which may keep calls back; nil: nothing does
}

// A permit lets one call or delivery run.
type permit struct {
	of    *pool
	probe bool // it is to show whether the account works again
}

// open reports whether a permit may be given out, and whether it is a probe.
func (p *pool) open() (ok, probe bool) {
	if p.account == nil {
		return true, false
	}
	return p.account.admits(time.Now())
}

// try returns a permit, or nil and puts the scope in line.
func (p *pool) try(scope attend.Scope, w machine.Work) *permit {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 {
		if ok, probe := p.open(); ok {
			p.free--
			return &permit{p, probe}
		}
	}
	if !p.in[scope] {
		if p.in == nil {
			p.in = make(map[attend.Scope]bool)
		}
		p.in[scope] = true
		urgent := w.Reason == attend.ReasonForced || w.Reason == attend.ReasonFlush
		p.turns++
		heap.Push(&p.line, place{scope, urgent, w.Settled, p.turns})
	}
	return nil
}

// back takes a permit back, or hands it to the first in line.
func (p *pool) back(m *permit) (attend.Scope, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) > 0 {
		if ok, probe := p.open(); ok {
			m.probe = probe
			return p.first(), true
		}
	}
	p.free++
	return "", false
}

// put takes a permit back.
func (p *pool) put() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
}

// clear sends everybody in line away.
func (p *pool) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line, p.in = nil, nil
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
	if p.free == 0 || len(p.line) == 0 {
		return "", nil
	}
	ok, probe := p.open()
	if !ok {
		return "", nil
	}
	p.free--
	return p.first(), &permit{p, probe}
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
	if m.probe {
		m.probe = false
		e.account.probed()
	}
	if !e.begin() { // nobody in line may start
		m.of.put()
		return
	}
	if scope, ok := m.of.back(m); ok {
		go e.submit(scope, &op{grant: m, run: &e.work})
		return
	}
	e.work.Done()
}

// A place in line.
type place struct {
	scope  attend.Scope
	urgent bool
	since  time.Time
	turn   uint64
}

type line []place

func (l line) Len() int { return len(l) }

func (l line) Less(i, j int) bool {
	if l[i].urgent != l[j].urgent {
		return l[i].urgent
	}
	if !l[i].since.Equal(l[j].since) {
		return l[i].since.Before(l[j].since)
	}
	return l[i].turn < l[j].turn
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
