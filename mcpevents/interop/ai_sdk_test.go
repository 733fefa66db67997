package interop_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
)

// A front is an https address on this machine, whose handler comes later.
type front struct {
	*httptest.Server
	to atomic.Pointer[http.Handler]
}

func newFront(t testing.TB) *front {
	f := new(front)
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := f.to.Load(); h != nil {
			(*h).ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// lead passes everything on to a plain address.
func (f *front) lead(t testing.TB, plain string) {
	t.Helper()
	to, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	f.serve(httputil.NewSingleHostReverseProxy(to))
}

func (f *front) serve(h http.Handler) { f.to.Store(&h) }

// roots has the certificate of a test's server.
func roots(front *httptest.Server) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(front.Certificate())
	return &tls.Config{RootCAs: pool}
}

// An aiClient is a client of @ai-sdk/mcp at a server of ours, which delivers to
// its receiver.
type aiClient struct {
	*script
	server   *server
	callback string
}

// newAIClient makes both; id is what the header webhook-id holds.
func newAIClient(t *testing.T, mode string, id mcpevents.WebhookID) *aiClient {
	t.Helper()
	front := newFront(t)
	s, address := serveHTTP(t, mcpevents.ServerConfig{
		Compat: true,
		Webhooks: &mcpevents.WebhookConfig{
			Store: mcpevents.NewMemorySubscriptions(), AllowLoopback: true, TLS: roots(front.Server),
			Backoff: 20 * time.Millisecond, MaxBody: 4 << 10, PerSubscription: 1, ID: id,
		},
	})
	c := &aiClient{runScript(t, nil, "ai_sdk.mjs", address, token, mode), s, front.URL + "/hook"}
	var ready struct {
		Receiver, Revision string
		Server             struct{ Name string }
	}
	c.ready(&ready)
	front.lead(t, ready.Receiver)
	want := map[string]string{"discover": "2026-07-28", "initialize": "2025-11-25"}[mode]
	if ready.Revision != want || ready.Server.Name != "interop" {
		t.Errorf("ready = %+v, want revision %s of interop", ready, want)
	}
	runs(t, s.events)
	return c
}

// runs delivers until the test ends.
func runs(t testing.TB, s *mcpevents.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// @ai-sdk/mcp subscribes with webhooks, and its receiver takes what is delivered:
// the challenge, events once refused, gaps, and the end.
func TestAISDK(t *testing.T) {
	for _, mode := range []string{"discover", "initialize"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newAIClient(t, mode, mcpevents.WebhookIDEvent)
			c.lists(t)
			id := c.subscribes(t)
			c.receives(t, id)
			c.hearsOfAGap(t)
			c.renews(t, id)
			c.unsubscribes(t, id)
			c.hearsOfTheEnd(t)
		})
	}
}

