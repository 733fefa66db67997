package attend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// recordRoutes has handlers that answer with their name.
func recordRoutes() attend.Routes {
	handler := func(name string) attend.SinkFunc {
		return func(ctx context.Context, d attend.Decision) error {
			return fmt.Errorf("%s heard %s", name, d.ID)
		}
	}
	return attend.Routes{
		Interrupt: handler("Interrupt"), Queue: handler("Queue"), Note: handler("Note"), Ask: handler("Ask"),
	}
}

func TestRoutesDeliver(t *testing.T) {
	routes := recordRoutes()
	for _, test := range []struct {
		route attend.Route
		want  string
	}{
		{attend.RouteInterrupt, "Interrupt heard 1"},
		{attend.RouteQueue, "Queue heard 1"},
		{attend.RouteNote, "Note heard 1"},
		{attend.RouteAsk, "Ask heard 1"},
	} {
		d := attend.Decision{ID: "1", Judgment: attend.Judgment{Route: test.route}}
		err := routes.Deliver(t.Context(), d)
		if err == nil || err.Error() != test.want {
			t.Errorf("Deliver of %q = %v, want %s", test.route, err, test.want)
		}
		if _, ok := errors.AsType[*attend.PermanentError](err); ok {
			t.Errorf("Deliver of %q is permanent, want the handler's own error", test.route)
		}
	}
	for _, route := range []attend.Route{attend.RouteSkip, attend.RouteWait, "", "other"} {
		err := routes.Deliver(t.Context(), attend.Decision{ID: "1", Judgment: attend.Judgment{Route: route}})
		if _, ok := errors.AsType[*attend.PermanentError](err); !ok || strings.Contains(err.Error(), "heard") {
			t.Errorf("Deliver of %q = %v, want a permanent error and no handler called", route, err)
		}
	}
}

func TestRoutesCheck(t *testing.T) {
	for _, test := range []struct {
		name string
		drop func(r *attend.Routes)
		want string
	}{
		{"all", func(r *attend.Routes) {}, ""},
		{"no Interrupt", func(r *attend.Routes) { r.Interrupt = nil }, "Sink.Routes.Interrupt"},
		{"no Queue", func(r *attend.Routes) { r.Queue = nil }, "Sink.Routes.Queue"},
		{"no Note", func(r *attend.Routes) { r.Note = nil }, "Sink.Routes.Note"},
		{"no Ask", func(r *attend.Routes) { r.Ask = nil }, "Sink.Routes.Ask"},
		{"none", func(r *attend.Routes) { *r = attend.Routes{} }, "Sink.Routes.Interrupt"},
	} {
		routes := recordRoutes()
		test.drop(&routes)
		want := "a handler"
		if test.want == "" {
			want = ""
		}
		checkInvalid(t, test.name, routes.Check(), test.want, want, "")
	}
}

func TestLogOnly(t *testing.T) {
	if err := attend.LogOnly.Deliver(t.Context(), attend.Decision{}); err != nil {
		t.Errorf("LogOnly.Deliver = %v, want nil", err)
	}
}
