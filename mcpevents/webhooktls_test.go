package mcpevents

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// nameServer answers for every host with what it is set to.
type nameServer struct{ address atomic.Value }

func (n *nameServer) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	a, err := netip.ParseAddr(n.address.Load().(string))
	if err != nil {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{a}, nil
}

// A street is a server that delivers over real connections to an HTTPS server on
// loopback.
type street struct {
	t     *testing.T
	names *nameServer
	log   *Log
	s     *Server
	out   bytes.Buffer
	url   string
}

func newStreet(t *testing.T, handler http.Handler, change func(*WebhookConfig)) *street {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	st := &street{t: t, names: &nameServer{}, log: NewLog(LogConfig{})}
	st.names.address.Store("127.0.0.1")
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	st.url = "https://example.com:" + u.Port() + "/hook"
	c := WebhookConfig{
		Store: NewMemorySubscriptions(), Resolver: st.names, AllowLoopback: true, TLS: &tls.Config{RootCAs: pool},
		Timeout: 2 * time.Second, Backoff: 20 * time.Millisecond, Scan: 20 * time.Millisecond, Challenges: 1000,
	}
	if change != nil {
		change(&c)
	}
	st.s, err = NewServer(ServerConfig{
		Principal: func(context.Context) string { return "ann" }, Webhooks: &c, Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: &st.out}, nil)),
		Types: []Type{{Name: "tick", Modes: []Mode{Webhook}, Backend: st.log}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = st.s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return st
}

func (st *street) subscribe() (*subscribeResult, error) {
	return st.s.webhooks.subscribe(st.t.Context(), ask(map[string]any{"url": st.url}))
}

func (st *street) add(id string) {
	st.t.Helper()
	if err := st.log.Append(Event{ID: id, Data: []byte(`{}`)}); err != nil {
		st.t.Fatal(err)
	}
}

// status waits until what a refresh tells is as wanted.
func (st *street) until(what string, ok func(s *deliveryStatus) bool) {
	st.t.Helper()
	var last *deliveryStatus
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		res, err := st.subscribe()
		if err != nil {
			st.t.Fatalf("%s: refresh: %v", what, err)
		}
		if last = res.Status; ok(last) {
			return
		}
	}
	text, _ := json.Marshal(last)
	st.t.Fatalf("%s: it did not come to that: %s", what, text)
}

func fault(want string) func(s *deliveryStatus) bool {
	return func(s *deliveryStatus) bool { return s.LastError != nil && *s.LastError == want }
}

// echoing answers challenges, and gives the rest to next.
func echoing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var body struct{ Type, Challenge string }
		_ = json.Unmarshal(raw, &body)
		if body.Type == "verification" {
			_ = json.NewEncoder(w).Encode(map[string]string{"challenge": body.Challenge})
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		next(w, r)
	}
}

func TestDeliveryOverTLS(t *testing.T) {
	got := make(chan *http.Request, 10)
	st := newStreet(t, echoing(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if !Verify(r.Header.Get(headerID), r.Header.Get(headerTimestamp), r.Header.Get(headerSignature), raw, mustSecret(t, testSecret)) {
			t.Errorf("the signature does not verify")
		}
		got <- r
	}), nil)
	if _, err := st.subscribe(); err != nil {
		t.Fatal(err)
	}
	st.add("e1")
	select {
	case r := <-got:
		if !strings.HasPrefix(r.Host, "example.com:") || r.TLS.ServerName != "example.com" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("Host %q, SNI %q, Accept-Encoding %q", r.Host, r.TLS.ServerName, r.Header.Get("Accept-Encoding"))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no delivery")
	}
	st.until("accepted", func(s *deliveryStatus) bool { return s.Accepted != nil && s.LastError == nil })
}

func TestSE79RebindingIsRefusedAtDelivery(t *testing.T) {
	var events atomic.Int64
	st := newStreet(t, echoing(func(http.ResponseWriter, *http.Request) { events.Add(1) }), nil)
	if _, err := st.subscribe(); err != nil {
		t.Fatal(err)
	}
	for i, to := range []string{"10.0.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fd00::1", "fe80::1", "224.0.0.1"} {
		st.names.address.Store(to)
		st.add("to-" + string(rune('a'+i)))
		st.until(to, fault(failRefused))
	}
	if n := events.Load(); n != 0 {
		t.Errorf("%d deliveries were made after the name moved, want none", n)
	}
	st.names.address.Store("127.0.0.1") // which the test has opened
	st.until("back again", func(s *deliveryStatus) bool { return s.Accepted != nil })
}

func TestSE79PrivateAddressesAreRefusedAtTheChallenge(t *testing.T) {
	var calls atomic.Int64
	st := newStreet(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }), func(c *WebhookConfig) {
		c.AllowLoopback, c.WellKnown = false, true
	})
	for _, to := range []string{"127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"} {
		st.names.address.Store(to)
		_, err := st.subscribe()
		refused(t, to, err, CallbackEndpointError, "reason", failRefused)
	}
	host := st.url
	for _, literal := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1"} {
		st.url = strings.Replace(host, "example.com", literal, 1)
		_, err := st.subscribe()
		refused(t, literal, err, CallbackEndpointError, "reason", failRefused)
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the server on loopback was called %d times, want never", n)
	}
}

