package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// streamed serves a script on each events/stream.
func streamed(script func(w sseWriter, r *http.Request)) func(w http.ResponseWriter, r *http.Request, m message) {
	return func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "events/stream" {
			script(openSSE(w, m), r)
		}
	}
}

func TestCE2EveryRequestHasItsMetadataAndHeaders(t *testing.T) {
	f := &fakeWeb{list: listOf(bothType), serve: func(w http.ResponseWriter, r *http.Request, m message) {
		switch m.Method {
		case "tools/list":
			answerJSON(w, m, `{"resultType":"complete","tools":[]}`)
		case "events/stream":
			openSSE(w, m).note("events/event", event("e1", "c1"))
		case "subscriptions/listen":
			openSSE(w, m).result(`{}`)
		default:
			answerJSON(w, m, `{"events":[],"id":"sub"}`)
		}
	}}
	s := f.start(t, SessionConfig{})
	if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); idsOf(got) != "e1" {
		t.Errorf("%v, %v", got, err)
	}
	_, _ = s.Poll(t.Context(), tick, PollQuery{})
	for range s.Listen(t.Context()) {
	}
	_, _ = s.Subscribe(t.Context(), tick, WebhookTarget{URL: "https://h.test/", Secret: NewSecret()})
	_ = s.Unsubscribe(t.Context(), tick, "https://h.test/")
	_, _ = s.MCP().ListTools(t.Context(), nil)
	if n := len(f.requests("")); n != 8 {
		t.Errorf("%d requests, want 8", n)
	}
	for _, r := range f.requests("") {
		meta, _ := r.param("_meta").(map[string]any)
		caps, _ := meta[mcp.MetaKeyClientCapabilities].(map[string]any)
		ext, _ := caps["extensions"].(map[string]any)
		if meta[mcp.MetaKeyProtocolVersion] != r.header.Get("Mcp-Protocol-Version") || meta[mcp.MetaKeyProtocolVersion] != "2026-07-28" || ext[Extension] == nil {
			t.Errorf("%s: header %q, _meta %v", r.Method, r.header.Get("Mcp-Protocol-Version"), meta)
		}
		if r.header.Get("Mcp-Method") != r.Method || r.header.Get("Content-Type") != "application/json" || r.header.Get("Mcp-Name") != "" {
			t.Errorf("%s: headers %v", r.Method, r.header)
		}
		if r.header.Get("Accept") != "application/json, text/event-stream" { // CE-26
			t.Errorf("%s: Accept %q", r.Method, r.header.Get("Accept"))
		}
	}
}

func TestCE26BothKindsOfAnswerToAStream(t *testing.T) {
	forbidden := `{"code":-32024,"message":"Forbidden"}`
	for name, one := range map[string]struct {
		serve func(w http.ResponseWriter, m message)
		want  error
	}{
		"error as JSON":      {func(w http.ResponseWriter, m message) { refuseJSON(w, 200, m, forbidden) }, ErrForbidden},
		"error as JSON, 400": {func(w http.ResponseWriter, m message) { refuseJSON(w, 400, m, forbidden) }, ErrForbidden},
		"error as JSON, 404": {func(w http.ResponseWriter, m message) { refuseJSON(w, 404, m, `{"code":-32601,"message":"?"}`) }, ErrMethodNotFound},
		"error as the only frame": {func(w http.ResponseWriter, m message) {
			openSSE(w, m).raw(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}\n\n", m.ID, forbidden))
		}, ErrForbidden},
		"error without an id": {func(w http.ResponseWriter, m message) {
			m.ID = []byte("null")
			refuseJSON(w, 400, m, forbidden)
		}, ErrForbidden},
		"result as JSON": {func(w http.ResponseWriter, m message) { answerJSON(w, m, `{}`) }, ErrEnded},
		"another's result": {func(w http.ResponseWriter, m message) {
			m.ID = []byte(`"other"`)
			answerJSON(w, m, `{}`)
		}, ErrProtocol},
	} {
		f := &fakeWeb{list: listOf(pushType), serve: func(w http.ResponseWriter, r *http.Request, m message) { one.serve(w, m) }}
		s := f.start(t, SessionConfig{})
		if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); !errors.Is(err, one.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, one.want)
		}
	}
}

