// Package wire carries what the official SDK cannot: long requests that send
// notifications of a name of their own. It sits beside the SDK, on its exported
// transports and messages, and it is the only package of this module that
// touches those. Server side: [Routes] served by [Pipe] and [HTTP].
package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The methods that are taken out of the SDK's hands, and what goes with them.
const (
	methodStream       = "events/stream"
	methodListen       = "subscriptions/listen"
	methodInit         = "initialize"
	eventsPrefix       = "events/"
	noteCancelled      = "notifications/cancelled"
	noteAcknowledged   = "notifications/subscriptions/acknowledged"
	noteListChanged    = "notifications/events/list_changed"
	filterEvents       = "eventsListChanged"
	firstStateless     = "2026-07-28"
	resultTypeComplete = "complete"
)

// maxID is the most that the id of a call of ours may have; it goes with each
// notification.
const maxID = 1 << 10

// A Call is one long request being served. It belongs to the goroutine of its
// handler.
type Call struct {
	ID     json.RawMessage // a string or an integer, as the sender wrote it
	Params json.RawMessage // a JSON object, or nil; a handler drops what it has read, which may be large
	Old    bool            // of a session that began with initialize
	Over   func()          // set by the handler: called once, behind the answer

	out sink
}

// A sink takes what a call sends.
type sink interface {
	note(method string, params ...[]byte) error
	flush() error
	beat() error
}

// Notify sends a notification. Params, which may come in parts, are one JSON
// object without line breaks, with the call's subscription id inside; the parts
// may be used again afterwards. On HTTP the notification may wait for Flush.
func (c *Call) Notify(method string, params ...[]byte) error { return c.out.note(method, params...) }

// Flush sends what Notify held back.
func (c *Call) Flush() error { return c.out.flush() }

// A Handler serves a call until it is done or ctx ends. Its result is the
// answer, and nil with an error. An error that is no *jsonrpc.Error is answered
// as an internal one without its text. A call whose ctx has ended gets no answer.
type Handler func(ctx context.Context, c *Call) (json.RawMessage, error)

func (c *Call) over() {
	if c.Over != nil {
		c.Over()
	}
}

// caught calls h where nobody would catch a panic of it, as net/http does.
func caught(ctx context.Context, h Handler, c *Call) (res json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			res, err = nil, fmt.Errorf("wire: panic: %v", r)
		}
	}()
	return h(ctx, c)
}

// A Watch tells of changes of the list of event types.
type Watch struct {
	Changed <-chan struct{} // once or more after each change
	Closing <-chan struct{} // closed when the server closes its streams
	Stop    func()          // releases the watch; not nil
}

// Routes are what a server does itself beside the SDK.
type Routes struct {
	Stream Handler                                   // events/stream
	Listen func(ctx context.Context) (*Watch, error) // nil where the list of types does not change
	Old    bool                                      // serve sessions that began with initialize too

	Closing context.Context // of HTTP: ends when the server closes what stands open
}

// Answer is the error answer to err.
func Answer(err error) *jsonrpc.Error {
	if e, ok := err.(*jsonrpc.Error); ok && e != nil { // itself and not wrapped: it is ours
		return e
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "InternalError"}
}

// Complete is the result that ends a call, with the call's id in its metadata.
func Complete(id json.RawMessage) json.RawMessage {
	b := append([]byte(`{"resultType":"`+resultTypeComplete+`",`), metaOf(id)...)
	return append(b, '}')
}

// metaOf is the member _meta with the subscription id.
func metaOf(id json.RawMessage) []byte {
	b := append([]byte(`"_meta":{"`+mcp.MetaKeySubscriptionID+`":`), id...)
	return append(b, '}')
}

// A base is what the base protocol wants in the params of each request.
type base struct {
	version string // empty where there is none
	sound   bool   // version and capabilities are there, and known
}

// baseOf reads it. Keys are taken as they are written, as the SDK does.
func baseOf(params json.RawMessage) base {
	var p, meta map[string]json.RawMessage
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p["_meta"], &meta) != nil {
		return base{}
	}
	var b base
	if json.Unmarshal(meta[mcp.MetaKeyProtocolVersion], &b.version) != nil {
		return base{}
	}
	var caps mcp.ClientCapabilities
	var who mcp.Implementation
	b.sound = b.version >= firstStateless && slices.Contains(mcp.SupportedProtocolVersions(), b.version) &&
		strings.HasPrefix(string(meta[mcp.MetaKeyClientCapabilities]), "{") &&
		json.Unmarshal(meta[mcp.MetaKeyClientCapabilities], &caps) == nil
	if info, ok := meta[mcp.MetaKeyClientInfo]; ok {
		b.sound = b.sound && strings.HasPrefix(string(info), "{") && json.Unmarshal(info, &who) == nil
	}
	return b
}
