package decisions_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

func reader(prefixes ...attend.Prefix) *access.Principal {
	return &access.Principal{Name: "test", Scopes: prefixes, Read: true}
}

// as is a handler whose requests come from one principal.
func as(who *access.Principal, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
	})
}

func (r *rig) handler(who *access.Principal, c decisions.HandlerConfig) http.Handler {
	c.Logger = slog.New(slog.DiscardHandler)
	return as(who, r.feed().Handler(c))
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

type page struct {
	Decisions []struct {
		ID     attend.DecisionID
		Scope  attend.Scope
		Notice string
		Cursor string
	}
	Next            string
	Truncated, More bool
	Unreadable      []struct{ Cursor, Scope, ID string }
}

func decode(t *testing.T, w *httptest.ResponseRecorder) (p page) {
	t.Helper()
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return p
}

func TestPage(t *testing.T) {
	r := newRig(t, attend.Retain{})
	a := r.decide("ops/a", attend.RouteQueue, "<b> & \u2028")
	r.rows(attend.Row{Scope: "ops/a", ID: "bad", Type: attend.RowDecision, At: noon, Body: []byte("x")})
	b := r.decide("ops/b", attend.RouteNote, "two")
	foreign := r.decide("dev", attend.RouteNote, "three")
	h := r.handler(reader("ops"), decisions.HandlerConfig{})

	first := decode(t, get(h, "/v1/decisions?limit=2"))
	if len(first.Decisions) != 1 || first.Decisions[0].ID != a || first.Decisions[0].Scope != "ops/a" || first.Truncated || !first.More ||
		!strings.HasPrefix(first.Decisions[0].Notice, "<b> & \\u2028\n") || len(first.Unreadable) != 1 || first.Unreadable[0].ID != "bad" {
		t.Errorf("the first page: %+v", first)
	}
	second := decode(t, get(h, "/v1/decisions?after="+first.Next))
	if len(second.Decisions) != 1 || second.Decisions[0].ID != b || second.More || second.Next != r.newest().String() {
		t.Errorf("the second page: %+v", second)
	}
	if again := decode(t, get(h, "/v1/decisions?after="+second.Decisions[0].Cursor)); len(again.Decisions) != 0 {
		t.Errorf("behind the last decision: %+v", again)
	}
	for _, c := range []struct {
		query string
		want  []attend.DecisionID
	}{
		{"scope=ops%2Fb", []attend.DecisionID{b}},
		{"routes=note,interrupt", []attend.DecisionID{b}},
		{"routes=ask", nil},
		{"scope=dev", nil}, // it is there, and not for this reader
		{"scope=", []attend.DecisionID{a, b}},
	} {
		w := get(h, "/v1/decisions?"+c.query)
		p := decode(t, w)
		var got []attend.DecisionID
		for _, d := range p.Decisions {
			got = append(got, d.ID)
		}
		if strings.Join(list(got), " ") != strings.Join(list(c.want), " ") || strings.Contains(w.Body.String(), string(foreign)) {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
	w := get(h, "/v1/decisions?scope=dev")
	if got := w.Body.String(); got != `{"decisions":[],"next":"`+r.newest().String()+`","truncated":false,"more":false}` {
		t.Errorf("an empty page is %s", got)
	}
}

func list(ids []attend.DecisionID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

func TestPageIsTruncated(t *testing.T) {
	r := newRig(t, attend.Retain{})
	want := r.decide("a", attend.RouteQueue, "x")
	at := r.newest()
	for _, c := range []attend.LogCursor{{Epoch: at.Epoch, Position: 9}, {Epoch: "gone", Position: 1}} {
		p := decode(t, get(r.handler(reader(""), decisions.HandlerConfig{}), "/v1/decisions?after="+c.String()))
		if !p.Truncated || len(p.Decisions) != 1 || p.Decisions[0].ID != want {
			t.Errorf("after %v: %+v", c, p)
		}
	}
}

// A page goes through foreign rows until there is something for its reader.
func TestPageGoesOn(t *testing.T) {
	r := newRig(t, attend.Retain{})
	for range 3 * decisions.MaxLimit {
		r.decide("foreign", attend.RouteQueue, "x")
	}
	want := r.decide("a", attend.RouteQueue, "x")
	p := decode(t, get(r.handler(reader("a", "b"), decisions.HandlerConfig{}), "/v1/decisions"))
	if len(p.Decisions) != 1 || p.Decisions[0].ID != want {
		t.Errorf("page: %+v", p)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, attend.Retain{})
	h := r.handler(reader("ops"), decisions.HandlerConfig{})
	for _, c := range []struct {
		query  string
		status int
		says   string
	}{
		{"after=no+cursor", 400, "after: want a cursor"},
		{"after=AAAA%0A", 400, "after: want a cursor"},
		{"limit=0", 400, "limit: want a number from 1"},
		{"limit=many", 400, "limit: want a number from 1"},
		{"routes=skip", 400, "routes: want some of"},
		{"routes=note,", 400, "routes: want some of"},
		{"scope=a%00b", 400, "scope: want no control characters"},
		{"scope=%ff", 400, "scope: want valid UTF-8"},
		{"scope=" + strings.Repeat("x", 513), 400, "scope: want 1 to 512 bytes"},
		{"scopes=ops", 400, "query: want no parameters but"},
		{"limit=1&limit=2", 400, "limit: want it once"},
		{"after=%zz", 400, "query: want parameters in URL encoding"},
	} {
		for _, accept := range []string{"*/*", "text/event-stream"} {
			w := get(h, "/v1/decisions?"+c.query, "Accept", accept)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%.40s: %d %s", c.query, w.Code, w.Body)
			}
		}
	}
	if w := get(h, "/v1/decisions", "Accept", "text/event-stream", "Last-Event-ID", "?"); w.Code != 400 || !strings.Contains(w.Body.String(), "Last-Event-ID") {
		t.Errorf("a bad Last-Event-ID: %d %s", w.Code, w.Body)
	}
	for name, who := range map[string]*access.Principal{"only ingest": {Scopes: all, Ingest: true}, "nobody": {}} {
		if w := get(r.handler(who, decisions.HandlerConfig{}), "/v1/decisions"); w.Code != 403 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	post := httptest.NewRecorder()
	h.ServeHTTP(post, httptest.NewRequest("POST", "/v1/decisions", nil))
	if post.Code != 405 || post.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", post.Code, post.Header())
	}
	log := &spy{DecisionLog: r.log}
	down := errors.New("the password is hunter2")
	log.fails.Store(&down)
	r.log = log
	for _, accept := range []string{"*/*", "text/event-stream"} {
		w := get(r.handler(reader("ops"), decisions.HandlerConfig{}), "/v1/decisions", "Accept", accept)
		if w.Code != 503 || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("with a store that fails: %d %s", w.Code, w.Body)
		}
	}
}

func TestAccept(t *testing.T) {
	r := newRig(t, attend.Retain{})
	stopping := make(chan struct{})
	close(stopping)
	h := r.handler(reader(""), decisions.HandlerConfig{Stopping: stopping})
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"*/*":                                 "application/json",
		"application/json":                    "application/json",
		"text/event-stream":                   "text/event-stream",
		"Text/Event-Stream; q=0.5":            "text/event-stream",
		"text/html, text/event-stream;q=1":    "text/event-stream",
		"text/event-stream;q=0":               "application/json",
		"text/event-stream;q=0.0, text/plain": "application/json",
	} {
		if w := get(h, "/v1/decisions?"+url.Values{"limit": {"1"}}.Encode(), "Accept", accept); w.Code != 200 || w.Header().Get("Content-Type") != want {
			t.Errorf("Accept %q: %d %s, want %s", accept, w.Code, w.Header().Get("Content-Type"), want)
		}
	}
}
