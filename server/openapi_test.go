package server_test

import (
	"encoding/json"
	"mime"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// A document is what openapi.json says, as far as the tests look at it.
type document struct {
	whole map[string]any
	known map[string]*jsonschema.Resolved // validators, by their schema
	Paths map[string]map[string]operation
}

type operation struct {
	Security  *[]any
	Responses map[string]response
}

type response struct {
	Ref     string `json:"$ref"`
	Headers map[string]any
	Content map[string]struct{ Schema json.RawMessage }
}

func readDocument(t testing.TB) *document {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	d := &document{known: make(map[string]*jsonschema.Resolved)}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	if err := json.Unmarshal(text, &d.whole); err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	return d
}

// at follows a reference within the document.
func (d *document) at(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	var at any = d.whole
	for name := range strings.SplitSeq(pointer, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}

// Each route is in the document, and the document has no other.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{Metrics: server.NewMetrics("")})
	d := readDocument(t)
	routes := make(map[string][]string) // methods by path
	for _, p := range w.server.Patterns() {
		method, path, ok := strings.Cut(p, " ")
		if !ok {
			method, path = "", p
		}
		routes[path] = append(routes[path], strings.ToLower(method))
	}
	for path, methods := range routes {
		for _, m := range methods {
			if m == "" && len(d.Paths[path]) > 0 {
				continue // its handler tells methods apart
			}
			if _, ok := d.Paths[path][m]; !ok {
				t.Errorf("the document lacks %s %s", m, path)
			}
		}
	}
	for path, item := range d.Paths {
		for m, op := range item {
			if got := routes[path]; !slices.Contains(got, m) && !slices.Contains(got, "") {
				t.Errorf("the document has %s %s, which is no route", m, path)
			}
			// V8: what says that it is open, is, and nothing else.
			open := op.Security != nil && len(*op.Security) == 0
			if health := path == "/healthz" || path == "/readyz"; open != health {
				t.Errorf("the document says that %s %s is open: %v", m, path, open)
			}
		}
	}
}

func TestOpenAPIReferencesResolve(t *testing.T) {
	d := readDocument(t)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && d.at(ref) == nil {
				t.Errorf("%s leads nowhere", ref)
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(d.whole)
}

// validator returns a check by a schema of the document, which is stricter than
// the document: what it does not name is an error, so that nothing is
// answered that is not documented.
func (d *document) validator(t testing.TB, schema json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	if r, ok := d.known[string(schema)]; ok {
		return r
	}
	text, err := json.Marshal(d.at("#/components/schemas"))
	if err != nil {
		t.Fatal(err)
	}
	var defs map[string]any
	if err := json.Unmarshal(text, &defs); err != nil {
		t.Fatal(err)
	}
	for name, def := range defs {
		if name != "Problem" { // others are made of it
			tighten(def)
		}
	}
	var top map[string]any
	if err := json.Unmarshal(schema, &top); err != nil {
		t.Fatal(err)
	}
	top["$defs"] = defs
	if _, named := top["$ref"]; named {
		top["unevaluatedProperties"] = false
	}
	if text, err = json.Marshal(top); err != nil {
		t.Fatal(err)
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")), s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("schema %s: %v", schema, err)
	}
	d.known[string(schema)] = r
	return r
}

func tighten(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"]; ok {
			v["unevaluatedProperties"] = false
		}
		for _, x := range v {
			tighten(x)
		}
	case []any:
		for _, x := range v {
			tighten(x)
		}
	}
}

// check compares an answer with what the document says about it.
func (d *document) check(t testing.TB, method, path string, got reply) {
	t.Helper()
	op, ok := d.Paths[path][strings.ToLower(method)]
	if !ok {
		t.Fatalf("the document lacks %s %s", method, path)
	}
	r, ok := op.Responses[strconv.Itoa(got.status)]
	if !ok {
		t.Errorf("%s %s: the document does not know a %d: %s", method, path, got.status, got.body)
		return
	}
	if r.Ref != "" {
		text, err := json.Marshal(d.at(r.Ref))
		if err != nil {
			t.Fatal(err)
		}
		r = response{}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
	}
	if _, told := r.Headers["Retry-After"]; got.header.Get("Retry-After") != "" && !told {
		t.Errorf("%s %s: the document does not know Retry-After of a %d", method, path, got.status)
	}
	media, _, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%s %s: Content-Type of a %d: %v", method, path, got.status, err)
	}
	content, ok := r.Content[media]
	if !ok {
		t.Errorf("%s %s: the document does not know %s of a %d", method, path, media, got.status)
		return
	}
	if media != "application/json" && media != "application/problem+json" {
		return
	}
	var v any
	if err := json.Unmarshal([]byte(got.body), &v); err != nil {
		t.Fatalf("%s %s: a %d with %q: %v", method, path, got.status, got.body, err)
	}
	if err := d.validator(t, content.Schema).Validate(v); err != nil {
		t.Errorf("%s %s: a %d is not as the document says: %v\n%s", method, path, got.status, err, got.body)
	}
}

