package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// A pipes is a listener whose connections hold nothing back: what one end
// writes, the other has to read.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// dial returns the client's end of a new connection.
func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// slow runs a test against a server with the default timeouts, in a bubble.
func slow(t *testing.T, f func(t *testing.T, w *world, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, server.Config{})
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.server.Serve(ctx, server.Listen{Listener: p}) }()
		synctest.Wait()
		f(t, w, p)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// logged reports whether a route's request has been logged.
func (w *world) logged(route string) bool {
	return strings.Contains(w.log.String(), `route="`+route+`"`) || strings.Contains(w.log.String(), "route="+route+" ")
}

// V5: a client that takes its time for the header is let go.
func TestV5Header(t *testing.T) {
	slow(t, func(t *testing.T, _ *world, p *pipes) {
		c := p.dial()
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n")
		began := time.Now()
		_, _ = io.Copy(io.Discard, c) // whatever is said, it ends
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("half a header was waited for %v, want HeaderTimeout", took)
		}
	})
}

// V5: a connection without a request is let go.
func TestV5Idle(t *testing.T) {
	slow(t, func(t *testing.T, _ *world, p *pipes) {
		c := p.dial()
		go fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("GET /healthz = %v, %v", res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body) // its end
		began := time.Now()
		_, _ = io.Copy(io.Discard, r) // the connection's
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("an idle connection stayed for %v, want IdleTimeout", took)
		}
	})
}

// V5: a body that stands still ends its request, and one that goes on does not.
func TestV5Body(t *testing.T) {
	slow(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		go io.Copy(io.Discard, c)
		fmt.Fprint(c, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		for range 5 {
			time.Sleep(29 * time.Second)
			fmt.Fprint(c, " ")
		}
		synctest.Wait()
		if w.logged("/mcp") {
			t.Error("a body that comes slowly, but comes, was ended")
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if w.logged("/mcp") {
			t.Error("a body was ended before ReadTimeout")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !w.logged("/mcp") {
			t.Error("a body that stands still keeps its request")
		}
	})
}

// A handler that works for longer than ReadTimeout is not taken for one whose
// client has gone.
func TestV5BodyThatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		w := newWorld(t, engine.Config{Store: hesitant{memory.New(), hang}}, server.Config{ReadTimeout: time.Second})
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.server.Serve(ctx, server.Listen{Listener: p}) }()
		c := p.dial()
		body := `{"scope":"ops","id":"1","name":"flush.x"}`
		go fmt.Fprintf(c, "POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		time.AfterFunc(10*time.Second, func() { close(hang) })
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(b), `"accepted":1`) {
			t.Errorf("ingest = %s, %v, want it accepted", b, err)
		}
		_ = c.Close() // it has its answer
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// A hesitant store commits nothing before a channel is closed.
type hesitant struct {
	attend.ScopeStore
	until <-chan struct{}
}

func (h hesitant) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	<-h.until
	return h.ScopeStore.Commit(ctx, writes)
}

// big fills a scope's open window.
func (w *world) big(t testing.TB) {
	t.Helper()
	for i := range 4 {
		e := attend.Event{ID: fmt.Sprint(i), Name: "log", Text: strings.Repeat("x", 200<<10)}
		if _, err := w.engine.Push(t.Context(), "big", e); err != nil {
			t.Fatal(err)
		}
	}
}

// V5: an answer that nobody reads ends, and one that is read slowly does not.
func TestV5Answer(t *testing.T) {
	const route = "GET /v1/scopes/{scope}"
	slow(t, func(t *testing.T, w *world, p *pipes) {
		w.big(t)
		c := p.dial()
		fmt.Fprint(c, "GET /v1/scopes/big HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if w.logged(route) {
			t.Error("an answer was ended before WriteTimeout")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !w.logged(route) {
			t.Error("an answer that nobody reads keeps its request")
		}
		_ = c.Close() // it was cut
	})
	slow(t, func(t *testing.T, w *world, p *pipes) {
		w.big(t)
		c := p.dial()
		fmt.Fprint(c, "GET /v1/scopes/big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		began := time.Now()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for {
			m, err := io.ReadFull(res.Body, make([]byte, 64<<10))
			if n += m; err != nil {
				break
			}
			time.Sleep(20 * time.Second)
		}
		if n < 800<<10 || time.Since(began) < time.Minute {
			t.Errorf("read %d bytes in %v, want all of some 800 KiB, slowly", n, time.Since(began))
		}
	})
}

// V5: a stream that has nothing to say for long is not slow.
func TestV5StreamThatIsSilent(t *testing.T) {
	slow(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		go fmt.Fprint(c, "GET /v1/decisions HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Minute, func() {
			if _, err := w.engine.Push(context.Background(), "ops", attend.Event{ID: "1", Name: "flush.x"}); err != nil {
				t.Error(err)
			}
		})
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && lines.Text() != "event: decision" {
		}
		if err := lines.Err(); err != nil {
			t.Errorf("the stream broke: %v", err)
		}
		_ = c.Close() // the reader has what it wants
	})
}

// With the defaults an engine whose judge hangs has the time to give its lease
// back: its grace is as long as the server's.
func TestV7EndWithTheDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge := &attendtest.Judge{Script: []attendtest.Answer{attendtest.Hang()}}
		w := newWorld(t, engine.Config{Judge: judge, JudgeTimeout: time.Hour}, server.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.server.Serve(ctx, server.Listen{Listener: newPipes()}) }()
		if _, err := w.engine.Push(ctx, "ops", attend.Event{ID: "1", Name: "flush.x"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v, want nil: the engine ends by itself", err)
		}
		s, err := w.engine.State(t.Context(), "ops")
		if err != nil {
			t.Fatal(err)
		}
		if slot, ok := s.Slot(); !ok || !slot.Leased.IsZero() || slot.Attempts != 0 {
			t.Errorf("the slot is %+v, want it there, and its lease given back", slot)
		}
	})
}
