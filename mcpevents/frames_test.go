package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestSE38NothingElseOnAStream(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{Heartbeat: 30 * time.Millisecond}, rawType(l))
	h := rawListen(t, s, m, HandlerConfig{})
	st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	want(t, st, noteActive)
	other := rawPost(t, h.URL, rawCall(1, methodListen, `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`))
	want(t, other, noteAcknowledged)
	for i := range 5 { // what others hear of
		mcp.AddTool(m, &mcp.Tool{Name: fmt.Sprint("tool", i)}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
		if err := s.Offer(Type{Name: fmt.Sprint("type", i), Backend: l}); err != nil {
			t.Fatal(err)
		}
		rawPost(t, h.URL, rawCall(1, methodPoll, `"name":"alert",`)).answer()
		rawAppend(t, l, i, i+1)
		time.Sleep(20 * time.Millisecond)
	}
	_ = s.Close()
	allowed := map[string]bool{noteEvent: true, noteHeartbeat: true, noteError: true, noteTerminated: true, noteActive: true}
	for {
		f, ok := st.frame()
		if !ok {
			t.Fatal("the stream ended without a result")
		}
		if f.Method == "" {
			break
		}
		if !allowed[f.Method] || string(f.Params.Meta.ID) != "1" {
			t.Errorf("the stream carries %s", f.Text)
		}
	}
}

func TestSE41HeartbeatIsAFrame(t *testing.T) {
	s, m := rawServer(t, ServerConfig{Heartbeat: 20 * time.Millisecond}, rawType(rawLog(LogConfig{})))
	h := rawListen(t, s, m, HandlerConfig{})
	st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	want(t, st, noteActive)
	for range 3 { // frame reads data lines and nothing else
		want(t, st, noteHeartbeat)
	}
}

func TestSE44GapInMidStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{MaxEvents: 10})
		s, m := rawServer(t, ServerConfig{}, rawType(l))
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		rawAppend(t, l, 0, 1)
		synctest.Wait() // the stream holds e0 and cannot write it: nobody reads
		rawAppend(t, l, 1, 100)
		if got := follow(t, p, 1); got != "e0" {
			t.Fatalf("got %s, want e0", got)
		}
		gap := want(t, p, noteActive)
		if !*gap.Params.Truncated || gap.cursor() == "" {
			t.Errorf("active = %s, want truncated with a cursor", gap.Text)
		}
		if got := follow(t, p, 10); got != "e90 e91 e92 e93 e94 e95 e96 e97 e98 e99" {
			t.Errorf("behind the gap came %s", got)
		}
		rawAppend(t, l, 100, 101)
		if got := follow(t, p, 1); got != "e100" {
			t.Errorf("delivery did not go on: %s", got)
		}
	})
}

func TestSE45DisconnectFreesTheStream(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{}, rawType(l))
	h := rawListen(t, s, m, HandlerConfig{})
	st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	want(t, st, noteActive)
	if s.live() != 1 {
		t.Fatalf("%d streams, want 1", s.live())
	}
	st.close()
	gone(t, s)
	p := rawDial(t, t.Context(), s, m)
	p.send(rawCall(1, methodStream, `"name":"alert",`))
	want(t, p, noteActive)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"done"}}`)
	gone(t, s)
	p.send(rawCall(1, methodStream, `"name":"alert",`)) // the id is free again
	want(t, p, noteActive)
	_ = p.conn.Close()
	gone(t, s)
}

func TestSE46NothingAfterCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{}, rawType(l))
		p := rawDial(t, t.Context(), s, m)
		for _, id := range []string{"a", "b"} {
			p.send(rawCall(id, methodStream, `"name":"alert",`))
			want(t, p, noteActive)
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
		synctest.Wait()
		rawAppend(t, l, 0, 5)
		for i := range 5 { // the other one lives
			if m := want(t, p, noteEvent); string(m.Params.Meta.ID) != `"b"` || m.Params.ID != fmt.Sprint("e", i) {
				t.Fatalf("got %s, want event %d of b", m.Text, i)
			}
		}
		for range 3 { // heartbeats too are of b alone
			if m := want(t, p, noteHeartbeat); string(m.Params.Meta.ID) != `"b"` {
				t.Fatalf("got %s, want b's", m.Text)
			}
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`)
		p.quiet(time.Hour)
	})
}

