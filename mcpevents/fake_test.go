package mcpevents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A message is what a raw peer reads.
type message struct {
	ID     json.RawMessage
	Method string
	Params map[string]json.RawMessage
}

// param decodes one parameter.
func (m message) param(name string) any {
	var v any
	_ = json.Unmarshal(m.Params[name], &v)
	return v
}

// A fakeServer speaks the wire by hand over a pipe. It answers the handshake as its
// fields say, and hands everything else to serve, one after the other.
type fakeServer struct {
	capabilities string // of the handshake; empty: the extension
	legacy       bool   // knows initialize alone
	list         func(m message) string
	serve        func(p *fakePipe, m message)
}

// A fakePipe is the server's end of a pipe.
type fakePipe struct {
	conn net.Conn
	wg   sync.WaitGroup // of what the fake does on the side
	mu   sync.Mutex
	seen []message
}

// write writes one line; what fails is the client's leaving.
func (p *fakePipe) write(line string) { _, _ = io.WriteString(p.conn, line+"\n") }

// result answers a request.
func (p *fakePipe) result(m message, result string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

// refuse answers with an error.
func (p *fakePipe) refuse(m message, e string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, e))
}

// note sends a notification of a stream; params is the inside of an object.
func (p *fakePipe) note(m message, method, params string) { p.noteTo(m.ID, method, params) }

func (p *fakePipe) noteTo(id json.RawMessage, method, params string) {
	if params != "" {
		params += ","
	}
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{%s"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, params, id))
}

// event is the inside of an event's params.
func event(id, cursor string) string {
	return fmt.Sprintf(`"eventId":%q,"name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{"n":1},"cursor":%q`, id, cursor)
}

// messages returns what came of a method so far.
func (p *fakePipe) messages(method string) []message {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []message
	for _, m := range p.seen {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

const (
	offers    = `{"extensions":{"io.modelcontextprotocol/events":{}}}`
	announces = `{"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}}`
	pushType  = `{"name":"tick","description":"t","delivery":["push"]}`
	pollType  = `{"name":"tick","description":"t","delivery":["poll"]}`
	bothType  = `{"name":"tick","description":"t","delivery":["poll","push"]}`
)

func listOf(types ...string) func(message) string {
	return func(message) string {
		return `{"resultType":"complete","events":[` + strings.Join(types, ",") + `],"ttlMs":600000}`
	}
}

// pipe starts the fake and returns its end and the client's transport.
func (f *fakeServer) pipe(t *testing.T) (*fakePipe, mcp.Transport) {
	t.Helper()
	client, server := net.Pipe()
	p := &fakePipe{conn: server}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		r := bufio.NewReaderSize(server, 1<<20)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(bytes.TrimSpace(line), &m) != nil {
				t.Errorf("the client sent %q", line)
				return
			}
			p.mu.Lock()
			p.seen = append(p.seen, m)
			p.mu.Unlock()
			f.answer(p, m)
		}
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-done
		p.wg.Wait()
	})
	return p, &mcp.IOTransport{Reader: client, Writer: client}
}

func (f *fakeServer) answer(p *fakePipe, m message) {
	caps := f.capabilities
	if caps == "" {
		caps = offers
	}
	switch {
	case m.Method == "server/discover" && f.legacy:
		p.refuse(m, `{"code":-32601,"message":"unknown"}`)
	case m.Method == "server/discover":
		p.result(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+caps+`}`)
	case m.Method == "initialize":
		p.result(m, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"fake","version":"0"},"capabilities":`+caps+`}`)
	case m.Method == "events/list" && f.list != nil:
		p.result(m, f.list(m))
	case f.serve != nil:
		f.serve(p, m)
	}
}

// connect connects a session to the fake.
func (f *fakeServer) connect(t *testing.T, cfg SessionConfig) (*fakePipe, *Session) {
	t.Helper()
	p, transport := f.pipe(t)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	s, err := Connect(ctx, c, transport, cfg)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return p, s
}

var tick = Subscription{Name: "tick"}

// collect takes at most n batches, and returns them with the error that ended
// them, if any.
func collect(seq iter.Seq2[Batch, error], n int) (batches []Batch, err error) {
	for b, err := range seq {
		if err != nil {
			return batches, err
		}
		if batches = append(batches, b); len(batches) == n {
			break
		}
	}
	return batches, nil
}

// idsOf are those of the events of all batches.
func idsOf(batches []Batch) string {
	var out []string
	for _, b := range batches {
		for _, v := range b.Events {
			out = append(out, v.ID)
		}
	}
	return strings.Join(out, " ")
}

// streamOf is a peer that plays a script on each events/stream: the n-th stream
// gets the n-th, the last one again and again.
func streamOf(scripts ...func(p *fakePipe, m message)) func(p *fakePipe, m message) {
	var n atomic.Int64 // of the streams on all pipes
	return func(p *fakePipe, m message) {
		if m.Method != "events/stream" {
			return
		}
		script := scripts[min(int(n.Add(1)), len(scripts))-1]
		p.wg.Go(func() { script(p, m) })
	}
}

// pollOf is a peer that answers the n-th events/poll with the n-th result, and
// with the last one again and again. What begins with "error" is a refusal.
func pollOf(results ...string) func(p *fakePipe, m message) {
	var n atomic.Int64
	return func(p *fakePipe, m message) {
		if m.Method != "events/poll" {
			return
		}
		r := results[min(int(n.Add(1)), len(results))-1]
		if e, ok := strings.CutPrefix(r, "error"); ok {
			p.refuse(m, e)
			return
		}
		p.result(m, r)
	}
}

// polled is an event as it is in the result of a poll.
func polled(id string) string {
	return fmt.Sprintf(`{"eventId":%q,"name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{"n":1}}`, id)
}

// all returns every message so far.
func (p *fakePipe) all() []message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}
