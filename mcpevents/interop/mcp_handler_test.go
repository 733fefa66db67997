package interop_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A bearer adds a token to each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// An endpoint takes deliveries that one secret signed.
type endpoint struct {
	secret mcpevents.Secret

	mu    sync.Mutex
	taken []string // the bodies
	about []string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h := r.Header
	if !mcpevents.Verify(h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"), body, e.secret) {
		http.Error(w, "signature", http.StatusUnauthorized)
		return
	}
	var v struct{ Type, Challenge string }
	if json.Unmarshal(body, &v) == nil && v.Type == "verification" {
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": v.Challenge})
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken = append(e.taken, string(body))
	e.about = append(e.about, h.Get("X-MCP-Subscription-Id"))
}

// newMCPHandler starts a server of mcp-handler that trusts the front's
// certificate, and a session of ours at it.
func newMCPHandler(t *testing.T, front *httptest.Server, revision string) (*script, *mcpevents.Session) {
	t.Helper()
	cert := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := runScript(t, []string{"NODE_EXTRA_CA_CERTS=" + cert}, "mcp_handler.mjs")
	var up struct{ URL string }
	s.ready(&up)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	session, err := mcpevents.Connect(ctx, client, &mcp.StreamableClientTransport{
		Endpoint: up.URL, HTTPClient: &http.Client{Transport: bearer{token}}, MaxRetries: -1,
	}, mcpevents.SessionConfig{ProtocolVersion: revision, Compat: true})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if v := session.MCP().InitializeResult().ProtocolVersion; v != revision || !session.Offered() {
		t.Fatalf("revision = %q, Offered = %v, want %s and the extension", v, session.Offered(), revision)
	}
	return s, session
}

// Our client lists, subscribes, renews and unsubscribes at a server of
// mcp-handler, which knows the draft of before SEP-3415, and takes what its user
// delivers.
func TestMCPHandler(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			end := &endpoint{secret: mcpevents.NewSecret()}
			front := httptest.NewTLSServer(end)
			t.Cleanup(front.Close)
			s, session := newMCPHandler(t, front, revision)

			var have []string
			for d, err := range session.List(ctx) {
				if err != nil {
					t.Fatalf("List: %v", err)
				}
				if !slices.Equal(d.Delivery, []mcpevents.Mode{mcpevents.Webhook}) || len(d.Input) == 0 || len(d.Payload) == 0 {
					t.Errorf("List: %+v, want webhook and two schemas", d)
				}
				have = append(have, d.Name)
			}
			if !slices.Equal(have, []string{"build.finished", "build.started"}) {
				t.Errorf("List = %v, want both types", have)
			}

			sub := mcpevents.Subscription{Name: "build.finished", Arguments: json.RawMessage(`{"repo":"acme/api"}`)}
			target := mcpevents.WebhookTarget{URL: front.URL + "/h/7", Secret: end.secret, TTL: time.Hour}
			g, err := session.Subscribe(ctx, sub, target)
			if err != nil {
				t.Fatalf("Subscribe: %v", err)
			}
			if left := time.Until(g.Refresh); g.ID == "" || g.Cursor != "w-0" || g.Truncated || g.Status != nil || left > time.Hour || left < 55*time.Minute {
				t.Errorf("Subscribe = %+v, want an id, w-0, and about an hour", g)
			}
			for _, err := range session.Follow(ctx, sub, mcpevents.FollowConfig{}) {
				if !errors.Is(err, mcpevents.ErrNoMode) {
					t.Errorf("Follow without a receiver = %v, want ErrNoMode", err)
				}
			}

			target.Cursor = "w-17"
			again, err := session.Subscribe(ctx, sub, target)
			if err != nil {
				t.Fatalf("Subscribe again: %v", err)
			}
			if again.ID != g.ID || again.Cursor != "w-17" || again.Status == nil || !again.Status.Active || again.Status.LastAt.IsZero() {
				t.Errorf("Subscribe again = %+v, want %s at w-17 with its status", again, g.ID)
			}

			var answer struct{ Status int }
			s.do("deliver", map[string]any{"to": g.ID, "name": "b-1", "body": event("b-1", "w-18")}, &answer)
			if answer.Status != http.StatusOK || len(end.taken) != 1 || end.about[0] != g.ID {
				t.Errorf("a delivery was answered with %d and taken as %v, want 200 and one about %s", answer.Status, end.taken, g.ID)
			}
			s.do("deliver", map[string]any{"to": g.ID, "name": "b-2", "body": event("b-2", "w-19"), "forged": mcpevents.NewSecret().Reveal()}, &answer)
			if answer.Status != http.StatusUnauthorized {
				t.Errorf("a forged delivery was answered with %d, want 401", answer.Status)
			}

			isRefusedThere(ctx, t, session, target)

			if err := session.Unsubscribe(ctx, sub, target.URL); err != nil {
				t.Errorf("Unsubscribe: %v", err)
			}
			if err := session.Unsubscribe(ctx, sub, target.URL); err != nil {
				t.Errorf("Unsubscribe of what is ended = %v, want nil", err)
			}
			var kept struct{ IDs []string }
			if s.do("kept", nil, &kept); len(kept.IDs) != 0 {
				t.Errorf("the server keeps %v, want nothing", kept.IDs)
			}
		})
	}
}

// isRefusedThere knows the errors by the numbers of before SEP-3415.
func isRefusedThere(ctx context.Context, t *testing.T, session *mcpevents.Session, target mcpevents.WebhookTarget) {
	t.Helper()
	plain := target
	plain.URL = "http://127.0.0.1/hook"
	for name, r := range map[string]struct {
		sub    mcpevents.Subscription
		target mcpevents.WebhookTarget
		want   error
	}{
		"unknown type":    {mcpevents.Subscription{Name: "nobody.knows"}, target, mcpevents.ErrNotFound},
		"arguments":       {mcpevents.Subscription{Name: "build.finished", Arguments: json.RawMessage(`{"repo":7}`)}, target, mcpevents.ErrInvalidParams},
		"forbidden":       {mcpevents.Subscription{Name: "build.finished", Arguments: json.RawMessage(`{"repo":"secret"}`)}, target, mcpevents.ErrForbidden},
		"no https":        {mcpevents.Subscription{Name: "build.finished"}, plain, mcpevents.ErrInvalidParams},
		"challenge fails": {mcpevents.Subscription{Name: "build.started"}, mcpevents.WebhookTarget{URL: target.URL, Secret: mcpevents.NewSecret()}, mcpevents.ErrCallbackEndpoint},
	} {
		if _, err := session.Subscribe(ctx, r.sub, r.target); !errors.Is(err, r.want) {
			t.Errorf("Subscribe, %s = %v, want %v", name, err, r.want)
		}
	}
}

// event is the body of a delivery.
func event(id, cursor string) map[string]any {
	return map[string]any{
		"eventId": id, "name": "build.finished", "timestamp": "2026-11-03T09:15:02Z",
		"data": map[string]any{"n": 1, "repo": "acme/api"}, "cursor": cursor,
	}
}
