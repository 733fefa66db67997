package server

import (
	"net/http"

	"github.com/attend-go/attend/server/inspect"
	"github.com/attend-go/attend/server/internal/decisions"
	"github.com/attend-go/attend/server/internal/ingest"
	"github.com/attend-go/attend/server/internal/problem"
)

// A need is what a route wants of whoever asks, before its handler looks closer.
type need int

const (
	needNothing need = iota // it is open: health
	needAnyone              // somebody who is known
	needRead                // somebody who may read, whatever it is
)

// A route is one way into the server.
type route struct {
	pattern string // of http.ServeMux
	need    need
	http.Handler
}

// routes are all ways into the server.
func (s *Server) routes() ([]*route, error) {
	in, err := ingest.New(ingest.Config{
		Engine: s.engine, Scope: s.cfg.CloudEventScope, Rejected: s.rejected, Stopping: s.stopping,
		Silence: s.cfg.ReadTimeout, Stall: s.cfg.WriteTimeout,
	})
	if err != nil {
		return nil, err
	}
	scopes, explain := inspect.ScopeHandler(s.engine), inspect.ExplainHandler(s.engine, s.engine.Log(), inspect.Limits{})
	list := []*route{
		{pattern: "POST /v1/ingest", need: needAnyone, Handler: in.Bodies()},
		{pattern: "POST /v1/ingest/stream", need: needAnyone, Handler: in.Stream()},
		{pattern: "GET /v1/decisions", need: needRead, Handler: s.feed.Handler(decisions.HandlerConfig{
			Stopping: s.stopping, Logger: s.cfg.Logger, SlowAfter: s.cfg.WriteTimeout / 2,
		})},
		{pattern: "GET /v1/scopes", need: needRead, Handler: scopes},
		{pattern: "GET /v1/scopes/{scope}", need: needRead, Handler: scopes},
		{pattern: "GET /v1/explain", need: needRead, Handler: explain},
		{pattern: "GET /v1/explain/{scope}/{event}", need: needRead, Handler: explain},
		{pattern: "/mcp", need: needAnyone, Handler: s.face.Handler()},
		{pattern: "GET /healthz", need: needNothing, Handler: http.HandlerFunc(alive)},
		{pattern: "GET /readyz", need: needNothing, Handler: &s.health},
		{pattern: "GET /openapi.json", need: needAnyone, Handler: http.HandlerFunc(openapi)},
	}
	if s.cfg.Metrics != nil {
		list = append(list, &route{pattern: "GET /metrics", need: needRead, Handler: s.cfg.Metrics.Handler()})
	}
	return list, nil
}

// rejected counts what ingest refuses.
func (s *Server) rejected(n int) {
	if s.cfg.Metrics != nil {
		s.cfg.Metrics.refused(n)
	}
}

// newMux returns a mux of routes.
func newMux(list []*route) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range list {
		mux.Handle(r.pattern, r)
	}
	return mux
}

// find returns the route that a request goes to, or the problem that there is
// none. The mux's own answers are text for people, and its redirects to cleaned
// paths would change what a scope's name is.
func find(mux *http.ServeMux, r *http.Request) (*route, *problem.Problem, string) {
	h, _ := mux.Handler(r)
	if found, ok := h.(*route); ok {
		return found, nil, ""
	}
	var seen refusal
	h.ServeHTTP(&seen, r)
	if seen.status == http.StatusMethodNotAllowed {
		return nil, problem.With(http.StatusMethodNotAllowed, "this is there, but not for this method"), seen.Header().Get("Allow")
	}
	return nil, problem.With(http.StatusNotFound, "there is no such route"), ""
}

// A refusal takes what a mux answers.
type refusal struct {
	header http.Header
	status int
}

// Header is of [http.ResponseWriter].
func (f *refusal) Header() http.Header {
	if f.header == nil {
		f.header = make(http.Header)
	}
	return f.header
}

// WriteHeader is of [http.ResponseWriter].
func (f *refusal) WriteHeader(status int) { f.status = status }

// Write is of [http.ResponseWriter].
func (f *refusal) Write(b []byte) (int, error) { return len(b), nil }
