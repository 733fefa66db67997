package mcpface

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

// A hook is the endpoint of a webhook, on loopback and with TLS.
type hook struct {
	t      testing.TB
	url    string
	roots  *x509.CertPool
	secret mcpevents.Secret

	mu         sync.Mutex
	challenges int
	texts      []string // of the decisions that came
	kinds      []string // of the envelopes, terminated with its reason
	ids        map[string]int
}

func newHook(t testing.TB) *hook {
	t.Helper()
	h := &hook{t: t, secret: mcpevents.NewSecret(), ids: make(map[string]int)}
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	h.url, h.roots = s.URL+"/hook", x509.NewCertPool()
	h.roots.AddCert(s.Certificate())
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Error(err)
	}
	if !mcpevents.Verify(r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), r.Header.Get("webhook-signature"), body, h.secret) {
		h.t.Error("a delivery's signature does not verify")
	}
	var v struct {
		Type, Challenge, EventID, Name string
		Data                           json.RawMessage
		Error                          struct{ Message string }
	}
	if err := json.Unmarshal(body, &v); err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch v.Type {
	case "verification":
		h.challenges++
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": v.Challenge})
	case "":
		d, _ := decisionOf(h.t, v.Data)
		h.texts = append(h.texts, d.Window.Events[0].Text)
		h.ids[v.EventID]++
		if v.Name != EventName {
			h.t.Errorf("a delivery is named %s", v.Name)
		}
	default:
		h.kinds = append(h.kinds, strings.TrimSpace(v.Type+" "+v.Error.Message))
	}
}

func (h *hook) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.texts)
}

func (h *hook) envelopes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.kinds)
}

// deliver configures a face that delivers to the hook.
func (h *hook) deliver(c *Config, store attend.ScopeStore) {
	c.Store, c.Named, c.Feed = store, named, decisions.NewFeed(store.Log(), quiet())
	c.Webhooks = mcpevents.WebhookConfig{
		AllowLoopback: true, TLS: &tls.Config{RootCAs: h.roots}, Scan: 10 * time.Millisecond, Backoff: 10 * time.Millisecond,
	}
}

// run runs the deliveries until the returned function is called.
func run(t testing.TB, f *Face) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// subscribe asks for deliveries, or with another method to end them.
func (h *hook) subscribe(c raw, method, arguments string) rpcAnswer {
	return c.call(method, fmt.Sprintf(`{"name":%q,"arguments":%s,"delivery":{"mode":"webhook","url":%q,"secret":%q}}`,
		EventName, arguments, h.url, h.secret.Reveal()))
}

func TestM2WebhooksDeliverAndOutliveTheProcess(t *testing.T) {
	h := newHook(t)
	store := memory.New()
	w := newWorld(t, func(c *Config) { h.deliver(c, store) })
	w.store = store
	url := w.serve()
	stop := run(t, w.face)
	ann := raw{t, url, "ann"}
	var made struct{ ID, RefreshBefore, Cursor string }
	h.subscribe(ann, "events/subscribe", `{"routes":["note"]}`).into(t, &made)
	if made.ID == "" || made.RefreshBefore == "" || made.Cursor == "" || h.challenges != 1 {
		t.Fatalf("events/subscribe = %+v after %d challenges", made, h.challenges)
	}
	w.decide("dev", attend.RouteNote, "foreign")
	w.decide("ops", attend.RouteQueue, "queued")
	w.decide("ops/db", attend.RouteNote, "one")
	until(t, "the first decision is delivered", func() bool { return len(h.heard()) == 1 })

	// Another process on the same store goes on, with what happened in between.
	stop()
	w.decide("ops", attend.RouteNote, "two")
	next := newWorld(t, func(c *Config) { h.deliver(c, store) })
	run(t, next.face)
	until(t, "the second decision is delivered", func() bool { return len(h.heard()) == 2 })
	if got := h.heard(); !slices.Equal(got, []string{"one", "two"}) || len(h.ids) != 2 {
		t.Errorf("delivered are %v, under the ids %v", got, h.ids)
	}
	var again struct{ ID string }
	ann.url = next.serve()
	h.subscribe(ann, "events/subscribe", `{"routes":["note"]}`).into(t, &again)
	if again.ID != made.ID || h.challenges != 1 {
		t.Errorf("a refresh at the other process = %s after %d challenges, want the same subscription", again.ID, h.challenges)
	}
	// Nobody else can end it, and its owner can.
	if a := h.subscribe(raw{t, url, "bob"}, "events/unsubscribe", `{"routes":["note"]}`); a.Error == nil || a.Error.Code != -32023 {
		t.Errorf("events/unsubscribe by another = %+v, want NotFound", a)
	}
	h.subscribe(ann, "events/unsubscribe", `{"routes":["note"]}`).into(t, &struct{}{})
	w.decide("ops", attend.RouteNote, "three")
	time.Sleep(100 * time.Millisecond)
	if got := h.heard(); len(got) != 2 {
		t.Errorf("delivered are %v", got)
	}
	for scope, err := range store.Due(t.Context(), time.Now().AddDate(1, 0, 0)) {
		if access.Reserved(string(scope)) {
			t.Errorf("the engine would work %q, %v", scope, err)
		}
	}
}

