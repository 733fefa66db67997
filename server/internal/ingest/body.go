package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/attend-go/attend/server/internal/problem"
)

// errStopped is why nothing more is read of a body.
var errStopped = &problem.Problem{Status: http.StatusServiceUnavailable, Detail: "the server is stopping, try again", Retry: time.Second}

// A body is a request's body, as it is sent. Its reads end when the client is
// silent for too long, and when the server stops.
type body struct {
	r       io.Reader
	control *http.ResponseController
	silence time.Duration
	err     error // the last read's

	watch   sync.WaitGroup
	done    chan struct{}
	mu      sync.Mutex
	stopped error     // why nothing more is read
	whole   bool      // it was read to its end
	last    time.Time // every read ends by then; zero: there is no such time
}

// on calls stop when stopping is closed, until close.
func (b *body) on(stopping <-chan struct{}, stop func(why error)) {
	if stopping == nil {
		return
	}
	b.done = make(chan struct{})
	b.watch.Go(func() {
		select {
		case <-stopping:
			stop(errStopped)
		case <-b.done:
		}
	})
}

// Read reads on.
func (b *body) Read(p []byte) (int, error) {
	if b.err = b.deadline(time.Now().Add(b.silence)); b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	_ = b.deadline(time.Time{}) // that of HTTP/2 ends a body that nobody reads, too
	if err != nil {
		b.err = b.why(err)
		return n, b.err
	}
	return n, nil
}

// deadline sets when a read ends. An error says why there is none.
func (b *body) deadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.last.IsZero() {
		t = b.last
	}
	if b.stopped == nil {
		_ = b.control.SetReadDeadline(t) // who can't has the server's own
	}
	return b.stopped
}

// linger lets reads go on for a while only.
func (b *body) linger(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last = time.Now().Add(d); b.stopped == nil && !b.whole {
		_ = b.control.SetReadDeadline(b.last) // who can't has the server's own
	}
}

// end ends reading, also a read that waits, which returns why.
func (b *body) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped == nil && !b.whole { // a whole one's connection is the server's, which listens whether the client goes away
		b.stopped = why
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // who can't ends with its next read
	}
}

// close ends the watch for a server that stops.
func (b *body) close() {
	if b.done != nil {
		close(b.done)
		b.watch.Wait()
	}
}

// why is what the end of a read means.
func (b *body) why(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case ended(err):
		b.whole = true
		return err
	case large:
		return err
	case b.stopped != nil:
		return b.stopped
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.With(http.StatusRequestTimeout, "the body did not come in time")
	default:
		return unreadable("the body ended early")
	}
}