// Answers are as the document says.
func TestOpenAPIAnswers(t *testing.T) {
	d := readDocument(t)
	store := &sick{ScopeStore: memory.New()}
	judge := &attendtest.Judge{Script: []attendtest.Answer{
		{Route: attend.RouteInterrupt, Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.75, attend.RouteNote: 0.25}, Predicates: map[string]float64{"urgent": 1}, Confidence: 0.5},
		{Route: attend.RouteWait}, attendtest.FailPermanently(),
	}}
	w := newWorld(t, engine.Config{Store: store, Judge: judge}, server.Config{Tokens: tokens(t), Metrics: server.NewMetrics("")})
	base, stop := w.serving(t, server.Listen{})
	ask := func(method, path, target, token, body, media string) reply {
		t.Helper()
		got := send(t, method, base+target, token, body, media)
		d.check(t, method, path, got)
		return got
	}
	push := func(scope attend.Scope, events ...attend.Event) {
		t.Helper()
		if _, err := w.engine.Push(t.Context(), scope, events...); err != nil {
			t.Fatal(err)
		}
	}
	lines, read := "application/x-ndjson", readToken

	push("ops/a", attend.Event{ID: "1", Name: "log", Text: "a line", Data: json.RawMessage(`{"n":1}`)}, attend.Event{ID: "2", Name: "flush.x"})
	w.until(t, func() bool { return w.decided(t) == 1 })
	push("ops/b", attend.Event{ID: "1", Name: "closing.x"})
	if err := w.engine.End(t.Context(), "ops/b"); err != nil {
		t.Fatal(err)
	}
	w.until(t, func() bool {
		s, err := w.engine.State(t.Context(), "ops/b")
		_, _, ok := s.Held()
		return err == nil && ok
	})
	push("ops/c", attend.Event{ID: "1", Name: "flush.x"})
	push("ops/open", attend.Event{ID: "1", Name: "log"})

	for _, c := range []struct{ method, path, target, token, body, media string }{
		{"GET", "/healthz", "/healthz", "", "", ""},
		{"GET", "/readyz", "/readyz", "", "", ""},
		{"GET", "/openapi.json", "/openapi.json", read, "", ""},
		{"GET", "/openapi.json", "/openapi.json", "", "", ""},
		{"GET", "/metrics", "/metrics", read, "", ""},
		{"GET", "/metrics", "/metrics", ingestToken, "", ""},
		{"GET", "/v1/decisions", "/v1/decisions", read, "", ""},
		{"GET", "/v1/decisions", "/v1/decisions?after=rubbish", read, "", ""},
		{"GET", "/v1/decisions", "/v1/decisions", ingestToken, "", ""},
		{"GET", "/v1/decisions", "/v1/decisions?after=" + attend.LogCursor{Epoch: "other", Position: 3}.String(), read, "", ""},
		{"GET", "/v1/scopes/{scope}", "/v1/scopes/ops%2Fa", read, "", ""},
		{"GET", "/v1/scopes/{scope}", "/v1/scopes/ops%2Fb", read, "", ""},
		{"GET", "/v1/scopes/{scope}", "/v1/scopes/ops%2Fopen", read, "", ""},
		{"GET", "/v1/scopes/{scope}", "/v1/scopes/elsewhere", read, "", ""},
		{"GET", "/v1/scopes/{scope}", "/v1/scopes/%00", read, "", ""},
		{"GET", "/v1/scopes", "/v1/scopes?scope=" + url.QueryEscape("ops/a"), read, "", ""},
		{"GET", "/v1/scopes", "/v1/scopes", read, "", ""},
		{"GET", "/v1/explain/{scope}/{event}", "/v1/explain/ops%2Fa/1", read, "", ""},
		{"GET", "/v1/explain/{scope}/{event}", "/v1/explain/ops%2Fb/1", read, "", ""},
		{"GET", "/v1/explain/{scope}/{event}", "/v1/explain/ops%2Fc/1", read, "", ""},
		{"GET", "/v1/explain/{scope}/{event}", "/v1/explain/ops%2Fa/none", read, "", ""},
		{"GET", "/v1/explain", "/v1/explain?scope=ops%2Fa&event=2", read, "", ""},
		{"GET", "/v1/explain", "/v1/explain?scope=ops%2Fa", read, "", ""},
		{"POST", "/v1/ingest", "/v1/ingest", ingestToken, "{\"scope\":\"x\",\"id\":\"1\",\"name\":\"log\"}\nrubbish\n{\"scope\":\"x\",\"id\":\"1\",\"name\":\"log\"}\n", lines},
		{"POST", "/v1/ingest", "/v1/ingest", ingestToken, "rubbish\n", lines},
		{"POST", "/v1/ingest", "/v1/ingest", ingestToken, "{}", "application/xml"},
		{"POST", "/v1/ingest", "/v1/ingest", ingestToken, `{"scope":"` + strings.Repeat("x", 2<<20) + `"}`, lines},
		{"POST", "/v1/ingest", "/v1/ingest", read, "", lines},
		{"POST", "/v1/ingest", "/v1/ingest", "", "", lines},
		{"POST", "/v1/ingest/stream", "/v1/ingest/stream", ingestToken, "{\"scope\":\"x\",\"id\":\"2\",\"name\":\"log\"}\n", lines},
		{"POST", "/v1/ingest/stream", "/v1/ingest/stream", ingestToken, "", "text/plain"},
	} {
		ask(c.method, c.path, c.target, c.token, c.body, c.media)
	}
	if got := ask("GET", "/v1/decisions", "/v1/decisions", read, "", ""); !strings.Contains(got.body, `"urgent":1`) {
		t.Errorf("the page that was checked has no decision: %s", got.body)
	}
	d.checkStream(t, send(t, "POST", base+"/v1/ingest/stream", ingestToken, "rubbish\n{\"scope\":\"x\",\"id\":\"3\",\"name\":\"log\"}\n", lines).body)

	store.be(os.ErrClosed, nil)
	w.until(t, func() bool { return w.ask("GET", "/readyz", "").status == 503 })
	ask("GET", "/readyz", "/readyz", "", "", "")
	ask("GET", "/v1/decisions", "/v1/decisions", read, "", "")
	store.be(nil, nil)
	if err := stop(); err != nil {
		t.Fatalf("Serve = %v", err)
	}
	d.check(t, "GET", "/v1/decisions", w.ask("GET", "/v1/decisions", "", "Authorization", "Bearer "+read))
	d.check(t, "GET", "/readyz", w.ask("GET", "/readyz", ""))
	d.check(t, "GET", "/healthz", w.ask("GET", "/healthz", "", "Sec-Fetch-Site", "none"))
	fault := newWorld(t, engine.Config{}, server.Config{Principal: panicky("x")})
	d.check(t, "GET", "/v1/decisions", fault.ask("GET", "/v1/decisions", ""))
}

