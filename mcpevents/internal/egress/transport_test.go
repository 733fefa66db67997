package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// names answers for hosts; what it answers may change.
type names struct {
	m     map[string][]string
	count atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.count.Add(1)
	var out []netip.Addr
	for _, a := range n.m[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		return nil, errors.New("no such host")
	}
	return out, nil
}

func ExampleNew() {
	client := &http.Client{Transport: New(Config{})}
	_, err := client.Get("https://127.0.0.1/")
	fmt.Println(errors.Is(err, ErrRefused))
	// Output: true
}

func TestPublic(t *testing.T) {
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "192.0.1.1", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0",
		"198.17.255.255", "198.20.0.0", "223.255.255.255", "11.0.0.0", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8",
		"2001:200::1", "2003::1",
	} {
		if ok, what := Public(netip.MustParseAddr(text)); !ok {
			t.Errorf("Public(%s) = false, %q, want true", text, what)
		}
	}
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
		"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.9", "192.0.2.1", "192.88.99.1", "192.168.0.1",
		"198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1",
		"2001::1", "2001:db8::1", "2001:1ff:ffff::1", "2002:7f00:1::", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "fc00::1", "fd12::1",
		"fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2606:4700::1111%eth0",
	} {
		if ok, _ := Public(netip.MustParseAddr(text)); ok {
			t.Errorf("Public(%s) = true, want false", text)
		}
	}
	if ok, _ := Public(netip.Addr{}); ok {
		t.Errorf("Public of no address = true, want false")
	}
}

// server is an HTTPS server on loopback that answers to relay.test.
func server(t *testing.T, h http.Handler) (*httptest.Server, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s, &tls.Config{RootCAs: pool}
}

func port(t *testing.T, s *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func get(t *testing.T, tr *Transport, text string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// A name that moves to a private address between two requests is refused, though
// the connection of the first is still open.
func TestRebinding(t *testing.T) {
	var calls atomic.Int64
	s, c := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Host != "example.com:"+portOf(r.Host) || r.TLS.ServerName != "example.com" {
			t.Errorf("Host = %q, SNI = %q, want those of example.com", r.Host, r.TLS.ServerName)
		}
	}))
	n := &names{m: map[string][]string{"example.com": {"127.0.0.1"}}}
	tr := New(Config{Resolver: n, AllowLoopback: true, TLS: c})
	defer tr.CloseIdleConnections()
	address := "https://example.com:" + port(t, s) + "/"
	if err := get(t, tr, address); err != nil {
		t.Fatalf("first request: %v", err)
	}
	for _, to := range []string{"10.0.0.1", "169.254.169.254", "::ffff:192.168.1.1", "fd00::1", "fe80::1"} {
		n.m["example.com"] = []string{to}
		if err := get(t, tr, address); !errors.Is(err, ErrRefused) {
			t.Errorf("request after the name moved to %s: %v, want ErrRefused", to, err)
		}
	}
	if got := calls.Load(); got != 1 {
		t.Errorf("the server was called %d times, want 1", got)
	}
}

func portOf(hostport string) string { return hostport[strings.LastIndexByte(hostport, ':')+1:] }

// The name is looked at once more when the connection is made: what moved in
// between is refused too.
func TestRebindingBeforeConnect(t *testing.T) {
	var calls atomic.Int64
	s, c := server(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	n := &turning{first: "8.8.8.8", then: "127.0.0.1"}
	tr := New(Config{Resolver: n, TLS: c})
	if err := get(t, tr, "https://example.com:"+port(t, s)+"/"); !errors.Is(err, ErrRefused) {
		t.Errorf("request: %v, want ErrRefused", err)
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the server was called %d times, want never", n)
	}
}

type turning struct {
	first, then string
	n           atomic.Int64
}

func (n *turning) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if n.n.Add(1) == 1 {
		return []netip.Addr{netip.MustParseAddr(n.first)}, nil
	}
	return []netip.Addr{netip.MustParseAddr(n.then)}, nil
}

// Of several addresses those that are private are left out, not tried.
func TestMixedAddresses(t *testing.T) {
	n := &names{m: map[string][]string{"example.com": {"10.0.0.1", "8.8.8.8", "::1", "2606:4700::1111"}}}
	tr := New(Config{Resolver: n})
	list, err := tr.addresses(t.Context(), "example.com")
	if err != nil || len(list) != 2 || list[0].String() != "8.8.8.8" || list[1].String() != "2606:4700::1111" {
		t.Errorf("addresses = %v, %v, want the two public ones", list, err)
	}
}

