package engine

import (
	"hash/maphash"
	"sync"

	attend "github.com/attend-go/attend/core"
)

const shardCount = 16

// A shard is a part of the resident scopes, in the order in which they were
// used, with a budget in bytes (E37).
type shard struct {
	mu     sync.Mutex
	cells  map[uint64]*cell
	ring   cell // ring.old is the most recently used, ring.newer the least
	bytes  int
	budget int
}

func (s *shard) init(budget int) {
	s.cells = make(map[uint64]*cell)
	s.budget = budget
	s.ring.old, s.ring.newer = &s.ring, &s.ring
}

func (s *shard) unlink(c *cell) {
	c.newer.old, c.old.newer = c.old, c.newer
}

// front makes c the most recently used.
func (s *shard) front(c *cell) {
	c.newer, c.old = &s.ring, s.ring.old
	c.newer.old, c.old.newer = c, c
}

func (e *Engine) shard(hash uint64) *shard { return &e.shards[hash%shardCount] }

// cell returns the scope's cell, a new one where it is not resident.
func (e *Engine) cell(scope attend.Scope) *cell {
	hash := maphash.String(e.seed, string(scope))
	s := e.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.cells[hash]; c != nil; c = c.chain {
		if c.scope == scope {
			if s.ring.old != c {
				s.unlink(c)
				s.front(c)
			}
			return c
		}
	}
	c := &cell{scope: scope, hash: hash, chain: s.cells[hash], timer: -1}
	s.cells[hash] = c
	s.front(c)
	return c
}

// Resident is how many scopes are in memory now, idle ones included.
func (e *Engine) Resident() int {
	n := 0
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		n += len(s.cells) // but for scopes that share a hash of 64 bits
		s.mu.Unlock()
	}
	return n
}

// resident returns the resident cells with this hash.
func (e *Engine) resident(hash uint64) []*cell {
	s := e.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*cell
	for c := s.cells[hash]; c != nil; c = c.chain {
		out = append(out, c)
	}
	return out
}

// resize says how large a cell is now, and lets idle ones go while the shard is
// over its budget, the least recently used first. A scope that is in use stays.
func (e *Engine) resize(c *cell, size int) {
	s := e.shard(c.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.out {
		return
	}
	s.bytes += size - c.size
	c.size = size
	for c := s.ring.newer; c != &s.ring && s.bytes > s.budget; {
		next := c.newer
		if c.leave() {
			s.unlink(c)
			s.bytes -= c.size
			s.drop(c)
		}
		c = next
	}
}

// drop takes a cell out of its chain.
func (s *shard) drop(c *cell) {
	c.out = true
	if s.cells[c.hash] == c {
		if c.chain == nil {
			delete(s.cells, c.hash)
		} else {
			s.cells[c.hash] = c.chain
		}
		return
	}
	for p := s.cells[c.hash]; p != nil; p = p.chain {
		if p.chain == c {
			p.chain = c.chain
			return
		}
	}
}

// leave marks the cell as gone, if nobody uses it now. Its entry in the alarm
// stays, and finds the scope's name in the store when it goes off.
func (c *cell) leave() bool {
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	if c.busy || c.next != nil || len(c.waiting) > 0 || c.gone {
		return false
	}
	if s := &c.res.state; s.Now().After(c.touched) && !s.Next().IsZero() {
		return false // its time is ahead of the clock: the store would name it too late
	}
	c.gone = true
	return true
}
