package decisions_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

// pipes is a listener whose connections hold nothing: a write waits for its
// reader. In a bubble that makes slow readers exact.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A client is one open stream, read event by event.
type client struct {
	t      *testing.T
	conn   net.Conn
	answer *http.Response
	lines  *bufio.Scanner
	last   string // the last id
}

type event struct{ name, id, data string }

// ask opens a stream on a connection, and reads nothing but the head.
func ask(t *testing.T, conn net.Conn, query string, header ...string) *client {
	t.Helper()
	req, err := http.NewRequest("GET", "http://attend/v1/decisions?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", answer.Status, answer.Header)
	}
	c := &client{t: t, conn: conn, answer: answer, lines: bufio.NewScanner(answer.Body)}
	c.lines.Buffer(nil, 64<<20)
	return c
}

// next returns the next event as a browser would: blocks without data only move
// the id, comments are nothing, and what is incomplete at the end is dropped. It
// is the zero event at the end.
func (c *client) next() event {
	var e event
	id, has := "", false
	for c.lines.Scan() {
		line := c.lines.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			if has {
				c.last = id
			}
			if e.data != "" {
				e.id = c.last
				return e
			}
			e = event{}
		case name == "id":
			id, has = value, true
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		case name == "retry", strings.HasPrefix(line, ":"):
		default:
			c.t.Errorf("a line of a stream is %.80q", line)
		}
	}
	return event{}
}

type rigged struct {
	*rig
	ended    chan string
	listener *pipes
	server   *http.Server
	stop     chan struct{} // ends the streams
}

// serve runs the handler on pipes. It must be called, and all be read, in a bubble.
func (r *rig) serve(who *access.Principal, c decisions.HandlerConfig) *rigged {
	s := &rigged{rig: r, ended: make(chan string, 100), listener: &pipes{make(chan net.Conn), make(chan struct{})}, stop: make(chan struct{})}
	c.Stopping, c.Ended = s.stop, func(reason string) { s.ended <- reason }
	s.server = &http.Server{Handler: r.handler(who, c), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go s.server.Serve(s.listener)
	return s
}

func (s *rigged) close() {
	s.server.Close()
}

func (s *rigged) dial() net.Conn {
	a, b := net.Pipe()
	s.listener.conns <- a
	return b
}

func bubble(t *testing.T, who *access.Principal, c decisions.HandlerConfig, f func(t *testing.T, s *rigged)) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, attend.Retain{}).serve(who, c)
		defer s.close()
		f(t, s)
	})
}

func TestStreamFromNow(t *testing.T) {
	bubble(t, reader("ops"), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		s.decide("ops", attend.RouteQueue, "before")
		c := ask(t, s.dial(), "routes=queue,interrupt")
		defer c.conn.Close()
		var want []string
		go func() {
			time.Sleep(time.Second)
			s.decide("dev", attend.RouteQueue, "foreign")
			s.decide("ops", attend.RouteNote, "another route")
			s.decide("ops", attend.RouteQueue, "first")
			s.decide("ops/db", attend.RouteInterrupt, "second")
		}()
		for _, text := range []string{"first", "second"} {
			e := c.next()
			want = append(want, e.id)
			if e.name != "decision" || !strings.Contains(e.data, `"text":"`+text+`"`) || !strings.Contains(e.data, `"cursor":"`+e.id+`"`) {
				t.Errorf("got %+v, want %s", e, text)
			}
		}
		again := ask(t, s.dial(), "after="+want[1], "Last-Event-ID", want[0]) // a browser asks again with both
		defer again.conn.Close()
		if e := again.next(); e.id != want[1] {
			t.Errorf("after Last-Event-ID: %+v", e)
		}
	})
}

