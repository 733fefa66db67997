package wire

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxPending is how much a stream holds back before it writes without being
// asked to.
const maxPending = 128 << 10

// An sse writes the messages of one call as events of a text/event-stream. It
// belongs to one goroutine.
type sse struct {
	w       *guard
	pool    *sync.Pool // of buffers: what waits for events holds none
	buf     []byte
	started bool
	err     error // the first of a write; nothing is written after it
}

func (s *sse) note(method string, params ...[]byte) error {
	s.begin()
	s.buf = append(s.buf, `data: {"jsonrpc":"2.0","method":"`...)
	s.buf = append(s.buf, method...)
	s.buf = append(s.buf, `","params":`...)
	for _, part := range params {
		s.buf = append(s.buf, part...)
	}
	s.buf = append(s.buf, "}\n\n"...)
	return s.full()
}

// frame adds a message that is complete.
func (s *sse) frame(message []byte) error {
	s.begin()
	s.buf = append(append(append(s.buf, "data: "...), message...), "\n\n"...)
	return s.full()
}

func (s *sse) begin() {
	if s.buf == nil {
		if b, ok := s.pool.Get().(*[]byte); ok {
			s.buf = *b
		}
	}
}

func (s *sse) full() error {
	if len(s.buf) < maxPending {
		return s.err
	}
	return s.write()
}

func (s *sse) write() error {
	if !s.started {
		s.started = true
		streamHeader(s.w.Header())
	}
	if s.err == nil && len(s.buf) > 0 {
		_, s.err = s.w.Write(s.buf)
	}
	s.buf = s.buf[:0]
	return s.err
}

func (s *sse) flush() error {
	if s.write() == nil {
		s.err = s.w.FlushError()
	}
	if b := s.buf; cap(b) <= 4*maxPending { // one large event does not stay
		s.pool.Put(&b)
	}
	s.buf = nil
	return s.err
}

// beat writes a comment: it keeps a quiet connection open and is no message.
func (s *sse) beat() error {
	s.begin()
	s.buf = append(s.buf, ": \n\n"...)
	return s.flush()
}

func streamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// A guard is a response whose writes have each a deadline of their own, in place
// of the server's for the whole of it, which would cut streams. It is made when
// the request has been read.
type guard struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	plain   *bool // set: an answer of status 400 is the extension's
	wrote   bool
}

func newGuard(w http.ResponseWriter, timeout time.Duration) *guard {
	g := &guard{ResponseWriter: w, rc: http.NewResponseController(w), timeout: timeout}
	_ = g.rc.SetReadDeadline(time.Time{})
	_ = g.rc.SetWriteDeadline(time.Time{})
	return g
}

// WriteHeader keeps proxies from holding back what is a stream.
func (g *guard) WriteHeader(status int) {
	g.wrote = true
	if status == http.StatusBadRequest && g.plain != nil && *g.plain {
		status = http.StatusOK
	}
	if strings.HasPrefix(g.Header().Get("Content-Type"), "text/event-stream") {
		g.Header().Set("X-Accel-Buffering", "no")
	}
	g.ResponseWriter.WriteHeader(status)
}

// Write writes within the deadline.
func (g *guard) Write(p []byte) (int, error) {
	if !g.wrote {
		g.WriteHeader(http.StatusOK)
	}
	_ = g.rc.SetWriteDeadline(time.Now().Add(g.timeout))
	return g.ResponseWriter.Write(p)
}

// FlushError flushes within the deadline, and ends it: over HTTP/2 a deadline that
// passes while nothing is written would end the stream too.
func (g *guard) FlushError() error {
	if !g.wrote {
		g.WriteHeader(http.StatusOK)
	}
	_ = g.rc.SetWriteDeadline(time.Now().Add(g.timeout))
	err := g.rc.Flush()
	_ = g.rc.SetWriteDeadline(time.Time{})
	return err
}

// Flush is FlushError for those who do not ask.
func (g *guard) Flush() { _ = g.FlushError() }

// done gives the connection back as the server wants it.
func (g *guard) done(r *http.Request) {
	var deadline time.Time
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		deadline = time.Now().Add(server.WriteTimeout)
	}
	_ = g.rc.SetWriteDeadline(deadline)
}
