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
// but ResourceExhausted, and credentials that are refused do, as does a server
// without the extension, the type, or a mode that can be used. Silence, timeouts
// and trouble of the transport do not.
func Permanent(err error) bool {
	if t, ok := errors.AsType[*mcpevents.TerminatedError](err); ok {
		return errors.Is(t, mcpevents.ErrNotFound) || errors.Is(t, mcpevents.ErrForbidden)
	}
	if e, ok := errors.AsType[*mcpevents.StatusError](err); ok {
		switch { // whatever answer lies in it
		case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
			return true
		case e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError:
			return false
		}
	}
	if _, ok := errors.AsType[*mcpevents.Error](err); ok {
		return !errors.Is(err, mcpevents.ErrResourceExhausted)
	}
	for _, end := range []error{mcpevents.ErrNotOffered, mcpevents.ErrNoMode, mcpevents.ErrNoReplay} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
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
	if !ok {
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

// lost reports whether what went wrong may have cost an event of ours.
func lost(err error) bool {
	d, ok := errors.AsType[*mcpevents.DroppedError](err)
	return ok && d.Reason != mcpevents.DropForeign
}
