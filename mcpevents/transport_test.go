package mcpevents

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// baseCalls are the methods that are served in three different ways.
var baseCalls = map[string]string{
	methodPoll:   `"name":"alert",`,
	methodStream: `"name":"alert",`,
	methodListen: `"notifications":{"eventsListChanged":true},`,
}

func TestSE2MissingMeta(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	for method, params := range baseCalls {
		for name, meta := range map[string]string{
			"nothing":             ``,
			"empty":               `"_meta":{}`,
			"no capabilities":     `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`,
			"null capabilities":   `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":null}`,
			"number capabilities": `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":1}`,
		} {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, strings.TrimSuffix(params+meta, ","))
			st := rawPost(t, h.URL, body)
			wantError(t, st.answer(), -32602, "")
			if st.resp.StatusCode != 400 {
				t.Errorf("%s with %s: status %d, want 400", method, name, st.resp.StatusCode)
			}
			p := rawDial(t, t.Context(), s, m)
			p.send(body)
			wantError(t, p.next(), -32602, "")
		}
	}
}

func TestSE3HeaderMismatch(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	for method, params := range baseCalls {
		for _, header := range [][]string{
			{"Mcp-Method", ""},
			{"Mcp-Method", "events/list"},
			{"Mcp-Protocol-Version", ""},
			{"Mcp-Protocol-Version", "2025-11-25"},
		} {
			st := rawPost(t, h.URL, rawCall(1, method, params), header...)
			wantError(t, st.answer(), -32020, "")
			if st.resp.StatusCode != 400 {
				t.Errorf("%s with %q: status %d, want 400", method, header, st.resp.StatusCode)
			}
		}
	}
	for _, method := range []string{methodPoll, methodStream} { // OP-24
		body := rawCall(1, method, `"name":"alert",`)
		for _, bad := range []string{"other", "=?base64?!?=", "=?base64?b3RoZXI=?="} {
			st := rawPost(t, h.URL, body, "Mcp-Name", bad)
			wantError(t, st.answer(), -32020, "")
			if st.resp.StatusCode != 400 {
				t.Errorf("%s with name %q: status %d, want 400", method, bad, st.resp.StatusCode)
			}
		}
		for _, good := range []string{"alert", "=?base64?YWxlcnQ=?="} {
			if m := rawPost(t, h.URL, body, "Mcp-Name", good).answer(); m.Error != nil {
				t.Errorf("%s with name %q: %s", method, good, m.Text)
			}
		}
	}
}

func TestSE4UnsupportedVersion(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	for method, params := range baseCalls {
		body := strings.Replace(rawCall(1, method, params), "2026-07-28", "2099-01-01", 1)
		st := rawPost(t, h.URL, body, "Mcp-Protocol-Version", "2099-01-01")
		p := rawDial(t, t.Context(), s, m)
		p.send(body)
		for _, m := range []rawMessage{st.answer(), p.next()} {
			wantError(t, m, -32022, "")
			if !strings.Contains(string(m.Error.Data), `"supported":["2026-07-28"`) {
				t.Errorf("%s: data = %s, want what is supported", method, m.Error.Data)
			}
		}
		if st.resp.StatusCode != 400 {
			t.Errorf("%s: status %d, want 400", method, st.resp.StatusCode)
		}
	}
}

func TestSE52StreamHeaders(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	for method, params := range map[string]string{
		methodStream:        `"name":"alert",`,
		methodListen:        `"notifications":{"eventsListChanged":true},`,
		methodListen + " ":  `"notifications":{"eventsListChanged":true,"toolsListChanged":true},`,
		methodListen + "  ": `"notifications":{"toolsListChanged":true},`,
	} {
		st := rawPost(t, h.URL, rawCall(1, strings.TrimSpace(method), params))
		head := st.resp.Header
		if st.resp.StatusCode != 200 || !strings.HasPrefix(head.Get("Content-Type"), "text/event-stream") || head.Get("X-Accel-Buffering") != "no" || !strings.Contains(head.Get("Cache-Control"), "no-") {
			t.Errorf("%s %s: %d %v", method, params, st.resp.StatusCode, head)
		}
		st.next() // the first frame is there without anything happening
	}
}

