package mcpface

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

// Handler serves MCP over Streamable HTTP, for revision 2026-07-28 and the older
// ones that the SDK speaks, on one path. Who asks is the principal in the request's
// context; see [access.With].
func (f *Face) Handler() http.Handler {
	c := f.c.HTTP
	c.Logger = nil // the SDK's own; what matters is logged here
	next := bound(f.events.Handler(f.mcp, c))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Mcp-Method") != "events/stream" {
			next.ServeHTTP(w, r)
			return
		}
		seat := f.c.Feed.Join("mcp")
		defer seat.Leave()
		next.ServeHTTP(&seated{w, seat}, r)
	})
}

// bound keeps a session of an older revision to whom it began with. The SDK does
// that for the users of its own bearer middleware, so this is one, behind the front
// that has found out who asks.
func bound(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		p := access.From(ctx)
		return &auth.TokenInfo{UserID: fmt.Sprintf("%q %q %v %v", p.Name, p.Scopes, p.Ingest, p.Read)}, nil
	}
	bearer := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer checked") // the real one goes no further
		bearer.ServeHTTP(w, r)
	})
}

// A seated response is that of a subscriber.
type seated struct {
	http.ResponseWriter
	seat *decisions.Seat
}

// Write writes, and notes that the subscriber was reached.
func (s *seated) Write(b []byte) (int, error) {
	n, err := s.ResponseWriter.Write(b)
	if err == nil {
		s.seat.Reached()
	}
	return n, err
}

// Unwrap returns the response below, for [http.ResponseController].
func (s *seated) Unwrap() http.ResponseWriter { return s.ResponseWriter }
