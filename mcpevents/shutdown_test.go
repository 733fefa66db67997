package mcpevents

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A process that ends when Shutdown has returned loses nothing.
func TestShutdownWaitsForTheClosingResult(t *testing.T) {
	for method, params := range map[string]string{methodStream: `"name":"alert",`, methodListen: `"notifications":{"eventsListChanged":true},`} {
		bubble(t, func(t *testing.T) {
			s, m := rawServer(t, ServerConfig{}, alerts()...)
			p := rawDial(t, t.Context(), s, m)
			p.send(rawCall("s", method, params))
			p.next()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); err == nil { // nobody reads
				t.Errorf("%s: Shutdown = nil, and the closing result is not written", method)
			}
			if m := p.next(); m.Result == nil {
				t.Errorf("%s: got %s, want the closing result", method, m.Text)
			}
			if method == methodListen {
				want(t, p, "notifications/cancelled")
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Errorf("%s: Shutdown = %v", method, err)
			}
		})
	}
}

func TestShutdownEndsMixedListens(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := httptest.NewServer(s.Handler(m, HandlerConfig{}))
	defer h.Close()
	st := rawPost(t, h.URL, rawCall("l", methodListen, `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`))
	want(t, st, noteAcknowledged)
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	if m := st.next(); m.Result == nil {
		t.Errorf("got %s, want the closing result", m.Text)
	}
	if m, ok := st.frame(); ok {
		t.Errorf("behind the result came %s", m.Text)
	}
}

func TestShutdownEndsMixedListensOfAPipe(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	p := rawDial(t, t.Context(), s, m)
	p.send(rawCall("l", methodListen, `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`))
	want(t, p, noteAcknowledged)
	go s.Close()
	if m := p.next(); m.Result == nil || string(m.ID) != `"l"` {
		t.Errorf("got %s, want the closing result", m.Text)
	}
	want(t, p, "notifications/cancelled") // OP-51
	aTool(m, "another")                   // the SDK tells of it
	p.quiet(200 * time.Millisecond)
}