// The rights of a name are asked anew: what it may read becomes less, and then
// nothing.
func TestM2WebhooksKeepToTheRightsOfNow(t *testing.T) {
	h := newHook(t)
	store := memory.New()
	var carl atomic.Pointer[access.Principal]
	carl.Store(&access.Principal{Name: "carl", Scopes: []attend.Prefix{"ops", "dev"}, Read: true})
	w := newWorld(t, func(c *Config) {
		h.deliver(c, store)
		c.Named = func(string) *access.Principal { return carl.Load() }
		c.Events.Recheck = 20 * time.Millisecond
	})
	w.store = store
	handler := w.face.Handler()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(rw, r.WithContext(access.With(r.Context(), carl.Load())))
	}))
	t.Cleanup(s.Close)
	run(t, w.face)
	h.subscribe(raw{t, s.URL, ""}, "events/subscribe", `{}`).into(t, &struct{}{})
	w.decide("dev", attend.RouteNote, "one")
	until(t, "the first decision is delivered", func() bool { return len(h.heard()) == 1 })
	carl.Store(&access.Principal{Name: "carl", Scopes: []attend.Prefix{"ops"}, Read: true})
	w.decide("dev", attend.RouteNote, "not any more")
	w.decide("ops", attend.RouteNote, "two")
	until(t, "the second decision is delivered", func() bool { return len(h.heard()) == 2 })
	if got := h.heard(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("delivered are %v", got)
	}
	carl.Store(nil) // nobody knows the name
	until(t, "the subscription ends", func() bool { return len(h.envelopes()) == 1 })
	if got := h.envelopes(); !strings.HasPrefix(got[0], "terminated") {
		t.Errorf("the endpoint heard %v", got)
	}
	w.decide("ops", attend.RouteNote, "three")
	until(t, "its record is gone", func() bool {
		x, err := NewSubscriptions(store).loadIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for key := range x.entries {
			if r, err := store.Load(t.Context(), scopeOf(key)); err != nil || r.Version != 0 {
				return false
			}
		}
		return true
	})
	if got := h.heard(); len(got) != 2 {
		t.Errorf("delivered are %v", got)
	}
}

