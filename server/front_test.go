package server_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server"
	"github.com/attend-go/attend/server/access"
)

// V2: what no route answers is a problem too.
func TestV2NoRoute(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{})
	for _, c := range []struct {
		method, target string
		status         int
		allow          string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/v2/ingest", 404, ""},
		{"GET", "/v1//ingest", 404, ""},         // the mux would send it elsewhere
		{"GET", "/v1/../v1/decisions", 404, ""}, // this, too
		{"GET", "/metrics", 404, ""},            // there are none
		{"GET", "/v1/ingest", 405, "POST"},
		{"POST", "/v1/decisions", 405, "GET, HEAD"},
		{"DELETE", "/healthz", 405, "GET, HEAD"},
		{"TRACE", "/openapi.json", 405, "GET, HEAD"},
	} {
		got := w.ask(c.method, c.target, "")
		if got.status != c.status || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s = %d, Allow %q, want %d, %q", c.method, c.target, got.status, got.header.Get("Allow"), c.status, c.allow)
			continue
		}
		got.problem(t)
	}
}

// V8: with tokens only health is open, and what a token lacks is refused.
func TestV8Tokens(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{Tokens: tokens(t), Metrics: server.NewMetrics("test")})
	for _, c := range []struct {
		method, target, token string
		status                int
	}{
		{"GET", "/healthz", "", 200}, {"GET", "/readyz", "", 200}, {"GET", "/healthz", "wrong", 200},
		{"GET", "/v1/decisions", "", 401}, {"GET", "/v1/decisions", "wrong", 401}, {"GET", "/v1/decisions", readToken + "x", 401},
		{"GET", "/v1/decisions", readToken, 200}, {"GET", "/v1/decisions", ingestToken, 403},
		{"GET", "/metrics", "", 401}, {"GET", "/metrics", readToken, 200}, {"GET", "/metrics", ingestToken, 403},
		{"GET", "/openapi.json", "", 401}, {"GET", "/openapi.json", ingestToken, 200},
		{"POST", "/v1/ingest", "", 401}, {"POST", "/v1/ingest", readToken, 403}, {"POST", "/v1/ingest", ingestToken, 200},
		{"POST", "/mcp", "", 401}, {"POST", "/mcp", "wrong", 401},
		{"GET", "/nowhere", "", 401}, {"GET", "/nowhere", readToken, 404}, {"PUT", "/v1/ingest", "", 401},
	} {
		header := []string{"Content-Type", "application/x-ndjson"}
		if c.token != "" {
			header = append(header, "Authorization", "Bearer "+c.token)
		}
		got := w.ask(c.method, c.target, "", header...)
		if got.status != c.status {
			t.Errorf("%s %s with token %q = %d %s, want %d", c.method, c.target, c.token, got.status, got.body, c.status)
			continue
		}
		if c.status == 401 {
			got.problem(t)
			if h := got.header.Get("WWW-Authenticate"); !strings.HasPrefix(h, "Bearer") {
				t.Errorf("%s %s = 401 with WWW-Authenticate %q, want Bearer", c.method, c.target, h)
			}
		}
	}
}

// V8: without tokens everything is open.
func TestV8Open(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{})
	if got := w.ask("POST", "/v1/ingest", `{"scope":"ops","id":"1","name":"flush.x"}`, "Content-Type", "application/x-ndjson"); got.status != 200 {
		t.Errorf("POST /v1/ingest = %d %s, want 200", got.status, got.body)
	}
	if got := w.ask("GET", "/v1/decisions", ""); got.status != 200 || !strings.Contains(got.body, `"ops"`) {
		t.Errorf("GET /v1/decisions = %d %s, want the decision", got.status, got.body)
	}
}

// The app knows who asks by other means.
func TestPrincipalOfTheApp(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{Principal: func(r *http.Request) (*access.Principal, error) {
		switch r.Header.Get("X-User") {
		case "":
			return nil, nil
		case "broken":
			return nil, errors.New("the users' base is down")
		default:
			return &access.Principal{Name: "u", Scopes: []attend.Prefix{"u"}, Read: true}, nil
		}
	}})
	for user, status := range map[string]int{"": 401, "broken": 503, "ada": 200} {
		got := w.ask("GET", "/v1/decisions", "", "X-User", user)
		if got.status != status {
			t.Errorf("user %q = %d, want %d", user, got.status, status)
		}
		if status != 200 && strings.Contains(got.problem(t), "base is down") {
			t.Errorf("user %q is told %q", user, got.body)
		}
	}
	if !strings.Contains(w.log.String(), "base is down") {
		t.Error("the log does not say why a user is not known")
	}
	if got := w.ask("GET", "/healthz", "", "X-User", "broken"); got.status != 200 {
		t.Errorf("health = %d, want 200", got.status)
	}
}