// A reader that saw nothing knows where it is all the same.
func TestStreamHeartbeat(t *testing.T) {
	bubble(t, reader("ops"), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		c := ask(t, s.dial(), "")
		defer c.conn.Close()
		began := time.Now()
		block := func() (lines []string) {
			for c.lines.Scan() && c.lines.Text() != "" {
				lines = append(lines, c.lines.Text())
			}
			return lines
		}
		if got := block(); !slices.Equal(got, []string{"retry: 2000", "id: " + s.newest().String()}) {
			t.Errorf("a stream begins with %q", got)
		}
		s.decide("dev", attend.RouteQueue, "foreign")
		if got := block(); !slices.Equal(got, []string{":", "id: " + s.newest().String()}) || time.Since(began) != 15*time.Second {
			t.Errorf("after %v: %q", time.Since(began), got)
		}
		if got := block(); len(got) != 0 { // a comment has an empty line of its own
			t.Errorf("behind the comment: %q", got)
		}
		if got := block(); !slices.Equal(got, []string{":"}) || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %q", time.Since(began), got)
		}
	})
}

func TestStreamLimitAndEnd(t *testing.T) {
	bubble(t, reader(""), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		at := s.newest()
		for range 5 {
			s.decide("a", attend.RouteQueue, "x")
		}
		c := ask(t, s.dial(), "limit=3&after="+at.String())
		for range 3 {
			if e := c.next(); e.name != "decision" {
				t.Errorf("got %+v, want a decision", e)
			}
		}
		if e := c.next(); e.name != "end" || e.data != `{"reason":"limit"}` || c.next() != (event{}) {
			t.Errorf("behind the last: %+v", e)
		}
		rest := ask(t, s.dial(), "", "Last-Event-ID", c.last)
		for range 2 {
			rest.next()
		}
		close(s.stop)
		if e := rest.next(); e.name != "end" || e.data != `{"reason":"shutdown"}` || rest.next() != (event{}) {
			t.Errorf("at the end of the server: %+v", e)
		}
		if a, b := <-s.ended, <-s.ended; a != decisions.EndLimit || b != decisions.EndShutdown {
			t.Errorf("ended for %s and %s", a, b)
		}
	})
}

// M6: the reader is told, goes on from the oldest row kept, and is not told
// again when it comes back.
func TestM6StreamIsTruncated(t *testing.T) {
	bubble(t, reader(""), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		id := s.decide("a", attend.RouteQueue, "x")
		s.rows(attend.Row{Scope: "a", ID: "bad", Type: attend.RowDecision, At: noon, Body: []byte("x")})
		ahead := s.newest()
		ahead.Position += 7
		c := ask(t, s.dial(), "", "Last-Event-ID", ahead.String())
		defer c.conn.Close()
		if e := c.next(); e.name != "truncated" || e.data != "{}" {
			t.Errorf("got %+v, want truncated", e)
		}
		if e := c.next(); e.name != "decision" || !strings.Contains(e.data, string(id)) {
			t.Errorf("got %+v, want the oldest decision", e)
		}
		e := c.next()
		if e.name != "unreadable" || e.data != `{"cursor":"`+s.newest().String()+`","scope":"a","id":"bad"}` || e.id != s.newest().String() {
			t.Errorf("got %+v, want the row that can't be read", e)
		}
		again := ask(t, s.dial(), "after="+c.last)
		defer again.conn.Close()
		s.decide("a", attend.RouteQueue, "x")
		if e := again.next(); e.name != "decision" {
			t.Errorf("got %+v, want a decision", e)
		}
	})
}

// M6: who is told and finds nothing has a cursor with which it is not told again.
func TestM6TruncatedAndNothingThere(t *testing.T) {
	bubble(t, reader("quiet"), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		s.decide("a", attend.RouteQueue, "x")
		c := ask(t, s.dial(), "after="+attend.LogCursor{Epoch: "gone", Position: 1}.String())
		defer c.conn.Close()
		if e := c.next(); e.name != "truncated" {
			t.Errorf("got %+v, want truncated", e)
		}
		if c.lines.Scan(); c.lines.Text() != "id: "+s.newest().String() {
			t.Errorf("behind it comes %q, want the newest cursor", c.lines.Text())
		}
	})
}

