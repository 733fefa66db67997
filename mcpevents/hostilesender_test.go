package mcpevents

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Senders that drip, break off, lie about lengths or flood hold up nobody else,
// and leave nothing behind.
func TestHostileSenders(t *testing.T) {
	r := newReceiver(t, ReceiverConfig{MaxBody: 10_000, Take: 200 * time.Millisecond, MaxWaiting: 8})
	b := r.open()
	r.bind(b, "sub_1")
	srv := httptest.NewUnstartedServer(r)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	defer srv.Close()
	before := runtime.NumGoroutine()
	address := srv.Listener.Addr().String()
	head := func(extra string) string {
		return "POST /hook HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nwebhook-id: m\r\nwebhook-timestamp: " +
			strconv.FormatInt(time.Now().Unix(), 10) + "\r\nwebhook-signature: v1,AAAA\r\nX-MCP-Subscription-Id: sub_1\r\n" + extra + "\r\n"
	}
	// say opens a connection, says something, and returns the status, 0 for none.
	say := func(text string, rest io.Reader) int {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(3 * time.Second))
		if _, err := io.WriteString(c, text); err != nil {
			return 0
		}
		if rest != nil {
			go func() { _, _ = io.Copy(c, rest) }()
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for _, c := range []struct {
		name, text string
		rest       io.Reader
		want       int
	}{
		{"announces too much", head("Content-Length: 1000000000\r\n"), nil, 413},
		{"floods in chunks", head("Transfer-Encoding: chunked\r\n"), endless("2710\r\n" + strings.Repeat("x", 10_000) + "\r\n"), 413},
		{"breaks a chunk", head("Transfer-Encoding: chunked\r\n") + "zz\r\n", nil, 400},
		{"two ids", head("webhook-id: n\r\nContent-Length: 2\r\n") + "{}", nil, 400},
		{"two signatures", head("webhook-signature: v1,BBBB\r\nContent-Length: 2\r\n") + "{}", nil, 400},
		{"bad signature", head("Content-Length: 2\r\n") + "{}", nil, 401},
	} {
		if got := say(c.text, c.rest); got != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got, c.want)
		}
	}
	// Many that never finish, and beside them one that is right.
	for range 50 {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, head("Content-Length: 5000\r\n")+"{"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := taker(ctx, b)
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(oneEvent))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", headerID: "m", headerTimestamp: stamp, headerSubscription: "sub_1",
		headerSignature: "v1," + encodeSum(b.key(), "m", stamp, []byte(oneEvent)),
	} {
		req.Header.Set(name, value)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 || <-got != oneEvent {
		t.Errorf("beside the hostile ones: status %d, want 200", res.StatusCode)
	}
	srv.CloseClientConnections()
	srv.Client().CloseIdleConnections()
	cancel()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left, there were %d", runtime.NumGoroutine(), before)
		}
	}
}

type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

// Many subscriptions of one server all hear of one event.
func TestManySubscriptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const people, each = 5, 60
		w := newWorld(t, func(w *world) { w.w.Trusted = []string{"https://relay.example.net/"} })
		for i := range people {
			for j := range each {
				_, err := w.s.webhooks.subscribe(as(fmt.Sprint("p", i)), ask(map[string]any{"arguments": map[string]any{"n": j}}))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		settle()
		w.add("e1", "e2", "e3")
		settle()
		count := map[string]int{}
		for _, p := range w.e.all("") {
			count[p.header.Get(headerSubscription)+p.body.EventID]++
		}
		if len(count) != people*each*3 || len(w.e.all("")) != people*each*3 {
			t.Errorf("%d deliveries of %d events, want each of %d once", len(w.e.all("")), len(count), people*each*3)
		}
	})
}
