package mcpevents

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An id is free again once its answer was read.
func TestPipeTakesAnIDAgainBehindItsAnswer(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	p := rawDial(t, t.Context(), s, m)
	for i := range 3000 {
		if m := p.call("s", methodStream, `"name":"nope",`); m.Error == nil || m.Error.Code != -32023 {
			t.Fatalf("call %d: %s, want NotFound", i, m.Text)
		}
	}
}

// A peer that asks for what it is refused and reads nothing costs bounded memory,
// and gets every answer once it reads.
func TestPipeFloodOfRefusalsIsBounded(t *testing.T) {
	const calls = 5000
	s, m := rawServer(t, ServerConfig{MaxStreams: 1}, alerts()...)
	p := rawDial(t, t.Context(), s, m)
	before := runtime.NumGoroutine()
	go func() {
		for i := range calls {
			line := rawCall(i, methodStream, `"name":"nope",`)
			switch i % 3 {
			case 1:
				line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"events/poll","params":{}}`, i)
			case 2:
				line = rawCall(i, methodListen, `"notifications":{"eventsListChanged":true,"toolsListChanged":true},`)
			}
			if _, err := io.WriteString(p.conn, line+"\n"); err != nil {
				return
			}
		}
	}()
	most := 0
	for range 25 {
		time.Sleep(20 * time.Millisecond)
		most = max(most, runtime.NumGoroutine()-before)
	}
	if most > 2000 {
		t.Errorf("%d goroutines for calls that are refused", most)
	}
	answers := map[string]int{}
	for len(answers) < calls-1 { // one of the listens is open
		if m := p.next(); m.ID != nil {
			if answers[string(m.ID)]++; m.Error == nil || answers[string(m.ID)] > 1 {
				t.Fatalf("got %s, want each refused once", m.Text)
			}
		}
	}
}

// A server that has older revisions alone is asked at the newest one all the same.
// The session that begins then hears of changes without a listen, as those do.
func TestPipeOfAnOlderSessionHearsOfChanges(t *testing.T) {
	s, _ := rawServer(t, ServerConfig{}, alerts()...)
	m := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, &mcp.ServerOptions{
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		SupportedProtocolVersions: []string{"2025-11-25"},
	})
	p := rawDial(t, t.Context(), s, m)
	wantError(t, p.call(1, "server/discover", ""), -32022, "")
	p.send(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	if m := p.next(); m.Result == nil {
		t.Fatalf("initialize: %s", m.Text)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	p.next()
	aTool(m, "another")
	want(t, p, "notifications/tools/list_changed")
}

// A log is not left with the types of a server that was not made.
func TestServerThatIsNotMadeLeavesTheLog(t *testing.T) {
	l := rawLog(LogConfig{})
	if _, err := NewServer(ServerConfig{Types: []Type{rawType(l), {Name: "\n", Backend: l}}}); err == nil {
		t.Fatal("NewServer took a name with a line break")
	}
	if n := len(l.offers); n != 0 {
		t.Errorf("%d offers stay with the log", n)
	}
}

func TestCheckOfAPollGetsAHeartbeat(t *testing.T) {
	typ := rawType(rawLog(LogConfig{}))
	typ.Check = func(ctx context.Context, _ Subscription) error {
		<-ctx.Done()
		return ctx.Err()
	}
	s, m := rawServer(t, ServerConfig{Heartbeat: 100 * time.Millisecond}, typ)
	p := rawDial(t, t.Context(), s, m)
	_ = p.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	wantError(t, p.call(1, methodPoll, `"name":"alert",`), -32603, "")
}