func TestOP23Statuses(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	for _, c := range []struct {
		method, params string
		code           int64
		status         int
	}{
		{methodPoll, `"name":"alert","arguments":{"min":"x"},`, -32602, 200},
		{methodPoll, `"name":"nope",`, -32023, 200},
		{methodList, `"cursor":"bad",`, -32602, 200},
		{methodStream, `"name":"nope",`, -32023, 200},
		{methodStream, `"name":"alert","cursor":1,`, -32602, 200},
		{methodSubscribe, `"name":"alert",`, -32601, 404},
		{"events/nope", "", -32601, 404},
		{"tools/call", `"name":"nope",`, -32602, 400},
	} {
		var extra []string
		if c.method == "tools/call" {
			extra = []string{"Mcp-Name", "nope"}
		}
		st := rawPost(t, h.URL, rawCall(1, c.method, c.params), extra...)
		got := st.answer()
		wantError(t, got, c.code, "")
		if st.resp.StatusCode != c.status || st.resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s, want %d as JSON", c.method, c.params, st.resp.StatusCode, st.resp.Header.Get("Content-Type"), c.status)
		}
	}
}

func TestSE59OriginAndHost(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	trust := http.NewCrossOriginProtection()
	if err := trust.AddTrustedOrigin("https://good.example"); err != nil {
		t.Fatal(err)
	}
	h := rawListen(t, s, m, HandlerConfig{CrossOrigin: trust})
	open := rawServe(t, s, s.Handler(m, HandlerConfig{AnyHost: true}))
	for method, params := range baseCalls {
		for _, c := range []struct {
			url, header, value string
			status             int
		}{
			{h.URL, "Origin", "https://evil.example", 403},
			{h.URL, "Origin", "null", 403},
			{h.URL, "Sec-Fetch-Site", "cross-site", 403},
			{h.URL, "Origin", "https://good.example", 200},
			{h.URL, "Origin", h.URL, 200},
			{h.URL, "Host", "evil.example", 403},
			{h.URL, "Host", "localhost:1234", 200},
			{h.URL, "Host", "[::1]:80", 200},
			{open, "Host", "proxied.example", 200},
		} {
			if st := rawPost(t, c.url, rawCall(1, method, params), c.header, c.value); st.resp.StatusCode != c.status {
				t.Errorf("%s with %s %s: status %d, want %d", method, c.header, c.value, st.resp.StatusCode, c.status)
			}
		}
	}
}

func TestBodyLimit(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{MaxBody: 1000})
	for method, params := range baseCalls {
		if st := rawPost(t, h.URL, rawCall(1, method, params+`"x":"`+strings.Repeat("x", 1000)+`",`)); st.resp.StatusCode != 413 {
			t.Errorf("%s: status %d, want 413", method, st.resp.StatusCode)
		}
	}
}

func TestOtherRequestsReachTheSDK(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	for _, c := range []struct {
		method, body string
		status       int
	}{
		{"GET", "", 405},
		{"DELETE", "", 405},
		{"POST", "", 400},
		{"POST", "[]", 400},
		{"POST", "{", 400},
		{"POST", `{"jsonrpc":"1.0","id":1,"method":"events/stream"}`, 400},
		{"POST", `{"jsonrpc":"2.0","method":"events/stream"}`, 400},
		{"POST", "[" + rawCall(1, methodStream, `"name":"alert",`) + "]", 400},
	} {
		r, _ := http.NewRequest(c.method, h.URL, strings.NewReader(c.body))
		r.Header.Set("Mcp-Protocol-Version", firstStateless)
		r.Header.Set("Mcp-Method", methodStream)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %q: status %d, want %d", c.method, c.body, resp.StatusCode, c.status)
		}
	}
	if st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`), "Accept", "application/json"); st.resp.StatusCode != 400 {
		t.Errorf("a stream for who does not accept one: status %d, want 400", st.resp.StatusCode)
	}
	if st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`), "Content-Type", "text/plain"); st.resp.StatusCode != 415 {
		t.Errorf("a request that is no JSON: status %d, want 415", st.resp.StatusCode)
	}
}

