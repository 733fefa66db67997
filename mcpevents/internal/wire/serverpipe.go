package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// grace is how long, after the end of input, the answers to what was read before
// may take.
const grace = 5 * time.Second

// Pipe wraps a server's transport that one peer is at the other end of: stdio,
// in memory. It serves the routes, and gives the answers to the last requests
// time to be written after the end of input, which the SDK drops.
func Pipe(t mcp.Transport, r *Routes) mcp.Transport { return &serverPipe{t, r} }

type serverPipe struct {
	inner  mcp.Transport
	routes *Routes
}

// SupportsProtocolVersion asks the wrapped transport, which may have no opinion.
func (p *serverPipe) SupportsProtocolVersion(version string) bool {
	s, ok := p.inner.(mcp.ProtocolVersionSupporter)
	return !ok || s.SupportsProtocolVersion(version)
}

// Connect connects the wrapped transport. Values of ctx reach the handlers.
func (p *serverPipe) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := p.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	pc := &serverConn{Connection: c, routes: p.routes, calls: map[jsonrpc.ID]*serverCall{}, open: map[jsonrpc.ID]bool{}, over: map[jsonrpc.ID]bool{}, wake: make(chan struct{}, 1)}
	pc.ctx, pc.stop = context.WithCancel(context.WithoutCancel(ctx))
	return pc, nil
}

// A serverConn reads in one goroutine, the SDK's, and writes in many.
type serverConn struct {
	mcp.Connection
	routes *Routes
	ctx    context.Context // ends all our calls
	stop   context.CancelFunc
	wg     sync.WaitGroup
	old    bool // initialize was read; the reader's
	wmu    sync.Mutex
	wake   chan struct{} // a call of the SDK's was answered

	mu    sync.Mutex
	calls map[jsonrpc.ID]*serverCall // ours
	open  map[jsonrpc.ID]bool        // the SDK's, not yet answered
	over  map[jsonrpc.ID]bool        // mixed listens that were answered here: the SDK's rest is dropped
}

// A serverCall is a call of ours, or our part of a listen that the SDK serves too.
type serverCall struct {
	cancel context.CancelFunc
	watch  *Watch            // of a mixed listen
	acked  chan struct{}     // of a mixed listen: closed when the acknowledgement is out
	held   *jsonrpc.Response // of a mixed listen: the SDK's answer, kept until ours is over
}

// Read reads on until there is a message for the SDK.
func (c *serverConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.drain()
			return nil, err
		}
		req, ok := m.(*jsonrpc.Request)
		switch {
		case ok && req.IsCall() && c.take(req):
		case ok && req.Method == noteCancelled && c.cancel(req.Params):
		default:
			return m, nil
		}
	}
}

// take serves a call that is ours, and reports whether the SDK is not to see it.
func (c *serverConn) take(req *jsonrpc.Request) bool {
	if c.inUse(req.ID) { // two answers under one id could not be told apart
		c.refuse(req.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "request id in use"})
		return true
	}
	if id, ok := req.ID.Raw().(string); ok && len(id) > maxID {
		c.refuse(jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "request id too long"})
		return true
	}
	b := baseOf(req.Params)
	if req.Method == methodInit && b.version < firstStateless {
		c.old = true
	}
	switch {
	case !strings.HasPrefix(req.Method, eventsPrefix) && req.Method != methodListen:
	case b.version < firstStateless && !c.old:
		c.refuse(req.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "missing _meta field " + mcp.MetaKeyProtocolVersion})
		return true
	case req.Method == methodStream && (b.sound || c.old && b.version < firstStateless && c.routes.Old):
		c.serve(req, c.routes.Stream, !b.sound)
		return true
	case req.Method == methodListen && b.sound && c.routes.Listen != nil:
		switch ours, others := asks(req.Params); {
		case ours && !others:
			c.serve(req, c.routes.listen, false)
			return true
		case ours && !c.join(req):
			return true
		}
	}
	if req.Method != methodListen { // a listen ends with the connection, no sooner
		c.mu.Lock()
		c.open[req.ID] = true
		c.mu.Unlock()
	}
	return false
}

func (c *serverConn) inUse(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id] != nil || c.over[id]
}

// refuse answers from a goroutine of its own: the reader must not wait for a peer
// that does not read.
func (c *serverConn) refuse(id jsonrpc.ID, e *jsonrpc.Error) {
	c.wg.Go(func() { _ = c.send(context.WithoutCancel(c.ctx), &jsonrpc.Response{ID: id, Error: e}) })
}

// begin notes a call of ours.
func (c *serverConn) begin(id jsonrpc.ID, call *serverCall) context.Context {
	ctx, cancel := context.WithCancel(c.ctx)
	call.cancel = cancel
	c.mu.Lock()
	c.calls[id] = call
	c.mu.Unlock()
	return ctx
}

// listed reports whether a call was not cancelled by the peer.
func (c *serverConn) listed(id jsonrpc.ID, call *serverCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id] == call
}

// end forgets a call of ours.
func (c *serverConn) end(id jsonrpc.ID, call *serverCall) {
	call.cancel()
	c.mu.Lock()
	if c.calls[id] == call { // the id may be in use again
		delete(c.calls, id)
	}
	c.mu.Unlock()
}

