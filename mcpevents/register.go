package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Register adds the extension's methods to the SDK's server, and a guard around
// all of its methods: a handler that panics or returns a nil pointer is answered
// as an internal error, where it would end the process. Call it once, before the
// first client connects and after the app's own middleware, which the guard goes
// around.
func (s *Server) Register(m *mcp.Server) error {
	if m == nil {
		return errors.New("mcpevents: Register: the server is nil")
	}
	err := errors.Join(
		mcp.AddReceivingCustomMethod(m, methodList, func(ctx context.Context, _ *mcp.ServerSession, p *listQuery) (*listResult, error) {
			var meta mcp.Meta
			if p != nil {
				meta = p.Meta
			}
			return serveMethod(ctx, s, meta, func(ctx context.Context) (*listResult, error) {
				return s.list(ctx, p, func(mode Mode) bool { return s.carries(ctx, meta, mode) })
			})
		}),
		method(s, m, methodPoll, s.poll),
		method(s, m, methodStream, s.noStream),
		method(s, m, methodSubscribe, func(ctx context.Context, p *pollParams) (mcp.Result, error) {
			if s.webhooks == nil {
				return nil, &Error{Kind: MethodNotFound}
			}
			return s.webhooks.subscribe(ctx, p)
		}),
		method(s, m, methodUnsubscribe, func(ctx context.Context, p *pollParams) (mcp.Result, error) {
			if s.webhooks == nil {
				return nil, &Error{Kind: MethodNotFound}
			}
			return s.webhooks.unsubscribe(ctx, p)
		}),
	)
	if err != nil {
		return fmt.Errorf("mcpevents: Register: %w", err)
	}
	m.AddReceivingMiddleware(s.guard)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registered = true
	return nil
}

// method adds one method whose params are those of a subscription.
func method[R mcp.Result](s *Server, m *mcp.Server, name string, f func(context.Context, *pollParams) (R, error)) error {
	return mcp.AddReceivingCustomMethod(m, name, func(ctx context.Context, _ *mcp.ServerSession, p *pollParams) (R, error) {
		var meta mcp.Meta
		if p != nil {
			meta = p.Meta
		}
		return serveMethod(ctx, s, meta, func(ctx context.Context) (R, error) { return f(ctx, p) })
	})
}

// serveMethod answers one request of whom the extension is for.
func serveMethod[R mcp.Result](ctx context.Context, s *Server, meta mcp.Meta, f func(context.Context) (R, error)) (R, error) {
	var zero R
	if old(meta) && !s.config.Older {
		return zero, s.answer(ctx, &Error{Kind: MethodNotFound})
	}
	r, err := f(ctx)
	if err != nil {
		return zero, s.answer(ctx, err)
	}
	return r, nil
}

// old reports whether a request is of a session that began with initialize.
func old(meta mcp.Meta) bool {
	version, _ := meta[mcp.MetaKeyProtocolVersion].(string)
	return version < firstStateless
}

// noStream answers an events/stream that could not be taken out of the SDK's
// hands: of a session over HTTP, or on a transport that is not Server.Transport's.
func (s *Server) noStream(ctx context.Context, p *pollParams) (*listResult, error) {
	if _, err := s.request(ctx, p, Push); err != nil {
		return nil, err
	}
	return nil, refuse(Unsupported, "feature", "deliveryMode", "value", string(Push))
}

// carries reports whether a mode can reach who asks.
func (s *Server) carries(ctx context.Context, meta mcp.Meta, mode Mode) bool {
	overHTTP, _ := ctx.Value(overHTTPKey{}).(bool)
	switch mode {
	case Push:
		return !overHTTP || !old(meta)
	case Webhook: // never where nobody can be known
		if overHTTP {
			return true
		}
		principal, err := s.principal(ctx)
		return err == nil && principal != ""
	}
	return true
}

type overHTTPKey struct{}

// guard is the middleware of Register.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("mcpevents: panic", "in", method, "type", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: string(Internal)}
				return
			}
			if v := reflect.ValueOf(res); err == nil && v.Kind() == reflect.Pointer && v.IsNil() {
				s.log.Error("mcpevents: handler returned neither result nor error", "method", method)
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: string(Internal)}
			}
		}()
		if extra := req.GetExtra(); extra != nil && extra.Header != nil {
			//check:allow context the SDK hands custom methods nothing else
			ctx = context.WithValue(ctx, overHTTPKey{}, true)
		}
		res, err = next(ctx, method, req)
		if first, ok := res.(*mcp.InitializeResult); ok && err == nil && first != nil && !s.config.Older {
			res = withoutExtension(first)
		}
		if err == nil && s.config.Compat && (method == "initialize" || method == "server/discover") {
			res = &hintResult{Result: res, settings: s.settings(), discover: method == "server/discover"}
		}
		return res, err
	}
}

// withoutExtension is a copy of an answer to initialize that does not promise what
// such a session would not get.
func withoutExtension(r *mcp.InitializeResult) *mcp.InitializeResult {
	if r.Capabilities == nil {
		return r
	}
	own, caps := *r, *r.Capabilities
	caps.Extensions = maps.Clone(caps.Extensions)
	delete(caps.Extensions, Extension)
	own.Capabilities = &caps
	return &own
}

// A hintResult is an answer of the SDK's with the capability at its top level as
// well, where its own type has no place for it.
type hintResult struct {
	mcp.Result
	settings map[string]any
	discover bool
}

// MarshalJSON writes the SDK's result and the hint.
func (h *hintResult) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(h.Result)
	if err != nil {
		return nil, err
	}
	var m, caps map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if json.Unmarshal(m["capabilities"], &caps) != nil || caps == nil {
		return raw, nil
	}
	if caps["events"], err = json.Marshal(h.settings); err != nil {
		return nil, err
	}
	if m["capabilities"], err = json.Marshal(caps); err != nil {
		return nil, err
	}
	if h.discover { // the SDK sets it on its own type alone
		m["resultType"] = json.RawMessage(`"` + complete + `"`)
	}
	return json.Marshal(m)
}
