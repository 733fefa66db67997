package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
)

// A Kind is the protocol's name for an error answer.
type Kind string

// The error answers of the extension.
const (
	InvalidParams         Kind = "InvalidParams"
	NotFound              Kind = "NotFound"
	Forbidden             Kind = "Forbidden"
	ResourceExhausted     Kind = "ResourceExhausted"
	Unsupported           Kind = "Unsupported"
	CallbackEndpointError Kind = "CallbackEndpointError"
	Internal              Kind = "InternalError"
	MethodNotFound        Kind = "MethodNotFound"
)

// To recognise an answer of a kind with errors.Is.
var (
	ErrInvalidParams     error = &Error{Kind: InvalidParams}
	ErrNotFound          error = &Error{Kind: NotFound}
	ErrForbidden         error = &Error{Kind: Forbidden}
	ErrResourceExhausted error = &Error{Kind: ResourceExhausted}
	ErrUnsupported       error = &Error{Kind: Unsupported}
	ErrCallbackEndpoint  error = &Error{Kind: CallbackEndpointError}
	ErrMethodNotFound    error = &Error{Kind: MethodNotFound}
	ErrInternal          error = &Error{Kind: Internal}
)

// A code is the number of a kind.
type code struct {
	kind        Kind
	code, older int64
}

// codes are the numbers of each kind: of SEP-3415, and of the sketch before it,
// which older peers use. Nothing else in this module knows a number.
var codes = []code{
	{InvalidParams, -32602, -32602},
	{NotFound, -32023, -32011},
	{Forbidden, -32024, -32012},
	{ResourceExhausted, -32025, -32013},
	{Unsupported, -32026, -32014},
	{CallbackEndpointError, -32027, -32015},
	{Internal, -32603, -32603},
	{MethodNotFound, -32601, -32601},
}

// An Error is an error answer. A server's functions return one to choose the
// answer; any other error of theirs is answered as an internal one, and its text
// stays on the server. A client gets one where the server answered with an
// error: errors.Is recognises its kind.
type Error struct {
	Kind    Kind            // empty on a client where the number is none of ours
	Code    int64           // as it came; zero on a server, which takes the kind's number
	Message string          // a label; empty is the kind
	Data    json.RawMessage // what the kind says about itself; may be nil
}

// Error tells kind, number and message.
func (e *Error) Error() string {
	if e == nil {
		e = &Error{Kind: Internal}
	}
	label := e.Message
	if label == "" {
		label = string(e.Kind)
	}
	if e.Code != 0 {
		return fmt.Sprintf("mcpevents: %s (%d)", label, e.Code)
	}
	return "mcpevents: " + label
}

// Is reports whether target is an error of the same kind.
func (e *Error) Is(target error) bool {
	t, ok := errors.AsType[*Error](target)
	return ok && e != nil && t != nil && t.Kind == e.Kind && e.Kind != ""
}