func TestRefusedHosts(t *testing.T) {
	n := &names{m: map[string][]string{"2130706433": {"8.8.8.8"}, "0x7f.1": {"8.8.8.8"}, "127.1": {"8.8.8.8"}}}
	tr := New(Config{Resolver: n})
	for _, text := range []string{
		"https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://2130706433/", "https://0x7f.1/", "https://127.1/",
		"https://10.0.0.1/", "https://[fe80::1%25eth0]/", "http://8.8.8.8/", "https://localhost./", "https://[64:ff9b::10.0.0.1]/",
	} {
		n.m["localhost."] = []string{"127.0.0.1"}
		if err := get(t, tr, text); !errors.Is(err, ErrRefused) {
			t.Errorf("request to %s: %v, want ErrRefused", text, err)
		}
	}
}

// With AllowLoopback loopback is all that is opened.
func TestAllowLoopback(t *testing.T) {
	tr := New(Config{AllowLoopback: true})
	for _, text := range []string{"https://10.0.0.1/", "https://169.254.169.254/", "https://[fd00::1]/", "https://0.0.0.0/"} {
		if err := get(t, tr, text); !errors.Is(err, ErrRefused) {
			t.Errorf("request to %s: %v, want ErrRefused", text, err)
		}
	}
}

// A proxy of the environment would make the connection in the transport's place.
func TestNoProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:9")
	s, c := server(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	n := &names{m: map[string][]string{"example.com": {"127.0.0.1"}}}
	tr := New(Config{Resolver: n, AllowLoopback: true, TLS: c})
	defer tr.CloseIdleConnections()
	if err := get(t, tr, "https://example.com:"+port(t, s)+"/"); err != nil {
		t.Errorf("request: %v, want none", err)
	}
}

// A connection of HTTP/2 whose way is cut without a word is found out.
func TestHTTP2ConnectionThatIsDead(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns atomic.Int64
	var cut atomic.Bool
	pump := func(dst, src net.Conn, first bool) {
		defer dst.Close()
		b := make([]byte, 4096)
		for {
			n, err := src.Read(b)
			if err != nil {
				return
			}
			if first && cut.Load() {
				continue // swallowed
			}
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				return
			}
			first := conns.Add(1) == 1
			go pump(in, out, first)
			go pump(out, in, first)
		}
	}()
	n := &names{m: map[string][]string{"example.com": {"127.0.0.1"}}}
	tr := New(Config{Resolver: n, AllowLoopback: true, TLS: &tls.Config{RootCAs: pool}, IdleTimeout: 30 * time.Second, DialTimeout: 200 * time.Millisecond})
	defer tr.CloseIdleConnections()
	try := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com:"+portOf(l.Addr().String())+"/", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err == nil && string(b) != "HTTP/2.0" {
			t.Errorf("the request went over %s", b)
		}
		return err
	}
	for range 3 {
		if err := try(); err != nil {
			t.Fatalf("request: %v", err)
		}
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("%d connections for three requests over HTTP/2, want 1", got)
	}
	cut.Store(true)
	for failed := 0; try() != nil; failed++ {
		if failed == 10 {
			t.Fatalf("%d requests in a row timed out on the dead connection", failed)
		}
	}
}

// What an endpoint sends after its answer reaches no log.
func TestEndpointTextIsNotLogged(t *testing.T) {
	var out bytes.Buffer
	log.SetOutput(&out)
	defer log.SetOutput(os.Stderr)
	sent := make(chan struct{})
	s, c := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(sent)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_ = rw.Flush()
		time.Sleep(50 * time.Millisecond)
		_, _ = rw.WriteString("FORGED: the endpoint's own text")
		_ = rw.Flush()
		time.Sleep(50 * time.Millisecond)
	}))
	n := &names{m: map[string][]string{"example.com": {"127.0.0.1"}}}
	tr := New(Config{Resolver: n, AllowLoopback: true, TLS: c, IdleTimeout: time.Minute})
	if err := get(t, tr, "https://example.com:"+port(t, s)+"/"); err != nil {
		t.Fatal(err)
	}
	<-sent
	tr.CloseIdleConnections()
	if out.Len() != 0 {
		t.Errorf("logged: %s", out.String())
	}
}
