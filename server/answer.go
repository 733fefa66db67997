package server

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// An answer is a response writer that knows what it wrote, and gives each write
// time of its own: a deadline for the whole answer would cut streams, and none
// would let a peer that stands still hold its place for ever (V5).
type answer struct {
	http.ResponseWriter
	rc     *http.ResponseController
	within time.Duration // for one write
	status int           // 0: nothing was written yet
	bytes  int64
	own    atomic.Bool // the handler sets write deadlines itself
	reads  atomic.Bool // and those of reads
}

func newAnswer(w http.ResponseWriter, within time.Duration) *answer {
	a := &answer{ResponseWriter: w, rc: http.NewResponseController(w), within: within}
	a.extend()
	return a
}

// extend gives the next write its time. A writer without deadlines is a test's.
func (a *answer) extend() {
	if !a.own.Load() {
		_ = a.rc.SetWriteDeadline(time.Now().Add(a.within))
	}
}

// done gives what the server writes after the handler its time.
func (a *answer) done() { _ = a.rc.SetWriteDeadline(time.Now().Add(a.within)) }

// WriteHeader is of [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// chunk is how much a peer has to take in the time of one write.
const chunk = 64 << 10

// Write is of [http.ResponseWriter].
func (a *answer) Write(b []byte) (n int, err error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	for {
		part := b[n:min(n+chunk, len(b))]
		a.extend()
		m, err := a.ResponseWriter.Write(part)
		n += m
		a.bytes += int64(m)
		if err != nil || n >= len(b) {
			return n, err
		}
	}
}

// Flush is of [http.Flusher], for handlers that look for it.
func (a *answer) Flush() { _ = a.FlushError() } // the next write fails, too

// FlushError is of [http.ResponseController].
func (a *answer) FlushError() error {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.extend()
	return a.rc.Flush()
}

// SetWriteDeadline is of [http.ResponseController]. A handler that calls it sees
// to its own writes.
func (a *answer) SetWriteDeadline(at time.Time) error {
	a.own.Store(true)
	return a.rc.SetWriteDeadline(at)
}

// lastRead is what a read has that is told to end at once.
const lastRead = 50 * time.Millisecond

// SetReadDeadline is of [http.ResponseController]. A handler that calls it sees to
// its own reads. One that ends a read at once, by a moment that has passed, ends
// it a little later: where a client is sending, the read returns with what comes,
// and the rest of the body can still be passed over. A read that is cut within a
// chunk breaks the body, and the connection with it, before the client has read
// its answer.
func (a *answer) SetReadDeadline(at time.Time) error {
	a.reads.Store(true)
	if soon := time.Now().Add(lastRead); !at.IsZero() && at.Before(soon) {
		at = soon
	}
	return a.rc.SetReadDeadline(at)
}

// Unwrap is of [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// linger is how long the server goes on reading what a handler did not read: to
// close on a client that still sends would take the answer from it, and to wait
// for one that stands still would take a connection.
const linger = time.Second

// A body is a request's body whose reads have time of their own each, unless the
// handler sees to that. The deadline goes with the end of the body: net/http takes
// it away when it begins to listen for the client to go.
type body struct {
	io.ReadCloser
	a      *answer
	within time.Duration
	ended  atomic.Bool
}

// Read is of [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if !b.a.reads.Load() {
		_ = b.a.rc.SetReadDeadline(time.Now().Add(b.within))
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// done gives what is left of the body its time.
func (b *body) done() {
	if !b.ended.Load() {
		_ = b.a.rc.SetReadDeadline(time.Now().Add(linger))
	}
}
