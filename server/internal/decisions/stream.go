package decisions

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/problem"
)

// Why a stream ends. A reader that asks again with its last cursor misses
// nothing, whatever the reason.
const (
	EndShutdown = "shutdown" // the server ends
	EndSlow     = "slow"     // the reader did not keep up
	EndLimit    = "limit"    // it got as many decisions as it asked for
	EndStore    = "store"    // the store fails for too long
	EndGone     = "gone"     // the reader went, or never took what was written; it is not told
)

const (
	chunk = 64 << 10 // bytes a write: so much a reader has to take in SlowAfter
	retry = "2000"   // milliseconds after which a browser asks again
	// lastMoment is what a write gets when the server ends.
	lastMoment = time.Second
)

// A stream is one reader's.
type stream struct {
	*handler
	q       Query
	out     http.ResponseWriter
	rc      *http.ResponseController
	seat    *Seat
	buf     bytes.Buffer // events that are not written yet
	wrote   time.Time
	sent    attend.LogCursor // the reader knows this one
	left    int              // decisions until its limit; negative: no limit
	more    bool             // the log goes on behind the last page
	broken  bool             // nothing can be written any more
	last    time.Time        // until when it can write, once the server ends; zero: it does not
	trouble time.Time        // since when the store fails; zero: it does not
	pause   time.Duration
}

// stream answers with Server-Sent Events, from now on where there is no cursor.
// The first page is read before the status is written, so that a store that does
// not answer is an error like elsewhere.
func (h *handler) stream(w http.ResponseWriter, r *http.Request, q Query) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if q.After == (attend.LogCursor{}) {
		now, err := h.feed.Now(ctx)
		if err != nil {
			problem.Write(w, err)
			return
		}
		q.After = now
	}
	s := &stream{handler: h, q: q, out: w, rc: http.NewResponseController(w), left: -1}
	if q.Limit > 0 {
		s.left = q.Limit
	}
	s.q.Limit = s.most()
	first, err := h.feed.Read(ctx, s.q)
	if err != nil {
		problem.Write(w, err)
		return
	}
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-store, no-transform")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Accel-Buffering", "no")   // of proxies that would hold events back
	head.Set("Connection", "close")       // its deadlines are not for another request
	_ = s.rc.SetReadDeadline(time.Time{}) // or the server's would end the stream
	s.seat = h.feed.Join("sse")
	defer s.seat.Leave()

	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-h.Stopping:
			cancel()
			_ = s.rc.SetWriteDeadline(time.Now().Add(lastMoment)) // what is being written must not hold up the end
		case <-ctx.Done():
		}
	})
	s.buf.WriteString("retry: " + retry + "\n")
	s.place(q.After)
	reason := s.take(first)
	for reason == "" {
		reason = s.step(ctx)
	}
	cancel()
	watch.Wait()
	s.end(reason, access.From(r.Context()).Name)
}

// end tells the reader why its stream ends, if it can be told.
func (s *stream) end(reason, name string) {
	if reason == EndGone && stopped(s.Stopping) {
		reason = EndShutdown
	}
	if reason != EndGone && !s.broken {
		s.event("end", attend.LogCursor{}, []byte(`{"reason":"`+reason+`"}`))
		s.flush()
	}
	if reason == EndSlow || reason == EndStore {
		s.Logger.Warn("a stream of decisions ended", "reason", reason, "principal", name)
	}
	s.Ended(reason)
}

func stopped(stopping <-chan struct{}) bool {
	select {
	case <-stopping:
		return true
	default:
		return false
	}
}

// step waits for decisions, for as long as the stream may be silent, and writes
// them. It returns why the stream ends, empty where it goes on.
func (s *stream) step(ctx context.Context) string {
	if !s.more {
		wait, cancel := context.WithDeadline(ctx, s.wrote.Add(s.Heartbeat))
		err := s.feed.Wait(wait, s.q)
		quiet := wait.Err() != nil
		cancel()
		if err != nil && !quiet && !sleep(ctx, min(time.Second, s.Heartbeat)) { // a log that can't wait can still be read
			return EndGone
		}
	}
	s.q.Limit = s.most()
	p, err := s.feed.Read(ctx, s.q)
	switch {
	case ctx.Err() != nil:
		return EndGone
	case err != nil:
		return s.failed(ctx, err)
	}
	s.trouble, s.pause = time.Time{}, 0
	return s.take(p)
}

// most is how many decisions the next page may have.
func (s *stream) most() int {
	if s.left < 0 {
		return DefaultLimit
	}
	return min(s.left, DefaultLimit)
}

