package mcpface

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

// M5, against a server that goes away and comes back: nothing is missed, nothing is
// told twice, and what may not be read is not there.
func TestM5DecisionsOverRestarts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	w := newWorld(t, nil)
	start := func(l net.Listener, f *Face) (stop func()) {
		h := f.Handler()
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(rw, r.WithContext(access.With(r.Context(), named("ann"))))
		})}}
		s.Start()
		return func() { _ = f.Close(); s.CloseClientConnections(); s.Close() }
	}
	stop := start(listener, w.face)
	sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
		c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		return mcpevents.Connect(ctx, c, &mcp.StreamableClientTransport{Endpoint: "http://" + address}, mcpevents.SessionConfig{})
	})
	t.Cleanup(func() { _ = sessions.Close() })
	var heard []string
	for step, err := range mcpsource.Decisions(t.Context(), sessions, "") {
		if err != nil {
			t.Fatal(err)
		}
		if step.Truncated {
			t.Errorf("truncated after %v", heard)
		}
		if step.Decision == nil && len(heard) == 0 {
			w.decide("dev", attend.RouteNote, "foreign")
			w.decide("ops", attend.RouteNote, "one")
		}
		if step.Decision == nil {
			continue
		}
		if step.Notice != attend.DefaultNotice(*step.Decision) {
			t.Errorf("the notice is %q", step.Notice)
		}
		if heard = append(heard, step.Decision.Window.Events[0].Text); len(heard) == 2 {
			break
		}
		stop()
		w.decide("ops", attend.RouteNote, "two")
		if listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		next, err := New(Config{Feed: decisions.NewFeed(w.store.Log(), quiet()), Engine: w.engine, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		stop = start(listener, next)
	}
	stop()
	if !slices.Equal(heard, []string{"one", "two"}) {
		t.Errorf("heard %v", heard)
	}
}