func TestSE47CloseEndsWithTheResult(t *testing.T) {
	overStreams(t, ServerConfig{}, LogConfig{}, func(t *testing.T, s *Server, l *Log, open rawOpener) {
		p := open("s", `"name":"alert",`)
		want(t, p, noteActive)
		rawAppend(t, l, 0, 1)
		want(t, p, noteEvent)
		done := make(chan error, 1)
		ctx, stop := context.WithTimeout(t.Context(), rawPatience)
		defer stop()
		go func() { done <- s.Shutdown(ctx) }()
		m := p.next()
		if string(m.ID) != `"s"` || string(m.Result) != `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}` {
			t.Errorf("last = %s, want the closing result", m.Text)
		}
		if st, ok := p.(*rawStream); ok {
			if m, ok := st.frame(); ok {
				t.Errorf("behind the result came %s", m.Text)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		if m := open("late", `"name":"alert",`); m != nil {
			var got rawMessage
			if st, ok := m.(*rawStream); ok {
				got = st.answer()
			} else {
				got = m.next()
			}
			wantError(t, got, -32603, `{"reason":"closing"}`)
		}
	})
}

func TestSE48NeverCancelsNorAsks(t *testing.T) {
	// rawDecode fails every test in which a server sends notifications/cancelled or
	// a request; here each way that a stream ends is read to its end.
	overStreams(t, ServerConfig{Recheck: 10 * time.Millisecond}, LogConfig{}, func(t *testing.T, s *Server, l *Log, open rawOpener) {
		for i, end := range []func(){func() { s.Withdraw("alert") }, func() { go s.Close() }} {
			p := open(i, `"name":"alert",`)
			want(t, p, noteActive)
			end()
			for m := p.next(); m.Method != ""; m = p.next() {
			}
			_ = s.Offer(rawType(l))
		}
	})
}

func TestSE49FiftyStreamsAndOrdinaryRequests(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{}, rawType(l))
	h := rawListen(t, s, m, HandlerConfig{})
	p := rawDial(t, t.Context(), s, m)
	for i := range 50 {
		p.send(rawCall(fmt.Sprint("s", i), methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		want(t, rawPost(t, h.URL, rawCall("s", methodStream, `"name":"alert",`)), noteActive)
	}
	for i := range 50 {
		if m := p.call(i, "tools/call", `"name":"echo","arguments":{"text":"x"},`); m.Error != nil {
			t.Fatalf("a call beside 50 streams: %s", m.Text)
		}
		if m := rawPost(t, h.URL, rawCall(i, methodPoll, `"name":"alert",`)).answer(); m.Error != nil {
			t.Fatalf("a poll beside 50 streams: %s", m.Text)
		}
	}
}

func TestSE50SameIDOfTwoClients(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{}, rawType(l))
	h := rawListen(t, s, m, HandlerConfig{})
	a := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert","arguments":{"min":5},`))
	b := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	want(t, a, noteActive)
	want(t, b, noteActive)
	rawAppend(t, l, 0, 6)
	if got := follow(t, a, 1); got != "e5" {
		t.Errorf("a got %s, want e5 alone", got)
	}
	if got := follow(t, b, 6); got != "e0 e1 e2 e3 e4 e5" {
		t.Errorf("b got %s", got)
	}
	a.close()
	for range 100 {
		if s.live() == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	rawAppend(t, l, 6, 7)
	if got := follow(t, b, 1); got != "e6" {
		t.Errorf("b got %s after a left", got)
	}
}

func TestPipeRefusesAnIDInUse(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, rawType(rawLog(LogConfig{})))
	p := rawDial(t, t.Context(), s, m)
	p.send(rawCall(1, methodStream, `"name":"alert",`))
	want(t, p, noteActive)
	for _, method := range []string{methodStream, methodPoll, "tools/list"} {
		p.send(rawCall(1, method, `"name":"alert",`))
		wantError(t, p.next(), -32600, "")
	}
}

func TestSE51SlowReaderHoldsItsOwnStream(t *testing.T) {
	const size, count = 32 << 10, 300
	l := NewLog(LogConfig{MaxEvents: 50})
	s, m := rawServer(t, ServerConfig{}, Type{Name: "alert", Backend: l})
	h := smallBuffers(t, s, s.Handler(m, HandlerConfig{WriteTimeout: 10 * time.Minute}))
	slow := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	fast := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
	want(t, slow, noteActive)
	want(t, fast, noteActive)
	heap := func() uint64 {
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return ms.HeapAlloc
	}
	data := json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
	before, top := heap(), uint64(0)
	for i := range count {
		if err := l.Append(Event{ID: fmt.Sprint("e", i), Data: data}); err != nil {
			t.Fatal(err)
		}
		for { // unaffected: each at once
			m := fast.next()
			if m.Method == noteHeartbeat {
				continue
			}
			if m.Params.ID != fmt.Sprint("e", i) {
				t.Fatalf("the other reader got %.100s, want e%d", m.Text, i)
			}
			break
		}
		if i%50 == 49 {
			top = max(top, heap())
		}
	}
	if top > before+5<<20 { // 10 MiB were sent, and the log holds less than 2 of them
		t.Errorf("heap grew by %d KiB while one reader slept", (top-before)>>10)
	}
	gap, last := false, ""
	for last != fmt.Sprint("e", count-1) {
		switch m := slow.next(); m.Method {
		case noteActive:
			gap = *m.Params.Truncated
		case noteEvent:
			last = m.Params.ID
		}
	}
	if !gap {
		t.Error("the slow reader heard of no gap")
	}
}

func TestSE53PermissionLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var answer atomic.Pointer[error]
		l := rawLog(LogConfig{})
		typ := rawType(l)
		typ.Check = func(context.Context, Subscription) error {
			if e := answer.Load(); e != nil {
				return *e
			}
			return nil
		}
		s, m := rawServer(t, ServerConfig{}, typ)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)

		// the check itself fails: nothing is delivered until it is answered
		down := fmt.Errorf("directory down")
		answer.Store(&down)
		time.Sleep(0)
		began := time.Now()
		for m := p.next(); m.Method != noteError; m = p.next() {
		}
		if took := time.Since(began); took > 61*time.Second {
			t.Errorf("the check came after %v, want 60 s", took)
		}
		rawAppend(t, l, 0, 1)
		for range 20 {
			if m := p.next(); m.Method != noteError && m.Method != noteHeartbeat {
				t.Fatalf("got %s without permission", m.Text)
			}
		}
		answer.Store(nil)
		for m := p.next(); m.Method != noteEvent; m = p.next() {
		}

		// and permission is lost, with events waiting
		var lost error = &Error{Kind: Forbidden, Data: json.RawMessage(`{"reason":"grant withdrawn"}`)}
		answer.Store(&lost)
		began = time.Now()
		var last rawMessage
		for last = p.next(); last.Method == noteHeartbeat; last = p.next() {
		}
		if last.Method != noteTerminated || last.Params.Error.Code != -32024 || string(last.Params.Error.Data) != `{"reason":"grant withdrawn"}` {
			t.Fatalf("got %s, want terminated", last.Text)
		}
		if took := time.Since(began); took > 61*time.Second {
			t.Errorf("terminated after %v, want 60 s", took)
		}
		if m := p.next(); string(m.ID) != `"s"` || m.Error != nil {
			t.Errorf("got %s, want the closing result", m.Text)
		}
		wantError(t, p.call("p", methodPoll, `"name":"alert",`), -32024, "")
	})
}

