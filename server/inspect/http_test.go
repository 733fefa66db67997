package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/inspect"
)

var reader = &access.Principal{Name: "test", Scopes: []attend.Prefix{"ops"}, Read: true}

// routes are the handlers in their places.
func routes(states inspect.States, log attend.DecisionLog, who *access.Principal) http.Handler {
	mux := http.NewServeMux()
	scopes, explain := inspect.ScopeHandler(states), inspect.ExplainHandler(states, log, inspect.Limits{})
	mux.Handle("/v1/scopes", scopes)
	mux.Handle("/v1/scopes/{scope}", scopes)
	mux.Handle("/v1/explain", explain)
	mux.Handle("/v1/explain/{scope}/{event}", explain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
	})
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

func TestScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, attendtest.Answer{Route: attend.RouteNote}, attendtest.Answer{Route: attend.RouteWait}, attendtest.Fail(), attendtest.Hang())
		defer w.end()
		w.sink.Fail(1000)
		w.push("a", "flush.asked")
		wait(second)
		w.push("b", "closing.build")
		wait(second)
		w.attach("feed", "c", "consequence.log")
		h := routes(w.engine, w.store.Log(), reader)
		ask := func(target string) (x inspect.Scope) {
			t.Helper()
			r := get(h, target)
			if r.Code != 200 || r.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("%s: %d %s", target, r.Code, r.Body)
			}
			if err := json.Unmarshal(r.Body.Bytes(), &x); err != nil {
				t.Fatal(err)
			}
			return x
		}
		x := ask("/v1/scopes/ops%2Fdb")
		if x.Scope != scope || len(x.Open.Events) != 1 || x.Open.Events[0].ID != "c" || x.Held == nil || x.Held.Events[0].ID != "b" || x.HeldUntil.IsZero() ||
			x.Slot != nil || x.Decisions != 1 || x.Letters != 0 || len(x.Recent) != 2 || x.Due.IsZero() || x.At.IsZero() {
			t.Errorf("while a window is held: %+v", x)
		}
		if want := []inspect.SourceCursor{{Source: "feed", Cursor: "1"}}; !reflect.DeepEqual(x.Cursors, want) {
			t.Errorf("cursors %v, want %v", x.Cursors, want)
		}
		wait(10 * second)
		x = ask("/v1/scopes?scope=ops/db")
		if x.Held != nil || x.Slot == nil || len(x.Slot.Window.Events) != 2 || x.Slot.Window.Reason != attend.ReasonHorizon ||
			x.Slot.Attempts != 1 || x.Slot.Message != "attendtest: scripted failure" || x.Slot.Leased.IsZero() {
			t.Errorf("while it is judged: %+v", x)
		}
		s, err := w.engine.State(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := inspect.Of(&s); !ok || !reflect.DeepEqual(x, want) {
			t.Errorf("over a wire %+v, want %+v", x, want)
		}
		body := get(h, "/v1/scopes?scope=ops/db").Body.String()
		for _, want := range []string{`{"scope":"ops/db","at":946684`, `"slot":{"window":{"reason":"horizon","events":[{"id":"b",`, `"lanes":{"decisions":1,"letters":0}`, `"cursors":[{"source":"feed","cursor":"1"}]`} {
			if !strings.Contains(body, want) {
				t.Errorf("the body has no %s: %s", want, body)
			}
		}
	})
}

func TestExplainOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, attendtest.Answer{Route: attend.RouteNote})
		defer w.end()
		const id = "run/7 é?%2F"
		w.push(id, "flush.asked")
		wait(second)
		h := routes(w.engine, w.store.Log(), reader)
		path := "/v1/explain/ops%2Fdb/" + url.PathEscape(id)
		query := "/v1/explain?" + url.Values{"scope": {"ops/db"}, "event": {id}}.Encode()
		want := w.explain(id)
		for _, target := range []string{path, query} {
			r := get(h, target)
			var x inspect.Explanation
			if err := json.Unmarshal(r.Body.Bytes(), &x); err != nil || r.Code != 200 || !reflect.DeepEqual(x, want) {
				t.Errorf("%s: %d %v %s", target, r.Code, err, r.Body)
			}
			if !strings.Contains(r.Body.String(), `"text":"delivered, at attempt 1"`) {
				t.Errorf("%s: no sentence in %s", target, r.Body)
			}
			r = get(h, target, "Accept", "text/plain")
			if r.Body.String() != want.Text(nil) || r.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s as text: %v %s", target, r.Header(), r.Body)
			}
			if r = get(h, target, "Accept", "text/plain, application/json"); r.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s as either: %v", target, r.Header())
			}
		}
	})
}

// Where nothing is found, the answer says how far that goes.
func TestExplainFindsNothing(t *testing.T) {
	b := newBook(t)
	b.skip("ops", 100, "e", 0)
	w := memory.New()
	e, err := engine.New(engine.Config{Store: w, Kind: kind, Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters})
	if err != nil {
		t.Fatal(err)
	}
	h := inspect.ExplainHandler(e, b, inspect.Limits{Rows: 10})
	r := httptest.NewRequest("GET", "/v1/explain?scope=ops&event=e3", nil)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r.WithContext(access.With(r.Context(), reader)))
	var body struct {
		Detail           string
		Limited, Trimmed bool
		Since            int64
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != 404 || !body.Limited || body.Trimmed || body.Since < 90_000 || !strings.Contains(body.Detail, "older ones were not looked at") {
		t.Errorf("%d %v %s", rec.Code, err, rec.Body)
	}
}