func TestWriteTimeoutIsPerMessage(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{Heartbeat: 50 * time.Millisecond}, rawType(l))
	h := httptest.NewUnstartedServer(s.Handler(m, HandlerConfig{}))
	h.Config.WriteTimeout, h.Config.ReadTimeout = 200*time.Millisecond, 200*time.Millisecond
	h.Start()
	t.Cleanup(func() { _ = s.Close(); h.Close() })
	st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	li := rawPost(t, h.URL, rawCall(1, methodListen, `"notifications":{"toolsListChanged":true},`)) // the SDK's own
	mi := rawPost(t, h.URL, rawCall(1, methodListen, `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`))
	want(t, st, noteActive)
	for began := time.Now(); time.Since(began) < 600*time.Millisecond; {
		want(t, st, noteHeartbeat)
	}
	want(t, li, noteAcknowledged)
	want(t, mi, noteAcknowledged)
	aTool(m, "late")
	want(t, li, "notifications/tools/list_changed")
	want(t, mi, "notifications/tools/list_changed")
	s.Withdraw("alert")
	want(t, mi, noteListChanged)
}

func TestHTTP2StreamsOnOneConnection(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{Heartbeat: 50 * time.Millisecond}, rawType(l))
	h := httptest.NewUnstartedServer(s.Handler(m, HandlerConfig{WriteTimeout: 800 * time.Millisecond}))
	h.EnableHTTP2 = true
	h.Config.WriteTimeout, h.Config.ReadTimeout = time.Second, time.Second // of the handshake too
	h.StartTLS()
	t.Cleanup(func() { _ = s.Close(); h.Close() })
	var streams []*rawStream
	for range 20 {
		st := rawPostBy(t, h.Client(), h.URL, rawCall(1, methodStream, `"name":"alert",`))
		want(t, st, noteActive)
		streams = append(streams, st)
	}
	if got := streams[0].resp.Proto; got != "HTTP/2.0" {
		t.Fatalf("spoke %s", got)
	}
	for began := time.Now(); time.Since(began) < 2*time.Second; { // longer than each of the deadlines
		want(t, streams[0], noteHeartbeat)
	}
	rawAppend(t, l, 0, 3)
	for i, st := range streams {
		var got []string
		for len(got) < 3 {
			if m := st.next(); m.Method == noteEvent {
				got = append(got, m.Params.ID)
			}
		}
		if fmt.Sprint(got) != "[e0 e1 e2]" {
			t.Errorf("stream %d got %v", i, got)
		}
	}
	streams[3].close()
	for began := time.Now(); s.live() != 19; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("%d streams after one was reset, want 19", s.live())
		}
	}
}

// smallBuffers serves h so that little fits between it and a reader that stops.
func smallBuffers(t *testing.T, s *Server, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10)
		return ctx
	}
	srv.Start()
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
	})
	return srv
}

func TestStalledReaderIsCutOff(t *testing.T) {
	l := NewLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{}, Type{Name: "alert", Backend: l})
	h := smallBuffers(t, s, s.Handler(m, HandlerConfig{WriteTimeout: 200 * time.Millisecond}))
	st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	want(t, st, noteActive)
	data := json.RawMessage(`{"x":"` + strings.Repeat("x", 512<<10) + `"}`)
	for i := range 16 {
		if err := l.Append(Event{ID: fmt.Sprint(i), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); s.live() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a reader that has stopped still holds its stream")
		}
	}
}

// oldSession begins a session with initialize, over HTTP. What it returns sends a
// request of the session; an empty body is a GET.
func oldSession(t *testing.T, url string) func(body string) *http.Response {
	t.Helper()
	session := ""
	post := func(body string) *http.Response {
		r, _ := http.NewRequest("POST", url, strings.NewReader(body))
		if body == "" {
			r, _ = http.NewRequest("GET", url, nil)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	resp := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	session = resp.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("initialize: %d without a session", resp.StatusCode)
	}
	text, _ := bufio.NewReader(resp.Body).ReadString('}')
	if strings.Contains(text, `"events":{`) && !strings.Contains(text, `"experimental"`) {
		t.Logf("initialize: %s", text)
	}
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return post
}

// oldPeer sends the calls of such a session.
func oldPeer(t *testing.T, url string) func(id any, method, params string) rawMessage {
	t.Helper()
	post := oldSession(t, url)
	return func(id any, method, params string) rawMessage {
		t.Helper()
		raw, _ := json.Marshal(id)
		st := &rawStream{t: t, resp: post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, raw, method, strings.TrimSuffix(params, ",")))}
		st.in = bufio.NewReader(st.resp.Body)
		return st.answer()
	}
}

