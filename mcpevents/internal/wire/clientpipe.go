package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// subscriptionKey is in the params of every notification that belongs to a call,
// behind a slash, which some servers write as \/.
const subscriptionKey = "subscriptionId"

// A pipe carries exchanges over the connection that the SDK's session has: what
// is ours is taken out of what the session reads.
type pipe struct {
	client *Client
	base   mcp.Transport
	turn   chan struct{} // held by who writes: the connection's own lock would not let go of who gives up; nil: a transport of others, which may write many at once

	mu   sync.Mutex
	conn mcp.Connection
	live map[string]*Exchange
	err  error // why nothing can start any more
	wg   sync.WaitGroup
}

func newPipe(c *Client, t mcp.Transport) *pipe {
	p := &pipe{client: c, live: map[string]*Exchange{}}
	p.base = cleaned(t, c.cfg.MaxMessage, p.unread)
	switch t.(type) {
	case *mcp.IOTransport, *mcp.CommandTransport, *mcp.StdioTransport, *mcp.InMemoryTransport:
		p.turn = make(chan struct{}, 1)
	}
	return p
}

func (p *pipe) transport() mcp.Transport { return pipeTransport{p} }

type pipeTransport struct{ p *pipe }

// Connect connects the pipe and stands between it and the SDK.
func (t pipeTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.p.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.p.conn = conn
	return &pipeConn{Connection: conn, p: t.p}, nil
}

// A pipeConn is the connection as the SDK sees it.
type pipeConn struct {
	mcp.Connection
	p *pipe
}

// Read returns the next message that is not ours.
func (c *pipeConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.p.fail(err)
			return nil, err
		}
		if c.p.take(m) {
			continue
		}
		fit(m)
		return m, nil
	}
}

// Write sends a message of the SDK's; a request declares the extension too.
func (c *pipeConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		told := *r
		told.Params = c.p.client.shake.declare(r.Method, r.Params)
		c.p.client.shake.sent(r.Method, r.ID.Raw())
		m = &told
	}
	return c.p.write(ctx, m)
}

// Close closes the connection and ends every exchange on it.
func (c *pipeConn) Close() error {
	c.p.fail(nil)
	return c.Connection.Close()
}

// fail ends everything. Nothing can start any more.
func (p *pipe) fail(cause error) {
	err := ErrDown
	if cause != nil {
		err = fmt.Errorf("%w: %w", ErrDown, cause)
	}
	p.mu.Lock()
	if p.err == nil {
		p.err = err
	}
	live := p.live
	p.live = map[string]*Exchange{}
	p.mu.Unlock()
	for _, x := range live {
		x.finish(nil, err)
	}
}

// take passes m on if it is ours, and reports whether it is. It never blocks:
// everything on the pipe waits for it.
func (p *pipe) take(m jsonrpc.Message) bool {
	switch m := m.(type) {
	case *jsonrpc.Response:
		p.client.shake.answered(m)
		if !p.client.issued(m.ID.Raw()) {
			return false
		}
		if x := p.drop(m.ID.Raw()); x != nil { // else a late answer to what was given up
			x.answered(m)
		}
		return true
	case *jsonrpc.Request:
		if m.IsCall() {
			return false
		}
		if p.torn(m) {
			return true
		}
		ours := strings.HasPrefix(m.Method, p.client.cfg.Prefix)
		if !ours && !bytes.Contains(m.Params, []byte(subscriptionKey)) {
			return false
		}
		id := subscription(m.Params)
		if !p.client.issued(id) {
			if ours {
				p.client.cfg.Stray(m.Method)
			}
			return ours
		}
		p.mu.Lock()
		x := p.live[id.(string)]
		p.mu.Unlock()
		if x != nil { // else late
			p.give(x, Note{Method: m.Method, Params: m.Params})
		}
		return true
	}
	return false
}

// give adds a note to an exchange, which ends where there is no room for it.
func (p *pipe) give(x *Exchange, n Note) {
	if x.offer(n) || p.drop(x.req.ID.Raw()) == nil {
		return
	}
	x.finish(nil, ErrOverflow)
	p.cancelled(x)
}

// unread takes note of a line that was left out, ahead of the lines before it that
// the SDK has still to read. One that is too long may have been for any of those
// who wait.
func (p *pipe) unread(over bool) {
	if !over {
		p.client.cfg.Stray("")
		return
	}
	p.mu.Lock()
	live := slices.Collect(maps.Values(p.live))
	p.mu.Unlock()
	for _, x := range live {
		p.give(x, Note{Over: true})
	}
}

// drop takes an exchange out of the table; nil if it is not there.
func (p *pipe) drop(id any) *Exchange {
	key, _ := id.(string)
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.live[key]
	delete(p.live, key)
	return x
}

func (p *pipe) start(x *Exchange) {
	key, _ := x.req.ID.Raw().(string)
	p.mu.Lock()
	err := p.err
	if err == nil && p.conn == nil {
		err = ErrDown
	}
	if err == nil {
		p.live[key] = x
		p.wg.Go(func() { // under the lock: close waits for all that was let in
			defer close(x.gone)
			if err := p.write(x.ctx, x.req); err != nil {
				p.drop(key)
				x.finish(nil, fmt.Errorf("%w: %w", ErrDown, err))
			}
		})
	}
	p.mu.Unlock()
	if err != nil {
		close(x.gone)
		x.finish(nil, err)
	}
}

// stop takes the exchange out and tells the server, without waiting for either.
func (p *pipe) stop(x *Exchange) {
	if p.drop(x.req.ID.Raw()) == nil {
		return // it ended
	}
	x.finish(nil, context.Canceled)
	p.cancelled(x)
}

// cancelled tells the server, behind the request, that an exchange is given up.
func (p *pipe) cancelled(x *Exchange) {
	params, err := json.Marshal(map[string]any{"requestId": x.req.ID.Raw(), "reason": "given up by the client"})
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.wg.Go(func() {
		<-x.gone
		_ = p.write(context.WithoutCancel(x.ctx), &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	})
}

// write sends one message, the SDK's or ours. A peer that does not read holds up
// everything on the pipe, so after MaxWrite the connection is closed.
func (p *pipe) write(ctx context.Context, m jsonrpc.Message) error {
	if p.turn == nil {
		return p.conn.Write(ctx, m)
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	stuck := time.AfterFunc(p.client.cfg.MaxWrite, func() {
		p.fail(errors.New("the server does not read"))
		_ = p.conn.Close()
	})
	defer stuck.Stop()
	return p.conn.Write(ctx, m)
}

func (p *pipe) end() { p.fail(nil) }

func (p *pipe) close() {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // the session did it, if there was one
	}
	p.wg.Wait()
}
