package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// grace is how long, after the end of input, the answers to what was read before
// may take.
const grace = 5 * time.Second

// maxPlaces is how many calls of ours may be under way that have neither begun to
// send nor been answered. Behind them the reader waits: a peer that reads nothing
// of what it is told cannot have more of it made.
const maxPlaces = 1024

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
	pc := &serverConn{Connection: c, routes: p.routes,
		calls: map[jsonrpc.ID]*serverCall{}, open: map[jsonrpc.ID]bool{}, over: map[jsonrpc.ID]bool{},
		places: make(chan struct{}, maxPlaces), wake: make(chan struct{}, 1)}
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
	old    bool        // initialize was read; the reader's
	modern atomic.Bool // a request of 2026-07-28 was read, which the SDK may know nothing of, and no initialize
	wmu    sync.Mutex
	places chan struct{} // taken by calls and refusals
	wake   chan struct{} // a call of the SDK's was answered

	mu    sync.Mutex
	calls map[jsonrpc.ID]*serverCall // ours
	open  map[jsonrpc.ID]bool        // the SDK's, not yet answered
	over  map[jsonrpc.ID]bool        // mixed listens that were answered here or cancelled: the SDK's rest is dropped
}

// A serverCall is a call of ours, or our part of a listen that the SDK serves too.
type serverCall struct {
	cancel context.CancelFunc
	listen bool
	watch  *Watch            // of a mixed listen
	acked  chan struct{}     // of a mixed listen: closed when the acknowledgement is out
	once   sync.Once         // for that
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
	c.modern.Store(!c.old && (b.sound || c.modern.Load()))
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

// enter takes a place, once there is one; false is at the end of the connection.
func (c *serverConn) enter() bool {
	select {
	case c.places <- struct{}{}:
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *serverConn) leave() { <-c.places }

// refuse answers from a goroutine of its own: the reader does not wait for a peer
// that does not read, within bounds.
func (c *serverConn) refuse(id jsonrpc.ID, e *jsonrpc.Error) {
	if c.enter() {
		c.wg.Go(func() {
			defer c.leave()
			_ = c.send(context.WithoutCancel(c.ctx), &jsonrpc.Response{ID: id, Error: e})
		})
	}
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

// serve serves a call that is ours alone.
func (c *serverConn) serve(req *jsonrpc.Request, h Handler, old bool) {
	id, err := json.Marshal(req.ID.Raw())
	if err != nil || !c.enter() {
		return // an id is a string or an integer
	}
	call := &serverCall{listen: req.Method == methodListen}
	ctx := c.begin(req.ID, call)
	out := &serverSink{ctx: ctx, conn: c, place: true}
	one := &Call{ID: id, Params: req.Params, Old: old, out: out}
	answer := &jsonrpc.Response{ID: req.ID} // nothing here holds the request, which may be large
	c.wg.Go(func() {
		defer c.end(answer.ID, call)
		defer out.leave()
		defer one.over()
		res, err := caught(ctx, h, one)
		one.Params = nil // the answer may have to wait
		due := false
		if answer.Result = res; err != nil {
			e := Answer(err)
			answer.Result, answer.Error = nil, e
			due = e.Code != jsonrpc.CodeInternalError // a refusal is, at the end of input too
		}
		c.answer(ctx, call, answer, due)
	})
}

// answer sends the answer to a call of ours. One that was cancelled gets none, and
// at the end of input only those that are due. The id is free before the peer can
// read that. Behind a listen's closing result goes the cancellation that the base
// protocol wants of a server that tears one down on a pipe.
func (c *serverConn) answer(ctx context.Context, call *serverCall, r *jsonrpc.Response, due bool) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if ctx.Err() != nil && !(due && c.listed(r.ID, call)) {
		return
	}
	c.end(r.ID, call)
	ctx = context.WithoutCancel(ctx)
	if c.Connection.Write(ctx, r) == nil && call.listen && r.Error == nil {
		_ = c.Connection.Write(ctx, &jsonrpc.Request{Method: noteCancelled, Params: cancellation(r.ID)})
	}
}

// cancellation are the params that cancel a listen.
func cancellation(listen jsonrpc.ID) json.RawMessage {
	id, err := json.Marshal(listen.Raw())
	if err != nil {
		return nil // an id is a string or an integer
	}
	return append(append(append(append([]byte(`{"requestId":`), id...), ','), metaOf(id)...), '}')
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
	shared := call != nil && call.watch != nil && call.held == nil
	if shared { // the SDK would answer it
		c.over[id] = true
	}
	c.mu.Unlock()
	if call == nil {
		return false
	}
	call.cancel()
	return !shared
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
		if c.unheard(r) {
			return nil
		}
		if r.Method == noteAcknowledged {
			return c.acknowledge(ctx, r)
		}
	}
	return c.send(ctx, m)
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
	ctx   context.Context
	conn  *serverConn
	place bool // it has one until it sends
}

func (s *serverSink) note(method string, params ...[]byte) error {
	err := s.conn.send(s.ctx, &jsonrpc.Request{Method: method, Params: bytes.Join(params, nil)})
	s.leave()
	return err
}

func (s *serverSink) leave() {
	if s.place {
		s.place = false
		s.conn.leave()
	}
}

func (s *serverSink) flush() error { return nil }
func (s *serverSink) beat() error  { return nil }
