package server

import "net/http"

// Patterns returns the patterns of a server's routes.
func (s *Server) Patterns() []string {
	list, err := s.routes()
	if err != nil {
		panic(err)
	}
	var out []string
	for _, r := range list {
		out = append(out, r.pattern)
	}
	return out
}

// Busy reports whether any request is under way that the end waits for.
func (s *Server) Busy() bool {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return len(s.gate.busy) > 0
}

// Route adds a route before the server is used.
func (s *Server) Route(pattern string, h http.Handler) {
	s.mux.Handle(pattern, &route{pattern: pattern, need: needAnyone, Handler: h})
}
