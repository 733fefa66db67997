package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func mustID(t *testing.T, v any) jsonrpc.ID {
	t.Helper()
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCE28TheFormsOfAnID(t *testing.T) {
	for _, one := range []struct {
		id   any
		raw  string
		want bool
	}{
		{"ev-1", `"ev-1"`, true}, {"ev-1", `"ev-2"`, false}, {"ev-1", `1`, false}, {"7", `7`, false}, {"7", `"7"`, true},
		{7.0, `7`, true}, {7.0, `"7"`, true}, {7.0, `7.0`, true}, {7.0, `8`, false}, {7.0, `7.5`, false}, {7.0, `"7.0"`, false}, {7.0, `"07"`, false},
		{7.0, `null`, false}, {7.0, `true`, false}, {7.0, `[7]`, false}, {"ev-1", `{}`, false},
	} {
		var raw any
		if err := json.Unmarshal([]byte(one.raw), &raw); err != nil {
			t.Fatal(err)
		}
		if got := sameID(mustID(t, one.id), raw); got != one.want {
			t.Errorf("sameID(%v, %s) = %v, want %v", one.id, one.raw, got, one.want)
		}
	}
}

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 50)
	for _, one := range []struct{ text, want string }{
		{"data: a\n\ndata: b\n\n", "a b EOF"},
		{"data:a\r\n\r\ndata: b", "a b EOF"},
		{"data: a\ndata: b\n\n", "a\nb EOF"},
		{"data: a\r\rdata: b\rdata: c\r\r", "a b\nc EOF"},
		{"data: a\r\n\rdata: b\n\r\n", "a b EOF"},
		{"\ufeffdata: a\n\n\ufeffdata: b\n\n", "a EOF"},
		{": c\nid: 1\nretry: 2\nevent: message\ndata: a\n\n", "a EOF"},
		{"event: other\ndata: a\n\nevent:\ndata: b\n\n", "b EOF"},
		{"\n\n\n: \n\ndata\n\ndata:\n\ndata: a\n\n", "a EOF"},
		{"data: " + long + "\n\ndata: b\n\n", "over b EOF"},
		{"data: " + long[:30] + "\ndata: " + long[:30] + "\n\ndata: b\n\n", "over b EOF"},
		{"data: a\ndata: " + long + "\ndata: c\nid: 1\n\ndata: b\n\n", "over b EOF"},
		{": " + long + "\n\ndata: b\n\n", "over b EOF"},
		{"data: " + long, "over EOF"},
		{"", "EOF"},
	} {
		for _, chunk := range []int{1, 1 << 20} {
			f := newFrames(&slowReader{strings.NewReader(one.text), chunk}, 40)
			var got []string
			for {
				b, err := f.next()
				if errors.Is(err, ErrTooLarge) {
					got = append(got, "over")
					continue
				}
				if err != nil {
					got = append(got, err.Error())
					break
				}
				got = append(got, string(b))
			}
			if s := strings.Join(got, " "); s != one.want {
				t.Errorf("%q: %q, want %q", one.text, s, one.want)
			}
		}
	}
}

// A slowReader gives a few bytes at a time.
type slowReader struct {
	r     io.Reader
	chunk int
}

func (s *slowReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.chunk)]) }

