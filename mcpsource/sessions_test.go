package mcpsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// C7: several streams share one session, each with its own events.
func TestC7SourcesShareASession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logs := map[string]*mcpevents.Log{}
		var types []mcpevents.Type
		for i := range 5 {
			name := fmt.Sprint("type", i)
			logs[name] = mcpevents.NewLog(mcpevents.LogConfig{})
			types = append(types, mcpevents.Type{Name: name, Backend: logs[name]})
		}
		w := newWorld(t, mcpevents.ServerConfig{Types: types}, nil)
		session := w.session(mcpevents.SessionConfig{})
		rigs := map[string]*rig{}
		var detach []func() error
		for name := range logs {
			rigs[name] = newRig(t, nil)
			detach = append(detach, rigs[name].attach(t, source(t, session, mcpsource.Config{Name: name})))
		}
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for name, log := range logs {
			wg.Go(func() {
				for i := range 50 {
					if err := log.Append(mcpevents.Event{ID: fmt.Sprint(name, "-", i), Data: []byte(`{}`)}); err != nil {
						t.Errorf("Append: %v", err)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		_ = detach[0]() // the others go on
		time.Sleep(time.Second)
		for _, d := range detach {
			_ = d()
		}
		for name, r := range rigs {
			var want []string
			for i := range 50 {
				want = append(want, fmt.Sprint(name, "-", i))
			}
			if got := r.heard(); !slices.Equal(got, want) {
				t.Errorf("%s heard %d events %.100v, want its own 50", name, len(got), got)
			}
		}
		if session.Err() != nil {
			t.Errorf("the session has ended: %v", session.Err())
		}
	})
}

// C5: with a function that makes sessions, one that closed is replaced, and the
// source goes on from the committed cursor. All sources share it.
func TestC5AClosedSessionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.ServerConfig{}, nil)
		var mu sync.Mutex
		var made []*mcpevents.Session
		failing := 0
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
			mu.Lock()
			defer mu.Unlock()
			if failing > 0 {
				failing--
				return nil, errors.New("not now")
			}
			s, err := w.dial(ctx, mcpevents.SessionConfig{})
			if err == nil {
				made = append(made, s)
			}
			return s, err
		})
		a, b := newRig(t, nil), newRig(t, nil)
		stopA := a.attach(t, source(t, sessions, mcpsource.Config{}))
		stopB := b.attach(t, source(t, sessions, mcpsource.Config{Mode: mcpevents.Poll}))
		time.Sleep(10 * time.Second)
		w.append(0, 3)
		time.Sleep(10 * time.Second)
		mu.Lock()
		failing = 2
		_ = made[0].Close()
		mu.Unlock()
		w.append(3, 6)
		time.Sleep(time.Minute)
		for name, r := range map[string]*rig{"a": a, "b": b} {
			if got := r.heard(); !slices.Equal(got, ids(0, 6)) {
				t.Errorf("%s heard %v, want each once", name, got)
			}
		}
		if len(made) != 2 {
			t.Errorf("%d sessions were made, want 2 for all", len(made))
		}
		if err := sessions.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		time.Sleep(time.Minute)
		for _, stop := range []func() error{stopA, stopB} {
			err := stop()
			if _, ok := errors.AsType[*attend.PermanentError](err); !ok || !errors.Is(err, mcpevents.ErrClosed) {
				t.Errorf("Attach() = %v after Close, want a PermanentError that is ErrClosed", err)
			}
		}
		if made[1].Err() == nil {
			t.Error("the last session is open after Close")
		}
	})
}

// A session stays over what is no fault of it: a stream that the server ends does
// not cost one.
func TestC5ASessionOutlivesItsStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method == "events/stream" {
				p.active(c, "a")
				p.end(c)
			}
		}}
		made := 0
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
			made++
			return p.dial(t, ctx, mcpevents.SessionConfig{})
		})
		detach := newRig(t, nil).attach(t, source(t, sessions, mcpsource.Config{}))
		time.Sleep(time.Minute)
		_ = detach()
		if n := len(p.seen("events/stream")); made != 1 || n < 4 {
			t.Errorf("%d sessions for %d streams, want one for several", made, n)
		}
		_ = sessions.Close()
	})
}

// A session whose server does not answer any more is replaced, though its pipe is
// in order.
func TestC5ASilentSessionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := 0
		good := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method == "events/stream" {
				p.active(c, "a")
				p.event(c, "e", "b")
			}
		}}
		mute := &peer{modes: `"push"`, serve: func(*peer, call) {}}
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
			if made++; made == 1 {
				return mute.dial(t, ctx, mcpevents.SessionConfig{})
			}
			return good.dial(t, ctx, mcpevents.SessionConfig{})
		})
		r := newRig(t, nil)
		detach := r.attach(t, source(t, sessions, mcpsource.Config{}))
		time.Sleep(time.Minute)
		_ = detach()
		if got := r.heard(); made != 2 || !slices.Equal(got, []string{"e"}) {
			t.Errorf("heard %v over %d sessions, want e over the second", got, made)
		}
		_ = sessions.Close()
	})
}

