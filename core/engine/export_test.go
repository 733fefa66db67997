package engine

import (
	attend "github.com/attend-go/attend/core"
)

// Free is how many judge calls and deliveries could start now.
func Free(e *Engine) (calls, sends int) {
	return e.calls.left(), e.sends.left()
}

func (p *pool) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// InLine is how many scopes wait for a judge call, and for a delivery.
func InLine(e *Engine) (calls, sends int) {
	return e.calls.length(), e.sends.length()
}

func (p *pool) length() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.line)
}

// Resident is how many scopes the engine holds in memory, and how many bytes
// it reckons for them.
func Resident(e *Engine) (cells, bytes int) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		for _, c := range s.cells {
			for ; c != nil; c = c.chain {
				cells++
			}
		}
		bytes += s.bytes
		s.mu.Unlock()
	}
	return cells, bytes
}

// Holds reports whether the engine holds the scope in memory.
func Holds(e *Engine, scope attend.Scope) bool {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		found := false
		for c := s.ring.newer; c != &s.ring; c = c.newer {
			found = found || c.scope == scope
		}
		s.mu.Unlock()
		if found {
			return true
		}
	}
	return false
}

// ID is the engine's instance id.
func ID(e *Engine) uint64 { return e.id }

// Alarms is how many alarms the engine keeps room for.
func Alarms(e *Engine) int {
	e.alarm.mu.Lock()
	defer e.alarm.mu.Unlock()
	return len(e.alarm.wheel.slots)
}
