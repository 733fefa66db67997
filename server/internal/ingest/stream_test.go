package ingest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/ingest"
)

// serve serves both routes on loopback, over HTTP/1.1 or HTTP/2.
func serve(t testing.TB, in *ingest.Ingest, two bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/v1/ingest", in.Bodies())
	mux.Handle("/v1/ingest/stream", in.Stream())
	return serveHandler(t, mux, two)
}

// serveHandler serves anyone.
func serveHandler(t testing.TB, h http.Handler, two bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(as(access.Anyone(), h))
	if s.EnableHTTP2 = two; two {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// A client has a stream open.
type client struct {
	t     testing.TB
	w     *io.PipeWriter
	res   *http.Response
	lines *bufio.Scanner
}

// A told is one answer of a stream.
type told struct {
	Credit, Line                   int
	OK                             bool
	Scope, Error                   string
	Retry                          bool
	Accepted, Duplicates, Rejected *int
}

func open(t testing.TB, s *httptest.Server) *client {
	t.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/ingest/stream", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); res.Body.Close() })
	c := &client{t: t, w: w, res: res, lines: bufio.NewScanner(res.Body)}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	return c
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.w, s); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next answer, and false at their end.
func (c *client) hear() (a told, ok bool) {
	c.t.Helper()
	if !c.lines.Scan() {
		return a, false
	}
	if err := json.Unmarshal(c.lines.Bytes(), &a); err != nil {
		c.t.Fatalf("answer %q: %v", c.lines.Text(), err)
	}
	return a, true
}

// each runs a test over both protocols.
func each(t *testing.T, f func(t *testing.T, two bool)) {
	for _, two := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[two], func(t *testing.T) { f(t, two) })
	}
}

// A line is answered while the request is open, once it is committed; credit
// comes with the answers.
func TestStreamAnswersAsItGoes(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		e := newEngine(t, engineConfig())
		s := serve(t, newIngest(t, ingest.Config{Engine: e, Credit: 4}), two)
		c := open(t, s)
		if want := map[bool]int{false: 1, true: 2}[two]; c.res.ProtoMajor != want {
			t.Fatalf("the stream speaks %s", c.res.Proto)
		}
		if a, _ := c.hear(); a.Credit != 4 {
			t.Fatalf("first answer %+v, want a credit of 4", a)
		}
		for i := 1; i <= 20; i++ { // one at a time: nobody can answer later than that
			c.send(line("a", i) + "\n")
			if a, _ := c.hear(); a.Line != 2*i-1 || !a.OK {
				t.Fatalf("answer %+v, want line %d, ok", a, 2*i-1)
			}
			if got := len(held(t, e, "a")); got != i {
				t.Fatalf("%d events are committed when %d are answered", got, i)
			}
			if a, _ := c.hear(); a.Credit != 1 {
				t.Fatalf("answer %+v, want a credit of 1", a)
			}
		}
		c.w.Close()
		if a, _ := c.hear(); a.Accepted == nil || *a.Accepted != 20 || *a.Duplicates != 0 || *a.Rejected != 0 || a.Error != "" {
			t.Fatalf("last answer %+v, want the totals", a)
		}
		if a, ok := c.hear(); ok {
			t.Errorf("another answer: %+v", a)
		}
	})
}

// A client that keeps to its credit never waits for ever, and has each line
// answered once, in order.
func TestStreamCredit(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		s := serve(t, newIngest(t, ingest.Config{Credit: 7}), two)
		c := open(t, s)
		credit, sent, answered, outstanding := 0, 0, 0, 0
		const n = 2_000
		for answered < n {
			for credit > 0 && sent < n {
				sent++
				outstanding++
				credit--
				c.send(line(string("abc"[sent%3]), sent/2)) // every other a repeat, or of another scope
			}
			a, ok := c.hear()
			switch {
			case !ok:
				t.Fatal("the stream has ended")
			case a.Credit > 0:
				credit += a.Credit
			default:
				outstanding--
				if answered++; a.Line != answered || !a.OK {
					t.Fatalf("answer %+v, want line %d", a, answered)
				}
			}
			if outstanding > 7 {
				t.Fatalf("%d lines without an answer, with a credit of 7", outstanding)
			}
		}
	})
}

