package mcpevents

import "context"

// A stream is an open events/stream in the server's books. Its key is its own
// address: request ids are unique to their sender alone.
type stream struct {
	sub  Subscription
	poke context.CancelFunc // ends the running phase; of Server.mu
	over error              // why the stream is to end; of Server.mu
}

// admit enters a stream, within the quotas.
func (s *Server) admit(sub Subscription) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enterLocked(sub.Principal); err != nil {
		return nil, err
	}
	st := &stream{sub: sub}
	s.streams[st] = true
	return st, nil
}

// enterLocked counts a stream or a listen, within the quotas.
func (s *Server) enterLocked(principal string) error {
	switch {
	case s.closed:
		return refuse(Internal, "reason", "closing")
	case len(s.streams)+len(s.watches) >= s.config.MaxAllStreams:
		return refuse(ResourceExhausted, "limit", "streams")
	case s.count[principal] >= s.config.MaxStreams:
		return refuse(ResourceExhausted, "limit", "streams", "max", s.config.MaxStreams)
	}
	s.count[principal]++
	return nil
}

// leaveLocked is the opposite, once it is off the books.
func (s *Server) leaveLocked(principal string) {
	if s.count[principal]--; s.count[principal] == 0 {
		delete(s.count, principal)
	}
	if s.closed && len(s.streams)+len(s.watches) == 0 {
		close(s.idle)
	}
}

// leave takes a stream off the books.
func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.poke != nil {
		st.poke()
	}
	delete(s.streams, st)
	s.leaveLocked(st.sub.Principal)
}

// phase begins a part of a stream's life in which its type stays as it is. The
// context ends when that is over; an error tells that the stream is, and nil with
// no offer that the server closes.
func (s *Server) phase(ctx context.Context, st *stream) (context.Context, *offer, error) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.poke != nil {
		st.poke()
	}
	st.poke = cancel
	switch o := s.offers[st.sub.Name]; {
	case s.closed:
		return ctx, nil, nil
	case st.over != nil:
		return ctx, nil, st.over
	case o == nil:
		return ctx, nil, refuse(NotFound, "kind", "event")
	default:
		return ctx, o, nil
	}
}

// pokeLocked ends the phase of the streams of a type, all for an empty name. Over
// ends the streams themselves.
func (s *Server) pokeLocked(name string, over error) {
	for st := range s.streams {
		if name != "" && st.sub.Name != name {
			continue
		}
		if st.over == nil {
			st.over = over
		}
		if st.poke != nil {
			st.poke()
		}
	}
}
