package ingest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/ingest"
)

// kindOf makes an event's kind of its name: flush.x is a flush.
func kindOf(e attend.Event) attend.Kind {
	name, _, _ := strings.Cut(e.Name, ".")
	if k := attend.Kind(name); k.Valid() {
		return k
	}
	if name == "panic" {
		panic("a kind function that fails")
	}
	return attend.KindConsequence
}

func engineConfig() engine.Config {
	return engine.Config{
		Store: memory.New(), Kind: kindOf, Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
	}
}

// newEngine is an engine whose windows hold what comes.
func newEngine(t testing.TB, cfg engine.Config) *engine.Engine {
	t.Helper()
	cfg.Settle.MaxEvents, cfg.Settle.MaxWindowBytes = 1<<20, 1<<30
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newIngest(t testing.TB, c ingest.Config) *ingest.Ingest {
	t.Helper()
	if c.Engine == nil {
		c.Engine = newEngine(t, engineConfig())
	}
	in, err := ingest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// as makes a handler's requests somebody's.
func as(who *access.Principal, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
	})
}

// An answer is what a body got.
type answer struct {
	Accepted, Duplicates int
	RejectedMore         int
	Rejected             []struct {
		Line         int
		Scope, Error string
		Retry        bool
	}
	Detail string
	status int
	text   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.text) }

// post sends a body to a handler, without a network.
func post(t testing.TB, h http.Handler, body io.Reader, header ...string) answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/ingest", body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	as(access.Anyone(), h).ServeHTTP(w, r)
	return answered(t, w.Code, w.Body)
}

func answered(t testing.TB, status int, body io.Reader) answer {
	t.Helper()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: status, text: strings.TrimSpace(string(text))}
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("the answer %.200q of a %d is no JSON: %v", text, status, err)
	}
	return a
}

// held are the ids of the events that a scope's window holds, in order.
func held(t testing.TB, e *engine.Engine, scope attend.Scope) (ids []string) {
	t.Helper()
	w, err := e.Window(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range w.Events {
		ids = append(ids, v.ID)
	}
	return ids
}

func line(scope string, id any) string {
	return fmt.Sprintf(`{"scope":%q,"id":"%v","name":"log","data":{"n":1},"text":"a line"}`+"\n", scope, id)
}