// A client that ignores its credit and reads no answers is held back: what the
// server reads of it stays within bounds, and after a while the stream ends.
func TestStreamHoldsBack(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		e := newEngine(t, engineConfig())
		release := make(chan struct{})
		w := &watched{Engine: e, before: func([]engine.ScopePush) { <-release }}
		s := serve(t, newIngest(t, ingest.Config{Engine: w, Stall: 200 * time.Millisecond}), two)
		r, pw := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/ingest/stream", r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		res, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var sent atomic.Int64
		ended := make(chan error, 1)
		go func() {
			text := line("a", 1) // the engine is asked for this one alone; its answer comes first
			for {
				n, err := io.WriteString(pw, text)
				text = strings.Repeat("{}\n", 1000)
				if sent.Add(int64(n)); err != nil {
					ended <- err
					return
				}
			}
		}()
		stood := int64(-1)
		for n := sent.Load(); n != stood || n < 1<<18; n = sent.Load() {
			stood = n
			time.Sleep(100 * time.Millisecond)
		}
		if stood > 16<<20 { // what the network holds, and two groups of 10,000 lines
			t.Errorf("%d bytes were taken from a client that is to be held back", stood)
		}
		begun := time.Now()
		close(release) // now it commits, and nobody reads the answers
		select {
		case <-ended:
			if d := time.Since(begun); d < 200*time.Millisecond {
				t.Errorf("the stream ended after %v, before anybody could have stalled for 200 ms", d)
			}
		case <-time.After(20 * time.Second):
			t.Error("the stream goes on, though nobody reads its answers")
		}
		pw.Close()
	})
}

// Each line has its own answer, and so has the end, when the store fails.
func TestStreamStoreFails(t *testing.T) {
	var down atomic.Bool
	cfg := engineConfig()
	cfg.Store = downStore{memory.New(), func(attend.Scope) bool { return down.Load() }}
	s := serve(t, newIngest(t, ingest.Config{Engine: newEngine(t, cfg)}), false)
	c := open(t, s)
	c.hear()
	c.send(line("a", 1))
	if a, _ := c.hear(); !a.OK {
		t.Fatalf("answer %+v, want ok", a)
	}
	down.Store(true)
	c.send(line("b", 2))
	if a, _ := c.hear(); a.Line != 2 || a.Scope != "b" || !a.Retry || a.Error != "the store does not answer" {
		t.Errorf("answer %+v, want line 2 refused for now", a)
	}
	if a, _ := c.hear(); a.Accepted == nil || *a.Accepted != 1 || *a.Rejected != 1 || !a.Retry || a.Error != "the store does not answer" {
		t.Errorf("last answer %+v, want the totals and why", a)
	}
}

// A server that stops: streams end with the totals, each line that was answered
// is committed, new ones are refused.
func TestStreamStops(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		stopping := make(chan struct{})
		e := newEngine(t, engineConfig())
		s := serve(t, newIngest(t, ingest.Config{Engine: e, Stopping: stopping}), two)
		c := open(t, s)
		go func() {
			for i := 0; ; i++ {
				if _, err := io.WriteString(c.w, line("a", i)); err != nil {
					return
				}
			}
		}()
		acked := 0
		for {
			a, ok := c.hear()
			if !ok {
				t.Fatal("the stream ended without totals")
			}
			if a.OK {
				if acked++; acked == 3000 {
					close(stopping)
				}
			}
			if a.Accepted != nil {
				if *a.Accepted != acked || a.Error != "the server is stopping, try again" || !a.Retry {
					t.Errorf("last answer %+v with %d lines answered", a, acked)
				}
				break
			}
		}
		ids := held(t, e, "a")
		if len(ids) != acked {
			t.Errorf("%d events are committed, %d answered", len(ids), acked)
		}
		for i, id := range ids {
			if id != fmt.Sprint(i) {
				t.Fatalf("event %d is %s: the order of the lines is lost", i, id)
			}
		}
		res, err := s.Client().Post(s.URL+"/v1/ingest/stream", "application/x-ndjson", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != 503 {
			t.Errorf("a new stream = %d, want 503", res.StatusCode)
		}
	})
}

// An idle stream ends when nothing comes; one at a time is alive by blank lines.
func TestStreamIdle(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		s := serve(t, newIngest(t, ingest.Config{Idle: 300 * time.Millisecond, Stall: 50 * time.Millisecond}), two)
		c := open(t, s)
		c.hear()
		for range 8 {
			time.Sleep(100 * time.Millisecond)
			c.send("\n")
		}
		c.send(line("a", 1))
		if a, _ := c.hear(); a.Line != 9 || !a.OK {
			t.Errorf("answer %+v, want line 9, ok", a)
		}
		if a, _ := c.hear(); a.Accepted == nil || a.Error != "the body did not come in time" {
			t.Errorf("last answer %+v, want an end for silence", a)
		}
	})
}

