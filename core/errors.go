package attend

import (
	"errors"
	"fmt"
	"time"
)

// Errors to branch on, with errors.Is. Everything that is none of these, and no
// [*PermanentError], may be tried again.
var (
	// ErrInvalid: an argument breaks a rule; the error is an [*InvalidError].
	ErrInvalid = errors.New("attend: invalid")
	// ErrTooLarge: an event, a push or a batch is over its limit.
	ErrTooLarge = errors.New("attend: too large")
	// ErrOutboxFull: the scope has a full lane or backlog (rule E26). Nothing of
	// the push was taken; try again when it has drained.
	ErrOutboxFull = errors.New("attend: outbox full")
	// ErrConflict: other processes won the scope too often in a row. Nothing of
	// the call was taken.
	ErrConflict = errors.New("attend: conflict")
	// ErrNotFound: there is no such row, event or scope.
	ErrNotFound = errors.New("attend: not found")
	// ErrClosed: the store, log or engine was closed.
	ErrClosed = errors.New("attend: closed")
	// ErrTruncated: rows behind a cursor are gone; the error is a
	// [*TruncatedError].
	ErrTruncated = errors.New("attend: truncated")
	// ErrNewer: a newer release wrote this, and this one leaves it alone. It can
	// be tried again, by a process of that release.
	ErrNewer = errors.New("attend: written by a newer release")
	// ErrCorrupt: stored bytes can't be read.
	ErrCorrupt = errors.New("attend: corrupt")
	// ErrAttached: this process runs that source in that scope already.
	ErrAttached = errors.New("attend: source is attached already")
	// ErrRemoved: the scope lost its cursor while its source ran; somebody
	// removed it.
	ErrRemoved = errors.New("attend: scope was removed")
)

// An InvalidError names what breaks a rule, and what was expected. It quotes
// nothing of the value.
type InvalidError struct {
	Field string // as the caller wrote it, such as "id"
	Want  string // such as "1 to 256 bytes"
}

// Error says which field is wrong and what was expected.
func (e *InvalidError) Error() string { return "attend: " + e.Field + ": want " + e.Want }

// Unwrap returns [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// A TooLargeError names what is over its limit.
type TooLargeError struct {
	Field string
	Limit int // in bytes, or events for a count
}

// Error names the field and its limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("attend: %s: too large, the limit is %d", e.Field, e.Limit)
}

// Unwrap returns [ErrTooLarge].
func (e *TooLargeError) Unwrap() error { return ErrTooLarge }

// An EventError says which event of a push, batch or append is refused. Nothing
// of a push or append with such an event is taken.
type EventError struct {
	Index int // from 0
	Err   error
}

// Error names the event's place and the cause.
func (e *EventError) Error() string { return fmt.Sprintf("attend: event %d: %v", e.Index, e.Err) }

// Unwrap returns the cause.
func (e *EventError) Unwrap() error { return e.Err }

// A PermanentError is one that trying again won't mend.
type PermanentError struct {
	// Account says that the judge's account is at fault (a missing key, no
	// money), not this window: it stays in its slot and is tried again, with
	// backoff, for AccountGrace.
	Account bool
	Err     error
}

// Error is the cause's text.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent returns err as a [*PermanentError], and nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Err: err}
}

// PermanentAccount returns err as a [*PermanentError] of the judge's account,
// and nil for nil.
func PermanentAccount(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Account: true, Err: err}
}

// A RetryAfterError is one that should not be tried again before After has
// passed. At most 60 s of it count.
type RetryAfterError struct {
	After time.Duration
	Err   error
}

// Error is the cause's text.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// A TruncatedError says that rows behind a cursor are gone, and where to read
// on.
type TruncatedError struct {
	// Oldest is where to read on. Behind it nothing is missed that is kept, but
	// rows of a class that was trimmed less far than another that was asked for.
	Oldest LogCursor
}

// Error says that the cursor is truncated.
func (e *TruncatedError) Error() string { return "attend: rows behind this cursor are gone" }

// Unwrap returns [ErrTruncated].
func (e *TruncatedError) Unwrap() error { return ErrTruncated }
