package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// An opening is the time in which a client is made. That takes no context, so
// the connections of that time end with Open's. Afterwards the client dials by
// itself when it has to, for as long as it lives, and a context that is long over
// has no say in it.
type opening struct {
	ctx  context.Context
	dial func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

	mu    sync.Mutex
	over  bool
	conns []net.Conn
}

// newClient makes a client, or returns an error soon after ctx has ended.
func newClient(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	by := &opening{ctx: ctx, dial: o.DialCtxFn}
	if by.dial == nil {
		by.dial = dial
	}
	o.DialCtxFn = by.conn
	defer context.AfterFunc(ctx, by.cut)()
	c, err := rueidis.NewClient(o)
	if err == nil {
		by.done()
	} else if ctx.Err() != nil {
		err = ctx.Err() // and not that a connection was closed
	}
	return c, err
}

// dial is what a client does without a DialCtxFn.
func dial(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
	if c != nil {
		return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// conn is the client's DialCtxFn. ctx is that of a call, if of any.
func (o *opening) conn(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
	o.mu.Lock()
	over := o.over
	o.mu.Unlock()
	if over {
		return o.dial(ctx, addr, d, c)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(o.ctx, end)()
	conn, err := o.dial(ctx, addr, d, c)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return conn, nil
	}
	if err := o.ctx.Err(); err != nil {
		conn.Close()
		return nil, err
	}
	o.conns = append(o.conns, conn)
	return conn, nil
}

// cut ends the connections there are.
func (o *opening) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.conns {
		c.Close()
	}
}

// done says that the client was made.
func (o *opening) done() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over, o.conns = true, nil
}
