package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// How an exchange ends that was not answered.
var (
	ErrOverflow = errors.New("too many messages are waiting to be read")
	ErrDown     = errors.New("the connection is closed")
	ErrCut      = errors.New("the stream ended without an answer")
	ErrTooLarge = errors.New("an answer is too large")
	ErrUnread   = errors.New("an answer cannot be read")
)

// A StatusError is an HTTP answer that is no success.
type StatusError struct {
	Status     int
	RetryAfter time.Duration  // zero where the server did not say
	Answer     *jsonrpc.Error // in its body; may be nil
}

// Error tells the status.
func (e *StatusError) Error() string { return "HTTP status " + strconv.Itoa(e.Status) }

// idPrefix begins the ids of our requests: strings, which cannot meet the
// integers of the SDK on the same pipe.
const idPrefix = "ev-"

// A ClientConfig is what a [Client] may take from the server, and where it puts
// what belongs to nobody. All of it is set.
type ClientConfig struct {
	Extension  string // declared with the capabilities of every request, the SDK's too
	Prefix     string // of the notifications that the SDK would drop
	MaxMessage int    // bytes of one message over HTTP; a pipe has the limit of its transport
	MaxQueue   int    // notes that wait to be read, for each exchange
	MaxBytes   int    // bytes of them
	MaxWrite   time.Duration
	Stray      func(method string) // a note for no exchange; called from reading goroutines, must not block
}

// A Client carries calls with notifications of their own beside a session of the
// SDK: over the pipe of the session, or over HTTP requests of their own. Its
// methods may be called from several goroutines.
type Client struct {
	cfg     ClientConfig
	carrier carrier
	seq     atomic.Int64
	shake   handshake

	mu      sync.Mutex
	version string
	session string
	meta    map[string]json.RawMessage
}

// A carrier is a way to the server.
type carrier interface {
	transport() mcp.Transport
	// start sends x's request and sees to it that x finishes. It does not block.
	start(x *Exchange)
	// stop gives x up, unless it finished, and returns when nothing runs for it
	// that the consumer would have to wait for.
	stop(x *Exchange)
	// end finishes every exchange; none can start any more.
	end()
	// close waits for all that runs, after the SDK's session was closed.
	close()
}

// Over returns a client that goes the way of t: over HTTP for the SDK's
// StreamableClientTransport, else over the pipe that t connects to.
func Over(t mcp.Transport, cfg ClientConfig) *Client {
	c := &Client{cfg: cfg}
	c.shake.extension = cfg.Extension
	if h, ok := t.(*mcp.StreamableClientTransport); ok {
		c.carrier = newHTTPCarrier(c, h)
	} else {
		c.carrier = newPipe(c, t)
	}
	return c
}

// Transport is what the SDK's session is to be connected over.
func (c *Client) Transport() mcp.Transport { return c.carrier.transport() }

// HTTP reports whether the client goes over HTTP.
func (c *Client) HTTP() bool {
	_, ok := c.carrier.(*httpCarrier)
	return ok
}

// Ready tells what the SDK's session agreed on; calls may start from now on.
func (c *Client) Ready(version, session string, stateless bool) {
	meta := map[string]json.RawMessage(nil)
	if stateless {
		meta = c.shake.meta()
		meta[mcp.MetaKeyProtocolVersion], _ = json.Marshal(version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.session, c.meta = version, session, meta
}

// ServerCapabilities is what the server said in the handshake, as it came; nil
// where it could not be read.
func (c *Client) ServerCapabilities() json.RawMessage { return c.shake.server() }

// Status is the HTTP status of the last answer in the handshake that was none
// of success, or nil.
func (c *Client) Status() *StatusError { return c.shake.failed() }

// End finishes every exchange with [ErrDown]; none can start any more.
func (c *Client) End() { c.carrier.end() }

// Close closes the connection and waits for the goroutines of all exchanges. End
// is called first, and the SDK's session closed in between.
func (c *Client) Close() { c.carrier.close() }

// Start sends a call. params is encoded as a JSON object; the client adds _meta.
// ctx ends the exchange like [Exchange.Close], which is to be called in any case.
// most is how many notes may wait, zero what the configuration says.
func (c *Client) Start(ctx context.Context, method string, params any, most int) (*Exchange, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("%s: params: %w", method, err)
	}
	c.mu.Lock()
	meta := c.meta
	c.mu.Unlock()
	if meta != nil {
		var p map[string]json.RawMessage
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("%s: params: %w", method, err)
		}
		if p["_meta"], err = json.Marshal(meta); err != nil {
			return nil, fmt.Errorf("%s: _meta: %w", method, err)
		}
		if raw, err = json.Marshal(p); err != nil {
			return nil, fmt.Errorf("%s: params: %w", method, err)
		}
	}
	id, err := jsonrpc.MakeID(idPrefix + strconv.FormatInt(c.seq.Add(1), 10))
	if err != nil {
		return nil, err
	}
	x := newExchange(ctx, c, &jsonrpc.Request{ID: id, Method: method, Params: raw})
	if most > 0 {
		x.most = most
	}
	c.carrier.start(x)
	return x, nil
}

// issued reports whether raw is the id of a call that this client made.
func (c *Client) issued(raw any) bool {
	s, ok := raw.(string)
	if !ok {
		return false
	}
	digits, ok := strings.CutPrefix(s, idPrefix)
	if !ok {
		return false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && n >= 1 && n <= c.seq.Load()
}

// subscription returns the subscription id of a notification, nil without one.
func subscription(params json.RawMessage) any {
	var p struct {
		Meta struct {
			ID any `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	return p.Meta.ID
}

// sameID reports whether a subscription id on the wire means id: the same value
// of the same type, or the decimal digits of an integer.
func sameID(id jsonrpc.ID, raw any) bool {
	if n, ok := id.Raw().(int64); ok {
		if s, ok := raw.(string); ok {
			return s == strconv.FormatInt(n, 10)
		}
		if f, ok := raw.(float64); ok {
			return f == float64(n)
		}
	}
	s, ok := raw.(string)
	return ok && id.Raw() == any(s)
}