func TestSE53TokenExpires(t *testing.T) {
	s, m := rawServer(t, ServerConfig{Recheck: 20 * time.Millisecond}, rawType(rawLog(LogConfig{})))
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if token != "good" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: "ada", Expiration: time.Now().Add(300 * time.Millisecond)}, nil
	}
	h := rawServe(t, s, auth.RequireBearerToken(verify, nil)(s.Handler(m, HandlerConfig{})))
	if st := rawPost(t, h, rawCall(1, methodStream, `"name":"alert",`), "Authorization", "Bearer bad"); st.resp.StatusCode != 401 {
		t.Errorf("a bad token: status %d, want 401", st.resp.StatusCode)
	}
	st := rawPost(t, h, rawCall(1, methodStream, `"name":"alert",`), "Authorization", "Bearer good")
	want(t, st, noteActive)
	if m := want(t, st, noteTerminated); m.Params.Error.Code != -32024 {
		t.Errorf("got %s, want Forbidden", m.Text)
	}
}

func TestSE54TypeRemoved(t *testing.T) {
	overStreams(t, ServerConfig{}, LogConfig{}, func(t *testing.T, s *Server, l *Log, open rawOpener) {
		p := open("s", `"name":"alert",`)
		want(t, p, noteActive)
		if !s.Withdraw("alert") || s.Withdraw("alert") {
			t.Error("Withdraw did not tell whether the type was there")
		}
		m := want(t, p, noteTerminated)
		if m.Params.Error.Code != -32023 || string(m.Params.Error.Data) != `{"kind":"event"}` {
			t.Errorf("terminated = %s, want NotFound", m.Text)
		}
		if m = p.next(); string(m.ID) != `"s"` || m.Result == nil {
			t.Errorf("got %s, want the closing result", m.Text)
		}
		gone(t, s)
		if err := s.Offer(rawType(l)); err != nil {
			t.Fatal(err)
		}
		s.Withdraw("alert")
		late := open("late", `"name":"alert",`)
		if st, ok := late.(*rawStream); ok {
			wantError(t, st.answer(), -32023, `{"kind":"event"}`)
		} else {
			wantError(t, late.next(), -32023, `{"kind":"event"}`)
		}
	})
}