func TestLines(t *testing.T) {
	message := `{"jsonrpc":"2.0","method":"x"}`
	batch := "[" + message + "," + message + "]"
	text := strings.Join([]string{
		"starting up", message, "", "  ", `{"jsonrpc":"2.0"}`, batch, "[]", "[1]", strings.Repeat("y", 200_000), message + "  ", `{"jsonrpc":"2.0","method":`, message + message, message,
	}, "\r\n")
	bad := 0
	got, err := io.ReadAll(newLines(io.NopCloser(strings.NewReader(text)), 1000, func(over bool) {
		if bad++; over != (bad == 5) {
			t.Errorf("line %d that was left out: too long = %v", bad, over)
		}
	}))
	want := message + "\r\n" + batch + "\r\n" + message + "  \r\n" + message
	if string(got) != want || err != nil || bad != 7 {
		t.Errorf("%q, %v, %d bad lines, want %q and 7", got, err, bad, want)
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestATakerLeavesToTheSDKWhatItMustDo(t *testing.T) {
	statuses := []int{401, 200}
	n := 0
	base := trip(func(r *http.Request) (*http.Response, error) {
		n++
		return &http.Response{StatusCode: statuses[n-1], Header: http.Header{"Mcp-Session-Id": {"other"}}, Body: http.NoBody}, nil
	})
	take := &taker{base: base, version: "2025-11-25", session: "s-1", authorize: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := take.RoundTrip(req)
	if err != nil || resp.StatusCode != 401 || take.resp != nil {
		t.Errorf("the first 401 is the SDK's: %v, %v", resp, err)
	}
	resp, err = take.RoundTrip(req)
	if err != nil || take.resp == nil || take.resp.StatusCode != 200 || resp.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("the second answer is ours: %v, %v", resp, err)
	}
	if req.Header.Get("Mcp-Session-Id") != "" {
		t.Error("the caller's request was changed")
	}
	statuses, n = []int{401, 401}, 0
	take = &taker{base: base, authorize: true}
	_, _ = take.RoundTrip(req)
	if _, _ = take.RoundTrip(req); take.resp == nil || take.resp.StatusCode != 401 {
		t.Error("authorization is asked for without end")
	}
}

func TestDeclare(t *testing.T) {
	h := &handshake{extension: "e/x"}
	for _, one := range []struct{ method, params, want string }{
		{"initialize", `{"capabilities":{"roots":{}}}`, `{"capabilities":{"extensions":{"e/x":{}},"roots":{}}}`},
		{"initialize", `{}`, `{"capabilities":{"extensions":{"e/x":{}}}}`},
		{"initialize", `{"capabilities":7}`, `{"capabilities":7}`},
		{"tools/list", `{"x":1}`, `{"x":1}`},
		{"tools/list", ``, ``},
		{"a", `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`, `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"e/x":{}}}}}`},
		{"a", `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"e/x":{"set":1},"o":{}}}}}`, `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"e/x":{"set":1},"o":{}}}}}`},
		{"a", `{"text":"io.modelcontextprotocol/clientCapabilities"}`, `{"text":"io.modelcontextprotocol/clientCapabilities"}`},
		{"a", `["io.modelcontextprotocol/clientCapabilities"]`, `["io.modelcontextprotocol/clientCapabilities"]`},
	} {
		if got := h.declare(one.method, json.RawMessage(one.params)); string(got) != one.want {
			t.Errorf("declare(%s, %s) = %s, want %s", one.method, one.params, got, one.want)
		}
	}
}

func TestAnExchangeIsBoundedByBytesToo(t *testing.T) {
	c := &Client{cfg: ClientConfig{MaxQueue: 1000, MaxBytes: 1000}}
	x := newExchange(t.Context(), c, &jsonrpc.Request{ID: mustID(t, "ev-1")})
	n := 0
	for x.offer(Note{Params: make([]byte, 100)}) {
		n++
	}
	if n != 1000/(100+noteOverhead) {
		t.Errorf("%d notes of 100 bytes waited", n)
	}
	x.finish(nil, ErrOverflow)
	for range n {
		if _, err := x.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Next(t.Context()); !errors.Is(err, ErrOverflow) {
		t.Errorf("%v, want ErrOverflow behind what waited", err)
	}
	x = newExchange(t.Context(), c, &jsonrpc.Request{ID: mustID(t, "ev-2")})
	if !x.offer(Note{Params: make([]byte, 5000)}) {
		t.Error("one large note is refused although none waits")
	}
}

// TestServerProcess is no test: it is the server of the one below, and prints
// what servers should not.
func TestServerProcess(t *testing.T) {
	if os.Getenv("WIRE_TEST_SERVER") == "" {
		return
	}
	fmt.Println("debug: starting")
	var b [1 << 16]byte
	for {
		n, err := os.Stdin.Read(b[:])
		if err != nil {
			time.Sleep(time.Minute) // and does not go when it should
		}
		var m struct{ ID json.RawMessage }
		if json.Unmarshal(bytes.TrimSpace(b[:n]), &m) == nil {
			fmt.Printf("panic: not really\n{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"ok\":true}}\n", m.ID)
		}
	}
}

func TestACommandSurvivesWhatItPrints(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "WIRE_TEST_SERVER=1")
	bad := make(chan struct{}, 100)
	transport := cleaned(&mcp.CommandTransport{Command: cmd, TerminateDuration: 100 * time.Millisecond}, 1<<20, func(bool) { bad <- struct{}{} })
	conn, err := transport.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for i := range 3 {
		if err := conn.Write(ctx, &jsonrpc.Request{ID: mustID(t, fmt.Sprint("ev-", i)), Method: "x"}); err != nil {
			t.Fatal(err)
		}
		m, err := conn.Read(ctx)
		if r, ok := m.(*jsonrpc.Response); err != nil || !ok || r.ID != mustID(t, fmt.Sprint("ev-", i)) {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if len(bad) < 4 {
		t.Errorf("%d lines left out, want 4 at least", len(bad))
	}
	start := time.Now()
	if err := conn.Close(); err == nil {
		t.Error("Close: no error, want that of a killed process")
	}
	if cmd.ProcessState == nil || time.Since(start) > 10*time.Second {
		t.Errorf("the process is not gone after %v", time.Since(start))
	}
}

// A CR ends a line, although a LF may follow that belongs to it.
func TestFramesDoNotWaitBehindACR(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = io.WriteString(w, "data: a\r\r") }()
	if b, err := newFrames(r, 40).next(); string(b) != "a" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	take := &taker{session: "s-1", base: trip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTemporaryRedirect, Header: http.Header{"Location": {"http://other.test/"}}, Body: http.NoBody}, nil
	})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := take.RoundTrip(req)
	if err != nil || take.resp == nil || take.resp.StatusCode != http.StatusTemporaryRedirect || resp.StatusCode != http.StatusOK {
		t.Errorf("%v, %v: a redirect is left to be followed, with the session", resp, err)
	}
}

func TestAHandshakeIsReadOnce(t *testing.T) {
	c := &Client{cfg: ClientConfig{MaxMessage: 1 << 20}}
	c.shake.sent(methodInitialize, int64(1))
	text := strings.Repeat(":\n", 1_000_000) + "\r\n" + `data: {"jsonrpc":"2.0","id":1,"result":{"capabilities":{"x":{}}}}` + "\r\n\r\n"
	w := &witness{ReadCloser: io.NopCloser(&slowReader{strings.NewReader(text), 1000}), client: c, stream: true}
	buf, start := make([]byte, 1000), time.Now()
	for n := 0; n < len(text); {
		m, err := w.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if d := time.Since(start); d > 20*time.Second { // it would be minutes
		t.Errorf("%d bytes take %v", len(text), d)
	}
	if got := string(c.ServerCapabilities()); got != `{"x":{}}` {
		t.Errorf("capabilities %s before the end of the stream", got)
	}
}

func TestAScreenMakesNotificationsFit(t *testing.T) {
	bare := `{"jsonrpc":"2.0","method":"n"}`
	fit := `{"jsonrpc":"2.0","method":"n","params":{}}`
	same := []string{
		"", "\n", ": c\n\n", "id: 1\nretry: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", "data: {\n\n", "data: x", "event: ping\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{\"a\":1}}\n\n", "junk",
	}
	for _, one := range [][2]string{
		{"id: 1\ndata: " + bare + "\n\ndata: x\n\n", "data: " + fit + "\nid: 1\n\n\ndata: x\n\n"},
		{"data:" + bare[:16] + "\r\ndata: " + bare[16:] + "\r\n\r\n", "data: " + fit + "\n\n\n"},
		{`data: {"jsonrpc":"2.0","method":"n","params":null}` + "\nid: 7", "data: " + fit + "\nid: 7\n\n"},
	} {
		for _, chunk := range []int{1, 1 << 20} {
			got, err := io.ReadAll(newScreen(io.NopCloser(&slowReader{strings.NewReader(one[0]), chunk}), true))
			if string(got) != one[1] || err != nil {
				t.Errorf("%q: %q, %v, want %q", one[0], got, err, one[1])
			}
		}
	}
	for _, text := range same {
		if got, err := io.ReadAll(newScreen(io.NopCloser(strings.NewReader(text)), true)); string(got) != text || err != nil {
			t.Errorf("%q: %q, %v, want it unchanged", text, got, err)
		}
	}
	for text, want := range map[string]string{bare: fit, `{"jsonrpc":"2.0","id":1,"result":{}}`: `{"jsonrpc":"2.0","id":1,"result":{}}`, "<html>": "<html>", "": ""} {
		if got, err := io.ReadAll(newScreen(io.NopCloser(strings.NewReader(text)), false)); string(got) != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	// An event is handed on when it is complete, and bounded before.
	r, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = io.WriteString(w, "data: a\n\n") }()
	buf := make([]byte, 100)
	if n, err := newScreen(r, true).Read(buf); string(buf[:n]) != "data: a\n\n" || err != nil {
		t.Errorf("%q, %v before the stream goes on", buf[:n], err)
	}
	s := newScreen(io.NopCloser(strings.NewReader("data: "+strings.Repeat("x", 10_000)+"\n\n")), true)
	s.most = 5000
	if _, err := io.ReadAll(s); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}
