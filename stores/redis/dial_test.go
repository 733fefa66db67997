package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

// Open ends soon after its context, whatever the server does, and leaves no
// connection behind.
func TestOpenGivesUp(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, context.DeadlineExceeded},
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, end := context.WithCancel(ctx)
			time.AfterFunc(100*time.Millisecond, end)
			return ctx, end
		}, context.Canceled},
	} {
		p := newProxy(t, servers.Redis(t).URL())
		p.mute.Store(true)
		ctx, end := c.with(t.Context())
		began := time.Now()
		_, err := redis.Open(ctx, p.url, *quiet())
		end()
		if d := time.Since(began); !errors.Is(err, c.want) || d > 3*time.Second {
			t.Errorf("%s: Open on a server that says nothing: %v after %v, want %v soon", c.name, err, d, c.want)
		}
		eventually(t, "its connections are closed", func() bool { return p.closed() })
	}
}

// closed reports whether the client has closed all connections.
func (p *proxy) closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if _, err := c.out.Write(nil); err == nil {
			return false
		}
	}
	return true
}

// The time that a context leaves for Open is no limit for what is dialed later,
// by a store that lives for years.
func TestDialTimeout(t *testing.T) {
	p := newProxy(t, servers.Redis(t).URL())
	o := quiet()
	limit := 100 * time.Millisecond
	var s *redis.Store
	for s == nil { // until it is enough to open on this machine
		ctx, end := context.WithTimeout(t.Context(), limit)
		var err error
		if s, err = redis.Open(ctx, p.url, *o); err != nil && limit > 2*time.Second {
			t.Fatal(err)
		} else if err != nil {
			limit *= 2
		}
		end()
	}
	t.Cleanup(func() { s.Close() })
	p.delay.Store(int64(limit + 50*time.Millisecond))
	p.cut()
	var err error
	for range 3 { // the first ones may find a connection that was cut
		if _, err = s.Load(t.Context(), "ops"); err == nil {
			return
		}
	}
	t.Errorf("Load over a network that is slower than Open's context of %v was long: %v", limit, err)
}

// forward carries what comes in at a listener to a server.
func forward(t testing.TB, l net.Listener, to string) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			carry := func(to, from net.Conn) { defer to.Close(); io.Copy(to, from) }
			go carry(out, in)
			go carry(in, out)
		}
	}()
}

// The other forms of a URL work: TLS, and a socket of the machine.
func TestOpenNetworks(t *testing.T) {
	server, err := url.Parse(servers.Redis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	made := httptest.NewTLSServer(nil) // for its certificate
	defer made.Close()
	secure, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: made.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	forward(t, secure, server.Host)
	path := filepath.Join(t.TempDir(), "redis.sock")
	local, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	forward(t, local, server.Host)
	for _, u := range []url.URL{
		{Scheme: "rediss", User: server.User, Host: secure.Addr().String(), RawQuery: "skip_verify=true"},
		{Scheme: "unix", User: server.User, Path: path},
	} {
		s := open(t, u.String(), quiet())
		decide(t, s, "d")
		if got, err := ids(t, s, attend.LogCursor{}); err != nil || len(got) != 1 {
			t.Errorf("over %s the log has %v (%v), want one row", u.Scheme, got, err)
		}
	}
}
