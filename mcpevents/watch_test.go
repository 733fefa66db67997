package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// aTool adds a tool, which the SDK tells of.
func aTool(m *mcp.Server, name string) {
	mcp.AddTool(m, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
}

// overListens runs a test against listens, over both transports. NoTools is a
// server whose tools do not change.
func overListens(t *testing.T, c ServerConfig, noTools bool, test func(t *testing.T, s *Server, m *mcp.Server, open rawOpener)) {
	make := func(t *testing.T) (*Server, *mcp.Server) {
		s, m := rawServer(t, c)
		if noTools {
			caps := &mcp.ServerCapabilities{}
			s.Capabilities(caps)
			m = mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
			if err := s.Register(m); err != nil {
				t.Fatal(err)
			}
		}
		return s, m
	}
	t.Run("pipe", func(t *testing.T) {
		s, m := make(t)
		test(t, s, m, func(id any, params string) rawNext {
			p := rawDial(t, t.Context(), s, m)
			p.send(rawCall(id, methodListen, params))
			return p
		})
	})
	t.Run("http", func(t *testing.T) {
		s, m := make(t)
		h := rawListen(t, s, m, HandlerConfig{})
		test(t, s, m, func(id any, params string) rawNext { return rawPost(t, h.URL, rawCall(id, methodListen, params)) })
	})
}

func (s *Server) watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// watched waits until n listens are open.
func watched(t *testing.T, s *Server, n int) {
	t.Helper()
	for began := time.Now(); s.watching() != n; time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("%d listens are open, want %d", s.watching(), n)
		}
	}
}

// calm fails where anything comes of p within a moment. It ends p.
func calm(t *testing.T, p rawNext) {
	t.Helper()
	if pipe, ok := p.(*rawPipe); ok {
		pipe.quiet(100 * time.Millisecond)
		return
	}
	st := p.(*rawStream)
	time.AfterFunc(100*time.Millisecond, st.close)
	for {
		line, err := st.in.ReadString('\n')
		if err != nil {
			return
		}
		if strings.HasPrefix(line, "data:") {
			t.Fatalf("came %s, want nothing", line)
		}
	}
}

func TestSE56OnlyOurs(t *testing.T) {
	overListens(t, ServerConfig{}, false, func(t *testing.T, s *Server, m *mcp.Server, open rawOpener) {
		p := open("l1", `"notifications":{"eventsListChanged":true,"toolsListChanged":false,"resourceSubscriptions":[]},`)
		ack := want(t, p, noteAcknowledged)
		if string(ack.Params.Notifications) != `{"eventsListChanged":true}` || string(ack.Params.Meta.ID) != `"l1"` {
			t.Errorf("acknowledged = %s", ack.Text)
		}
		aTool(m, "another") // not asked for
		time.Sleep(50 * time.Millisecond)
		l := rawLog(LogConfig{})
		steps := []func(){
			func() { _ = s.Offer(rawType(l)) },
			func() { _ = s.Replace(rawType(l), BreaksNothing) },
			func() { s.Withdraw("alert") },
		}
		for i, step := range steps {
			step()
			if m := want(t, p, noteListChanged); string(m.Params.Meta.ID) != `"l1"` {
				t.Errorf("step %d: %s", i, m.Text)
			}
		}
		go s.Close()
		if m := p.next(); string(m.ID) != `"l1"` || string(m.Result) != `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l1"}}` {
			t.Errorf("last = %s, want the closing result", m.Text)
		}
	})
}

func TestSE56Mixed(t *testing.T) {
	overListens(t, ServerConfig{}, false, func(t *testing.T, s *Server, m *mcp.Server, open rawOpener) {
		p := open(7, `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`)
		ack := want(t, p, noteAcknowledged)
		if string(ack.Params.Notifications) != `{"eventsListChanged":true,"toolsListChanged":true}` || string(ack.Params.Meta.ID) != "7" {
			t.Errorf("acknowledged = %s, want both", ack.Text)
		}
		for i := range 3 {
			aTool(m, fmt.Sprint("tool", i))
			if m := want(t, p, "notifications/tools/list_changed"); string(m.Params.Meta.ID) != "7" {
				t.Errorf("got %s", m.Text)
			}
			if err := s.Offer(Type{Name: fmt.Sprint("type", i), Backend: rawLog(LogConfig{})}); err != nil {
				t.Fatal(err)
			}
			if m := want(t, p, noteListChanged); string(m.Params.Meta.ID) != "7" {
				t.Errorf("got %s", m.Text)
			}
		}
		switch p := p.(type) {
		case *rawPipe:
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			watched(t, s, 0)
			s.Withdraw("type0")
			aTool(m, "last")
			p.quiet(100 * time.Millisecond) // nor does the SDK answer
		case *rawStream:
			p.close()
		}
		watched(t, s, 0)
	})
}