// What a function that makes sessions fails with is tried again, or not, as its
// error says.
func TestC5WhatDialFailsWith(t *testing.T) {
	for _, c := range []struct {
		name      string
		dial      func(context.Context) (*mcpevents.Session, error)
		permanent bool
	}{
		{"plain", func(context.Context) (*mcpevents.Session, error) { return nil, errors.New("not now") }, false},
		{"permanent", func(context.Context) (*mcpevents.Session, error) { return nil, attend.Permanent(errors.New("never")) }, true},
		{"refused credentials", func(context.Context) (*mcpevents.Session, error) { return nil, &mcpevents.StatusError{Status: 401} }, true},
		{"nothing", func(context.Context) (*mcpevents.Session, error) { return nil, nil }, true},
		{"too slow", func(ctx context.Context) (*mcpevents.Session, error) { <-ctx.Done(); return nil, context.Cause(ctx) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sessions := mcpsource.NewSessions(c.dial)
				got, err := all(t, source(t, sessions, mcpsource.Config{}), "")
				if _, ok := errors.AsType[*attend.PermanentError](err); len(got) != 0 || err == nil || ok != c.permanent {
					t.Errorf("Batches() = %v, %v, want an error, permanent: %t", got, err, c.permanent)
				}
			})
		})
	}
}

// Where one source has reason to leave a session, the others stay on it for as
// long as it serves them; the last who leaves closes it.
func TestC7ASuspectSessionIsKeptForTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tell := make(chan string)
		p := &peer{modes: `"push","poll"`, serve: func(p *peer, c call) { // polls are not answered
			if c.Method == "events/stream" {
				p.active(c, "a")
				go func() {
					for id := range tell {
						p.event(c, id, id)
					}
				}()
			}
		}}
		w := newWorld(t, mcpevents.ServerConfig{}, nil)
		var made []*mcpevents.Session
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
			dial := func() (*mcpevents.Session, error) {
				return p.dial(t, ctx, mcpevents.SessionConfig{RequestTimeout: 10 * time.Second})
			}
			if len(made) > 0 {
				dial = func() (*mcpevents.Session, error) { return w.dial(ctx, mcpevents.SessionConfig{}) }
			}
			s, err := dial()
			made = append(made, s)
			return s, err
		})
		a, b := newRig(t, nil), newRig(t, nil)
		stopA := a.attach(t, source(t, sessions, mcpsource.Config{}))
		time.Sleep(time.Second)
		stopB := b.attach(t, source(t, sessions, mcpsource.Config{Mode: mcpevents.Poll}))
		time.Sleep(30 * time.Second)
		if len(made) != 2 {
			t.Fatalf("%d sessions, want a second after polls without an answer", len(made))
		}
		tell <- "still"
		time.Sleep(time.Second)
		if got := a.heard(); !slices.Equal(got, []string{"still"}) || made[0].Err() != nil {
			t.Errorf("heard %v on the first session (%v), want it to serve the other", got, made[0].Err())
		}
		_ = stopA()
		if made[0].Err() == nil {
			t.Error("the first session is open, and nobody has it")
		}
		if made[1].Err() != nil {
			t.Errorf("the second session has ended: %v", made[1].Err())
		}
		_ = stopB()
		close(tell)
		_ = sessions.Close()
	})
}

// A session that was being made at Close is closed, and not used.
func TestC5CloseWhileASessionIsMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.ServerConfig{}, nil)
		var made *mcpevents.Session
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
			time.Sleep(time.Second)
			s, err := w.dial(ctx, mcpevents.SessionConfig{})
			made = s
			return s, err
		})
		detach := newRig(t, nil).attach(t, source(t, sessions, mcpsource.Config{}))
		time.Sleep(time.Millisecond)
		_ = sessions.Close()
		time.Sleep(time.Minute)
		if err := detach(); !errors.Is(err, mcpevents.ErrClosed) {
			t.Errorf("Attach() = %v, want ErrClosed", err)
		}
		if made.Err() == nil {
			t.Error("the session is open")
		}
	})
}

// C5: a server over HTTP that has forgotten its sessions, and says so with a number
// of its own, gets another one.
func TestC5AForgottenSessionIsReplaced(t *testing.T) {
	for _, forgotten := range []struct {
		status int
		answer string
	}{
		{http.StatusNotFound, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
		{http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
	} {
		var made, polls atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var c call
			_ = json.NewDecoder(r.Body).Decode(&c)
			reply := func(result string) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result)
			}
			now := fmt.Sprint("s", made.Load())
			switch {
			case r.Method != http.MethodPost:
				w.WriteHeader(http.StatusMethodNotAllowed)
			case c.Method == "initialize":
				w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", made.Add(1)))
				reply(`{"protocolVersion":"2025-11-25","serverInfo":{"name":"old","version":"0"},"capabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}`)
			case c.Method == "notifications/initialized":
				w.WriteHeader(http.StatusAccepted)
			case c.Method == "events/list" && r.Header.Get("Mcp-Session-Id") == now:
				reply(`{"events":[{"name":"alert","delivery":["poll"]}],"ttlMs":60000}`)
			case c.Method == "events/poll" && r.Header.Get("Mcp-Session-Id") == now && (polls.Add(1) != 2 || made.Load() > 1):
				reply(fmt.Sprintf(`{"events":[{"eventId":"e%d","name":"alert","timestamp":"2026-11-03T09:15:02Z","data":{}}],"cursor":"c%d","nextPollMs":10}`, made.Load(), made.Load()))
			default:
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(forgotten.status)
				_, _ = io.WriteString(w, forgotten.answer)
			}
		}))
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) { return over(ctx, s.URL, s.Client()) })
		r := newRig(t, nil)
		detach := r.attach(t, source(t, sessions, mcpsource.Config{}))
		r.untilHeard(t, []string{"e1", "e2"})
		if err := detach(); !errors.Is(err, context.Canceled) || made.Load() != 2 {
			t.Errorf("%d: Attach() = %v over %d sessions, want it to go on over a second", forgotten.status, err, made.Load())
		}
		_ = sessions.Close()
		s.Close()
	}
}