func TestSE79RedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Int64
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		st := newStreet(t, echoing(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/hook" {
				followed.Add(1)
			}
			w.Header().Set("Location", []string{other.URL, "/elsewhere"}[code%2])
			w.WriteHeader(code)
		}), nil)
		if _, err := st.subscribe(); err != nil {
			t.Fatal(err)
		}
		st.add("e1")
		st.until("redirect", fault(failClient))
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed, want none", n)
	}
}

// What a hostile endpoint does to a delivery ends within its timeout, and neither
// fills memory nor keeps the other subscriptions waiting.
func TestHostileEndpoints(t *testing.T) {
	raw := func(f func(c net.Conn)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			f(c)
		}
	}
	forever := func(c net.Conn, text string) {
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
	for _, h := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // empty: it is accepted; several with a | between
	}{
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, failTimeout},
		{"closes", raw(func(net.Conn) {}), failRefused},
		{"half a header", raw(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: ") }), failRefused},
		{"no HTTP", raw(func(c net.Conn) { _, _ = io.WriteString(c, strings.Repeat("garbage ", 100)) }), failRefused},
		{"drips its header", raw(func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, "H"); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}), failRefused + "|" + failTimeout},
		{"endless header", raw(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			forever(c, "X-A: "+strings.Repeat("a", 1000)+"\r\n")
		}), failRefused},
		{"1xx for ever", raw(func(c net.Conn) { forever(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") }), failRefused},
		{"switches protocols", raw(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			forever(c, "x")
		}), failClient + "|" + failRefused},
		{"endless answer", func(w http.ResponseWriter, _ *http.Request) {
			b := bytes.Repeat([]byte("x"), 1<<16)
			for {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}, ""},
		{"answers and hangs", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, ""},
		{"gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("\x1f\x8b no gzip"))
		}, ""},
	} {
		t.Run(strings.ReplaceAll(h.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			st := newStreet(t, echoing(h.handler), func(c *WebhookConfig) {
				c.TLS.NextProtos = []string{"http/1.1"}
			})
			if _, err := st.subscribe(); err != nil {
				t.Fatal(err)
			}
			st.add("e1")
			st.until(h.name, func(s *deliveryStatus) bool {
				if h.want == "" {
					return s.Accepted != nil && s.LastError == nil
				}
				return s.LastError != nil && strings.Contains("|"+h.want+"|", "|"+*s.LastError+"|")
			})
		})
	}
}

func TestTLSErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*WebhookConfig)
		host   string
	}{
		{"unknown authority", func(c *WebhookConfig) { c.TLS = nil }, ""},
		{"another name", nil, "other.example.net"},
		{"no common version", func(c *WebhookConfig) { c.TLS.MaxVersion = tls.VersionTLS10; c.TLS.MinVersion = tls.VersionTLS10 }, ""},
	} {
		st := newStreet(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: a request came through", c.name) }), c.change)
		if c.host != "" {
			st.url = strings.Replace(st.url, "example.com", c.host, 1)
		}
		_, err := st.subscribe()
		refused(t, c.name, err, CallbackEndpointError, "reason", failTLS)
	}
	// A port that speaks no TLS.
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	st := newStreet(t, http.NotFoundHandler(), nil)
	st.url = strings.Replace(plain.URL, "http://127.0.0.1", "https://example.com", 1)
	_, err := st.subscribe()
	refused(t, "plain HTTP", err, CallbackEndpointError, "reason", failTLS)
	plain.Close()
	_, err = st.subscribe()
	refused(t, "closed port", err, CallbackEndpointError, "reason", failRefused)
	st.names.address.Store("")
	_, err = st.subscribe()
	refused(t, "no such host", err, CallbackEndpointError, "reason", failRefused)
}

func TestTimeoutOfTheChallenge(t *testing.T) {
	st := newStreet(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), nil)
	began := time.Now()
	_, err := st.subscribe()
	refused(t, "hangs", err, CallbackEndpointError, "reason", failTimeout)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v, want about two seconds", took)
	}
}

// A receiver behind a real server hears what a server sends to it, and survives
// senders that drip, break off or send too much.
func TestReceiverOverTLS(t *testing.T) {
	r := newReceiver(t, ReceiverConfig{MaxBody: 10_000})
	st := newStreet(t, r, nil)
	r.c.URL = st.url
	b := r.open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := taker(ctx, b)
	res, err := st.s.webhooks.subscribe(t.Context(), ask(map[string]any{"url": st.url, "secret": b.secret(0).Reveal()}))
	if err != nil {
		t.Fatal(err)
	}
	r.bind(b, res.ID)
	st.add("e1")
	select {
	case body := <-got:
		if !strings.Contains(body, `"eventId":"e1"`) {
			t.Errorf("it got %s", body)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no delivery")
	}
}
