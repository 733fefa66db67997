package postgres_test

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// A proxy stands between a client and the server, and can fall silent: it then
// forwards nothing, closes nothing, and takes connections that it lets hang.
type proxy struct {
	listener net.Listener
	server   string

	mu     sync.Mutex
	silent bool
	ready  *sync.Cond // silent changed, or it is over
	over   bool
	conns  []net.Conn
}

// newProxy returns a proxy in front of a server, and the server's URL with the
// proxy in its place.
func newProxy(t testing.TB, server string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: u.Host}
	p.ready = sync.NewCond(&p.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(c, &all) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.over = true
		for _, c := range p.conns {
			c.Close()
		}
		p.ready.Broadcast()
		p.mu.Unlock()
		all.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) hush(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
	p.ready.Broadcast()
}

// speak waits until something may be forwarded, and reports whether it is over.
func (p *proxy) speak() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.silent && !p.over {
		p.ready.Wait()
	}
	return !p.over
}

func (p *proxy) carry(client net.Conn, all *sync.WaitGroup) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	over := p.over
	p.mu.Unlock()
	if over {
		client.Close()
		server.Close()
		return
	}
	all.Go(func() { p.copy(client, server) })
	p.copy(server, client)
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !p.speak() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