func TestSE56MixedWhereTheSDKHasNothing(t *testing.T) {
	overListens(t, ServerConfig{}, true, func(t *testing.T, s *Server, m *mcp.Server, open rawOpener) {
		p := open("l", `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`)
		ack := want(t, p, noteAcknowledged)
		if string(ack.Params.Notifications) != `{"eventsListChanged":true}` {
			t.Errorf("acknowledged = %s, want ours alone", ack.Text)
		}
		if err := s.Offer(Type{Name: "a", Backend: rawLog(LogConfig{})}); err != nil {
			t.Fatal(err)
		}
		want(t, p, noteListChanged)
		go s.Close()
		if m := p.next(); string(m.ID) != `"l"` || m.Result == nil {
			t.Errorf("last = %s, want the closing result", m.Text)
		}
	})
}

func TestSE56NotAskedFor(t *testing.T) {
	overListens(t, ServerConfig{}, false, func(t *testing.T, s *Server, m *mcp.Server, open rawOpener) {
		for i, filter := range []string{`{"toolsListChanged":true}`, `{"toolsListChanged":true,"eventsListChanged":false}`} {
			p := open(i, `"notifications":`+filter+`,`)
			ack := want(t, p, noteAcknowledged)
			if string(ack.Params.Notifications) != `{"toolsListChanged":true}` {
				t.Errorf("acknowledged = %s, want tools alone", ack.Text)
			}
			if err := s.Offer(Type{Name: fmt.Sprint("a", i), Backend: rawLog(LogConfig{})}); err != nil {
				t.Fatal(err)
			}
			calm(t, p)
		}
	})
}

func TestSE56NotDeclared(t *testing.T) {
	overListens(t, ServerConfig{NoListChanged: true}, false, func(t *testing.T, s *Server, m *mcp.Server, open rawOpener) {
		p := open(1, `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`)
		ack := want(t, p, noteAcknowledged)
		if string(ack.Params.Notifications) != `{"toolsListChanged":true}` {
			t.Errorf("acknowledged = %s, want tools alone", ack.Text)
		}
		if err := s.Offer(Type{Name: "a", Backend: rawLog(LogConfig{})}); err != nil {
			t.Fatal(err)
		}
		calm(t, p)
	})
}

// A server that ends a listen on a pipe sends the result, and cancels it behind
// that; what the peer sends then means nothing any more.
func TestOP51AListenThatTheServerEnds(t *testing.T) {
	for _, filter := range []string{`{"eventsListChanged":true}`, `{"eventsListChanged":true,"toolsListChanged":true}`} {
		for _, id := range []string{`"l"`, `7`} {
			s, m := rawServer(t, ServerConfig{})
			p := rawDial(t, t.Context(), s, m)
			p.send(rawCall(json.RawMessage(id), methodListen, `"notifications":`+filter+`,`))
			want(t, p, noteAcknowledged)
			go s.Close()
			if m := p.next(); string(m.ID) != id || m.Result == nil {
				t.Fatalf("got %s, want the closing result", m.Text)
			}
			if m := want(t, p, "notifications/cancelled"); string(m.Params.RequestID) != id || string(m.Params.Meta.ID) != id {
				t.Errorf("got %s, want that %s is cancelled", m.Text, id)
			}
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			aTool(m, "another")
			p.quiet(50 * time.Millisecond)
			if m := p.call("after", methodList, ""); m.Error != nil {
				t.Errorf("list after all of it: %s", m.Text)
			}
		}
	}
}

func TestListenThatIsCancelled(t *testing.T) {
	s, m := rawServer(t, ServerConfig{})
	p := rawDial(t, t.Context(), s, m)
	p.send(rawCall("l", methodListen, `"notifications":{"eventsListChanged":true},`))
	want(t, p, noteAcknowledged)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}`)
	watched(t, s, 0)
	if err := s.Offer(Type{Name: "a", Backend: rawLog(LogConfig{})}); err != nil {
		t.Fatal(err)
	}
	p.quiet(50 * time.Millisecond)
	if m := p.call(1, methodList, ""); m.Error != nil {
		t.Errorf("list after a cancelled listen: %s", m.Text)
	}
}