func (c *serverConn) serve(req *jsonrpc.Request, h Handler, old bool) {
	id, err := json.Marshal(req.ID.Raw())
	if err != nil {
		return // an id is a string or an integer
	}
	call := &serverCall{}
	ctx := c.begin(req.ID, call)
	c.wg.Go(func() {
		defer c.end(req.ID, call)
		one := &Call{ID: id, Params: req.Params, Old: old, out: &serverSink{ctx, c}}
		defer one.over()
		res, err := caught(ctx, h, one)
		answer := &jsonrpc.Response{ID: req.ID, Result: res}
		if err != nil {
			e := Answer(err)
			answer.Result, answer.Error = nil, e
			if e.Code != jsonrpc.CodeInternalError && c.listed(req.ID, call) { // a refusal is still due at the end of input
				ctx = context.WithoutCancel(ctx)
			}
		}
		_ = c.send(ctx, answer) // not when ctx has ended: a cancelled call gets no answer
	})
}

// join adds our part to a listen that the SDK serves; false is refused.
func (c *serverConn) join(req *jsonrpc.Request) bool {
	id, err := json.Marshal(req.ID.Raw())
	if err != nil {
		return true
	}
	call := &serverCall{acked: make(chan struct{})}
	ctx := c.begin(req.ID, call)
	w, err := c.routes.Listen(ctx)
	if err != nil {
		c.end(req.ID, call)
		c.refuse(req.ID, Answer(err))
		return false
	}
	call.watch = w
	c.wg.Go(func() {
		defer c.end(req.ID, call)
		defer w.Stop()
		select {
		case <-ctx.Done():
			return
		case <-call.acked:
		}
		if w.follow(ctx, &serverSink{ctx, c}, id) != nil {
			return
		}
		c.mu.Lock()
		held := call.held
		if held == nil && ctx.Err() == nil { // the SDK's part goes on, unheard
			held = &jsonrpc.Response{ID: req.ID, Result: Complete(id)}
			c.over[req.ID] = true
		}
		c.mu.Unlock()
		if held != nil {
			_ = c.send(ctx, held)
		}
	})
	return true
}

// cancel ends the call that a cancellation names, and reports whether the SDK is
// not to see it.
func (c *serverConn) cancel(params json.RawMessage) bool {
	var p map[string]any
	_ = json.Unmarshal(params, &p)
	id, err := jsonrpc.MakeID(p["requestId"])
	if err != nil {
		return false
	}
	c.mu.Lock()
	call := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if call == nil {
		return false
	}
	call.cancel()
	return call.watch == nil || call.held != nil
}

// Write sends a message of the SDK's.
func (c *serverConn) Write(ctx context.Context, m jsonrpc.Message) error {
	switch r := m.(type) {
	case *jsonrpc.Response:
		defer c.answered(r.ID)
		if c.hold(r) {
			return nil
		}
	case *jsonrpc.Request:
		if c.unheard(r.Params) {
			return nil
		}
		if r.Method == noteAcknowledged {
			return c.acknowledge(ctx, r)
		}
	}
	return c.send(ctx, m)
}

// hold keeps the SDK's answer to a mixed listen that it has nothing to send on.
func (c *serverConn) hold(r *jsonrpc.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over[r.ID] {
		return true
	}
	call := c.calls[r.ID]
	if call == nil || call.watch == nil {
		return false
	}
	select {
	case <-call.watch.Closing:
	default:
		if r.Error == nil {
			call.held = r
			return true
		}
	}
	call.cancel()
	return false
}

// unheard reports whether a notification is of a mixed listen that is over.
func (c *serverConn) unheard(params json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.over) == 0 {
		return false
	}
	id, ok := subscriptionID(params)
	return ok && c.over[id]
}

// subscriptionID is the subscription id in params.
func subscriptionID(params json.RawMessage) (jsonrpc.ID, bool) {
	var raw any
	_ = json.Unmarshal(subscriptionOf(params), &raw)
	id, err := jsonrpc.MakeID(raw)
	return id, err == nil && raw != nil
}

func (c *serverConn) acknowledge(ctx context.Context, r *jsonrpc.Request) error {
	id, ok := subscriptionID(r.Params)
	c.mu.Lock()
	call := c.calls[id]
	c.mu.Unlock()
	if !ok || call == nil || call.watch == nil {
		return c.send(ctx, r)
	}
	err := c.send(ctx, &jsonrpc.Request{Method: r.Method, Params: acknowledge(r.Params)})
	close(call.acked) // the SDK acknowledges once
	return err
}

func (c *serverConn) answered(id jsonrpc.ID) {
	c.mu.Lock()
	delete(c.open, id)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// send writes one message. A mutex wakes its waiters in order, so that a busy
// stream cannot keep the others' answers waiting.
func (c *serverConn) send(ctx context.Context, m jsonrpc.Message) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := ctx.Err(); err != nil { // cancelled while it waited
		return err
	}
	return c.Connection.Write(ctx, m)
}

// drain ends our calls after the end of input, and lets the SDK answer what it
// has read.
func (c *serverConn) drain() {
	c.stop()
	ours := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(ours)
	}()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-ours:
	case <-late.C: // a peer that reads no more holds a write
		return
	}
	for {
		c.mu.Lock()
		n := len(c.open)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-c.wake:
		case <-late.C:
			return
		}
	}
}

// Close ends our calls and the connection.
func (c *serverConn) Close() error {
	c.stop()
	c.mu.Lock()
	clear(c.open) // nothing can be answered any more
	c.mu.Unlock()
	c.answered(jsonrpc.ID{})
	return c.Connection.Close()
}

// A serverSink writes the notifications of one call.
type serverSink struct {
	ctx  context.Context
	conn *serverConn
}

func (s *serverSink) note(method string, params ...[]byte) error {
	return s.conn.send(s.ctx, &jsonrpc.Request{Method: method, Params: bytes.Join(params, nil)})
}

func (s *serverSink) flush() error { return nil }
func (s *serverSink) beat() error  { return nil }