// V5: who takes an event late gets it whole, is told why the stream ends, and
// goes on by cursor.
func TestV5SlowIsTold(t *testing.T) {
	bubble(t, reader(""), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		c := ask(t, s.dial(), "")
		var want []attend.DecisionID
		for range 3 {
			want = append(want, s.decide("a", attend.RouteQueue, strings.Repeat("x", 1000)))
		}
		time.Sleep(15 * time.Second) // SlowAfter is 10 s, the cut comes after 20 s
		var got []event
		for e := c.next(); e != (event{}); e = c.next() {
			got = append(got, e)
		}
		if n := len(got); n < 2 || got[n-1].name != "end" || got[n-1].data != `{"reason":"slow"}` {
			t.Fatalf("read %d events, the last %+v", n, got[len(got)-1])
		}
		got = got[:len(got)-1]
		rest := ask(t, s.dial(), "", "Last-Event-ID", c.last)
		defer rest.conn.Close()
		for len(got) < len(want) {
			got = append(got, rest.next())
		}
		for i, e := range got {
			if e.name != "decision" || !strings.Contains(e.data, `"id":"`+string(want[i])) {
				t.Errorf("event %d is %s %.60s, want %s", i, e.name, e.data, want[i])
			}
		}
		if reason := <-s.ended; reason != decisions.EndSlow {
			t.Errorf("ended for %s", reason)
		}
	})
}

// A reader that takes nothing is cut, and does not hold up the end of the server.
func TestV5StuckIsCut(t *testing.T) {
	bubble(t, reader(""), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		for _, c := range []struct {
			reason string
			after  time.Duration
		}{{decisions.EndSlow, 20 * time.Second}, {decisions.EndShutdown, 2 * time.Second}} {
			conn := s.dial()
			ask(t, conn, "after="+s.newest().String())
			began := time.Now()
			s.decide("a", attend.RouteQueue, "x")
			if c.reason == decisions.EndShutdown {
				time.AfterFunc(time.Second, func() { close(s.stop) })
			}
			if reason := <-s.ended; reason != c.reason || time.Since(began) != c.after {
				t.Errorf("ended for %s after %v, want %s after %v", reason, time.Since(began), c.reason, c.after)
			}
		}
	})
}

// Nor does one that has taken all until the server ends, and takes no more then, or
// hardly anything of a large event.
func TestV5SlowlyReadEnd(t *testing.T) {
	bubble(t, reader(""), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		idle := ask(t, s.dial(), "")
		idle.lines.Scan() // retry
		idle.lines.Scan() // id
		c := ask(t, s.dial(), "after="+s.newest().String())
		var reading sync.WaitGroup
		defer reading.Wait()
		defer c.conn.Close()
		s.decide("a", attend.RouteQueue, strings.Repeat("x", 2<<20))
		reading.Go(func() { // 64 KiB in a little more than half a second
			b := make([]byte, 4<<10)
			for err := error(nil); err == nil; _, err = c.answer.Body.Read(b) {
				time.Sleep(40 * time.Millisecond)
			}
		})
		time.Sleep(5 * time.Second)
		began := time.Now()
		close(s.stop)
		for range 2 {
			<-s.ended
		}
		if d := time.Since(began); d > 2*lastMoment {
			t.Errorf("the streams ended %v after the server began to, want two moments at most", d)
		}
	})
}

const lastMoment = time.Second

func TestStreamOutlivesTheStoresTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		log := &spy{DecisionLog: r.log}
		r.log = log
		s := r.serve(reader(""), decisions.HandlerConfig{})
		defer s.close()
		c := ask(t, s.dial(), "")
		down := errors.New("down")
		log.fails.Store(&down)
		id := s.decide("a", attend.RouteQueue, "x")
		time.AfterFunc(30*time.Second, func() { log.fails.Store(nil) })
		if e := c.next(); e.name != "decision" || !strings.Contains(e.data, string(id)) {
			t.Errorf("got %+v, want what came meanwhile", e)
		}
		log.fails.Store(&down)
		began := time.Now()
		s.decide("a", attend.RouteQueue, "x")
		if e := c.next(); e.name != "end" || e.data != `{"reason":"store"}` {
			t.Errorf("got %+v, want the end", e)
		}
		if reason := <-s.ended; reason != decisions.EndStore {
			t.Errorf("ended for %s", reason)
		}
		if d := time.Since(began); d < time.Minute || d > 80*time.Second {
			t.Errorf("it ended after %v, want a minute or a little more", d)
		}
	})
}