// failed pauses before the next try.
func (s *stream) failed(ctx context.Context, err error) string {
	now := time.Now()
	if s.trouble.IsZero() {
		s.trouble = now
		s.Logger.Warn("decisions can't be read", "err", err)
	}
	switch {
	case errors.Is(err, attend.ErrClosed):
		return EndShutdown
	case now.Sub(s.trouble) > s.StoreGrace:
		return EndStore
	}
	s.pause = min(max(2*s.pause, time.Second), s.StoreGrace/4, s.Heartbeat)
	if !sleep(ctx, s.pause) {
		return EndGone
	}
	return s.beat()
}

// sleep reports whether the pause was over before ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take writes a page.
func (s *stream) take(p Page) string {
	if p.Truncated {
		s.event("truncated", attend.LogCursor{}, []byte("{}"))
	}
	bad := p.Unreadable
	for i := range p.Items {
		at := p.Items[i].Cursor
		for len(bad) > 0 && bad[0].Cursor.Position < at.Position {
			s.unreadable(bad[0])
			bad = bad[1:]
		}
		data, err := p.Items[i].Payload(0)
		if err != nil { // nothing that was decoded can fail to be encoded
			s.unreadable(Unreadable{at, p.Items[i].Decision.Scope(), p.Items[i].Decision.ID})
			continue
		}
		p.Items[i].Decision = attend.Decision{} // it is written: let go of it
		s.event("decision", at, data)
		if s.left > 0 {
			s.left--
		}
		if s.buf.Len() >= chunk {
			if reason := s.flush(); reason != "" {
				return reason
			}
		}
	}
	for _, u := range bad {
		s.unreadable(u)
	}
	s.q.After, s.more = p.Next, p.More
	if p.Truncated {
		s.place(p.Next)
	}
	if reason := s.beat(); reason != "" {
		return reason
	}
	if s.left == 0 {
		return EndLimit
	}
	return ""
}

func (s *stream) unreadable(u Unreadable) {
	if data, err := u.MarshalJSON(); err == nil {
		s.event("unreadable", u.Cursor, data)
	}
}

// event adds an event, with an id where there is a cursor. JSON has no newlines.
func (s *stream) event(name string, id attend.LogCursor, data []byte) {
	if id != (attend.LogCursor{}) {
		s.buf.WriteString("id: " + id.String() + "\n")
		s.sent = id
	}
	s.buf.WriteString("event: " + name + "\ndata: ")
	s.buf.Write(data)
	s.buf.WriteString("\n\n")
}

// place tells the reader a cursor without an event, so that one who sees nothing
// for long is not overtaken by retention.
func (s *stream) place(at attend.LogCursor) {
	if at != s.sent {
		s.buf.WriteString("id: " + at.String() + "\n\n")
		s.sent = at
	}
}

// beat writes what there is, and a comment where the stream was silent for long
// enough.
func (s *stream) beat() string {
	if s.buf.Len() == 0 && time.Since(s.wrote) < s.Heartbeat {
		return ""
	}
	if s.buf.Len() == 0 {
		s.buf.WriteString(":\n")
		s.place(s.q.After)
		s.buf.WriteByte('\n')
	}
	return s.flush()
}

// flush writes what there is. A reader that takes it too slowly gets the event
// it has waited for, whole, and is then told so; one that takes nothing is cut.
// When the server ends, all that is left has a moment together.
func (s *stream) flush() string {
	slow := false
	for b := s.buf.Bytes(); len(b) > 0; {
		n := min(len(b), chunk)
		began := time.Now()
		_ = s.rc.SetWriteDeadline(began.Add(2 * s.SlowAfter)) // a writer without deadlines is a test's
		if stopped(s.Stopping) {                              // now, and not before the deadline was set
			if s.last.IsZero() {
				s.last = began.Add(lastMoment)
			}
			_ = s.rc.SetWriteDeadline(s.last)
		}
		_, err := s.out.Write(b[:n])
		if err == nil {
			err = s.rc.Flush()
		}
		if err != nil {
			s.broken = true
			if time.Since(began) > s.SlowAfter {
				return EndSlow
			}
			return EndGone
		}
		slow = slow || time.Since(began) > s.SlowAfter
		b = b[n:]
	}
	s.buf.Reset()
	if s.buf.Cap() > 4*chunk {
		s.buf = bytes.Buffer{}
	}
	s.wrote = time.Now()
	s.seat.Reached()
	if slow {
		return EndSlow
	}
	return ""
}
