package mcpevents

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/attend-go/attend/mcpevents/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a [HandlerConfig] that says nothing else means.
const (
	defaultSessionTimeout = 30 * time.Minute
	defaultWriteTimeout   = 30 * time.Second
)

// Transport wraps a transport with one peer at its other end, stdio or in
// memory, for the SDK's server that was registered. It serves events/stream and
// the part of subscriptions/listen that is the extension's, and after the end of
// input it waits for the answers to what was read, 5 s at most. Streams share the
// pipe: a peer that stops reading stops all of it.
func (s *Server) Transport(t mcp.Transport) mcp.Transport { return wire.Pipe(t, s.routes()) }

// routes are what is not left to the SDK.
func (s *Server) routes() *wire.Routes {
	r := &wire.Routes{Old: s.config.Older, Closing: s.closing, Stream: func(ctx context.Context, c *wire.Call) (json.RawMessage, error) {
		s.mu.Lock()
		registered := s.registered
		s.mu.Unlock()
		if !registered {
			return nil, s.answer(ctx, &Error{Kind: MethodNotFound})
		}
		return s.stream(ctx, c)
	}}
	if !s.config.NoListChanged {
		r.Listen = s.watch
	}
	return r
}

// HandlerConfig configures a handler of Streamable HTTP. The zero one is usable.
type HandlerConfig struct {
	// CrossOrigin refuses requests that a page of another origin made in a
	// browser; nil is a new one, which trusts no other origin.
	CrossOrigin *http.CrossOriginProtection
	// AnyHost takes any Host in requests that come in on a loopback address, as
	// a proxy on this machine may send. Without it only loopback names are
	// taken, which keeps out pages whose name was made to point here.
	AnyHost bool
	// MaxBody is the most bytes of a request; zero is the SDK's 4 MiB.
	MaxBody int64
	// WriteTimeout is how long one write may take to make its way; a reader that
	// stops for longer is cut off. Zero is 30 s. It replaces the WriteTimeout of
	// the http.Server, which would cut streams.
	WriteTimeout time.Duration
	// SessionTimeout is how long a session of an older revision stays without a
	// request; zero is 30 minutes.
	SessionTimeout time.Duration
	// Logger is the SDK's; nil logs nothing of it.
	Logger *slog.Logger
}

// Handler serves m, which was registered, over Streamable HTTP: without sessions
// for protocol 2026-07-28, with them for older revisions, on one path. It serves
// events/stream and the extension's part of subscriptions/listen itself. Put
// authentication in front of it: auth.RequireBearerToken of the SDK. Listen on a
// loopback address unless others are meant to reach it. Middleware whose
// ResponseWriter has neither Flush nor Unwrap, as http.TimeoutHandler's, makes
// streams impossible: they are answered with status 500, and the log tells why.
// One with Flush and without Unwrap leaves [HandlerConfig].WriteTimeout without
// effect.
func (s *Server) Handler(m *mcp.Server, c HandlerConfig) http.Handler {
	if c.CrossOrigin == nil {
		c.CrossOrigin = http.NewCrossOriginProtection()
	}
	if c.MaxBody <= 0 {
		c.MaxBody = mcp.DefaultMaxRequestBodyBytes
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = defaultWriteTimeout
	}
	if c.SessionTimeout <= 0 {
		c.SessionTimeout = defaultSessionTimeout
	}
	part := func(o mcp.StreamableHTTPOptions) http.Handler {
		o.Logger, o.MaxRequestBodyBytes = c.Logger, c.MaxBody
		o.DisableLocalhostProtection = true // the front has checked, or was told not to
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, &o)
	}
	return c.CrossOrigin.Handler(&wire.HTTP{
		Routes:  s.routes(),
		Modern:  part(mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}),
		Plain:   part(mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true, JSONResponse: true}),
		Old:     part(mcp.StreamableHTTPOptions{SessionTimeout: c.SessionTimeout}),
		MaxBody: c.MaxBody, Timeout: c.WriteTimeout, AnyHost: c.AnyHost,
		Stuck: func() {
			s.log.Error("mcpevents: Handler: a ResponseWriter that cannot be flushed carries no streams; see to the middleware around it")
		},
	})
}