// A log that is closed is the end of the server.
func TestStreamOfAClosedLog(t *testing.T) {
	bubble(t, reader(""), decisions.HandlerConfig{}, func(t *testing.T, s *rigged) {
		c := ask(t, s.dial(), "")
		s.store.Close()
		if e := c.next(); e.name != "end" || e.data != `{"reason":"shutdown"}` {
			t.Errorf("got %+v, want the end", e)
		}
	})
}

// A log that can be read but fails to wait is looked at.
func TestStreamOfALogThatFailsToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, attend.Retain{})
		r.log = failsToWait{r.log}
		s := r.serve(reader(""), decisions.HandlerConfig{})
		defer s.close()
		c := ask(t, s.dial(), "")
		defer c.conn.Close()
		time.AfterFunc(10*time.Minute, func() { s.decide("a", attend.RouteQueue, "x") })
		if e := c.next(); e.name != "decision" {
			t.Errorf("got %+v, want a decision", e)
		}
	})
}

type failsToWait struct{ attend.DecisionLog }

func (failsToWait) Wait(context.Context, attend.Query) error { return errors.New("no listener") }

// V5 with real sockets: of ten subscribers one stops reading. The others get
// everything, the slow one is ended and resumes with nothing missing.
func TestV5TenSubscribers(t *testing.T) {
	r := newRig(t, attend.Retain{})
	const rows = 30
	text := strings.Repeat("x", 64<<10) // together more than these sockets hold
	ended := make(chan string, 20)
	h := r.handler(reader(""), decisions.HandlerConfig{SlowAfter: 4 * time.Second, Ended: func(reason string) { ended <- reason }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go server.Serve(narrow{l})
	t.Cleanup(func() { server.Close() })
	dial := func() net.Conn {
		var d net.Dialer
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.(*net.TCPConn).SetReadBuffer(32 << 10)
		t.Cleanup(func() { conn.Close() })
		return conn
	}

	slow := ask(t, dial(), "")
	var want []attend.DecisionID
	var fast sync.WaitGroup
	heard := make([][]event, 9)
	for i := range heard {
		c := ask(t, dial(), "")
		fast.Go(func() {
			for range rows {
				heard[i] = append(heard[i], c.next())
			}
		})
	}
	for range rows {
		want = append(want, r.decide("a", attend.RouteQueue, text))
	}
	fast.Wait()
	for i, got := range heard {
		if err := inOrder(got, want); err != nil {
			t.Errorf("subscriber %d: %v", i, err)
		}
	}
	if reason := <-ended; reason != decisions.EndSlow {
		t.Fatalf("a stream ended for %s, want the slow one's", reason)
	}
	var got []event
	for e := slow.next(); e.name == "decision"; e = slow.next() {
		got = append(got, e)
	}
	if len(got) == rows {
		t.Fatal("the slow one had everything: this proves nothing")
	}
	rest := ask(t, dial(), "", "Last-Event-ID", slow.last)
	for len(got) < rows {
		got = append(got, rest.next())
	}
	if err := inOrder(got, want); err != nil {
		t.Errorf("the slow one: %v", err)
	}
	if len(ended) > 0 {
		t.Errorf("another stream ended for %s", <-ended)
	}
}

// narrow is a listener whose sockets hold little.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetWriteBuffer(32 << 10)
	}
	return c, err
}

func inOrder(got []event, want []attend.DecisionID) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d events, want %d", len(got), len(want))
	}
	for i, e := range got {
		if e.name != "decision" || !strings.Contains(e.data, `"id":"`+string(want[i])) {
			return fmt.Errorf("event %d is %s %.60s, want %s", i, e.name, e.data, want[i])
		}
	}
	return nil
}
