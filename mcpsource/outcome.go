package mcpsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
)

// exhausted is how long a server is left alone that has run out of something and
// does not say for how long.
const exhausted = 30 * time.Second

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = time.Hour

// Permanent reports whether err ends a subscription for good (C5). What the
// server answers decides: terminated with NotFound or Forbidden, any error answer
// but ResourceExhausted and InternalError, and credentials that are refused do, as
// does a server without the extension, the type, or a mode that can be used.
// Silence, timeouts, trouble of the transport and the end of a session do not.
//
// InternalError is a server's word for trouble of its own, such as a store that
// does not answer for a moment: that must not end a source that runs for years.
// Over HTTP a number that MCP Events does not know is an answer only with a status
// of success. Beside any other it is what gateways, and servers to which a session
// is unknown, say of their own trouble (-32000 with 400, -32001 with 404): that is
// plain, and [Sessions] make another session.
func Permanent(err error) bool {
	if t, ok := errors.AsType[*mcpevents.TerminatedError](err); ok {
		return errors.Is(t, mcpevents.ErrNotFound) || errors.Is(t, mcpevents.ErrForbidden)
	}
	if e, ok := errors.AsType[*mcpevents.StatusError](err); ok {
		switch { // whatever answer lies in it
		case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
			return true
		case e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError || !answered(err):
			return false
		}
	}
	if errors.Is(err, mcpevents.ErrClosed) {
		return false
	}
	if _, ok := errors.AsType[*mcpevents.Error](err); ok {
		return !errors.Is(err, mcpevents.ErrResourceExhausted) && !errors.Is(err, mcpevents.ErrInternal)
	}
	for _, end := range []error{mcpevents.ErrNotOffered, mcpevents.ErrNoMode, mcpevents.ErrNoReplay} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// answered reports whether err has an answer of a kind that is known.
func answered(err error) bool {
	e, ok := errors.AsType[*mcpevents.Error](err)
	return ok && e != nil && e.Kind != ""
}

// outcome is how a subscription's end is told to the engine, with the cause
// reachable: as permanent, as not to be tried again for a while, or plainly.
func (s *Source) outcome(err error) error {
	permanent := s.c.Permanent(err)
	if s.single && errors.Is(err, mcpevents.ErrClosed) {
		permanent = true // nobody makes another session
	}
	told := fmt.Errorf("mcpsource: %s: %w", s.c.Name, err)
	if permanent {
		return attend.Permanent(told)
	}
	if after := retryAfter(err); after > 0 {
		return &attend.RetryAfterError{After: after, Err: told}
	}
	return told
}

// retryAfter is how long the server wants to be left alone; zero: it did not say.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*mcpevents.StatusError](err); ok && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	e, ok := errors.AsType[*mcpevents.Error](err)
	if !ok || e == nil {
		return 0
	}
	var said struct {
		Ms float64 `json:"retryAfterMs"`
	}
	switch _ = json.Unmarshal(e.Data, &said); {
	case said.Ms > 0:
		return time.Duration(min(said.Ms, float64(maxRetryAfter/time.Millisecond))) * time.Millisecond
	case e.Kind == mcpevents.ResourceExhausted:
		return exhausted
	}
	return 0
}

// lost reports whether what went wrong may have cost an event of ours. One of
// another type is none, and neither is a notification that is not understood: what
// the protocol gains later must not look like a gap.
func lost(err error) bool {
	d, ok := errors.AsType[*mcpevents.DroppedError](err)
	return ok && d.Reason != mcpevents.DropForeign && d.Reason != mcpevents.DropUnknown
}
