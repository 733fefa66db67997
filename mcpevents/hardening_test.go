package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNilErrorIsNoAnswer(t *testing.T) {
	var e *Error
	if errors.Is(e, ErrForbidden) || errors.Is(ErrForbidden, e) || ends(e) {
		t.Error("a nil *Error is of a kind")
	}
	if got := e.Error(); !strings.Contains(got, string(Internal)) {
		t.Errorf("Error = %q", got)
	}
	typ := rawType(rawLog(LogConfig{}))
	typ.Check = func(context.Context, Subscription) error { return e }
	overBoth(t, ServerConfig{}, func() []Type { return []Type{typ} }, func(t *testing.T, _ *Server, call rawCaller) {
		wantError(t, call(1, methodPoll, `"name":"alert",`), -32603, "")
		wantError(t, call(2, methodStream, `"name":"alert",`), -32603, "")
	})
}

func TestWithdrawOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, m := rawServer(t, ServerConfig{}, alerts()...)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		if s.Withdraw("") || s.Withdraw("nope") {
			t.Error("Withdraw of nothing = true")
		}
		p.quiet(time.Second)
	})
}

// What is offered and what a log checks against change together: an offer would
// stay with the log where Withdraw came between.
func TestOffersAndTheirLogsChangeTogether(t *testing.T) {
	l := rawLog(LogConfig{})
	s, _ := rawServer(t, ServerConfig{}, rawType(l))
	l.mu.Lock() // Replace comes to a stop here
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Replace(rawType(l), BreaksNothing) })
	for held, tries := 0, 0; held < 3; tries++ {
		if tries > 200 {
			t.Fatal("others get in between")
		}
		held++
		if s.mu.TryLock() {
			s.mu.Unlock()
			held = 0
		}
		time.Sleep(5 * time.Millisecond)
	}
	wg.Go(func() { s.Withdraw("alert") })
	l.mu.Unlock()
	wg.Wait()
	if n := len(l.offers); n > 0 {
		t.Errorf("%d offers stay with a log that nobody offers", n)
	}
}

func TestClosedServerLeavesTheLog(t *testing.T) {
	l := rawLog(LogConfig{})
	s, _ := rawServer(t, ServerConfig{}, rawType(l))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(rawType(l), BreaksNothing); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(Event{ID: "x", Data: json.RawMessage(`{"other":1}`)}); err != nil {
		t.Errorf("Append = %v, want no check for a server that is closed", err)
	}
}

// cursors is a backend whose cursors are all the same.
type cursors struct{ c Cursor }

func (b cursors) Head(context.Context, Subscription) (Cursor, error) { return b.c, nil }

func (b cursors) Read(_ context.Context, _ Subscription, q Query) (Page, error) {
	return Page{Cursor: b.c, Truncated: q.After != b.c}, nil
}

func (b cursors) Wait(ctx context.Context, _ Subscription, _ Cursor) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCursorsOfABackendComeBack(t *testing.T) {
	for c, fine := range map[Cursor]bool{"": false, "a\xff": false, Cursor(strings.Repeat("x", 4097)): false, Cursor(strings.Repeat("x", 4096)): true, "é\x00": true} {
		s, m := rawServer(t, ServerConfig{}, Type{Name: "alert", Backend: cursors{c}})
		p := rawDial(t, t.Context(), s, m)
		for i, params := range []string{"", `"cursor":"x",`} {
			a := p.call(i, methodPoll, `"name":"alert",`+params)
			if !fine {
				wantError(t, a, -32603, "")
				continue
			}
			raw, _ := json.Marshal(string(rawPoll(t, a).Cursor))
			if r := rawPoll(t, p.call(10+i, methodPoll, fmt.Sprintf(`"name":"alert","cursor":%s,`, raw))); r.Truncated || r.Cursor != c {
				t.Errorf("cursor %.20q came back as %.20q, truncated %v", c, r.Cursor, r.Truncated)
			}
		}
	}
}

func TestNobodysPollsAreNotCounted(t *testing.T) {
	s, m := rawServer(t, ServerConfig{MaxPolls: 1}, alerts()...)
	p := rawDial(t, t.Context(), s, m)
	for i := range 3 {
		rawPoll(t, p.call(i, methodPoll, `"name":"alert",`))
	}
}

func TestSE21NoMoreWhereTheRestIsLeftOut(t *testing.T) {
	l := NewLog(LogConfig{})
	for i := range 5 {
		v := rawEvent(fmt.Sprint("e", i), i)
		if i >= 3 {
			v.Data = json.RawMessage(`{"level":"bad"}`)
		}
		if err := l.Append(v); err != nil { // nobody offers it yet
			t.Fatal(err)
		}
	}
	s, m := rawServer(t, ServerConfig{}, rawType(l))
	p := rawDial(t, t.Context(), s, m)
	r := rawPoll(t, p.call(1, methodPoll, fmt.Sprintf(`"name":"alert","cursor":%q,"maxEvents":3,`, l.cursor(0))))
	if ids(r.Events) != "e0 e1 e2" || r.More || r.Cursor != l.cursor(5) {
		t.Errorf("poll = %+v, want three events and no more", r)
	}
}