// oldPipe begins a session with initialize, on a pipe.
func oldPipe(t *testing.T, s *Server, m *mcp.Server) (*rawPipe, string) {
	t.Helper()
	p := rawDial(t, t.Context(), s, m)
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	hello := p.next().Text
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p, hello
}

func TestOP42OlderPeersNeedTheSwitch(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	p, hello := oldPipe(t, s, m)
	if strings.Contains(hello, "events") {
		t.Errorf("initialize = %s, want no capability", hello)
	}
	call := oldPeer(t, rawListen(t, s, m, HandlerConfig{}).URL)
	for _, method := range []string{methodList, methodPoll, methodStream, methodSubscribe, methodUnsubscribe} {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"name":"alert"}}`, method, method))
		wantError(t, p.next(), -32601, "")
		wantError(t, call(method, method, `"name":"alert",`), -32601, "")
	}
}

func TestOP42OlderPeersWithTheSwitch(t *testing.T) {
	for _, c := range []struct {
		config                ServerConfig
		notFound, unsupported int64
	}{{ServerConfig{Older: true}, -32023, -32026}, {ServerConfig{Compat: true}, -32011, -32014}} {
		l := rawLog(LogConfig{})
		push := rawType(l)
		push.Name, push.Modes = "pushed", []Mode{Push}
		s, m := rawServer(t, c.config, rawType(l), push)
		h := rawListen(t, s, m, HandlerConfig{})
		p, hello := oldPipe(t, s, m)
		if strings.Contains(hello, `"events":{"listChanged":true}`) != c.config.Compat || !strings.Contains(hello, `"`+Extension+`":`) {
			t.Errorf("initialize = %s, want the capability, at the top with Compat alone", hello)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"method":"events/list"}`)
		if r := rawList(t, p.next()); len(r.Events) != 2 || fmt.Sprint(r.Events[0].Delivery) != "[push poll]" {
			t.Errorf("list on a pipe = %+v", r)
		}
		p.send(`{"jsonrpc":"2.0","id":2,"method":"events/stream","params":{"name":"alert"}}`)
		want(t, p, noteActive)
		rawAppend(t, l, 0, 1)
		want(t, p, noteEvent)
		p.send(`{"jsonrpc":"2.0","id":3,"method":"events/poll","params":{"name":"nope"}}`)
		wantError(t, p.next(), c.notFound, `{"kind":"event"}`)

		call := oldPeer(t, h.URL)
		if r := rawList(t, call(1, methodList, "")); len(r.Events) != 1 || fmt.Sprint(r.Events[0].Delivery) != "[poll]" {
			t.Errorf("list over HTTP = %+v, want what can be polled", r)
		}
		if r := rawPoll(t, call(2, methodPoll, `"name":"alert",`)); r.Cursor == "" {
			t.Errorf("poll = %+v", r)
		}
		wantError(t, call(3, methodStream, `"name":"alert",`), c.unsupported, `{"feature":"deliveryMode","value":"push"}`)
	}
}

func TestShutdownWithStreamsUnderAnHTTPServer(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: s.Handler(m, HandlerConfig{})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	st := rawPost(t, "http://"+ln.Addr().String(), rawCall(1, methodStream, `"name":"alert",`))
	want(t, st, noteActive)
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	<-done
	if m := st.next(); m.Result == nil {
		t.Errorf("got %s, want the closing result", m.Text)
	}
	if rest, err := io.ReadAll(st.in); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("behind it came %q, %v, want a clean end", rest, err)
	}
}
