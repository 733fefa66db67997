package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// join serves a listen that the SDK serves, and what of ours is asked for between
// its messages. Either way it ends when the server closes, which the SDK's part
// would not.
func (h *HTTP) join(w *guard, r *http.Request, e envelope, ours bool) {
	if !h.flushes(w, e) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watch := &Watch{Closing: h.Routes.Closing.Done(), Stop: func() {}}
	if ours {
		var err error
		if watch, err = h.Routes.Listen(ctx); err != nil {
			refuse(w, e.id, Answer(err))
			return
		}
	}
	defer watch.Stop()
	id := bytes.Clone(e.id)
	j := &joint{guard: w, ours: ours, acked: make(chan struct{}), sse: sse{w: w, pool: &h.pool}}
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-j.acked:
			if watch.follow(ctx, j, id) == nil {
				j.end(id)
			}
			cancel() // the SDK's part does not end by itself
		}
	})
	h.Modern.ServeHTTP(j, r.WithContext(ctx))
	j.mu.Lock()
	held := j.held
	j.mu.Unlock()
	if held == nil {
		cancel()
	}
	wg.Wait()
}

// A joint takes the SDK's messages apart, in one goroutine, and ours, in another.
type joint struct {
	*guard
	ours   bool // it is not the SDK's alone
	mu     sync.Mutex
	sse    sse
	rest   []byte // of a message that is not complete
	status int
	once   sync.Once
	acked  chan struct{} // closed when the acknowledgement was written
	over   bool          // nothing more is written
	held   []byte        // the SDK's result, when it has nothing to send and we may have
}

func (j *joint) note(method string, params ...[]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sse.note(method, params...)
}

func (j *joint) flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sse.flush()
}

func (j *joint) beat() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sse.beat()
}

// end writes the closing result, the SDK's if it has one, and nothing behind it.
func (j *joint) end(id json.RawMessage) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	if j.held == nil {
		j.held = response(id, Complete(id), nil)
	}
	if j.over = true; j.sse.frame(j.held) == nil {
		_ = j.sse.flush()
	}
}

// WriteHeader passes on what is no stream, which is a refusal.
func (j *joint) WriteHeader(status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status = status
	if !j.stream() {
		j.guard.WriteHeader(status)
	}
}

func (j *joint) stream() bool {
	return (j.status == 0 || j.status == http.StatusOK) && strings.HasPrefix(j.Header().Get("Content-Type"), "text/event-stream")
}

// Write takes what the SDK writes.
func (j *joint) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.stream() {
		return j.guard.Write(p)
	}
	j.rest = append(j.rest, p...)
	for {
		event, rest, ok := bytes.Cut(j.rest, []byte("\n\n"))
		if !ok {
			return len(p), j.sse.err
		}
		j.rest = rest
		for line := range bytes.Lines(event) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				j.pass(bytes.TrimRight(data, "\r\n"))
			}
		}
	}
}

// pass writes one message of the SDK's, or keeps it.
func (j *joint) pass(message []byte) {
	var m struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(message, &m) != nil {
		return
	}
	switch {
	case j.over:
	case m.Method == noteAcknowledged:
		if j.ours {
			m.Params = acknowledge(m.Params)
		}
		_ = j.sse.note(m.Method, m.Params)
		j.once.Do(func() { close(j.acked) })
	case m.Result != nil && j.ours:
		j.held = bytes.Clone(message)
	default:
		j.over = m.Method == ""
		_ = j.sse.frame(message)
	}
}

// FlushError flushes what was passed.
func (j *joint) FlushError() error { return j.flush() }

// Flush is FlushError for those who do not ask.
func (j *joint) Flush() { _ = j.flush() }
