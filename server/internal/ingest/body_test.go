package ingest_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/ingest"
)

// trickle sends the lines of a body with pauses, and then what the last one is.
func trickle(pause time.Duration, n int, last func()) *io.PipeReader {
	r, w := io.Pipe()
	go func() {
		for i := range n {
			if _, err := io.WriteString(w, line("a", i)); err != nil {
				return
			}
			time.Sleep(pause)
		}
		if last != nil {
			last()
			return // it stays open
		}
		w.Close()
	}()
	return r
}

func send(t *testing.T, s *httptest.Server, body io.Reader) answer {
	t.Helper()
	res, err := s.Client().Post(s.URL+"/v1/ingest", "application/x-ndjson", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return answered(t, res.StatusCode, res.Body)
}

// A body may take as long as it likes, as long as it goes on; deadlines that
// somebody set for the whole don't cut it.
func TestSlowBody(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		in := newIngest(t, ingest.Config{Silence: 250 * time.Millisecond})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			_ = control.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			as(access.Anyone(), in.Bodies()).ServeHTTP(w, r)
		}))
		if s.EnableHTTP2 = two; two {
			s.StartTLS()
		} else {
			s.Start()
		}
		defer s.Close()
		if a := send(t, s, trickle(100*time.Millisecond, 6, nil)); a.status != 200 || a.Accepted != 6 {
			t.Errorf("%v, want 6 accepted", a)
		}
	})
}

// A commit may take longer than a body may be silent.
func TestSlowCommit(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		w := &watched{Engine: newEngine(t, engineConfig()), before: func([]engine.ScopePush) { time.Sleep(300 * time.Millisecond) }}
		s := serve(t, newIngest(t, ingest.Config{Engine: w, Silence: 100 * time.Millisecond}), two)
		if a := send(t, s, strings.NewReader(line("a", 1))); a.status != 200 || a.Accepted != 1 {
			t.Errorf("%v, want one accepted", a)
		}
	})
}

// A client that is held back while a group commits is not silent, and the group
// that is read meanwhile ends at its limit.
func TestHeldBackIsNotSilent(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		w := &watched{Engine: newEngine(t, engineConfig())}
		w.before = func([]engine.ScopePush) { time.Sleep(300 * time.Millisecond) }
		s := serve(t, newIngest(t, ingest.Config{Engine: w, Silence: 100 * time.Millisecond}), two)
		var b strings.Builder
		const n = 25_000
		text := strings.Repeat("x", 200)
		for i := range n {
			b.WriteString(strings.Replace(line(fmt.Sprint(i%7), i), "a line", text, 1))
		}
		if a := send(t, s, strings.NewReader(b.String())); a.status != 200 || a.Accepted != n {
			t.Errorf("%v, want all of %d lines", a, n)
		}
		most := 0
		for _, list := range w.lists {
			lines := 0
			for _, p := range list {
				lines += len(p.Events)
			}
			most = max(most, lines)
		}
		if most != engine.MaxPushEvents {
			t.Errorf("the largest group has %d lines, want one at the limit of %d", most, engine.MaxPushEvents)
		}
	})
}

// A body that stands still ends, with what came of it.
func TestSilentBody(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		s := serve(t, newIngest(t, ingest.Config{Silence: 200 * time.Millisecond}), two)
		r := trickle(0, 3, func() {})
		defer r.Close()
		a := send(t, s, r)
		if a.status != http.StatusRequestTimeout || a.Accepted != 3 || len(a.Rejected) != 1 || a.Rejected[0].Line != 4 {
			t.Errorf("%v, want 408 with three lines taken", a)
		}
	})
}

// A readUpTo tells when so much was read and more is asked for: then all of it was
// looked at.
type readUpTo struct {
	io.ReadCloser
	left int
	then func()
}

func (r *readUpTo) Read(p []byte) (int, error) {
	if r.left <= 0 {
		r.then()
	}
	n, err := r.ReadCloser.Read(p)
	r.left -= n
	return n, err
}

// A server that stops in the middle of a body: what is read is committed, the
// rest rejected, and a 503 only where nothing was.
func TestStopsInTheMiddle(t *testing.T) {
	each(t, func(t *testing.T, two bool) {
		for n, status := range map[int]int{0: 503, 5: 200} {
			stopping := make(chan struct{})
			stop := sync.OnceFunc(func() { close(stopping) })
			e := newEngine(t, engineConfig())
			in := newIngest(t, ingest.Config{Engine: e, Stopping: stopping})
			size := 0
			for i := range n {
				size += len(line("a", i))
			}
			s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = &readUpTo{r.Body, size, stop}
				in.Bodies().ServeHTTP(w, r)
			}), two)
			r := trickle(0, n, func() {})
			a := send(t, s, r)
			r.Close()
			if a.status != status || a.Accepted != n || len(a.Rejected) != 1 || a.Rejected[0].Line != n+1 || !a.Rejected[0].Retry {
				t.Errorf("%v, want %d with %d lines taken", a, status, n)
			}
			if got := len(held(t, e, "a")); got != n {
				t.Errorf("%d events are committed, want %d", got, n)
			}
			if a := send(t, s, strings.NewReader(line("a", 1))); a.status != 503 {
				t.Errorf("the next request: %v, want 503", a)
			}
		}
	})
}

