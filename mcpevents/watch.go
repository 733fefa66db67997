package mcpevents

import (
	"context"

	"github.com/attend-go/attend/mcpevents/internal/wire"
)

// watch opens a watch on the list of types.
func (s *Server) watch(context.Context) (*wire.Watch, error) {
	changed := make(chan struct{}, 1) // changes that come together are one
	s.mu.Lock()
	s.watches[changed] = true
	s.mu.Unlock()
	return &wire.Watch{Changed: changed, Closing: s.closing, Stop: func() {
		s.mu.Lock()
		delete(s.watches, changed)
		s.mu.Unlock()
	}}, nil
}

// listChanged wakes the watches.
func (s *Server) listChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for changed := range s.watches {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}
