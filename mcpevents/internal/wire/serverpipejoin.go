package wire

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// join adds our part to a listen that the SDK serves; false is refused.
func (c *serverConn) join(req *jsonrpc.Request) bool {
	id, err := json.Marshal(req.ID.Raw())
	if err != nil {
		return true
	}
	w, err := c.routes.Listen(c.ctx)
	if err != nil {
		c.refuse(req.ID, Answer(err))
		return false
	}
	call := &serverCall{listen: true, watch: w, acked: make(chan struct{})}
	ctx := c.begin(req.ID, call)
	c.wg.Go(func() {
		defer c.end(req.ID, call)
		defer w.Stop()
		select {
		case <-ctx.Done():
			return
		case <-call.acked:
		}
		if w.follow(ctx, &serverSink{ctx: ctx, conn: c}, id) != nil {
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
			c.answer(ctx, call, held, false)
		}
	})
	return true
}

// hold keeps the SDK's answer to a mixed listen that it has nothing to send on.
func (c *serverConn) hold(r *jsonrpc.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over[r.ID] {
		delete(c.over, r.ID)
		return true
	}
	call := c.calls[r.ID]
	if call == nil || call.watch == nil {
		return false
	}
	if r.Error == nil {
		call.held = r
		return true
	}
	call.cancel()
	delete(c.calls, r.ID)
	return false
}

// unheard reports whether a notification is of a mixed listen that is over, or of
// no listen at all: the SDK tells of every change where it has heard no request
// that says which revision the peer speaks.
func (c *serverConn) unheard(r *jsonrpc.Request) bool {
	id, ok := subscriptionID(r.Params)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over[id] || !ok && c.modern.Load() && strings.HasSuffix(r.Method, "/list_changed")
}

// subscriptionID is the subscription id in params.
func subscriptionID(params json.RawMessage) (jsonrpc.ID, bool) {
	var raw any
	_ = json.Unmarshal(subscriptionOf(params), &raw)
	id, err := jsonrpc.MakeID(raw)
	return id, err == nil && raw != nil
}

// acknowledge adds ours to the SDK's acknowledgement of a mixed listen.
func (c *serverConn) acknowledge(ctx context.Context, r *jsonrpc.Request) error {
	id, ok := subscriptionID(r.Params)
	c.mu.Lock()
	call := c.calls[id]
	c.mu.Unlock()
	if !ok || call == nil || call.watch == nil {
		return c.send(ctx, r)
	}
	err := c.send(ctx, &jsonrpc.Request{Method: r.Method, Params: acknowledge(r.Params)})
	call.once.Do(func() { close(call.acked) })
	return err
}