// A client that goes away in the middle of a body: its handler ends, and whole
// lines are committed.
func TestClientGoesAway(t *testing.T) {
	e := newEngine(t, engineConfig())
	s := serve(t, newIngest(t, ingest.Config{Engine: e}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100000\r\n\r\n%s%s{", line("a", 1), line("a", 2))
	conn.Close()
	deadline := time.Now().Add(10 * time.Second)
	for len(held(t, e, "a")) < 2 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	s.Close() // waits for its handlers
	if got := len(held(t, e, "a")); got != 2 {
		t.Errorf("%d events, want the two whole lines", got)
	}
}

// The connection is good for the next request after each kind of answer that
// read its body to the end.
func TestConnectionIsUsedAgain(t *testing.T) {
	s := serve(t, newIngest(t, ingest.Config{Silence: 100 * time.Millisecond, Stall: 100 * time.Millisecond}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := bufio.NewReader(conn)
	for i, body := range []string{line("a", 1), strings.Repeat("{\n", 100), "", line("a", 2)} {
		if i > 0 {
			time.Sleep(200 * time.Millisecond) // any deadline that was left has passed
		}
		fmt.Fprintf(conn, "POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		res, err := http.ReadResponse(b, nil)
		if err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
		res.Body.Close()
	}
}

// Decompressors are used again, whatever they read before; members and frames
// may follow each other.
func TestInflatersAreUsedAgain(t *testing.T) {
	in := newIngest(t, ingest.Config{Inflaters: 1})
	pack := func(how, s string) []byte { return deflated(t, strings.NewReader(s), how).Bytes() }
	for i := range 50 {
		for _, how := range []string{"gzip", "zstd"} {
			good := append(pack(how, line("a", fmt.Sprint(how, i))), pack(how, line("a", fmt.Sprint(how, i, "b")))...)
			if a := post(t, in.Bodies(), bytes.NewReader(good), "Content-Encoding", how); a.Accepted != 2 {
				t.Fatalf("%s, round %d: %v, want two accepted", how, i, a)
			}
			for _, bad := range [][]byte{[]byte("rubbish"), good[:len(good)-3], {}} {
				a := post(t, in.Bodies(), bytes.NewReader(bad), "Content-Encoding", how)
				if want := map[bool]int{true: 200, false: 400}[len(bad) == 0]; a.status != want {
					t.Fatalf("%s, round %d: %d bytes: %v, want %d", how, i, len(bad), a, want)
				}
			}
		}
	}
}

// V1: more zstd bodies at a time than there is memory for are told to come again.
func TestTooManyInflaters(t *testing.T) {
	in := newIngest(t, ingest.Config{Inflaters: 1})
	r, w := io.Pipe()
	done := make(chan answer)
	go func() { done <- post(t, in.Bodies(), r, "Content-Encoding", "zstd") }()
	z, err := zstd.NewWriter(w)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(z, line("a", 1))
	if err := z.Flush(); err != nil { // it is read
		t.Fatal(err)
	}
	if a := post(t, in.Bodies(), bytes.NewReader(nil), "Content-Encoding", "zstd"); a.status != 429 {
		t.Errorf("%v, want 429", a)
	}
	if a := post(t, in.Bodies(), deflated(t, strings.NewReader(line("a", 2)), "gzip"), "Content-Encoding", "GZIP"); a.status != 200 {
		t.Errorf("gzip beside it: %v, want 200", a)
	}
	z.Close()
	w.Close()
	if a := <-done; a.Accepted != 1 {
		t.Errorf("%v, want one accepted", a)
	}
	if a := post(t, in.Bodies(), bytes.NewReader(nil), "Content-Encoding", "zstd"); a.status != 200 {
		t.Errorf("afterwards: %v, want 200", a)
	}
}

// A commit that takes too long is told, and the lines may be sent again.
func TestCommitTakesTooLong(t *testing.T) {
	e := newEngine(t, engineConfig())
	in := newIngest(t, ingest.Config{Engine: hanging{e}, Commit: 20 * time.Millisecond})
	if a := post(t, in.Bodies(), strings.NewReader(line("a", 1))); a.status != 503 || !a.Rejected[0].Retry {
		t.Errorf("%v, want 503", a)
	}
}

// A hanging engine takes a push as long as its context says.
type hanging struct{ ingest.Engine }

func (hanging) PushAll(ctx context.Context, list []engine.ScopePush) {
	<-ctx.Done()
	for i := range list {
		list[i].Err = ctx.Err()
	}
}

// What is compressed is read as it comes, and within bounds.
func TestCompressedGroups(t *testing.T) {
	for _, how := range []string{"gzip", "zstd"} {
		e := newEngine(t, engineConfig())
		w := &watched{Engine: e}
		in := newIngest(t, ingest.Config{Engine: w})
		var plain strings.Builder
		const n = 40_000
		for i := range n {
			plain.WriteString(line(fmt.Sprint(i%100), i))
		}
		a := post(t, in.Bodies(), deflated(t, strings.NewReader(plain.String()), how), "Content-Encoding", how)
		if a.Accepted != n || len(w.lists) < 4 {
			t.Errorf("%s: %v in %d groups, want %d lines in 4 or more", how, a, len(w.lists), n)
		}
	}
}
