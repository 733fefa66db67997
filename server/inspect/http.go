package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/problem"
)

// States knows the states of scopes; an *engine.Engine does. The zero State is
// an unknown scope's. It is called from many goroutines at once.
type States interface {
	State(ctx context.Context, scope attend.Scope) (machine.State, error)
}

// ScopeHandler serves GET /v1/scopes/{scope} and GET /v1/scopes?scope=: what is
// in a scope. Who asks is access.From the request's context; a scope that is not
// theirs answers like one that there is not.
func ScopeHandler(states States) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names, err := parse(w, r, "scope")
		if err != nil {
			problem.Write(w, err)
			return
		}
		scope := attend.Scope(names[0])
		if err := scope.Check(); err != nil {
			problem.Write(w, err)
			return
		}
		var s machine.State
		if access.From(r.Context()).MayRead(scope) {
			if s, err = states.State(r.Context(), scope); err != nil {
				problem.Write(w, err)
				return
			}
		}
		x, ok := Of(&s)
		if !ok {
			problem.Write(w, problem.With(http.StatusNotFound, "there is no such scope, or it is not yours to see"))
			return
		}
		answer(w, x)
	})
}

// maxExplains is how many explanations are made at a time; the others wait.
const maxExplains = 4

// ExplainHandler serves GET /v1/explain/{scope}/{event} and
// GET /v1/explain?scope=&event=: the life of an event, as JSON, or as text for
// those who accept text/plain alone. Who asks is access.From the request's
// context; a scope that is not theirs answers like one of which nothing is known.
// A zero Limits means its defaults.
func ExplainHandler(states States, log attend.DecisionLog, l Limits) http.Handler {
	return &explainer{states, log, l, make(chan struct{}, maxExplains)}
}

type explainer struct {
	states States
	log    attend.DecisionLog
	limits Limits
	room   chan struct{}
}

// ServeHTTP explains one event.
func (h *explainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	names, err := parse(w, r, "scope", "event")
	if err != nil {
		problem.Write(w, err)
		return
	}
	q := Question{attend.Scope(names[0]), names[1]}
	if err := q.Check(); err != nil {
		problem.Write(w, err)
		return
	}
	x, err := h.explain(r.Context(), q)
	switch {
	case err != nil:
		problem.Write(w, err)
	case len(x.Lives) == 0:
		missing(x).Write(w)
	case wantsText(r.Header):
		head(w, "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, x.Text(nil)) // whoever asked is gone
	default:
		answer(w, x)
	}
}

// explain waits for room. It looks into no scope that is not the asker's.
func (h *explainer) explain(ctx context.Context, q Question) (Explanation, error) {
	if !access.From(ctx).MayRead(q.Scope) {
		b, err := h.log.Bounds(ctx)
		if err != nil {
			return Explanation{}, fmt.Errorf("inspect: read the log's bounds: %w", err)
		}
		return Explain(q, new(machine.State), History{Trimmed: trimmed(b)}), nil
	}
	select {
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	case <-ctx.Done():
		return Explanation{}, ctx.Err()
	}
	return explain(ctx, h.states.State, h.log, q, h.limits)
}

// missing is the answer where nothing is known, and how far that goes.
func missing(x Explanation) *problem.Problem {
	p := problem.With(http.StatusNotFound, "nothing is known of this event in this scope, or it is not yours to see")
	p.More = map[string]any{"trimmed": x.Trimmed, "limited": x.Limited}
	if x.Trimmed {
		p.Detail += "; retention has trimmed the log, so it may have been there"
	}
	if x.Limited {
		p.Detail += "; the scope has too many rows in the log, and older ones were not looked at"
		if !x.Since.IsZero() {
			p.More["since"] = x.Since.UnixMilli()
		}
	}
	return p
}

// parse reads what a request names: from its path, or else from its query. A
// scope may have slashes, which the path has percent-encoded.
func parse(w http.ResponseWriter, r *http.Request, names ...string) ([]string, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return nil, problem.With(http.StatusMethodNotAllowed, "this is read with GET")
	}
	if !access.From(r.Context()).Read {
		return nil, problem.NoRead()
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &attend.InvalidError{Field: "query", Want: "parameters in URL encoding"}
	}
	inPath := r.PathValue(names[0]) != ""
	for name, list := range query {
		if inPath || !slices.Contains(names, name) {
			want := "no parameters but " + strings.Join(names, " and ")
			if inPath {
				want = "no parameters beside the path"
			}
			return nil, &attend.InvalidError{Field: "query", Want: want}
		}
		if len(list) > 1 {
			return nil, &attend.InvalidError{Field: name, Want: "it once"}
		}
	}
	out := make([]string, len(names))
	for i, name := range names {
		if out[i] = query.Get(name); inPath {
			out[i] = r.PathValue(name)
		}
	}
	return out, nil
}

// wantsText reports whether a request accepts text/plain and names no JSON.
func wantsText(h http.Header) bool {
	text := false
	for _, line := range h.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(one, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "text/plain":
				text = true
			case "application/json":
				return false
			}
		}
	}
	return text
}

func head(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

func answer(w http.ResponseWriter, v json.Marshaler) {
	b, err := v.MarshalJSON()
	if err != nil {
		problem.Write(w, err)
		return
	}
	head(w, "application/json")
	_, _ = w.Write(append(b, '\n')) // whoever asked is gone
}

func trimmed(b attend.Bounds) bool { return b.Trimmed > 0 || b.TrimmedVerdicts > 0 }
