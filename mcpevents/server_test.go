package mcpevents

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestServerConfigIsChecked(t *testing.T) {
	l := NewLog(LogConfig{})
	for field, c := range map[string]ServerConfig{
		"Heartbeat":     {Heartbeat: time.Minute},
		"Recheck":       {Recheck: -1},
		"NextPoll":      {NextPoll: -1},
		"ListTTL":       {ListTTL: -1},
		"MaxReplay":     {MaxReplay: -1},
		"PageSize":      {PageSize: -1},
		"MaxStreams":    {MaxStreams: -1},
		"MaxAllStreams": {MaxAllStreams: -1},
		"MaxPolls":      {MaxPolls: -1},
		"Modes":         {Modes: []Mode{"other"}},
		"Webhooks":      {Modes: []Mode{Webhook}},
		"Name":          {Types: []Type{{Backend: l}}},
		"Backend":       {Types: []Type{{Name: "a"}}},
		"already":       {Types: []Type{{Name: "a", Backend: l}, {Name: "a", Backend: l}}},
		"Meta":          {Types: []Type{{Name: "a", Backend: l, Meta: map[string]any{"f": func() {}}}}},
		"control":       {Types: []Type{{Name: "a\nb", Backend: l}}},
		"UTF-8":         {Types: []Type{{Name: "a\xff", Backend: l}}},
		"256":           {Types: []Type{{Name: strings.Repeat("n", 257), Backend: l}}},
	} {
		if _, err := NewServer(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("NewServer = %v, want an error that names %s", err, field)
		}
	}
	if _, err := NewServer(ServerConfig{Types: []Type{{Name: `sch"edule/übersicht`, Backend: l}}}); err != nil {
		t.Errorf("NewServer = %v for an odd name that is fine", err)
	}
	s, _ := NewServer(ServerConfig{})
	if err := s.Register(nil); err == nil {
		t.Error("Register took nil")
	}
}

func TestGuardAroundTheAppsHandlers(t *testing.T) {
	var logged bytes.Buffer
	s, m := rawServer(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, alerts()...)
	mcp.AddTool(m, &mcp.Tool{Name: "boom"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		panic("the password")
	})
	m.AddTool(&mcp.Tool{Name: "nothing", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, nil
	})
	p := rawDial(t, t.Context(), s, m)
	h := rawListen(t, s, m, HandlerConfig{})
	for _, tool := range []string{"boom", "nothing"} {
		params := fmt.Sprintf(`"name":%q,"arguments":{},`, tool)
		for _, got := range []rawMessage{p.call(tool, "tools/call", params), rawPost(t, h.URL, rawCall(1, "tools/call", params), "Mcp-Name", tool).answer()} {
			wantError(t, got, -32603, "")
			if strings.Contains(got.Text, "password") {
				t.Errorf("%s: %s", tool, got.Text)
			}
		}
	}
	if !strings.Contains(logged.String(), "panic") || strings.Contains(logged.String(), "password") {
		t.Errorf("log = %s, want the panic without its value", logged.String())
	}
}

func TestOtherPanicsOfTheApp(t *testing.T) {
	types := func() []Type {
		a, b, c, d := rawType(panicking{}), rawType(rawLog(LogConfig{})), rawType(rawLog(LogConfig{})), rawType(NewLog(LogConfig{Match: func(Subscription, Event) bool { panic("match") }}))
		b.Name, b.Check = "check", func(context.Context, Subscription) error { panic("check") }
		c.Name, c.Visible = "visible", func(context.Context, string) bool { panic("visible") }
		d.Name = "match"
		if err := d.Backend.(*Log).Append(rawEvent("e", 1)); err != nil {
			t.Fatal(err)
		}
		return []Type{a, b, c, d}
	}
	overBoth(t, ServerConfig{}, types, func(t *testing.T, _ *Server, call rawCaller) {
		for i, c := range []struct {
			params string
			code   int64
		}{
			{`"name":"alert",`, -32603},
			{`"name":"alert","cursor":"x",`, -32603},
			{`"name":"check",`, -32603},
			{`"name":"visible",`, -32023}, // who may see it is not known: nobody
			{`"name":"match","cursor":"x",`, -32603},
		} {
			wantError(t, call(fmt.Sprint("p", i), methodPoll, c.params), c.code, "")
			wantError(t, call(fmt.Sprint("s", i), methodStream, c.params), c.code, "")
		}
	})
	overBoth(t, ServerConfig{Principal: func(context.Context) string { panic("who") }}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		for i, method := range []string{methodList, methodPoll, methodStream} {
			wantError(t, call(i, method, `"name":"alert",`), -32603, "")
		}
	})
}

func TestShutdownWaitsNoLongerThanItMay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{}, rawType(l))
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall(1, methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		rawAppend(t, l, 0, 10)
		synctest.Wait() // nobody reads: the stream is held in a write
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err == nil {
			t.Error("Shutdown = nil with a stream that is held")
		}
		_ = p.conn.Close()
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v after the peer left", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("second Close = %v", err)
		}
	})
}