func TestCE38LeavingClosesTheResponse(t *testing.T) {
	gone := make(chan struct{}, 9)
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		w.note("events/active", `"cursor":"c0"`)
		<-r.Context().Done()
		gone <- struct{}{}
	})}
	s := f.start(t, SessionConfig{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for n, err := range s.Stream(ctx, tick, StreamQuery{}) {
		if n.Kind != NoteActive || err != nil {
			t.Errorf("%v, %v", n, err)
		}
		break // leaves the loop
	}
	for _, err := range s.Stream(ctx, tick, StreamQuery{}) {
		if stop(); err != nil && !errors.Is(err, context.Canceled) { // ends the context
			t.Errorf("%v, want Canceled", err)
		}
	}
	for range 2 {
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			t.Fatal("the response is still open")
		}
	}
	if n := len(f.requests("notifications/cancelled")); n != 0 {
		t.Errorf("%d notifications/cancelled, want 0", n)
	}
}

func TestCE40BadFramesOverHTTP(t *testing.T) {
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		w.raw("\ufeff: hello\n\n:\n\n")
		w.raw("id: 7\nretry: 1\nevent: message\ndata: " + w.text("events/active", `"cursor":"c0"`) + "\n\n")
		for _, frame := range []string{"not JSON", "{", "[]", "null", "{}", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"other","result":{}}`, "\xff\xfe"} {
			w.raw("data: " + frame + "\n\n")
		}
		w.raw("event: ping\ndata: {}\n\ndata\n\nfoo: bar\n\n")
		e := w.text("events/event", event("e1", "c1"))
		w.raw("data:" + e[:20] + "\r\ndata:" + e[20:] + "\r\n\r\n") // no frame of JSON: a line end in a name
		i := strings.Index(e, `,"params"`)
		w.raw("data: " + e[:i] + "\r\ndata: " + e[i:] + "\r\n\r\n")
		w.raw("data: " + w.text("events/event", event("e2", "c2"))) // the last one, without an end
	})}
	var dropped int
	s := f.start(t, SessionConfig{})
	got, err := collect(s.Follow(t.Context(), tick, FollowConfig{OnTrouble: func(error) { dropped++ }}), -1)
	if idsOf(got) != "e1 e2" || !errors.Is(err, ErrLost) {
		t.Errorf("%v, %v", got, err)
	}
	if dropped != 10 { // two of them belong to nobody
		t.Errorf("%d dropped, want 10", dropped)
	}
	for _, r := range f.requests("") {
		if r.verb != http.MethodPost || r.header.Get("Last-Event-Id") != "" {
			t.Errorf("%s %v: streams are not resumed", r.verb, r.header)
		}
	}
}

func TestAFrameThatIsCutIsNotDropped(t *testing.T) {
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		w.note("events/active", `"cursor":"c0"`)
		w.raw("data: " + w.text("events/event", event("e1", "c1"))[:80]) // it comes again: the cursor is before it
		panic(http.ErrAbortHandler)
	})}
	s := f.start(t, SessionConfig{})
	var trouble []error
	if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{OnTrouble: func(err error) { trouble = append(trouble, err) }}), -1); !errors.Is(err, ErrLost) || len(trouble) != 0 {
		t.Errorf("%v, trouble %v, want ErrLost alone", err, trouble)
	}
}

// What the SDK's own requests are answered with goes to the SDK, which would end
// the process at a notification without params.
func TestCE40WhatIsLeftToTheSDKHarmsNobodyOverHTTP(t *testing.T) {
	const bare = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`
	for name, answer := range map[string]func(w http.ResponseWriter, m message){
		"frames": func(w http.ResponseWriter, m message) {
			s := openSSE(w, m)
			s.raw("data: " + bare + "\n\ndata: " + strings.Replace(bare, `"}`, `","params":null}`, 1) + "\n\n")
			s.result(`{"resultType":"complete","tools":[]}`)
		},
		"JSON": func(w http.ResponseWriter, _ message) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, bare)
		},
	} {
		f := &fakeWeb{serve: func(w http.ResponseWriter, _ *http.Request, m message) { answer(w, m) }}
		s := f.start(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		if _, err := s.MCP().ListTools(ctx, nil); (err == nil) != (name == "frames") {
			t.Errorf("%s: ListTools: %v", name, err)
		}
		stop()
	}
}