func TestMetaCountsInTheLog(t *testing.T) {
	l := NewLog(LogConfig{MaxBytes: 1 << 20})
	for i := range 10 {
		v := rawEvent(fmt.Sprint("e", i), i)
		v.Meta = map[string]any{"x": strings.Repeat("m", 300<<10)}
		if err := l.Append(v); err != nil {
			t.Fatal(err)
		}
	}
	if l.count != 3 {
		t.Errorf("a log of 1 MiB holds %d events with 300 KiB of metadata, want 3", l.count)
	}
	if err := l.Append(Event{ID: "x", Data: json.RawMessage(`{}`), Meta: map[string]any{"f": func() {}}}); err == nil {
		t.Error("Append took metadata that cannot be written")
	}
}

func TestMetaOfATypeIsCopied(t *testing.T) {
	typ := rawType(rawLog(LogConfig{}))
	typ.Meta = map[string]any{"n": int64(9007199254740993)}
	s, m := rawServer(t, ServerConfig{}, typ)
	typ.Meta["n"] = make(chan int)
	p := rawDial(t, t.Context(), s, m)
	if got := p.call(1, methodList, ""); !strings.Contains(got.Text, `"n":9007199254740993`) {
		t.Errorf("list = %s, want the metadata as it was", got.Text)
	}
}

func TestListCursorThatIsNoString(t *testing.T) {
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		for i, c := range []string{"5", "{}", `"zz"`} {
			wantError(t, call(i, methodList, `"cursor":`+c+`,`), -32602, `{"path":"/cursor","reason":"is no cursor of this list"}`)
		}
		for i, c := range []string{"null", `""`} {
			if r := rawList(t, call(10+i, methodList, `"cursor":`+c+`,`)); len(r.Events) == 0 {
				t.Errorf("cursor %s: %+v, want the list", c, r)
			}
		}
	})
}

func TestReasonOfArguments(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	p := rawDial(t, t.Context(), s, m)
	wantError(t, p.call(1, methodPoll, `"name":"alert","arguments":{"min":1,"min":2},`), -32602,
		`{"path":"/arguments","reason":"arguments have no canonical form (RFC 8785)"}`)
}

func TestFrontRefusesWhatCanBeReadTwoWays(t *testing.T) {
	s, m := rawServer(t, ServerConfig{}, alerts()...)
	h := rawListen(t, s, m, HandlerConfig{})
	poll, stream := rawCall(1, methodPoll, `"name":"alert",`), rawCall(1, methodStream, `"name":"alert",`)
	for _, c := range []struct {
		body   string
		add    [2]string
		code   int64 // 0 is no JSON-RPC
		status int
	}{
		{poll + "{}", [2]string{"Mcp-Name", "other"}, 0, 400},
		{stream, [2]string{"Mcp-Method", "tools/call"}, -32020, 400},
		{stream, [2]string{"Mcp-Protocol-Version", "2025-11-25"}, -32020, 400},
		{strings.Replace(stream, `"id":1`, `"id":1.5`, 1), [2]string{}, -32600, 400},
		{strings.Replace(poll, `"id":1`, `"id":null`, 1), [2]string{}, -32600, 400},
		{strings.Replace(stream, `"id":1`, `"id":"`+strings.Repeat("x", 2000)+`"`, 1), [2]string{}, -32600, 400},
		{stream, [2]string{"Mcp-Method", methodStream}, 0, 200}, // twice the same
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		method := methodStream
		if strings.Contains(c.body, methodPoll) {
			method = methodPoll
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
		if c.add[0] != "" {
			r.Header.Add(c.add[0], c.add[1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1000)
		n, _ := resp.Body.Read(b)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || c.code != 0 && !strings.Contains(string(b[:n]), fmt.Sprintf(`"code":%d`, c.code)) {
			t.Errorf("%.60s and %v: %d %s, want %d with %d", c.body, c.add, resp.StatusCode, b[:n], c.status, c.code)
		}
	}
}

func TestResponseThatCannotBeFlushed(t *testing.T) {
	var logged bytes.Buffer
	s, m := rawServer(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, alerts()...)
	inner := s.Handler(m, HandlerConfig{})
	url := rawServe(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	}))
	for i, params := range []string{`"notifications":{"eventsListChanged":true},`, `"notifications":{"eventsListChanged":true,"toolsListChanged":true},`} {
		st := rawPost(t, url, rawCall(i, methodListen, params))
		wantError(t, st.answer(), -32603, "")
	}
	st := rawPost(t, url, rawCall(1, methodStream, `"name":"alert",`))
	wantError(t, st.answer(), -32603, "")
	if st.resp.StatusCode != 500 || strings.Count(logged.String(), "ResponseWriter") != 1 {
		t.Errorf("status %d, log %q, want 500 and one line", st.resp.StatusCode, logged.String())
	}
}
