package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A gate counts the requests that are under way, and can be shut.
type gate struct {
	mu   sync.Mutex
	busy map[string]int // by route; none are 0
	shut bool
	idle chan struct{} // closed once the gate is shut and nothing is under way
}

// enter lets a request in, unless the gate is shut. One that came in must leave.
func (g *gate) enter(route string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	if g.busy == nil {
		g.busy = make(map[string]int)
	}
	g.busy[route]++
	return true
}

func (g *gate) leave(route string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[route]--; g.busy[route] == 0 {
		delete(g.busy, route)
	}
	if g.shut && len(g.busy) == 0 {
		close(g.idle)
	}
}

// close shuts the gate, and returns what is closed once nothing is under way.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut, g.idle = true, make(chan struct{})
		if len(g.busy) == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

// wait returns nil once nothing is under way behind a shut gate, or what still
// is when ctx ends.
func (g *gate) wait(ctx context.Context) error {
	idle := g.close()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for _, route := range slices.Sorted(maps.Keys(g.busy)) {
		names = append(names, fmt.Sprintf("%d of %s", g.busy[route], route))
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: requests: %s", ErrDrain, strings.Join(names, ", "))
}
