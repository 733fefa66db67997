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
	switch {
	case s.closed:
		return nil, refuse(Internal, "reason", "closing")
	case len(s.streams) >= s.config.MaxAllStreams:
		return nil, refuse(ResourceExhausted, "limit", "streams")
	case s.count[sub.Principal] >= s.config.MaxStreams:
		return nil, refuse(ResourceExhausted, "limit", "streams", "max", s.config.MaxStreams)
	}
	st := &stream{sub: sub}
	s.streams[st] = true
	s.count[sub.Principal]++
	return st, nil
}

// leave takes a stream off the books.
func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.poke != nil {
		st.poke()
	}
	delete(s.streams, st)
	if s.count[st.sub.Principal]--; s.count[st.sub.Principal] == 0 {
		delete(s.count, st.sub.Principal)
	}
	if s.closed && len(s.streams) == 0 {
		close(s.idle)
	}
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