// The log has nothing of what a request brings.
func TestLogOfRequests(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{Tokens: tokens(t)})
	w.ask("GET", "/v1/decisions?scope=secret-scope&after=secret-cursor", "", "Authorization", "Bearer "+readToken)
	w.ask("GET", "/secret-path", "", "Authorization", "Bearer secret-token-0123456789")
	w.ask("SECRET-METHOD", "/v1/decisions", "", "Authorization", "Bearer "+readToken)
	w.ask("POST", "/v1/ingest", `{"scope":"secret-scope","id":"secret-id","name":"secret-name","text":"secret-text"}`+"\nsecret-rubbish",
		"Authorization", "Bearer "+ingestToken, "Content-Type", "application/x-ndjson")
	log := w.log.String()
	if low := strings.ToLower(log); strings.Contains(low, "secret") || strings.Contains(log, readToken) || strings.Contains(log, ingestToken) {
		t.Errorf("the log holds what was sent:\n%s", log)
	}
	for _, want := range []string{`route="GET /v1/decisions" status=400`, "route=none status=401", "route=none status=405", `route="POST /v1/ingest" status=200`, "principal=reader", " ms="} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

// panicky panics where the principal is asked for, which is inside the front.
func panicky(v any) func(*http.Request) (*access.Principal, error) {
	return func(*http.Request) (*access.Principal, error) { panic(v) }
}

func TestPanicInAHandler(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{Principal: panicky("secret-of-a-panic")})
	got := w.ask("GET", "/v1/decisions", "")
	if got.status != 500 {
		t.Fatalf("after a panic = %d, want 500", got.status)
	}
	got.problem(t)
	log := w.log.String()
	if strings.Contains(got.body+log, "secret-of-a-panic") {
		t.Errorf("what the panic said is in the answer or the log:\n%s%s", got.body, log)
	}
	if !strings.Contains(log, "panicked") || !strings.Contains(log, "type=string") || !strings.Contains(log, "front_test.go") {
		t.Errorf("the log does not tell of the panic and where it was:\n%s", log)
	}
	func() {
		defer func() {
			if p, _ := recover().(error); !errors.Is(p, http.ErrAbortHandler) {
				t.Errorf("an abort ends as %v, want http.ErrAbortHandler, for net/http", p)
			}
		}()
		newWorld(t, engine.Config{}, server.Config{Principal: panicky(http.ErrAbortHandler)}).ask("GET", "/v1/decisions", "")
	}()
}