func (c *aiClient) lists(t *testing.T) {
	t.Helper()
	have := map[string]string{}
	for cursor := ""; ; {
		var page struct {
			Events []struct {
				Name     string
				Delivery []string
			}
			NextCursor string
		}
		args := map[string]any{}
		if cursor != "" {
			args["cursor"] = cursor
		}
		c.do("list", args, &page)
		for _, e := range page.Events {
			have[e.Name] = strings.Join(e.Delivery, " ")
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if !strings.Contains(have["build.finished"], "webhook") {
		t.Errorf("list = %v, want build.finished by webhook", have)
	}
}

// A grant is the answer to a subscribe.
type grant struct {
	ID            string
	RefreshBefore time.Time
	Cursor        string
	Truncated     bool
}

func (c *aiClient) subscribe(repo string) grant {
	c.t.Helper()
	var g grant
	c.do("subscribe", map[string]any{
		"name": "build.finished", "arguments": map[string]any{"repo": repo}, "url": c.callback, "ttlMs": 3_600_000,
	}, &g)
	if g.ID == "" || g.Cursor == "" || g.Truncated || time.Until(g.RefreshBefore) > time.Hour || time.Until(g.RefreshBefore) < 55*time.Minute {
		c.t.Errorf("subscribe = %+v, want an id, a cursor, and about an hour", g)
	}
	return g
}

func (c *aiClient) subscribes(t *testing.T) string {
	t.Helper()
	g := c.subscribe("acme/api")
	var a struct {
		Status    int
		ID, About string
	}
	l := c.await("answer to the challenge", func(l line) bool { return l.Answered != nil })
	decode(t, l.Answered, &a)
	if a.Status != 200 || !strings.HasPrefix(a.ID, "msg_verification_") || a.About != g.ID {
		t.Errorf("the challenge was answered so: %+v, want status 200 for %s", a, g.ID)
	}
	l = c.refused("subscribe", map[string]any{"name": "build.finished", "arguments": map[string]any{"repo": 7}, "url": c.callback}, -32602)
	if l.Error.Message == "" {
		t.Errorf("a refusal has no message: %s", l.text)
	}
	return g.ID
}

// event waits for a build.
func (c *aiClient) event(id string) line {
	c.t.Helper()
	return c.await("event "+id, func(l line) bool {
		var e struct{ EventID string }
		return l.Event != nil && json.Unmarshal(l.Event, &e) == nil && e.EventID == id
	})
}

// receives gets events, also those that it refused at first.
func (c *aiClient) receives(t *testing.T, about string) {
	t.Helper()
	c.do("refuse", map[string]any{"n": 2}, nil)
	if err := c.server.finish("acme/api", 1, 5); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 5; n++ {
		c.event(idOf("acme/api", n))
	}
	refused := 0
	for _, l := range c.said() {
		var a struct {
			Status    int
			ID, About string
		}
		if l.Answered == nil {
			continue
		}
		decode(t, l.Answered, &a)
		if a.About != about {
			t.Errorf("a delivery is about %q, want %q", a.About, about)
		}
		switch {
		case a.Status == 503:
			refused++
		case a.Status/100 != 2:
			t.Errorf("the receiver answered a delivery with %d, want 204", a.Status)
		}
	}
	if refused != 2 {
		t.Errorf("the receiver refused %d deliveries, want 2", refused)
	}
}

// hearsOfAGap, where an event is too large to be sent.
func (c *aiClient) hearsOfAGap(t *testing.T) {
	t.Helper()
	large := json.RawMessage(fmt.Sprintf(`{"n":6,"repo":"acme/api","text":%q}`, strings.Repeat("x", 8<<10)))
	if err := c.server.build.Append(mcpevents.Event{ID: "large", Data: large}); err != nil {
		t.Fatal(err)
	}
	if err := c.server.finish("acme/api", 7, 7); err != nil {
		t.Fatal(err)
	}
	l := c.await("gap", func(l line) bool { return l.Gap != nil })
	var gap struct{ Type, Cursor string }
	decode(t, l.Gap, &gap)
	if gap.Type != "gap" || gap.Cursor == "" {
		t.Errorf("gap = %s, want one with a cursor", l.Gap)
	}
	c.event(idOf("acme/api", 7))
}

// renews keeps the subscription, and its place.
func (c *aiClient) renews(t *testing.T, id string) {
	t.Helper()
	var g grant
	c.do("refresh", map[string]any{"of": id}, &g)
	if g.ID != id || g.Cursor == "" || time.Until(g.RefreshBefore) < 55*time.Minute {
		t.Errorf("refresh = %+v, want %s for about an hour", g, id)
	}
	if err := c.server.finish("acme/api", 8, 8); err != nil {
		t.Fatal(err)
	}
	c.event(idOf("acme/api", 8))
}

func (c *aiClient) unsubscribes(t *testing.T, id string) {
	t.Helper()
	c.do("unsubscribe", map[string]any{"of": id}, nil)
	other := c.subscribe("acme/web")
	if other.ID == id {
		t.Errorf("another subscription has the same id %s", id)
	}
	if err := c.server.finish("acme/api", 9, 9); err != nil {
		t.Fatal(err)
	}
	if err := c.server.finish("acme/web", 1, 1); err != nil {
		t.Fatal(err)
	}
	c.event(idOf("acme/web", 1))
	if slices.ContainsFunc(c.said(), func(l line) bool { return strings.Contains(string(l.Event), idOf("acme/api", 9)) }) {
		t.Error("an event came for a subscription that had been ended")
	}
}

// hearsOfTheEnd, when the type is taken back.
func (c *aiClient) hearsOfTheEnd(t *testing.T) {
	t.Helper()
	if !c.server.events.Withdraw("build.finished") {
		t.Fatal("Withdraw = false, want true")
	}
	l := c.await("termination", func(l line) bool { return l.Termination != nil })
	if !strings.Contains(string(l.Termination), `"kind":"event"`) {
		t.Errorf("termination = %s, want NotFound of the type", l.Termination)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var kept struct{ Subscriptions []struct{ ID string } }
		c.do("kept", nil, &kept)
		if !slices.ContainsFunc(kept.Subscriptions, func(s struct{ ID string }) bool { return s.ID != "" }) {
			return // but for the one that was refused
		}
		if time.Now().After(end) {
			t.Fatalf("the client keeps %+v, want none that the server granted", kept.Subscriptions)
		}
	}
}

// Without the switch for older peers the package does not see the extension: it
// looks for the capability where the draft had it before.
func TestAISDKNeedsCompat(t *testing.T) {
	t.Parallel()
	_, address := serveHTTP(t, mcpevents.ServerConfig{})
	c := runScript(t, nil, "ai_sdk.mjs", address, token, "discover")
	c.ready(nil)
	l := c.answer(c.begin("list", map[string]any{}))
	if l.Error == nil || !strings.Contains(l.Error.Message, "does not support events") {
		t.Errorf("list = %s, want that the server has no events", l.text)
	}
}

// The package takes a delivery only where webhook-id is the event's id.
func TestAISDKWantsTheEventsID(t *testing.T) {
	t.Parallel()
	c := newAIClient(t, "discover", mcpevents.WebhookIDMessage)
	c.subscribe("acme/api")
	if err := c.server.finish("acme/api", 1, 1); err != nil {
		t.Fatal(err)
	}
	c.await("refusal", func(l line) bool {
		var a struct {
			Status int
			ID     string
		}
		return l.Answered != nil && json.Unmarshal(l.Answered, &a) == nil && a.Status == 400 && a.ID != idOf("acme/api", 1)
	})
	if slices.ContainsFunc(c.said(), func(l line) bool { return l.Event != nil }) {
		t.Error("the package took an event under an id of the delivery's own")
	}
}
