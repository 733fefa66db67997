package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/attend-go/attend/mcpevents/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What is kept of a server's error answer.
const (
	maxMessageBytes = 256
	maxErrorData    = 16 << 10
)

// evidence is the member of data that an error of each kind has; it tells an
// older number of the extension from somebody else's.
var evidence = []struct {
	kind   Kind
	member string
}{
	{NotFound, "kind"},
	{Forbidden, "reason"},
	{ResourceExhausted, "limit"},
	{Unsupported, "feature"},
	{CallbackEndpointError, "reason"},
}

// newAnswer makes an [Error] of what a server answered. An older number counts
// only when message or data says the same.
func newAnswer(code int64, message string, data json.RawMessage) *Error {
	e := &Error{Code: code, Message: label(message)}
	if len(data) > 0 && string(data) != "null" && len(data) <= maxErrorData && !tooDeep(data) {
		e.Data = slices.Clone(data)
	}
	for _, c := range codes {
		if code == c.code || code == c.older && agrees(c.kind, message, e.Data) {
			e.Kind = c.kind
			break
		}
	}
	return e
}

// label is a server's text made fit for one line of a log.
func label(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxMessageBytes)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// agrees reports whether message names the kind, or data has its member.
func agrees(kind Kind, message string, data json.RawMessage) bool {
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, message[:min(len(message), maxMessageBytes)])
	if strings.Contains(letters, strings.ToLower(string(kind))) {
		return true
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return false
	}
	for _, e := range evidence {
		if e.kind == kind && members[e.member] != nil {
			return true
		}
	}
	return false
}

// member returns a string member of an error's data, "" without one.
func (e *Error) member(name string) string {
	var members map[string]json.RawMessage
	var s string
	if json.Unmarshal(e.Data, &members) == nil {
		_ = json.Unmarshal(members[name], &s)
	}
	return s
}

// aboutCursor reports whether InvalidParams may mean the cursor: the data says
// so, or says nothing of what it means.
func (e *Error) aboutCursor() bool {
	p := strings.Trim(e.member("path"), "/$.")
	return p == "" || p == "cursor" || p == "params/cursor" || p == "params.cursor"
}

// asAnswer turns what the wire says into the errors of this package.
func asAnswer(err error) error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code != rejectedByTransport {
		return newAnswer(e.Code, e.Message, e.Data)
	}
	if e, ok := errors.AsType[*wire.StatusError](err); ok {
		st := &StatusError{Status: e.Status, RetryAfter: e.RetryAfter}
		if e.Answer == nil {
			return st
		}
		return fmt.Errorf("%w: %w", st, newAnswer(e.Answer.Code, e.Answer.Message, e.Answer.Data))
	}
	for _, m := range []struct{ from, to error }{
		{wire.ErrOverflow, ErrOverflow}, {wire.ErrDown, ErrClosed}, {wire.ErrCut, ErrLost},
		{wire.ErrTooLarge, ErrTooLarge}, {wire.ErrUnread, ErrProtocol},
	} {
		if errors.Is(err, m.from) {
			return fmt.Errorf("%w: %w", m.to, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// rejectedByTransport is a code that the SDK's client makes up for trouble of the
// transport; no server said it.
const rejectedByTransport = -32005

// checkComplete refuses a result of a type that this extension does not have.
func checkComplete(resultType *string) error {
	if resultType != nil && *resultType != complete {
		return fmt.Errorf("%w: its result has an unknown resultType", ErrProtocol)
	}
	return nil
}
