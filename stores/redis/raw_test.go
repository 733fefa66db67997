package redis_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// raw is a plain client, for what a store does not do.
type raw struct {
	t testing.TB
	rueidis.Client
}

type option = rueidis.ClientOption

func connect(t testing.TB, url string) raw { return connectOption(t, url, func(*option) {}) }

func connectOption(t testing.TB, url string, set func(*option)) raw {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableCache = true
	set(&o)
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return raw{t, c}
}

// do runs a command that must work.
func (r raw) do(args ...string) rueidis.RedisResult {
	r.t.Helper()
	res := r.Do(context.Background(), r.B().Arbitrary(args...).Build())
	if err := res.NonRedisError(); err != nil {
		r.t.Fatalf("%s: %v", args[0], err)
	}
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		r.t.Fatalf("%s: %v", args[0], err)
	}
	return res
}

// keys are those under a prefix.
func (r raw) keys(prefix string) []string {
	r.t.Helper()
	got, err := r.do("KEYS", prefix+"*").AsStrSlice()
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(got)
	return got
}

// eventually waits until f says yes.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in 30 s", what)
		}
	}
}

// A proxy stands between a client and its server, and can lose what the server
// says without a word.
type proxy struct {
	url   string
	mute  atomic.Bool  // what the server says is lost, on all connections
	delay atomic.Int64 // what it says comes so much later, in nanoseconds
	mu    sync.Mutex
	conns []*piped
}

// A piped is one connection through a proxy.
type piped struct {
	in, out    net.Conn
	mute       atomic.Bool // what the server says on this one is lost
	subscribed atomic.Bool // a SUBSCRIBE came by
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	u.Host = l.Addr().String()
	p := &proxy{url: u.String()}
	t.Cleanup(func() {
		l.Close()
		p.cut()
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			c := &piped{in: in, out: out}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			go copyWhile(out, in, func(b []byte) bool {
				if bytes.Contains(b, []byte("SUBSCRIBE")) {
					c.subscribed.Store(true)
				}
				return true
			})
			go copyWhile(in, out, func([]byte) bool {
				time.Sleep(time.Duration(p.delay.Load()))
				return !p.mute.Load() && !c.mute.Load()
			})
		}
	}()
	return p
}

func copyWhile(to io.WriteCloser, from io.Reader, pass func([]byte) bool) {
	defer to.Close()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if pass(b[:n]) {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.in.Close()
		c.out.Close()
	}
	p.conns = nil
}

// deafen mutes the connections that subscribed, and returns how many.
func (p *proxy) deafen() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.subscribed.Load() {
			c.mute.Store(true)
			n++
		}
	}
	return n
}

// password is the one in a URL.
func password(t testing.TB, of string) string {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := u.User.Password()
	if strings.TrimSpace(p) == "" {
		t.Fatal("the URL has no password")
	}
	return p
}