// Who has no name has no webhooks; addresses that are not public are refused unless
// that is set, when a delivery is made.
func TestM2WebhooksAreRefused(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, func(c *Config) {
		h.deliver(c, memory.New())
		c.Webhooks.AllowLoopback = false
		c.Webhooks.Resolver = loopback{}
	})
	url := w.serve()
	if a := h.subscribe(raw{t, url, "nobody"}, "events/subscribe", `{}`); a.Error == nil || a.Error.Code != -32024 {
		t.Errorf("events/subscribe by nobody = %+v, want Forbidden", a)
	}
	h.url = "https://hooks.example.com/x"
	for _, callback := range []string{h.url, "https://127.0.0.1/x", "https://[::1]/x", "https://169.254.169.254/latest"} {
		h.url = callback
		if a := h.subscribe(raw{t, url, "ann"}, "events/subscribe", `{}`); a.Error == nil || a.Error.Code != -32027 {
			t.Errorf("events/subscribe with a callback on loopback = %+v, want CallbackEndpointError", a)
		}
	}
	h.url = "http://hooks.example.com/x"
	if a := h.subscribe(raw{t, url, "ann"}, "events/subscribe", `{}`); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("events/subscribe with a callback without TLS = %+v, want InvalidParams", a)
	}
	if h.challenges != 0 {
		t.Errorf("%d challenges were sent", h.challenges)
	}
	none := newWorld(t, nil)
	if a := h.subscribe(raw{t, none.serve(), "ann"}, "events/subscribe", `{}`); a.Error == nil || a.Error.Code != -32601 {
		t.Errorf("events/subscribe where there are no webhooks = %+v, want MethodNotFound", a)
	}
}

type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// mcpevents' own receiver follows, and the client comes back where it stopped.
func TestM2TheClientFollowsByWebhook(t *testing.T) {
	var receiver atomic.Pointer[mcpevents.Receiver]
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { receiver.Load().ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	r, err := mcpevents.NewReceiver(mcpevents.ReceiverConfig{URL: s.URL + "/hook"})
	if err != nil {
		t.Fatal(err)
	}
	receiver.Store(r)
	h := &hook{roots: x509.NewCertPool()}
	h.roots.AddCert(s.Certificate())
	store := memory.New()
	w := newWorld(t, func(c *Config) { h.deliver(c, store) })
	w.store = store
	run(t, w.face)
	session := w.session(w.serve(), "ann", modern)
	var heard []string
	for b, err := range session.Follow(t.Context(), subscription("{}"), mcpevents.FollowConfig{Receiver: r}) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Cursor != "" && len(b.Events) == 0 {
			w.decide("ops", attend.RouteNote, "one")
		}
		for _, v := range b.Events {
			d, _ := decisionOf(t, v.Data)
			heard = append(heard, d.Window.Events[0].Text)
		}
		if len(heard) > 0 {
			break
		}
	}
	if !slices.Equal(heard, []string{"one"}) {
		t.Errorf("heard %v", heard)
	}
}

// A host of the texts before SEP-3415: a session that begins with initialize, the
// capability at the top level, the older numbers, and webhooks alone.
func TestM2WebhooksForOlderHosts(t *testing.T) {
	h := newHook(t)
	store := memory.New()
	w := newWorld(t, func(c *Config) {
		h.deliver(c, store)
		c.Events.Compat, c.Webhooks.NoEnvelopes = true, true
	})
	w.store = store
	url := w.serve()
	run(t, w.face)
	resp, body := rpc(t, url, "ann", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if !strings.Contains(body, `"events":{}`) {
		t.Errorf("initialize = %s, want capabilities.events", body)
	}
	session := resp.Header.Get("Mcp-Session-Id")
	rpc(t, url, "ann", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	ask := func(name string) string {
		_, body := rpc(t, url, "ann", session, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"events/subscribe","params":{"name":%q,"delivery":{"mode":"webhook","url":%q,"secret":%q}}}`,
			name, h.url, h.secret.Reveal()))
		return body
	}
	if body := ask("no.such"); !strings.Contains(body, "-32011") {
		t.Errorf("events/subscribe of nothing = %s, want -32011", body)
	}
	if body := ask(EventName); !strings.Contains(body, `"id":"sub_`) {
		t.Fatalf("events/subscribe = %s", body)
	}
	w.decide("dev", attend.RouteNote, "foreign")
	w.decide("ops", attend.RouteNote, "one")
	until(t, "the decision is delivered", func() bool { return len(h.heard()) == 1 })
	if got := h.heard(); got[0] != "one" {
		t.Errorf("delivered are %v", got)
	}
}