func TestCE31CommentsOverHTTPAreNoLife(t *testing.T) {
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		w.note("events/active", `"cursor":"c0"`)
		for r.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
			w.raw(": keep-alive\n\ndata: keep-alive\n\n")
			w.note("events/error", `"error":{"code":-32603,"message":"x"}`)
		}
	})}
	s := f.start(t, SessionConfig{})
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if _, err := collect(s.Follow(ctx, tick, FollowConfig{Idle: 200 * time.Millisecond}), -1); !errors.Is(err, ErrIdle) {
		t.Errorf("%v, want ErrIdle", err)
	}
}

func TestTroubleOverHTTPLeavesTheSessionAlive(t *testing.T) {
	status := func(code int) error { return &StatusError{Status: code} }
	for name, one := range map[string]struct {
		serve func(w http.ResponseWriter, r *http.Request, m message)
		want  error
	}{
		"401 text": {func(w http.ResponseWriter, r *http.Request, m message) {
			http.Error(w, "who are you", http.StatusUnauthorized)
		}, status(401)},
		"403 text": {func(w http.ResponseWriter, r *http.Request, m message) { http.Error(w, "no", http.StatusForbidden) }, status(403)},
		"404 text": {func(w http.ResponseWriter, r *http.Request, m message) { http.Error(w, "no", 404) }, status(404)},
		"503": {func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Retry-After", "17")
			http.Error(w, "no", http.StatusServiceUnavailable)
		}, &StatusError{503, 17 * time.Second}},
		"302 to nowhere": {func(w http.ResponseWriter, r *http.Request, m message) { w.WriteHeader(302) }, status(302)},
		"202":            {func(w http.ResponseWriter, r *http.Request, m message) { w.WriteHeader(202) }, ErrProtocol},
		"HTML": {func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		}, ErrProtocol},
		"broken JSON": {func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":`)
		}, ErrProtocol},
		"JSON without end": {func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, ErrTooLarge},
		"an error page without end": {func(w http.ResponseWriter, r *http.Request, m message) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, status(500)},
		"a cut": {func(w http.ResponseWriter, r *http.Request, m message) { panic(http.ErrAbortHandler) }, ErrLost},
		"a cut in the stream": {func(w http.ResponseWriter, r *http.Request, m message) {
			openSSE(w, m).note("events/active", `"cursor":"c0"`)
			panic(http.ErrAbortHandler)
		}, ErrLost},
		"an end without an answer": {func(w http.ResponseWriter, r *http.Request, m message) { openSSE(w, m).raw(":\n\n") }, ErrLost},
	} {
		f := &fakeWeb{list: listOf(bothType), serve: func(w http.ResponseWriter, r *http.Request, m message) {
			if m.Method == "tools/list" {
				answerJSON(w, m, `{"resultType":"complete","tools":[]}`)
				return
			}
			one.serve(w, r, m)
		}}
		s := f.start(t, SessionConfig{MaxMessageBytes: 4 << 20})
		for _, mode := range []Mode{Push, Poll} {
			_, err := collect(s.Follow(t.Context(), tick, FollowConfig{Mode: mode}), 9)
			if want, ok := errors.AsType[*StatusError](one.want); ok {
				if got, ok := errors.AsType[*StatusError](err); !ok || *got != *want {
					t.Errorf("%s, %s: %v, want %v", name, mode, err, want)
				}
			} else if !errors.Is(err, one.want) {
				t.Errorf("%s, %s: %v, want %v", name, mode, err, one.want)
			}
		}
		if _, err := s.MCP().ListTools(t.Context(), nil); err != nil || s.Err() != nil {
			t.Errorf("%s: the session died of it: %v, %v", name, err, s.Err())
		}
	}
}

func TestAServerThatNeverAnswersOverHTTP(t *testing.T) {
	f := &fakeWeb{list: listOf(pushType), serve: func(w http.ResponseWriter, r *http.Request, m message) { <-r.Context().Done() }}
	s := f.start(t, SessionConfig{RequestTimeout: 100 * time.Millisecond})
	if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{Open: 100 * time.Millisecond}), 1); !errors.Is(err, ErrTimeout) {
		t.Errorf("Follow: %v, want ErrTimeout", err)
	}
	if _, err := s.Poll(t.Context(), tick, PollQuery{}); !errors.Is(err, ErrTimeout) {
		t.Errorf("Poll: %v, want ErrTimeout", err)
	}
}
