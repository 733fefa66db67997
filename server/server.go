package server

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
	"github.com/attend-go/attend/server/internal/mcpface"
)

// A Server serves one engine over HTTP and MCP. It is made by [New]. An app that
// has an HTTP server puts [Server.Handler] into it; [Server.Serve] is for those
// that have none. Its methods may be called from many goroutines at once.
type Server struct {
	cfg    Config
	engine *engine.Engine
	anyone *access.Principal
	guard  *guard
	gate   gate
	health health
	feed   *decisions.Feed
	face   *mcpface.Face
	mux    *http.ServeMux
	served atomic.Bool

	stopping chan struct{} // closed when streams are to end
	stopOnce sync.Once
}

// New returns a server of e, whose store is store. It opens and starts nothing.
// An error is attend.ErrInvalid and names the option.
func New(e *engine.Engine, store attend.ScopeStore, c Config) (*Server, error) {
	if e == nil {
		return nil, &attend.InvalidError{Field: "engine", Want: "an engine, it is required"}
	}
	if store == nil {
		return nil, &attend.InvalidError{Field: "store", Want: "the engine's store, it is required"}
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, engine: e, anyone: access.Anyone(), stopping: make(chan struct{})}
	if s.guard, err = newGuard(c.Hosts, c.Origins); err != nil {
		return nil, err
	}
	s.health.store, s.health.account, s.health.within = store, e.AccountError, c.StoreTimeout
	s.feed = decisions.NewFeed(e.Log(), c.Logger)
	if c.Metrics != nil {
		c.Metrics.residents.engine.Store(e)
		c.Metrics.subscribers.watch(s.feed)
	}
	if s.face, err = s.newFace(store); err != nil {
		return nil, err
	}
	list, err := s.routes()
	if err != nil {
		return nil, err
	}
	s.mux = newMux(list)
	return s, nil
}

// newFace returns the server's face to MCP clients. Its own checks of where a
// request comes from are done in front of it.
func (s *Server) newFace(store attend.ScopeStore) (*mcpface.Face, error) {
	c := mcpface.Config{
		Feed: s.feed, Engine: s.engine, Version: s.cfg.Version, Logger: s.cfg.Logger,
		HTTP: mcpevents.HandlerConfig{CrossOrigin: s.guard.cross, AnyHost: true, WriteTimeout: s.cfg.WriteTimeout},
	}
	if s.cfg.Named != nil {
		c.Store, c.Named = store, s.cfg.Named
	}
	return mcpface.New(c)
}

// Handler serves all routes. It may be mounted below a path with
// [http.StripPrefix]. Middleware around it has to let streams be flushed.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Run delivers to webhooks until ctx ends; without them it only waits. Several
// servers on one store share that. [Server.Serve] does it by itself; an app with
// an HTTP server of its own runs it beside the engine.
func (s *Server) Run(ctx context.Context) error { return s.face.Run(ctx) }

// Drain makes readiness say that the server goes away, refuses requests from now
// on, ends streams and waits with that reason, and returns nil when nothing is
// under way any more. When ctx ends before, the error is [ErrDrain] and says what
// still is. [Server.Serve] does it by itself; an app with an HTTP server of its
// own calls Drain in front of that one's Shutdown. There is no way back.
func (s *Server) Drain(ctx context.Context) error {
	s.health.state.Store(stateDraining)
	s.gate.close()
	s.stopOnce.Do(func() { close(s.stopping) })
	// A stream that does not end is a request that is under way.
	_ = s.face.Shutdown(ctx)
	return s.gate.wait(ctx)
}

// closed reports whether somebody has to say who he is.
func (s *Server) closed() bool { return s.cfg.Tokens != nil || s.cfg.Principal != nil }