func TestSE55SchemaChanges(t *testing.T) {
	overStreams(t, ServerConfig{}, LogConfig{}, func(t *testing.T, s *Server, l *Log, open rawOpener) {
		p := open("s", `"name":"alert","arguments":{"min":1},`)
		want(t, p, noteActive)
		wider := rawType(l)
		wider.Input = json.RawMessage(`{"type":"object","properties":{"min":{"type":"integer"},"text":{"type":"string"}}}`)
		wider.Payload = json.RawMessage(`{"type":"object","properties":{"level":{"type":"integer"},"text":{"type":"string"}},"required":["level"]}`)
		if err := s.Replace(wider, BreaksNothing); err != nil {
			t.Fatal(err)
		}
		rawAppend(t, l, 1, 3)
		if got := follow(t, p, 2); got != "e1 e2" {
			t.Errorf("after an additive change came %s", got)
		}
		if err := s.Replace(wider, BreaksPayload); err != nil {
			t.Fatal(err)
		}
		m := want(t, p, noteTerminated)
		if m.Params.Error.Code != -32026 || string(m.Params.Error.Data) != `{"feature":"payloadSchema","reason":"schema_changed"}` {
			t.Errorf("terminated = %s", m.Text)
		}
		p.next() // the closing result
		p = open("t", `"name":"alert","arguments":{"min":1},`)
		want(t, p, noteActive)
		narrow := rawType(l)
		narrow.Input = json.RawMessage(`{"type":"object","properties":{"min":{"type":"string"}}}`)
		if err := s.Replace(narrow, BreaksNothing); err != nil { // whatever it says, this stream's arguments are out
			t.Fatal(err)
		}
		if m = want(t, p, noteTerminated); string(m.Params.Error.Data) != `{"feature":"inputSchema","reason":"schema_changed"}` {
			t.Errorf("terminated = %s", m.Text)
		}
		if err := s.Replace(Type{Name: "nope", Backend: l}, BreaksNothing); err == nil {
			t.Error("Replace took a type that is not offered")
		}
		if err := s.Replace(narrow, "everything"); err == nil {
			t.Error("Replace took a Break that is none")
		}
	})
}

func TestReplaceChangesTheBackend(t *testing.T) {
	overStreams(t, ServerConfig{}, LogConfig{}, func(t *testing.T, s *Server, l *Log, open rawOpener) {
		p := open("s", `"name":"alert",`)
		want(t, p, noteActive)
		other := rawLog(LogConfig{})
		rawAppend(t, other, 0, 2)
		if err := s.Replace(rawType(other), BreaksNothing); err != nil {
			t.Fatal(err)
		}
		if m := want(t, p, noteActive); !*m.Params.Truncated { // its cursors mean nothing here
			t.Errorf("active = %s, want a gap", m.Text)
		}
		if got := follow(t, p, 2); got != "e0 e1" {
			t.Errorf("got %s of the new backend", got)
		}
	})
}

func TestNoReplayHasNullCursors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		typ := rawType(l)
		typ.NoReplay = true
		s, m := rawServer(t, ServerConfig{}, typ)
		rawAppend(t, l, 0, 3)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert","cursor":"anything",`))
		a := want(t, p, noteActive)
		rawAppend(t, l, 3, 4)
		e := want(t, p, noteEvent)
		h := want(t, p, noteHeartbeat)
		for _, m := range []rawMessage{a, e, h} {
			if string(m.Params.Cursor) != "null" {
				t.Errorf("%s, want a null cursor", m.Text)
			}
		}
		if *a.Params.Truncated || e.Params.ID != "e3" {
			t.Errorf("active %s and event %s, want no gap and e3", a.Text, e.Text)
		}
	})
}

func TestThousandStreams(t *testing.T) {
	const n, events = 1000, 20
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{}, rawType(l))
	h := rawListen(t, s, m, HandlerConfig{})
	streams := make([]*rawStream, n)
	for i := range streams {
		streams[i] = rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`))
		want(t, streams[i], noteActive)
	}
	if s.live() != n {
		t.Fatalf("%d streams, want %d", s.live(), n)
	}
	if st := rawPost(t, h.URL, rawCall(1, methodStream, `"name":"alert",`)); true {
		wantError(t, st.answer(), -32025, `{"limit":"streams","max":1000}`)
	}
	var wg sync.WaitGroup
	var right atomic.Int64
	for _, st := range streams {
		wg.Go(func() {
			for i := range events {
				if m, ok := st.frame(); !ok || m.Params.ID != fmt.Sprint("e", i) {
					return
				}
			}
			right.Add(1)
		})
	}
	rawAppend(t, l, 0, events)
	wg.Wait()
	if right.Load() != n {
		t.Errorf("%d of %d streams got all events in order", right.Load(), n)
	}
	for _, st := range streams {
		st.close()
	}
	gone(t, s)
}
