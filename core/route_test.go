package attend_test

import (
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestAllRoutes(t *testing.T) {
	want := []struct {
		route     attend.Route
		wire      string
		delivered bool
	}{
		{attend.RouteInterrupt, "interrupt", true},
		{attend.RouteQueue, "queue", true},
		{attend.RouteNote, "note", true},
		{attend.RouteAsk, "ask", true},
		{attend.RouteSkip, "skip", false},
		{attend.RouteWait, "wait", false},
	}
	routes := attend.AllRoutes()
	if len(routes) != len(want) {
		t.Fatalf("AllRoutes() = %q, want six", routes)
	}
	criteria := attend.DefaultCriteria()
	if len(criteria) != len(want) {
		t.Errorf("DefaultCriteria() has %d routes, want six", len(criteria))
	}
	for i, w := range want {
		if routes[i] != w.route || string(w.route) != w.wire {
			t.Errorf("AllRoutes()[%d] = %q, want %q", i, routes[i], w.wire)
		}
		if !w.route.Valid() {
			t.Errorf("Route(%q).Valid() = false, want true", w.route)
		}
		if w.route.Delivered() != w.delivered {
			t.Errorf("Route(%q).Delivered() = %v, want %v", w.route, w.route.Delivered(), w.delivered)
		}
		if criteria[w.route] == "" {
			t.Errorf("DefaultCriteria()[%q] is empty", w.route)
		}
	}
	for _, r := range []attend.Route{"", "Interrupt", "ignore"} {
		if r.Valid() || r.Delivered() {
			t.Errorf("Route(%q): Valid %v, Delivered %v, want false", r, r.Valid(), r.Delivered())
		}
	}
	routes[0], criteria[attend.RouteAsk] = "changed", "changed"
	if got := attend.AllRoutes()[0]; got != attend.RouteInterrupt {
		t.Errorf("AllRoutes()[0] became %q with a caller's slice, want a slice of its own", got)
	}
	if attend.DefaultCriteria()[attend.RouteAsk] == "changed" {
		t.Error("DefaultCriteria() changed with a caller's map, want a map of its own")
	}
}
