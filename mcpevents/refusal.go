package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/attend-go/attend/mcpevents/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// refuse is an error answer with data of one or more members, given as name and
// value in turn.
func refuse(kind Kind, members ...any) *Error {
	data := map[string]any{}
	for i := 0; i+1 < len(members); i += 2 {
		data[members[i].(string)] = members[i+1]
	}
	raw, _ := json.Marshal(data) // strings and numbers can always be written
	return &Error{Kind: kind, Data: raw}
}

// invalid is the answer to a param that is not as it should be.
func invalid(path, reason string) *Error {
	return refuse(InvalidParams, "path", path, "reason", reason)
}

// wireErrorOf is an error as it travels. What is no *Error, or none of a kind that
// is known, is internal, and its text stays here.
func (s *Server) wireErrorOf(err error) wireError {
	e, ok := errors.AsType[*Error](err)
	if !ok || e == nil {
		e = &Error{Kind: Internal}
	}
	at := slices.IndexFunc(codes, func(c code) bool { return c.kind == e.Kind })
	if at < 0 {
		return s.wireErrorOf(nil)
	}
	out := wireError{Code: codes[at].code, Message: e.Message, Data: e.Data}
	if s.config.Compat {
		out.Code = codes[at].older
	}
	if out.Message == "" {
		out.Message = string(e.Kind)
	}
	if !json.Valid(out.Data) {
		out.Data = nil
	}
	return out
}

// answer is the JSON-RPC error to an error of a request. It is the error itself
// and not one that wraps it, which would lose its data on the wire.
func (s *Server) answer(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); !ok && ctx.Err() == nil {
		s.log.Error("mcpevents: request failed", "error", err)
	}
	wire.Plain(ctx)
	e := s.wireErrorOf(err)
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

// ends reports whether an error of a backend or a check is final.
func ends(err error) bool {
	return errors.Is(err, ErrForbidden) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnsupported)
}

// guarded calls what others wrote; a panic there is an error. It would end the
// process: neither the SDK nor net/http catches it where it happens.
func guarded[T any](s *Server, what string, f func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("mcpevents: panic", "in", what, "type", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
			var zero T
			v, err = zero, fmt.Errorf("mcpevents: panic in %s", what)
		}
	}()
	return f()
}
