package mcpevents

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// How a client's calls and iterators end, besides with the server's own answer
// ([Error]), a [StatusError], or the error of their context.
var (
	// ErrNotOffered: the server has not announced the extension. No request was
	// sent.
	ErrNotOffered = errors.New("mcpevents: the server does not offer the extension")
	// ErrNoMode: the type is not in the server's list, or in no mode that can be
	// used here.
	ErrNoMode = errors.New("mcpevents: no compatible delivery mode")
	// ErrNoReplay: the type has no cursors, and a poll without one brings no
	// events by definition.
	ErrNoReplay = errors.New("mcpevents: the type has no cursors, so that it cannot be polled")
	// ErrOverflow: more notifications waited than [SessionConfig.MaxBuffered].
	// Those that waited were handed over before.
	ErrOverflow = errors.New("mcpevents: too many notifications are waiting")
	// ErrIdle: neither an event nor a heartbeat for [FollowConfig.Idle].
	ErrIdle = errors.New("mcpevents: the stream is silent")
	// ErrTimeout: no answer within [SessionConfig.RequestTimeout], or no stream
	// within [FollowConfig.Open].
	ErrTimeout = errors.New("mcpevents: the server does not answer")
	// ErrClosed: the session is closed, or its pipe is broken.
	ErrClosed = errors.New("mcpevents: the session is closed")
	// ErrEnded: the server closed a stream without saying that the subscription
	// is over. It may be opened again.
	ErrEnded = errors.New("mcpevents: the server closed the stream")
	// ErrLost: a connection was cut before the answer was complete.
	ErrLost = errors.New("mcpevents: the connection is lost")
	// ErrProtocol: an answer is not what the protocol says.
	ErrProtocol = errors.New("mcpevents: the server does not keep to the protocol")
	// ErrTooLarge: an answer is over a limit of [SessionConfig].
	ErrTooLarge = errors.New("mcpevents: the server's answer is too large")
)

// A TerminatedError ends a subscription that the server terminated: access was
// withdrawn, the type removed or changed. It unwraps to the server's reason, so
// that errors.Is recognises its kind.
type TerminatedError struct {
	Cause *Error
}

// Error tells the reason.
func (e *TerminatedError) Error() string {
	return "mcpevents: the server terminated the subscription: " + e.Cause.label()
}

// Unwrap returns the reason.
func (e *TerminatedError) Unwrap() error { return e.Cause }

// A StatusError is an HTTP answer that is no success. Where a JSON-RPC error is in
// it, the [Error] is wrapped beside this one.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // what the server asked for, an hour at most; zero: it did not
}

// Error tells the status.
func (e *StatusError) Error() string { return "mcpevents: HTTP status " + strconv.Itoa(e.Status) }

// A Drop is why an event or notification was not handed over.
type Drop string

// The reasons.
const (
	DropMalformed Drop = "malformed" // no eventId, name, timestamp, or object as data
	DropForeign   Drop = "foreign"   // of another type than was subscribed to
	DropOversize  Drop = "oversize"  // its data is over [SessionConfig.MaxEventBytes], or nests too deeply
	DropUnknown   Drop = "unknown"   // a notification that is not understood; it was no event
	DropUnread    Drop = "unread"    // what is no message, or over [SessionConfig.MaxMessageBytes]; it may have been an event
)

// A DroppedError tells of something that the server sent and nobody gets. Cursors
// move past it.
type DroppedError struct {
	Reason Drop
	ID     string // of the event, where it has one; not in the text
}

// Error tells the reason.
func (e *DroppedError) Error() string { return "mcpevents: dropped: " + string(e.Reason) }

// A MismatchError tells of an event whose data does not conform to the payload
// schema of its type. It was delivered, with Mismatch set.
type MismatchError struct {
	ID string // of the event; not in the text
}

// Error says what is wrong, with nothing of the data.
func (e *MismatchError) Error() string {
	return "mcpevents: the data of an event does not conform to its schema"
}

// A StrayError tells of a notification that belongs to no stream of the session,
// or of what a server wrote that is no message at all.
type StrayError struct {
	Method string // empty: no message, or an answer to nothing
}

// Error tells the method.
func (e *StrayError) Error() string {
	return "mcpevents: a message belongs to no stream: " + cmp.Or(e.Method, "no method")
}

// A FailureError is an error that the server reports on a stream which goes on.
type FailureError struct {
	Cause *Error
}

// Error tells the server's error.
func (e *FailureError) Error() string {
	return "mcpevents: the server reports trouble: " + e.Cause.label()
}

// Unwrap returns the server's error.
func (e *FailureError) Unwrap() error { return e.Cause }

func (e *Error) label() string {
	if e == nil {
		e = &Error{Kind: Internal}
	}
	label := e.Message
	if label == "" {
		label = string(e.Kind)
	}
	return fmt.Sprintf("%s (%d)", label, e.Code)
}

// Permanent reports whether trying again, unchanged, is of no use: the server
// terminated the subscription, or refused it with InvalidParams, NotFound,
// Forbidden, Unsupported or MethodNotFound; the credentials are refused; the
// extension, the type or a usable mode is not there. All else, codes that are not
// known among them, may pass.
func Permanent(err error) bool {
	if _, ok := errors.AsType[*TerminatedError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Kind {
		case InvalidParams, NotFound, Forbidden, Unsupported, MethodNotFound:
			return true
		}
	}
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status == 401 || e.Status == 403
	}
	return errors.Is(err, ErrNotOffered) || errors.Is(err, ErrNoMode) || errors.Is(err, ErrNoReplay)
}
