package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counting counts what is asked of a backend.
type counting struct {
	*Log
	n atomic.Int64
}

func (c *counting) Head(ctx context.Context, sub Subscription) (Cursor, error) {
	c.n.Add(1)
	return c.Log.Head(ctx, sub)
}

func (c *counting) Read(ctx context.Context, sub Subscription, q Query) (Page, error) {
	c.n.Add(1)
	return c.Log.Read(ctx, sub, q)
}

type whoKey struct{}

// whoOf is a principal that a test puts into the context of a pipe.
func whoOf(ctx context.Context) string {
	who, _ := ctx.Value(whoKey{}).(string)
	return who
}

func rawAs(t *testing.T, who string) context.Context {
	//check:allow context as an app's own authentication does
	return context.WithValue(t.Context(), whoKey{}, who)
}

func TestSE57StreamQuota(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &counting{Log: rawLog(LogConfig{})}
		s, m := rawServer(t, ServerConfig{MaxStreams: 2, MaxAllStreams: 3, Principal: whoOf}, rawType(b))
		ada, bob, cy := rawDial(t, rawAs(t, "ada"), s, m), rawDial(t, rawAs(t, "bob"), s, m), rawDial(t, rawAs(t, "cy"), s, m)
		for i := range 2 {
			ada.send(rawCall(i, methodStream, `"name":"alert",`))
			want(t, ada, noteActive)
		}
		synctest.Wait() // both have read
		before := b.n.Load()
		ada.send(rawCall(2, methodStream, `"name":"alert",`))
		wantError(t, ada.next(), -32025, `{"limit":"streams","max":2}`)
		bob.send(rawCall(2, methodStream, `"name":"alert",`)) // another principal, and the last place
		want(t, bob, noteActive)
		cy.send(rawCall(2, methodStream, `"name":"alert",`))
		wantError(t, cy.next(), -32025, `{"limit":"streams"}`)
		if got := b.n.Load() - before; got > 2 { // bob's head and first read
			t.Errorf("the backend was asked %d times, want nothing for who was refused", got)
		}
		bob.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		synctest.Wait()
		cy.send(rawCall(3, methodStream, `"name":"alert",`)) // a place is free again
		want(t, cy, noteActive)
		s.mu.Lock()
		defer s.mu.Unlock()
		if fmt.Sprint(s.count) != "map[ada:2 cy:1]" {
			t.Errorf("counts = %v", s.count)
		}
	})
}

func TestSE57PollQuota(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &counting{Log: rawLog(LogConfig{})}
		s, m := rawServer(t, ServerConfig{MaxPolls: 2, Principal: whoOf}, rawType(b))
		ada, bob := rawDial(t, rawAs(t, "ada"), s, m), rawDial(t, rawAs(t, "bob"), s, m)
		for round := range 2 {
			for i := range 2 {
				if m := ada.call(10*round+i, methodPoll, `"name":"alert",`); m.Error != nil {
					t.Fatalf("poll %d: %s", i, m.Text)
				}
			}
			before := b.n.Load()
			wantError(t, ada.call(10*round+5, methodPoll, `"name":"alert",`), -32025, `{"limit":"pollRate","max":2}`)
			if b.n.Load() != before {
				t.Error("the backend was asked for who was refused")
			}
			if m := bob.call(round, methodPoll, `"name":"alert",`); m.Error != nil {
				t.Errorf("another principal: %s", m.Text)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestSE58CodesAreAsAWhole(t *testing.T) {
	for _, compat := range []bool{false, true} {
		code := map[Kind]int64{NotFound: -32023, Forbidden: -32024, ResourceExhausted: -32025, Unsupported: -32026}
		if compat {
			code = map[Kind]int64{NotFound: -32011, Forbidden: -32012, ResourceExhausted: -32013, Unsupported: -32014}
		}
		types := func() []Type {
			a, b, c := rawType(rawLog(LogConfig{})), rawType(rawLog(LogConfig{})), rawType(canned{err: &Error{Kind: "Odd", Data: json.RawMessage(`{`)}})
			b.Name, b.Check = "secret", func(context.Context, Subscription) error { return fmt.Errorf("wrapped: %w", ErrForbidden) }
			c.Name = "odd"
			a.Modes = []Mode{Poll}
			return []Type{a, b, c}
		}
		overBoth(t, ServerConfig{Compat: compat, MaxPolls: 1, Principal: func(context.Context) string { return "ada" }}, types, func(t *testing.T, s *Server, call rawCaller) {
			wantError(t, call(1, methodPoll, `"name":"nope",`), code[NotFound], `{"kind":"event"}`)
			wantError(t, call(2, methodPoll, `"name":"secret",`), code[Forbidden], "")
			wantError(t, call(3, methodStream, `"name":"alert",`), code[Unsupported], "")
			wantError(t, call(4, methodPoll, `"name":5,`), -32602, "")
			wantError(t, call(5, methodPoll, `"name":"odd",`), -32603, "")
			wantError(t, call(6, methodPoll, `"name":"alert",`), code[ResourceExhausted], `{"limit":"pollRate","max":1}`)
			wantError(t, call(7, "events/nope", ""), -32601, "")
			for _, kind := range codes {
				if got := s.wireErrorOf(&Error{Kind: kind.kind}); got.Message != string(kind.kind) || got.Code == -32002 || got.Code == -32042 {
					t.Errorf("%s = %+v", kind.kind, got)
				}
			}
		})
	}
}
