package mcpsource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// live is the memory in use.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A server that floods a pipe, faster than the store takes it, costs no more than
// the session may hold; the scope beside it is served as ever.
func TestHostileFlood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		data := `{"x":"` + strings.Repeat("a", 1<<10) + `"}`
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method == "events/stream" {
				p.active(c, "a")
				for i := range 1500 {
					p.note(c, "event", wireEvent(id(i), fmt.Sprint("c", i), data))
				}
			}
		}}
		r := newRig(t, &slowStore{memory.New(), time.Second})
		session := p.connect(t, mcpevents.SessionConfig{})
		before := live()
		var told []error
		detach := r.attach(t, source(t, session, mcpsource.Config{OnError: func(err error) { told = append(told, err) }}))
		var most int64
		for range 8 {
			time.Sleep(5 * time.Second)
			most = max(most, live()-before)
			if _, err := r.Push(t.Context(), "beside", attend.Event{ID: fmt.Sprint(time.Now().UnixNano()), Name: "x"}); err != nil {
				t.Fatalf("Push beside a flood: %v", err)
			}
		}
		if err := detach(); !errors.Is(err, context.Canceled) {
			t.Errorf("Attach() = %v, want it to go on", err)
		}
		n := len(p.seen("events/stream"))
		t.Logf("%d floods, %d overflows, at most %d MB more in use", n, len(told), most>>20)
		if most > 50<<20 {
			t.Errorf("%d MB more in use, want it bounded", most>>20)
		}
		if n < 2 || len(told) < n-1 {
			t.Errorf("%d overflows in %d floods, want one each", len(told), n)
		}
		for _, err := range told {
			if !errors.Is(err, mcpevents.ErrOverflow) {
				t.Errorf("OnError heard %v, want overflows alone", err)
			}
		}
	})
}

// Over HTTP an event of 3 MB is dropped, and a message of 10 MB not even read
// whole; both leave a gap, and the events behind them come.
func TestHostileTenMegabytes(t *testing.T) {
	w := newWorld(t, mcpevents.ServerConfig{}, nil)
	inner := w.ev.Handler(w.mcp, mcpevents.HandlerConfig{})
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Mcp-Method") != "events/stream" {
			inner.ServeHTTP(rw, req)
			return
		}
		body, _ := io.ReadAll(req.Body)
		_, rest, _ := strings.Cut(string(body), `"id":`)
		sub, _, _ := strings.Cut(rest, `,`)
		rw.Header().Set("Content-Type", "text/event-stream")
		note := func(name, params string) {
			fmt.Fprintf(rw, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/%s\",\"params\":{%s,\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}}}\n\n", name, params, sub)
		}
		note("active", `"cursor":"c0","truncated":false`)
		note("event", wireEvent("first", "c1", `{}`))
		note("event", wireEvent("large", "c2", `{"x":"`+strings.Repeat("a", 3<<20)+`"}`))
		note("event", wireEvent("larger", "c3", `{"x":"`+strings.Repeat("a", 10<<20)+`"}`))
		note("event", wireEvent("last", "c4", `{}`))
		rw.(http.Flusher).Flush()
		select {
		case <-hold:
		case <-req.Context().Done():
		}
	}))
	defer s.Close()
	defer close(hold)
	session, err := mcpevents.Connect(t.Context(), client(), &mcp.StreamableClientTransport{Endpoint: s.URL}, mcpevents.SessionConfig{MaxMessageBytes: 4 << 20})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer session.Close()
	r := newRig(t, nil)
	told := make(chan error, 10)
	detach := r.attach(t, source(t, session, mcpsource.Config{OnError: func(err error) { told <- err }}))
	r.untilHeard(t, []string{"first", "last"})
	if r.gaps() == 0 {
		t.Error("no window has a gap, and two events were dropped")
	}
	if len(told) != 2 {
		t.Errorf("OnError heard %d times, want 2", len(told))
	}
	if err := detach(); !errors.Is(err, context.Canceled) {
		t.Errorf("Attach() = %v, want it to go on", err)
	}
}

// On a pipe 10 MB in one message reach nobody either.
func TestHostileTenMegabytesOnAPipe(t *testing.T) {
	p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
		if c.Method == "events/stream" && c.cursor() == "" {
			p.active(c, "c0")
			p.note(c, "event", wireEvent("large", "c1", `{"x":"`+strings.Repeat("a", 10<<20)+`"}`))
			p.event(c, "last", "c2")
		} else if c.Method == "events/stream" {
			p.active(c, c.cursor())
		}
	}}
	r := newRig(t, nil)
	detach := r.attach(t, source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{}))
	r.untilHeard(t, []string{"last"})
	if r.gaps() != 1 {
		t.Errorf("%d gaps, want one for what was dropped", r.gaps())
	}
	_ = detach()
}

// Wrong ids, foreign types, answers to nobody and what is no JSON-RPC at all do
// not reach the engine, and do not keep the rest from it.
func TestHostileIDs(t *testing.T) {
	p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
		if c.Method != "events/stream" {
			return
		}
		p.active(c, "c0")
		p.noteTo(`"other"`, "event", wireEvent("a", "x1", `{}`))
		p.noteTo(`17`, "terminated", `"error":{"code":-32024,"message":"Forbidden"}`)
		p.noteTo(`null`, "event", wireEvent("b", "x2", `{}`))
		p.noteTo(`{"a":[]}`, "event", wireEvent("c", "x3", `{}`))
		p.write(`{"jsonrpc":"2.0","id":"nobody","result":{}}`)
		p.write(`{"jsonrpc":"2.0","method":"notifications/events/event"}`)
		p.note(c, "event", strings.Replace(wireEvent("d", "c1", `{}`), "alert", "foreign", 1))
		p.note(c, "event", `"eventId":"","name":"alert","timestamp":"2026-11-03T09:15:02Z","data":{},"cursor":"c2"`)
		p.note(c, "event", `"eventId":7,"name":"alert","timestamp":7,"data":[],"cursor":{}`)
		p.event(c, "good", "c3")
	}}
	r := newRig(t, nil)
	src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{})
	detach := r.attach(t, src)
	r.untilHeard(t, []string{"good"})
	if err := detach(); !errors.Is(err, context.Canceled) {
		t.Errorf("Attach() = %v, want it to go on", err)
	}
	if got := r.cursor(t, src); got != "c3" {
		t.Errorf("cursor %q, want c3", got)
	}
	if n := len(r.letters.Taken()); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
}

// A server whose answers to polls are too large, or do not come in time, is asked
// for less at a time, until they come; then for as much as before.
func TestHostilePolls(t *testing.T) {
	for _, err := range []error{mcpevents.ErrTooLarge, mcpevents.ErrTimeout} {
		var asked []int
		src := source(t, &sizes{&asked, 10, err}, mcpsource.Config{})
		for _, after := range []attend.Cursor{"", "", "", "", "", "c"} {
			_, _ = all(t, src, after)
		}
		if want := []int{100, 50, 25, 12, 6, 100}; !slices.Equal(asked, want) {
			t.Errorf("%v: asked for %v events at a time, want %v", err, asked, want)
		}
	}
}