// V3: what is foreign answers as if it did not exist, to the byte.
func TestV3Foreign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, attendtest.Answer{Route: attend.RouteNote})
		defer w.end()
		w.push("e", "flush.asked")
		wait(second)
		stranger := routes(w.engine, w.store.Log(), &access.Principal{Scopes: []attend.Prefix{"dev"}, Read: true})
		for _, prune := range []bool{false, true} {
			if prune {
				if err := w.store.Log().Trim(t.Context(), attend.Retain{Age: 1}, time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct{ foreign, missing string }{
				{"/v1/scopes/ops%2Fdb", "/v1/scopes/dev"},
				{"/v1/scopes?scope=%24attend/x", "/v1/scopes/dev"},
				{"/v1/explain/ops%2Fdb/e", "/v1/explain/dev/e"},
			} {
				f, m := get(stranger, c.foreign), get(stranger, c.missing)
				if f.Code != 404 || m.Code != 404 || f.Body.String() != m.Body.String() || !reflect.DeepEqual(f.Header(), m.Header()) {
					t.Errorf("%s: %d %s, and %s: %d %s", c.foreign, f.Code, f.Body, c.missing, m.Code, m.Body)
				}
				if strings.HasPrefix(c.foreign, "/v1/explain") && !strings.Contains(f.Body.String(), map[bool]string{true: `"trimmed":true`, false: `"trimmed":false`}[prune]) {
					t.Errorf("after trimming (%v): %s", prune, f.Body)
				}
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{})
		defer w.end()
		h := routes(w.engine, w.store.Log(), reader)
		for target, says := range map[string]string{
			"/v1/scopes":                      "scope: want 1 to 512 bytes",
			"/v1/scopes/a%00b":                "scope: want no control characters",
			"/v1/scopes/a?scope=b":            "query: want no parameters beside the path",
			"/v1/scopes?scope=a&scope=b":      "scope: want it once",
			"/v1/scopes?sc=a":                 "query: want no parameters but scope",
			"/v1/scopes?scope=%zz":            "query: want parameters in URL encoding",
			"/v1/explain?scope=a":             "event: want 1 to 256 bytes",
			"/v1/explain?event=a":             "scope: want 1 to 512 bytes",
			"/v1/explain/a/%0A":               "event: want 1 to 256 bytes",
			"/v1/explain?scope=a&event=b&x=1": "query: want no parameters but scope and event",
			"/v1/explain/a/" + long:           "event: want 1 to 256 bytes",
		} {
			if r := get(h, target); r.Code != 400 || !strings.Contains(r.Body.String(), says) || r.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%.40s: %d %s, want %s", target, r.Code, r.Body, says)
			}
		}
		deaf := routes(w.engine, w.store.Log(), &access.Principal{Scopes: []attend.Prefix{""}, Ingest: true})
		for _, target := range []string{"/v1/scopes/ops", "/v1/explain/ops/e"} {
			if r := get(deaf, target); r.Code != 403 {
				t.Errorf("%s without the right to read: %d %s", target, r.Code, r.Body)
			}
			post := httptest.NewRecorder()
			h.ServeHTTP(post, httptest.NewRequest("POST", target, nil))
			if post.Code != 405 || post.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("POST %s: %d %v", target, post.Code, post.Header())
			}
			if r := get(routes(broken{}, w.store.Log(), reader), target); r.Code != 503 || strings.Contains(r.Body.String(), "hunter2") {
				t.Errorf("%s with a store that fails: %d %s", target, r.Code, r.Body)
			}
		}
	})
}

var long = strings.Repeat("x", 900)

type broken struct{}

func (broken) State(context.Context, attend.Scope) (machine.State, error) {
	return machine.State{}, errors.New("the password is hunter2")
}

// No more than a few explanations are made at a time, and one who gives up frees
// its place in the queue.
func TestExplainsWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowStates{open: make(chan struct{}), calls: make(chan bool, 10)}
		h := routes(slow, newBook(t), reader)
		done := make(chan int, 10)
		for range 6 {
			go func() { done <- get(h, "/v1/explain/ops/e").Code }()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/v1/explain/ops/e", nil))
			done <- w.Code
		}()
		synctest.Wait()
		if n := len(slow.calls); n != 4 {
			t.Errorf("%d are made at a time, want 4", n)
		}
		cancel()
		if code := <-done; code != 503 {
			t.Errorf("the one who gave up got %d", code)
		}
		close(slow.open)
		for range 6 {
			if code := <-done; code != 404 {
				t.Errorf("got %d, want 404", code)
			}
		}
	})
}

// slowStates answer when they are opened.
type slowStates struct {
	open  chan struct{}
	calls chan bool
}

func (s *slowStates) State(context.Context, attend.Scope) (machine.State, error) {
	s.calls <- true
	<-s.open
	return machine.State{}, nil
}
