package decisions

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/problem"
)

// HandlerConfig says how decisions are served. A zero field means its default.
type HandlerConfig struct {
	// Stopping, once it is closed, ends every stream. Nil: never.
	Stopping <-chan struct{}
	// Heartbeat is the longest silence on a stream; default 15 s.
	Heartbeat time.Duration
	// SlowAfter is how long a write may take until its reader counts as one that
	// does not keep up; default 10 s. After twice as long the connection is cut.
	SlowAfter time.Duration
	// StoreGrace is how long a stream lives on while the store fails; default
	// 60 s.
	StoreGrace time.Duration
	// Ended is told of each stream that ended, and why: one of the End reasons.
	// Nil: nobody is.
	Ended func(reason string)
	// Logger gets streams that end for a fault. Nil: slog.Default.
	Logger *slog.Logger
}

type handler struct {
	HandlerConfig
	feed *Feed
}

// Handler serves GET /v1/decisions: a stream of Server-Sent Events to those who
// accept text/event-stream, else one page. Who asks is access.From the request's
// context.
func (f *Feed) Handler(c HandlerConfig) http.Handler {
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{{&c.Heartbeat, 15 * time.Second}, {&c.SlowAfter, 10 * time.Second}, {&c.StoreGrace, time.Minute}} {
		if *d.to <= 0 {
			*d.to = d.value
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Ended == nil {
		c.Ended = func(string) {}
	}
	return &handler{c, f}
}

// ServeHTTP answers one reader.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		problem.Write(w, problem.With(http.StatusMethodNotAllowed, "decisions are read with GET"))
		return
	}
	who := access.From(r.Context())
	if !who.Read {
		problem.Write(w, problem.NoRead())
		return
	}
	q, err := parse(r, who)
	if err != nil {
		problem.Write(w, err)
		return
	}
	if r.Method == http.MethodGet && wantsEvents(r.Header) {
		h.stream(w, r, q)
		return
	}
	h.page(w, r, q)
}

// parse reads the query of a request. A parameter that is not known is refused:
// a filter with a misspelt name would let everything through.
func parse(r *http.Request, who *access.Principal) (Query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Query{}, &attend.InvalidError{Field: "query", Want: "parameters in URL encoding"}
	}
	for name, list := range values {
		if !slices.Contains([]string{"after", "limit", "routes", "scope"}, name) {
			return Query{}, &attend.InvalidError{Field: "query", Want: "no parameters but after, limit, routes and scope"}
		}
		if len(list) > 1 {
			return Query{}, &attend.InvalidError{Field: name, Want: "it once"}
		}
	}
	var q Query
	field, cursor := "after", values.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" && wantsEvents(r.Header) {
		field, cursor = "Last-Event-ID", last // of a stream that went on from after
	}
	if q.After, err = attend.ParseLogCursor(cursor); err != nil {
		return Query{}, &attend.InvalidError{Field: field, Want: "a cursor that this server gave out"}
	}
	if s := values.Get("limit"); s != "" {
		if q.Limit, err = strconv.Atoi(s); err != nil || q.Limit < 1 {
			return Query{}, &attend.InvalidError{Field: "limit", Want: "a number from 1"}
		}
	}
	if s := values.Get("routes"); s != "" {
		for name := range strings.SplitSeq(s, ",") {
			route := attend.Route(name)
			if !route.Delivered() {
				return Query{}, &attend.InvalidError{Field: "routes", Want: "some of interrupt, queue, note and ask, with commas"}
			}
			q.Routes = append(q.Routes, route)
		}
	}
	prefix := values.Get("scope")
	if prefix != "" {
		if err := attend.Scope(prefix).Check(); err != nil {
			return Query{}, err
		}
	}
	q.Prefixes = who.Readable(attend.Prefix(prefix))
	return q, nil
}

// wantsEvents reports whether a request accepts a stream by its name.
func wantsEvents(h http.Header) bool {
	for _, line := range h.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(one, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "text/event-stream") {
				continue
			}
			for p := range strings.SplitSeq(params, ";") {
				weight, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(p)), "q=")
				if n, err := strconv.ParseFloat(weight, 64); ok && err == nil && n <= 0 {
					return false
				}
			}
			return true
		}
	}
	return false
}
