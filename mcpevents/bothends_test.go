package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bothEnds serves a log as tick, over HTTP and over pipes.
func bothEnds(t *testing.T, c ServerConfig, modes ...Mode) (log *Log, dials map[string]func(context.Context) (*Session, error)) {
	t.Helper()
	log = NewLog(LogConfig{MaxEvents: 100_000})
	c.Types = []Type{{Name: "tick", Description: "It ticks.", Modes: modes, Backend: log,
		Payload: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}}
	s, err := NewServer(c)
	if err != nil {
		t.Fatal(err)
	}
	caps := &mcp.ServerCapabilities{}
	s.Capabilities(caps)
	m := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "0"}, &mcp.ServerOptions{Capabilities: caps})
	if err := s.Register(m); err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s.Handler(m, HandlerConfig{}))
	t.Cleanup(func() {
		hs.CloseClientConnections()
		hs.Close()
	})
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "0"}, nil)
	return log, map[string]func(context.Context) (*Session, error){
		"HTTP": func(ctx context.Context) (*Session, error) {
			return Connect(ctx, client, &mcp.StreamableClientTransport{Endpoint: hs.URL, MaxRetries: -1}, SessionConfig{})
		},
		"a pipe": func(ctx context.Context) (*Session, error) {
			here, there := mcp.NewInMemoryTransports()
			if _, err := m.Connect(context.WithoutCancel(ctx), s.Transport(there), nil); err != nil {
				return nil, err
			}
			return Connect(ctx, client, here, SessionConfig{})
		},
	}
}

func appendTicks(t *testing.T, log *Log, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		if err := log.Append(Event{ID: fmt.Sprint("e", i), Name: "tick", At: time.Now(), Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBothEndsLoseAndDoubleNothing(t *testing.T) {
	const each, restarts = 500, 4
	log, dials := bothEnds(t, ServerConfig{NextPoll: 10 * time.Millisecond})
	for name, dial := range dials {
		for _, mode := range []Mode{Push, Poll} {
			head, err := log.Head(t.Context(), tick)
			if err != nil {
				t.Fatal(err)
			}
			cursor, seen, next := head, NewSeen(0, 0), 0
			first := log.appended()
			for round := range restarts { // each with a session of its own, from the cursor that was kept
				var wg sync.WaitGroup
				wg.Go(func() { appendTicks(t, log, first+round*each, each) })
				c := Client{Dial: dial}
				want := (round + 1) * each
				if round < restarts-1 {
					want -= 37 // leaves in the middle
				}
				for b, err := range c.Follow(t.Context(), tick, FollowConfig{Mode: mode, Cursor: cursor, Seen: seen, PollFloor: time.Millisecond}) {
					if err != nil {
						t.Fatalf("%s, %s: %v", name, mode, err)
					}
					if b.Truncated || b.Dropped != 0 {
						t.Errorf("%s, %s: truncated %v, %d dropped", name, mode, b.Truncated, b.Dropped)
					}
					for _, v := range b.Events {
						if v.ID != fmt.Sprint("e", first+next) || v.Mismatch {
							t.Fatalf("%s, %s: event %s (mismatch %v), want e%d", name, mode, v.ID, v.Mismatch, first+next)
						}
						next++
					}
					cursor = b.Cursor
					if next >= want {
						break
					}
				}
				wg.Wait()
			}
			if next < restarts*each {
				t.Errorf("%s, %s: %d events, want %d", name, mode, next, restarts*each)
			}
		}
	}
}

// appended is how many events the log ever had.
func (l *Log) appended() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return int(l.last)
}

func TestBothEndsTerminateAndFallBack(t *testing.T) {
	log, dials := bothEnds(t, ServerConfig{}, Poll)
	appendTicks(t, log, 0, 1)
	for name, dial := range dials {
		s, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var found []string
		for d, err := range s.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprint(d.Name, d.Delivery))
		}
		if got := strings.Join(found, " "); got != "tick[poll]" {
			t.Errorf("%s: %s", name, got)
		}
		if _, err := s.Poll(t.Context(), Subscription{Name: "tock"}, PollQuery{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: poll of no type: %v, want ErrNotFound", name, err)
		}
		for _, err := range s.Stream(t.Context(), tick, StreamQuery{}) {
			if !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s: stream of a type that has none: %v, want ErrUnsupported", name, err)
			}
		}
		if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); err != nil || len(got) != 1 || got[0].Cursor == "" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
