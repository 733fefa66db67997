package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// What a server is about.
const (
	stateReady int32 = iota // a handler that the app serves is ready from the start
	stateStarting
	stateDraining
)

// alive answers /healthz.
func alive(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"status":"alive"}`) }

// health answers /readyz.
type health struct {
	state   atomic.Int32
	store   attend.ScopeStore
	account func() error // why the judge's account fails
	within  time.Duration

	mu     sync.Mutex
	asked  time.Time     // when the last answer came; zero: none yet
	err    error         // that answer
	asking chan struct{} // closed when the question under way is answered; nil: there is none
}

// probeAge is how long an answer of the store is good for: anybody may ask for
// readiness, as often as he likes.
const probeAge = 500 * time.Millisecond

// ServeHTTP answers 200 where requests are welcome. A judge's account that fails
// is told, but it is no reason to send requests elsewhere: windows wait for it.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch h.state.Load() {
	case stateStarting:
		problem.Write(w, unready("the server is starting"))
		return
	case stateDraining:
		problem.Write(w, unready("the server is draining"))
		return
	}
	if h.probe(r.Context()) != nil {
		problem.Write(w, unready("the store does not answer"))
		return
	}
	if h.account() != nil {
		writeJSON(w, `{"status":"ready","judgeAccount":"fails"}`)
		return
	}
	writeJSON(w, `{"status":"ready","judgeAccount":"works"}`)
}

func unready(why string) *problem.Problem {
	return &problem.Problem{Status: http.StatusServiceUnavailable, Detail: why, Retry: time.Second}
}

var errSlowStore = errors.New("server: the store does not answer in time")

// probe asks the store for a sign of life, once for all who want to know, and
// waits for no longer than a store may take.
func (h *health) probe(ctx context.Context) error {
	h.mu.Lock()
	if h.asking == nil {
		if !h.asked.IsZero() && time.Since(h.asked) < probeAge {
			defer h.mu.Unlock()
			return h.err
		}
		h.asking = make(chan struct{})
		go h.ask() // it ends soon: a store limits how long a call may take
	}
	answered := h.asking
	h.mu.Unlock()
	t := time.NewTimer(h.within)
	defer t.Stop()
	select {
	case <-answered:
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.err
	case <-t.C:
		return errSlowStore
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *health) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), h.within)
	defer cancel()
	_, err := h.store.Log().Bounds(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.err = time.Now(), err
	close(h.asking)
	h.asking = nil
}

func writeJSON(w http.ResponseWriter, text string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text + "\n")) // whoever asked is gone
}
