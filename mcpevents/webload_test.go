package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAReaderThatPausesHoldsTheServerBack(t *testing.T) {
	const events = 4_000
	pad := strings.Repeat("x", 500)
	var sent atomic.Int64
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		w.note("events/active", `"cursor":"c0"`)
		var b strings.Builder
		for i := 1; i <= events && r.Context().Err() == nil; i++ {
			fmt.Fprintf(&b, "data: %s\n\n", w.text("events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i))+`,"pad":"`+pad+`"`))
			if i%10 == 0 {
				w.raw(b.String())
				sent.Store(int64(i))
				b.Reset()
			}
		}
		w.result(`{}`)
	})}
	hs := httptest.NewUnstartedServer(f)
	hs.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(128 << 10)
		return ctx
	}
	hs.Start()
	defer hs.Close()
	hc := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			_ = c.(*net.TCPConn).SetReadBuffer(128 << 10)
		}
		return c, err
	}}}
	s, err := Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c"}, nil), &mcp.StreamableClientTransport{Endpoint: hs.URL, HTTPClient: hc}, SessionConfig{MaxBuffered: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken, paused := 0, int64(0)
	for b, err := range s.Follow(t.Context(), tick, FollowConfig{}) {
		if err != nil {
			if !errors.Is(err, ErrEnded) {
				t.Errorf("%v, want ErrEnded", err)
			}
			break
		}
		for _, v := range b.Events {
			if taken++; v.ID != fmt.Sprint("e", taken) {
				t.Fatalf("event %s, want e%d", v.ID, taken)
			}
		}
		if taken > 0 && paused == 0 {
			for last := int64(-1); last != sent.Load(); time.Sleep(200 * time.Millisecond) {
				last = sent.Load()
			}
			paused = sent.Load()
		}
	}
	if taken != events {
		t.Errorf("%d events, want %d", taken, events)
	}
	if paused >= events {
		t.Error("the server sent all of it to a reader that does not read")
	}
}

func TestCE45AMessageOf10MBOverHTTP(t *testing.T) {
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		w.note("events/active", `"cursor":"c0"`)
		w.note("events/event", event("e1", "c1")+`,"more":"`+strings.Repeat("x", 10<<20)+`"`)
		w.raw("data: " + strings.Repeat("x", 5<<20) + "\ndata: " + strings.Repeat("y", 5<<20) + "\n\n")
		w.note("events/event", event("e2", "c2"))
		w.raw(": " + strings.Repeat("x", 10<<20) + "\n\n")
		w.note("events/event", event("e3", "c3"))
		<-r.Context().Done()
	})}
	s := f.start(t, SessionConfig{MaxMessageBytes: 1 << 20})
	var dropped []error
	got, err := collect(s.Follow(t.Context(), tick, FollowConfig{MaxEvents: 1, OnTrouble: func(err error) { dropped = append(dropped, err) }}), 3)
	if idsOf(got) != "e2 e3" || err != nil || len(dropped) < 2 {
		t.Errorf("%s, %v, dropped %v", idsOf(got), err, dropped)
	}
}

func TestALegacySessionOverHTTPIsPolled(t *testing.T) {
	var forgotten atomic.Bool
	f := &fakeWeb{session: "s-1", list: listOf(bothType), serve: func(w http.ResponseWriter, r *http.Request, m message) {
		if forgotten.Load() {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		answerJSON(w, m, `{"events":[`+polled("e1")+`],"cursor":"c1"}`)
	}}
	s := f.start(t, SessionConfig{})
	got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
	if idsOf(got) != "e1" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{Mode: Push}), 1); !errors.Is(err, ErrNoMode) {
		t.Errorf("push: %v, want ErrNoMode", err)
	}
	for _, err := range s.Stream(t.Context(), tick, StreamQuery{}) {
		if !errors.Is(err, ErrNoMode) {
			t.Errorf("Stream: %v, want ErrNoMode", err)
		}
	}
	for _, r := range f.requests("events/poll") {
		if r.header.Get("Mcp-Session-Id") != "s-1" || r.header.Get("Mcp-Protocol-Version") != "2025-11-25" || r.Params["_meta"] != nil {
			t.Errorf("poll with %v, _meta %s", r.header, r.Params["_meta"])
		}
	}
	forgotten.Store(true)
	if _, err := s.Poll(t.Context(), tick, PollQuery{}); !errors.Is(err, ErrClosed) || !errors.Is(s.Err(), mcp.ErrSessionMissing) {
		t.Errorf("after the server forgot the session: %v, Err() = %v", err, s.Err())
	}
	<-s.Done()
}

func TestHTTPStreamsLeaveNoGoroutine(t *testing.T) {
	var open atomic.Int64
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		for i := 0; r.Context().Err() == nil; i++ {
			w.note("events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i)))
		}
	})}
	hs := httptest.NewServer(f)
	defer hs.Close()
	before := runtime.NumGoroutine()
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: -1}}
	s, err := Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c"}, nil), &mcp.StreamableClientTransport{Endpoint: hs.URL, HTTPClient: hc}, SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			n := 0
			for _, err := range s.Follow(ctx, tick, FollowConfig{}) {
				if n++; n < 20 {
					continue
				}
				switch i % 3 {
				case 0:
					return // leaves the loop
				case 1:
					stop() // ends the context
				}
				if err != nil {
					return // the session was closed
				}
			}
		})
	}
	time.AfterFunc(time.Second, func() { _ = s.Close() })
	wg.Wait()
	_ = s.Close()
	for range 200 {
		if open.Load() == 0 && runtime.NumGoroutine() <= before+2 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d streams, %d goroutines, %d before\n%s", open.Load(), runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}

func TestConnectOverHTTPTellsTheStatus(t *testing.T) {
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }))
	defer hs.Close()
	_, err := Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c"}, nil), &mcp.StreamableClientTransport{Endpoint: hs.URL, MaxRetries: -1}, SessionConfig{})
	if e, ok := errors.AsType[*StatusError](err); !ok || e.Status != 401 || !Permanent(err) {
		t.Errorf("Connect: %v, want the status 401", err)
	}
}

func TestCompatOverHTTP(t *testing.T) {
	for _, session := range []string{"", "s-1"} {
		f := &fakeWeb{session: session, capabilities: `{"events":{}}`, list: listOf(pollType)}
		if s := f.start(t, SessionConfig{Compat: true}); !s.Offered() {
			t.Errorf("session %q: Offered() = false with Compat", session)
		}
		if s := f.start(t, SessionConfig{}); s.Offered() {
			t.Errorf("session %q: Offered() = true without Compat", session)
		}
	}
}
