package mcpevents

import (
	"context"

	"github.com/attend-go/attend/mcpevents/internal/wire"
)

// watch opens a watch on the list of types.
func (s *Server) watch(ctx context.Context) (*wire.Watch, error) {
	principal, err := s.principal(ctx)
	if err != nil {
		return nil, s.answer(ctx, err)
	}
	changed := make(chan struct{}, 1) // changes that come together are one
	if err := s.admitWatch(principal, changed); err != nil {
		return nil, s.answer(ctx, err)
	}
	return &wire.Watch{Changed: changed, Closing: s.closing.Done(), Stop: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, changed)
		s.leaveLocked(principal)
	}}, nil
}

// admitWatch enters a watch, which counts as a stream.
func (s *Server) admitWatch(principal string, changed chan struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.registered {
		return &Error{Kind: MethodNotFound}
	}
	if err := s.enterLocked(principal); err != nil {
		return err
	}
	s.watches[changed] = true
	return nil
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