// A client that goes away in the middle: what came is committed, and nothing is
// left behind.
func TestStreamClientGoes(t *testing.T) {
	e := newEngine(t, engineConfig())
	s := serve(t, newIngest(t, ingest.Config{Engine: e}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	text := line("a", 1)
	fmt.Fprintf(conn, "POST /v1/ingest/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(text), text)
	b := bufio.NewReader(conn)
	for {
		l, err := b.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(l, `"ok":true`) {
			break
		}
	}
	conn.Close()
	s.Close() // waits for its handlers
	if got := len(held(t, e, "a")); got != 1 {
		t.Errorf("%d events, want the one that was answered", got)
	}
}

// Who waits to be told to go on is told so, before the answer begins.
func TestStreamExpectContinue(t *testing.T) {
	s := serve(t, newIngest(t, ingest.Config{}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/ingest/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
	b := bufio.NewReader(conn)
	if l, err := b.ReadString('\n'); err != nil || !strings.Contains(l, "100 Continue") {
		t.Errorf("%q, %v, want 100 first", l, err)
	}
}

// A stream is refused as a whole for what it can't be.
func TestStreamRefuses(t *testing.T) {
	in := newIngest(t, ingest.Config{})
	for _, c := range []struct {
		header string
		value  string
	}{{"Content-Type", "application/json"}, {"Content-Type", ""}, {"Content-Type", "application/x-ndjson; charset=latin1"}, {"Content-Encoding", "gzip"}} {
		if a := post(t, in.Stream(), strings.NewReader(""), c.header, c.value); a.status != http.StatusUnsupportedMediaType || a.Detail == "" {
			t.Errorf("%s: %s = %v, want 415", c.header, c.value, a)
		}
	}
}

var errGone = errors.New("gone")

// A goner is a response writer whose client is gone after some bytes.
type goner struct {
	*httptest.ResponseRecorder
	left int
}

func (g *goner) Write(p []byte) (int, error) {
	if g.left -= len(p); g.left < 0 {
		return 0, errGone
	}
	return g.ResponseRecorder.Write(p)
}

// Nobody who reads answers: the stream ends by itself, though more would come.
func TestStreamNobodyReads(t *testing.T) {
	in := newIngest(t, ingest.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", repeat(line("a", 1), 1<<30))
	r.Header.Set("Content-Type", "application/x-ndjson")
	done := make(chan struct{})
	go func() {
		defer close(done)
		as(access.Anyone(), in.Stream()).ServeHTTP(&goner{httptest.NewRecorder(), 1000}, r)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the stream goes on")
	}
}

// A silent client hears at once that the server stops, and can't keep it from
// stopping.
func TestStreamStopsForTheSilent(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		stopping := make(chan struct{})
		s := serve(t, newIngest(t, ingest.Config{Stopping: stopping}), two)
		c := open(t, s)
		c.hear()
		begun := time.Now()
		close(stopping)
		if a, _ := c.hear(); a.Accepted == nil || !a.Retry {
			t.Errorf("answer %+v, want the totals", a)
		}
		if a, ok := c.hear(); ok { // the answer ends when its handler does
			t.Errorf("another answer: %+v", a)
		}
		if d := time.Since(begun); d > 8*time.Second {
			t.Errorf("the stream ended %v after the server began to stop", d)
		}
	})
}

// Lines of a scope don't overtake one that was refused for now: none that the
// client may have sent before it could know is taken.
func TestStreamIsNotOvertaken(t *testing.T) {
	e := newEngine(t, engineConfig())
	release := make(chan struct{})
	first := true
	w := &watched{Engine: e, before: func(list []engine.ScopePush) {
		if first {
			<-release
			first = false
			list[0].Scope = "" // refused, once
		}
	}}
	s := serve(t, newIngest(t, ingest.Config{Engine: &refusing{w}, Credit: 10}), false)
	c := open(t, s)
	if a, _ := c.hear(); a.Credit != 10 {
		t.Fatalf("answer %+v, want a credit of 10", a)
	}
	c.send(line("a", 1))
	for { // it is under way
		w.mu.Lock()
		n := w.inside
		w.mu.Unlock()
		if n == 1 {
			break
		}
		sleep()
	}
	c.send(line("a", 2) + line("b", 3) + `{"scope":"a","flush":true}` + "\n" + line("a", 5))
	close(release)
	answer := func(number int, ok bool) {
		t.Helper()
		a, _ := c.hear()
		for a.Credit > 0 {
			a, _ = c.hear()
		}
		if a.Line != number || a.OK != ok || a.Retry == ok {
			t.Errorf("answer %+v, want line %d, ok: %v, or to be sent again", a, number, ok)
		}
	}
	for number := 1; number <= 5; number++ {
		answer(number, number == 3)
	}
	for number := 6; number <= 12; number++ { // the client knows; ten lines might have been on their way
		c.send(line("a", number))
		answer(number, number > 10)
	}
	if got := fmt.Sprint(held(t, e, "a")); got != "[11 12]" {
		t.Errorf("the scope holds %s, want [11 12]", got)
	}
}