// checkStream checks each line of an open stream.
func (d *document) checkStream(t testing.TB, body string) {
	t.Helper()
	v := d.validator(t, json.RawMessage(`{"$ref":"#/components/schemas/StreamAnswer"}`))
	n := 0
	for line := range strings.Lines(body) {
		n++
		var x any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if err := v.Validate(x); err != nil {
			t.Errorf("line %q is not as the document says: %v", line, err)
		}
	}
	if n < 4 {
		t.Errorf("the stream has %d lines, want a credit, two answers and totals: %q", n, body)
	}
}

// The checks find what is wrong.
func TestOpenAPIChecksAreStrict(t *testing.T) {
	d := readDocument(t)
	for name, text := range map[string]string{
		"Ready":        `{"status":"ready","judgeAccount":"works","more":1}`,
		"Ingested":     `{"accepted":1,"duplicates":0}`,
		"Rejection":    `{"line":0,"error":"x"}`,
		"DecisionPage": `{"decisions":[{"id":"1","scope":"a","at":1,"window":{"events":[{"id":"1","name":"n","other":1}]},"route":"note","notice":"","cursor":""}],"next":"","truncated":false,"more":false}`,
		"Problem":      `{"title":"t","status":400,"detail":"d","more":1}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := d.validator(t, json.RawMessage(`{"$ref":"#/components/schemas/`+name+`"}`)).Validate(v); err == nil {
			t.Errorf("%s takes %s", name, text)
		}
	}
}