// V4: pages in a browser don't get at a loopback server.
func TestV4Browsers(t *testing.T) {
	plain := newWorld(t, engine.Config{}, server.Config{})
	proxied := newWorld(t, engine.Config{}, server.Config{Hosts: []string{"Attend.Example.com"}, Origins: []string{"https://app.example.com"}})
	any := newWorld(t, engine.Config{}, server.Config{Hosts: []string{"*"}})
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8787}
	for _, c := range []struct {
		name   string
		world  *world
		local  net.Addr
		method string
		host   string
		header []string
		want   int
	}{
		{"a program", plain, loopback, "GET", "127.0.0.1:8787", nil, 200},
		{"a program by name", plain, loopback, "GET", "LocalHost:8787", nil, 200},
		{"a program by IPv6", plain, &net.TCPAddr{IP: net.IPv6loopback}, "GET", "[::1]:8787", nil, 200},
		{"a name with a dot", plain, loopback, "GET", "localhost.:8787", nil, 200},
		{"a name that was made to point here", plain, loopback, "GET", "evil.example:8787", nil, 403},
		{"one that looks like the loopback", plain, loopback, "GET", "127.0.0.1.evil.example", nil, 403},
		{"one that ends like it", plain, loopback, "GET", "notlocalhost", nil, 403},
		{"no host", plain, loopback, "GET", "", nil, 403},
		{"another page reads", plain, loopback, "GET", "127.0.0.1:8787", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another page of an old browser", plain, loopback, "GET", "127.0.0.1:8787", []string{"Origin", "https://evil.example"}, 403},
		{"another port's page", plain, loopback, "GET", "127.0.0.1:8787", []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{"another page writes", plain, loopback, "POST", "127.0.0.1:8787", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a page without an origin", plain, loopback, "POST", "127.0.0.1:8787", []string{"Origin", "null"}, 403},
		{"its own page", plain, loopback, "GET", "127.0.0.1:8787", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:8787"}, 200},
		{"somebody types the address", plain, loopback, "GET", "127.0.0.1:8787", []string{"Sec-Fetch-Site", "none"}, 200},
		{"a proxy", proxied, loopback, "GET", "attend.example.com", nil, 200},
		{"a proxy with a port", proxied, loopback, "GET", "attend.example.com:443", nil, 200},
		{"another name", proxied, loopback, "GET", "other.example.com", nil, 403},
		{"the loopback beside a proxy", proxied, loopback, "GET", "127.0.0.1", nil, 200},
		{"the proxy's page", proxied, loopback, "GET", "attend.example.com", []string{"Origin", "https://attend.example.com"}, 200},
		{"a page that was allowed", proxied, loopback, "GET", "attend.example.com", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://app.example.com"}, 200},
		{"any host", any, loopback, "GET", "whatever.example", nil, 200},
		{"any host, another page", any, loopback, "GET", "whatever.example", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"not the loopback", plain, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, "GET", "attend.example.com", nil, 200},
		{"not the loopback, a page reads", plain, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, "GET", "attend.example.com", []string{"Sec-Fetch-Site", "cross-site"}, 200},
		{"not the loopback, a page writes", plain, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, "POST", "attend.example.com", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a proxy asks for health", plain, loopback, "HEAD", "", nil, 200},
		{"another page asks for health", plain, loopback, "HEAD", "127.0.0.1", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a socket", plain, &net.UnixAddr{Name: "x", Net: "unix"}, "GET", "whatever", nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, body := "/v1/decisions", ""
			if c.method == "POST" {
				target = "/v1/ingest"
			}
			if c.method == "HEAD" {
				target = "/readyz"
			}
			r := httptest.NewRequest(c.method, target, strings.NewReader(body))
			r.Host = c.host
			r.Header.Set("Content-Type", "application/x-ndjson")
			for i := 0; i+1 < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			r = withLocal(r, c.local)
			rec := httptest.NewRecorder()
			c.world.server.Handler().ServeHTTP(rec, r)
			if rec.Code != c.want {
				t.Errorf("%d %s, want %d", rec.Code, rec.Body, c.want)
			}
			if c.want == 403 {
				reply{rec.Code, rec.Header(), rec.Body.String()}.problem(t)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{})
	for field, c := range map[string]server.Config{
		"Principal":    {Tokens: tokens(t), Principal: panicky(nil)},
		"ReadTimeout":  {ReadTimeout: -1},
		"WriteTimeout": {WriteTimeout: 2 * time.Hour},
		"StoreTimeout": {StoreTimeout: time.Microsecond},
		"Hosts":        {Hosts: []string{"example.com:80"}},
		"Origins":      {Origins: []string{"https://example.com/path"}},
	} {
		_, err := server.New(w.engine, w.store, c)
		if bad, ok := errors.AsType[*attend.InvalidError](err); !ok || bad.Field != field {
			t.Errorf("New with a bad %s: %v, want it named", field, err)
		}
	}
	for _, hosts := range [][]string{{""}, {"*.example.com"}, {"http://example.com"}} {
		if _, err := server.New(w.engine, w.store, server.Config{Hosts: hosts}); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("New with hosts %q: %v, want it refused", hosts, err)
		}
	}
	if _, err := server.New(nil, w.store, server.Config{}); !errors.Is(err, attend.ErrInvalid) {
		t.Errorf("New without an engine: %v", err)
	}
	if _, err := server.New(w.engine, nil, server.Config{}); !errors.Is(err, attend.ErrInvalid) {
		t.Errorf("New without a store: %v", err)
	}
}
