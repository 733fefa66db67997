package problem

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A Problem is an answer that says what is wrong. Its text quotes nothing that
// came in.
type Problem struct {
	Status int
	Detail string        // a sentence, what is wrong and what was expected
	Retry  time.Duration // when it may be tried again: Retry-After, in whole seconds and at least 1. 0: there is none
	More   map[string]any
}

// Error is the problem's detail.
func (p *Problem) Error() string { return p.Detail }

// With returns a problem with a status and a detail.
func With(status int, detail string) *Problem { return &Problem{Status: status, Detail: detail} }

// NoRead is the problem of whoever may read nothing.
func NoRead() *Problem { return With(http.StatusForbidden, "this needs the right to read") }

// Of returns the problem that an error is. An error that it does not know is the
// server's own fault: its text may hold anything and stays out of the answer.
func Of(err error) *Problem {
	if own, ok := errors.AsType[*Problem](err); ok {
		return own
	}
	large, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return With(http.StatusRequestEntityTooLarge, "the request is too large, its limit is "+strconv.FormatInt(large.Limit, 10)+" bytes")
	case errors.Is(err, attend.ErrInvalid):
		return With(http.StatusBadRequest, plain(err))
	case errors.Is(err, attend.ErrTooLarge):
		return With(http.StatusRequestEntityTooLarge, plain(err))
	case errors.Is(err, attend.ErrNotFound):
		return With(http.StatusNotFound, "there is no such thing, or it is not yours to see")
	case errors.Is(err, attend.ErrOutboxFull):
		return &Problem{Status: http.StatusTooManyRequests, Detail: "the scope has too much waiting, try again later", Retry: time.Second}
	case errors.Is(err, attend.ErrConflict):
		return &Problem{Status: http.StatusTooManyRequests, Detail: "others write the scope all the time, try again later", Retry: time.Second}
	case errors.Is(err, attend.ErrNewer):
		return With(http.StatusServiceUnavailable, "a newer release wrote this scope, and this one leaves it alone")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Problem{Status: http.StatusServiceUnavailable, Detail: "the request took too long", Retry: time.Second}
	default:
		return &Problem{Status: http.StatusServiceUnavailable, Detail: "the store does not answer", Retry: time.Second}
	}
}

// plain is the text of the error of attend that err holds: it names a field and
// what was expected, and quotes nothing.
func plain(err error) string {
	if invalid, ok := errors.AsType[*attend.InvalidError](err); ok {
		return invalid.Error()
	}
	if large, ok := errors.AsType[*attend.TooLargeError](err); ok {
		return large.Error()
	}
	switch {
	case errors.Is(err, attend.ErrTooLarge):
		return attend.ErrTooLarge.Error()
	default:
		return attend.ErrInvalid.Error()
	}
}

// Write answers with p.
func (p *Problem) Write(w http.ResponseWriter) {
	body := map[string]any{"title": http.StatusText(p.Status), "status": p.Status, "detail": p.Detail}
	maps.Copy(body, p.More)
	text, err := json.Marshal(body)
	if err != nil {
		text = []byte(`{"status":500}`)
	}
	h := w.Header()
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(max(1, (p.Retry+time.Second-1)/time.Second))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="attend"`)
	}
	w.WriteHeader(p.Status)
	_, _ = io.WriteString(w, string(text)+"\n") // whoever asked is gone
}

// Write answers with the problem that err is.
func Write(w http.ResponseWriter, err error) { Of(err).Write(w) }
