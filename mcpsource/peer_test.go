package mcpsource_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/attend-go/attend/mcpevents"
)

// A call is a request that came to a peer.
type call struct {
	ID     json.RawMessage
	Method string
	Params map[string]json.RawMessage
	at     time.Time
}

func (c call) cursor() string {
	var s *string
	_ = json.Unmarshal(c.Params["cursor"], &s)
	if s == nil {
		return ""
	}
	return *s
}

// A peer is a server that writes the wire by hand, over a pipe, so that it can be
// as bad as any. It answers the handshake and events/list; the rest is serve's,
// for one call after the other.
type peer struct {
	modes string // of its type alert, such as "push","poll"
	serve func(p *peer, c call)

	conn  net.Conn
	mu    sync.Mutex
	calls []call
}

func (p *peer) write(line string) { _, _ = io.WriteString(p.conn, line+"\n") } // it fails when the client has left

func (p *peer) result(c call, members string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, c.ID, members))
}

func (p *peer) refuse(c call, err string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, c.ID, err))
}

// note sends a notification of a stream; params are members.
func (p *peer) note(c call, name, params string) { p.noteTo(string(c.ID), name, params) }

func (p *peer) noteTo(id, name, params string) {
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/events/%s","params":{%s,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, name, params, id))
}

func (p *peer) active(c call, cursor string) {
	p.note(c, "active", fmt.Sprintf(`"cursor":%q,"truncated":false`, cursor))
}

// wireEvent are the members of an event.
func wireEvent(id, cursor, data string) string {
	return fmt.Sprintf(`"eventId":%q,"name":"alert","timestamp":"2026-11-03T09:15:02Z","data":%s,"cursor":%q`, id, data, cursor)
}

func (p *peer) event(c call, id, cursor string) { p.note(c, "event", wireEvent(id, cursor, `{"n":1}`)) }

// end closes a stream as a server does that has nothing against the subscription.
func (p *peer) end(c call) {
	p.result(c, fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, c.ID))
}

// seen are the calls of a method so far.
func (p *peer) seen(method string) (out []call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// connect starts the peer and connects a session to it.
func (p *peer) connect(t testing.TB, cfg mcpevents.SessionConfig) *mcpevents.Session {
	t.Helper()
	s, err := p.dial(t, t.Context(), cfg)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (p *peer) dial(t testing.TB, ctx context.Context, cfg mcpevents.SessionConfig) (*mcpevents.Session, error) {
	mine, theirs := net.Pipe()
	p.mu.Lock()
	p.conn = mine
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer mine.Close()
		for r := bufio.NewReader(mine); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			c := call{at: time.Now()}
			if json.Unmarshal(line, &c) != nil {
				t.Errorf("the client sent %q", line)
				return
			}
			p.mu.Lock()
			p.calls = append(p.calls, c)
			p.mu.Unlock()
			p.answer(c)
		}
	}()
	t.Cleanup(func() {
		_ = theirs.Close()
		<-done
	})
	return mcpevents.Connect(ctx, client(), &mcp.IOTransport{Reader: theirs, Writer: theirs}, cfg)
}

func (p *peer) answer(c call) {
	switch c.Method {
	case "server/discover":
		p.result(c, `"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}`)
	case "events/list":
		p.result(c, `"ttlMs":600000,"events":[{"name":"alert","delivery":[`+p.modes+`],"payloadSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}]`)
	default:
		p.serve(p, c)
	}
}