func TestListensCountAsStreams(t *testing.T) {
	s, m := rawServer(t, ServerConfig{MaxStreams: 2}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	p := rawDial(t, t.Context(), s, m)
	for i, filter := range []string{`{"eventsListChanged":true}`, `{"eventsListChanged":true,"toolsListChanged":true}`} {
		p.send(rawCall(i, methodListen, `"notifications":`+filter+`,`))
		want(t, p, noteAcknowledged)
	}
	for i, filter := range []string{`{"eventsListChanged":true}`, `{"eventsListChanged":true,"toolsListChanged":true}`} {
		body := rawCall(10+i, methodListen, `"notifications":`+filter+`,`)
		wantError(t, rawPost(t, h.URL, body).answer(), -32025, `{"limit":"streams","max":2}`)
		p.send(body)
		wantError(t, p.next(), -32025, `{"limit":"streams","max":2}`)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
	watched(t, s, 1)
	p.send(rawCall(20, methodStream, `"name":"alert",`))
	want(t, p, noteActive)
}

func TestUnregisteredServerHasNoListens(t *testing.T) {
	s, err := NewServer(ServerConfig{Types: alerts()})
	if err != nil {
		t.Fatal(err)
	}
	h := rawListen(t, s, mcp.NewServer(&mcp.Implementation{Name: "x", Version: "1"}, nil), HandlerConfig{})
	st := rawPost(t, h.URL, rawCall(1, methodListen, `"notifications":{"eventsListChanged":true},`))
	wantError(t, st.answer(), -32601, "")
	if st.resp.StatusCode != 404 {
		t.Errorf("status %d, want 404", st.resp.StatusCode)
	}
}

// What was refused before the end of input is told behind it, too.
func TestRefusalsAtTheEndOfInput(t *testing.T) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"events/poll","params":{"name":"alert"}}`,
		rawCall(1, methodStream, `"name":"nope",`),
		rawCall(1, methodPoll, `"name":"alert",`),
	} {
		for range 20 {
			s, m := rawServer(t, ServerConfig{}, alerts()...)
			out, w := io.Pipe()
			ss, err := m.Connect(t.Context(), s.Transport(&mcp.IOTransport{Reader: io.NopCloser(strings.NewReader(line + "\n")), Writer: w}), nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_ = ss.Wait()
				_ = w.Close()
			}()
			if b, _ := io.ReadAll(out); !strings.Contains(string(b), `"id":1`) {
				t.Fatalf("%.80s: got %q, want an answer", line, b)
			}
		}
	}
}

type hangingHead struct{ *Log }

func (hangingHead) Head(ctx context.Context, _ Subscription) (Cursor, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestOpeningEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, m := rawServer(t, ServerConfig{}, rawType(hangingHead{NewLog(LogConfig{})}))
		p := rawDial(t, t.Context(), s, m)
		began := time.Now()
		p.send(rawCall(1, methodStream, `"name":"alert",`))
		wantError(t, p.next(), -32603, "")
		if d := time.Since(began); d > defaultHeartbeat {
			t.Errorf("refused after %v, want a heartbeat at most", d)
		}
		p.send(rawCall(2, methodStream, `"name":"alert",`))
		synctest.Wait()
		began = time.Now()
		go s.Close()
		wantError(t, p.next(), -32603, `{"reason":"closing"}`)
		if d := time.Since(began); d > 0 {
			t.Errorf("Shutdown was heard after %v", d)
		}
	})
}

// One call ends everything that stands, whoever serves it: the server's own
// streams, listens that are the SDK's alone, and the streams of older sessions.
func TestShutdownOfTheHTTPServerEndsAll(t *testing.T) {
	for name, inside := range map[string]bool{"Close before it": false, "RegisterOnShutdown": true} {
		t.Run(name, func(t *testing.T) {
			s, m := rawServer(t, ServerConfig{}, alerts()...)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			web := &http.Server{Handler: s.Handler(m, HandlerConfig{})}
			served := make(chan error, 1)
			go func() { served <- web.Serve(ln) }()
			url := "http://" + ln.Addr().String()

			var streams []*rawStream
			for i, call := range [][2]string{
				{methodStream, `"name":"alert",`},
				{methodListen, `"notifications":{"eventsListChanged":true},`},
				{methodListen, `"notifications":{"eventsListChanged":true,"toolsListChanged":true},`},
				{methodListen, `"notifications":{"toolsListChanged":true},`},
			} {
				st := rawPost(t, url, rawCall(i, call[0], call[1]))
				st.next()
				streams = append(streams, st)
			}
			resp := oldSession(t, url)("")
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("GET = %d", resp.StatusCode)
			}
			standing := &rawStream{t: t, resp: resp, in: bufio.NewReader(resp.Body)}

			if inside {
				web.RegisterOnShutdown(func() { _ = s.Close() })
			} else if err := s.Close(); err != nil {
				t.Fatalf("Close = %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := web.Shutdown(ctx); err != nil {
				t.Fatalf("Shutdown = %v", err)
			}
			<-served
			for i, st := range streams {
				if m := st.next(); m.Result == nil || string(m.ID) != fmt.Sprint(i) {
					t.Errorf("%d: got %s, want the closing result", i, m.Text)
				}
				if m, more := st.frame(); more {
					t.Errorf("%d: behind the result came %s", i, m.Text)
				}
			}
			if m, more := standing.frame(); more {
				t.Errorf("got %s, want the end", m.Text)
			}
		})
	}
}

// What comes while the rest is being closed does not keep it open.
func TestClosedServerTakesNoStandingStreams(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	send := oldSession(t, h.URL)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := send(""); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET = %d, want 405", got.StatusCode)
	}
	if got := send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); got.StatusCode != http.StatusOK { // the SDK's go on
		t.Errorf("tools/list = %d", got.StatusCode)
	}
	st := rawPost(t, h.URL, rawCall(1, methodListen, `"notifications":{"toolsListChanged":true},`))
	want(t, st, noteAcknowledged)
	if m := st.next(); m.Result == nil {
		t.Errorf("listen: got %s, want the closing result", m.Text)
	}
}
