package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// ErrRefused is the error of a request to a host that has no public address.
var ErrRefused = errors.New("egress: the host has no public address")

// A Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config is how connections are made.
type Config struct {
	Resolver      Resolver      // nil: the system's
	AllowLoopback bool          // 127.0.0.0/8 and ::1 are reached too
	TLS           *tls.Config   // nil: the defaults
	IdleTimeout   time.Duration // of a connection that no request uses; zero is no limit
	DialTimeout   time.Duration // of a connection with its TLS: a request that gives up does not end its dial; zero is no limit
}

// A Transport is an http.RoundTripper that resolves and checks the host of each
// request, also of one that goes over a connection that is open already, and
// connects to none but a checked address, never by its name again. It follows
// no environment: no proxy.
type Transport struct {
	c    Config
	base *http.Transport
}

const (
	maxResponseHeader = 32 << 10
	maxAddresses      = 8 // of one host, that are tried
	maxIdleConns      = 256
)

// New returns a transport.
func New(c Config) *Transport {
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	t := &Transport{c: c}
	t.base = &http.Transport{
		DialContext:            t.dial,
		TLSClientConfig:        c.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // an answer may not grow when it is read
		TLSHandshakeTimeout:    c.DialTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConns:           maxIdleConns,
		// A connection of HTTP/1 serves one request: net/http logs what a peer
		// sends over an idle one, and that text is a stranger's. Those of HTTP/2
		// are kept elsewhere.
		MaxIdleConnsPerHost: -1,
		IdleConnTimeout:     c.IdleTimeout,
		// A connection whose way was cut takes requests for ever, unless it is asked:
		// it is given up within DialTimeout.
		HTTP2: &http.HTTP2Config{SendPingTimeout: c.DialTimeout / 2, PingTimeout: c.DialTimeout / 2},
	}
	return t
}

// RoundTrip checks the host, then makes the request. An http scheme is refused.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%w: scheme is not https", ErrRefused)
	}
	if _, err := t.addresses(r.Context(), r.URL.Hostname()); err != nil {
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// CloseIdleConnections closes what no request uses.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// addresses returns the addresses of a host that may be reached; none is an error.
func (t *Transport) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	var all []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		all = []netip.Addr{a}
	} else {
		// A name that looks like a number would be read as an address by some
		// resolvers, in forms that differ: none is a host of the Internet.
		if numeric(host) {
			return nil, fmt.Errorf("%w: a number is no host name", ErrRefused)
		}
		if all, err = t.c.Resolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	var good []netip.Addr
	why := "the name has no addresses"
	for _, a := range all {
		a = a.Unmap()
		ok, what := Public(a)
		if !ok && t.c.AllowLoopback && a.IsLoopback() && a.Zone() == "" {
			ok = true
		}
		if !ok {
			why = what
			continue
		}
		if good = append(good, a); len(good) == maxAddresses {
			break
		}
	}
	if len(good) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrRefused, why)
	}
	return good, nil
}

// numeric reports whether the last label of a host begins with a digit: no
// top-level domain does.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "" || last[0] >= '0' && last[0] <= '9'
}

// dial resolves once more, since the name may have moved since RoundTrip looked,
// and connects to what it checked.
func (t *Transport) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	if t.c.DialTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.c.DialTimeout)
		defer cancel()
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	list, err := t.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var last error
	for i, a := range list {
		conn, err := t.connect(ctx, net.JoinHostPort(a.String(), port), len(list)-i)
		if err == nil {
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// connect tries one address, with an equal share of the time left.
func (t *Transport) connect(ctx context.Context, address string, left int) (net.Conn, error) {
	if until, ok := ctx.Deadline(); ok && left > 1 {
		share := time.Until(until) / time.Duration(left)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
