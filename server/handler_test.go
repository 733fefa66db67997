package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server"
)

// V5: the time for reading ends with the body. A handler that works for longer
// than that is not told that its client has gone.
func TestV5HandlerThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, server.Config{ReadTimeout: time.Second})
		w.server.Route("POST /long", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			time.Sleep(10 * time.Second)
			fmt.Fprintf(rw, "%s %v %v", b, err, r.Context().Err())
		}))
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.server.Serve(ctx, server.Listen{Listener: p}) }()
		c := p.dial()
		go fmt.Fprint(c, "POST /long HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != "body <nil> <nil>" {
			t.Errorf("the handler says %q, %v, want all of the body and a client that is there", b, err)
		}
		_ = c.Close() // it has its answer
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// V5: what a refused request has yet to send is not waited for.
func TestV5BodyOfARefusedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, server.Config{Tokens: tokens(t)})
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.server.Serve(ctx, server.Listen{Listener: p}) }()
		c := p.dial()
		fmt.Fprint(c, "POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != 401 {
			t.Fatalf("%v, %v, want a 401", res, err)
		}
		began := time.Now()
		_, _ = io.Copy(io.Discard, r) // until the server is done with it
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the server waited %v for the body of a request that it had refused", took)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// Half an answer must not look like all of it.
func TestPanicBehindTheFirstBytes(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{})
	w.server.Route("GET /half", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, "half") // the recorder takes it
		http.NewResponseController(rw).Flush()
		panic("secret-of-a-panic")
	}))
	base, _ := w.serving(t, server.Listen{})
	res, err := http.Get(base + "/half")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("the answer is %q, and whole", b)
	}
	if log := w.log.String(); !strings.Contains(log, "panicked") || strings.Contains(log, "secret-of-a-panic") {
		t.Errorf("the log does not tell of the panic, or quotes it:\n%s", log)
	}
}
