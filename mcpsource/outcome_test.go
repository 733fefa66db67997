package mcpsource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// C4: a stream that the server terminates for a passing reason is opened again
// from the committed cursor, after the engine's backoff.
func TestC4ATerminatedStreamReopens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method != "events/stream" {
				return
			}
			n := len(p.seen("events/stream"))
			p.active(c, c.cursor())
			p.event(c, id(n), fmt.Sprint("c", n))
			p.note(c, "terminated", `"error":{"code":-32603,"message":"InternalError"}`)
		}}
		r := newRig(t, nil)
		detach := r.attach(t, source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{}))
		time.Sleep(2500 * time.Millisecond)
		_ = detach()
		var from []string
		streams := p.seen("events/stream")
		for _, c := range streams {
			from = append(from, c.cursor())
		}
		if want := []string{"", "c1", "c2"}; !slices.Equal(from, want) {
			t.Errorf("streams from %q, want %q", from, want)
		}
		if d := streams[1].at.Sub(streams[0].at); d != time.Second {
			t.Errorf("the second stream came after %v, want the first rung of the backoff", d)
		}
		if got := r.heard(); !slices.Equal(got, ids(1, 4)) {
			t.Errorf("heard %v, want each once", got)
		}
	})
}

// C4: a stream that was silent for IdleTimeout, heartbeats included, is opened
// again; one with heartbeats is not.
func TestC4Idle(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		beat    time.Duration
		want    []time.Duration // when streams are opened
	}{
		{"5 minutes by default", 0, 0, []time.Duration{0, 5*time.Minute + time.Second, 10*time.Minute + 5*time.Second}},
		{"as it is set", 4 * time.Minute, 0, []time.Duration{0, 4*time.Minute + time.Second, 8*time.Minute + 5*time.Second}},
		{"with heartbeats", 0, 4 * time.Minute, []time.Duration{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start := time.Now()
				p := &peer{modes: `"push"`}
				p.serve = func(p *peer, k call) {
					if k.Method == "events/stream" {
						p.active(k, "a")
						go func() {
							for range 10 {
								if c.beat == 0 {
									return
								}
								time.Sleep(c.beat)
								p.note(k, "heartbeat", `"cursor":"a"`)
							}
						}()
					}
				}
				var told []error
				src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{IdleTimeout: c.timeout, OnError: func(err error) { told = append(told, err) }})
				detach := newRig(t, nil).attach(t, src)
				time.Sleep(11*time.Minute + time.Second)
				if err := detach(); !errors.Is(err, context.Canceled) {
					t.Errorf("Attach() = %v, want it to go on", err)
				}
				var opened []time.Duration
				for _, s := range p.seen("events/stream") {
					opened = append(opened, s.at.Sub(start).Round(time.Second))
				}
				if c.timeout != 0 {
					opened = opened[:min(len(opened), 3)]
				}
				if !slices.Equal(opened, c.want) {
					t.Errorf("streams opened at %v, want %v", opened, c.want)
				}
				for _, err := range told {
					if !errors.Is(err, mcpevents.ErrIdle) {
						t.Errorf("OnError heard %v, want ErrIdle alone", err)
					}
				}
				if c.beat == 0 && len(told) != len(p.seen("events/stream"))-1 {
					t.Errorf("OnError heard %d times, want once for each stream that was silent", len(told))
				}
				time.Sleep(time.Hour) // for the beats to end
			})
		})
	}
}

// A slowStore takes its time for each commit.
type slowStore struct {
	attend.ScopeStore
	pause time.Duration
}

func (s *slowStore) Commit(ctx context.Context, w []attend.Write) ([]attend.Outcome, error) {
	time.Sleep(s.pause)
	return s.ScopeStore.Commit(ctx, w)
}

// C4: a stream with over 1000 notifications waiting on a slow store ends as
// overflow and is opened again from the committed cursor; nothing is lost.
func TestC4Overflow(t *testing.T) {
	t.Run("1000 by default", func(t *testing.T) { overflow(t, 4000, 0) })
	t.Run("as it is set", func(t *testing.T) { overflow(t, 900, 200) })
}

func overflow(t *testing.T, total, most int) {
	bubble(t, func(t *testing.T) {
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method != "events/stream" {
				return
			}
			from := 0
			_, _ = fmt.Sscanf(c.cursor(), "c%d", &from)
			go func() {
				p.active(c, fmt.Sprint("c", from))
				for i := from; i < total; i++ {
					p.event(c, id(i), fmt.Sprint("c", i+1))
				}
			}()
		}}
		var told []error
		r := newRig(t, &slowStore{memory.New(), time.Second})
		src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{MaxBuffered: most, OnError: func(err error) { told = append(told, err) }})
		detach := r.attach(t, src)
		time.Sleep(3 * time.Minute)
		if err := detach(); !errors.Is(err, context.Canceled) {
			t.Errorf("Attach() = %v, want it to go on", err)
		}
		if got := r.heard(); !slices.Equal(got, ids(0, total)) {
			t.Errorf("heard %d events, want %d, each once and in order", len(got), total)
		}
		if r.gaps() != 0 {
			t.Errorf("%d gaps, and nothing is missing", r.gaps())
		}
		if len(told) == 0 {
			t.Error("nothing overflowed")
		}
		for _, err := range told {
			if !errors.Is(err, mcpevents.ErrOverflow) {
				t.Errorf("OnError heard %v, want ErrOverflow alone", err)
			}
		}
	})
}

// C5: what the server answers decides whether it is tried again.
func TestC5Taxonomy(t *testing.T) {
	answer := func(kind mcpevents.Kind, code int64, data string) *mcpevents.Error {
		return &mcpevents.Error{Kind: kind, Code: code, Data: []byte(data)}
	}
	over := func(e *mcpevents.Error) error { return &mcpevents.TerminatedError{Cause: e} }
	for _, c := range []struct {
		name      string
		err       error
		permanent bool
		after     time.Duration
	}{
		{"resource exhausted", answer(mcpevents.ResourceExhausted, -32025, `{"limit":"streams"}`), false, 30 * time.Second},
		{"resource exhausted, for a time", answer(mcpevents.ResourceExhausted, -32025, `{"limit":"pollRate","retryAfterMs":2500}`), false, 2500 * time.Millisecond},
		{"resource exhausted, for ever", answer(mcpevents.ResourceExhausted, -32025, `{"retryAfterMs":1e300}`), false, time.Hour},
		{"invalid params", answer(mcpevents.InvalidParams, -32602, ``), true, 0},
		{"not found", answer(mcpevents.NotFound, -32023, ``), true, 0},
		{"forbidden", answer(mcpevents.Forbidden, -32024, ``), true, 0},
		{"unsupported", answer(mcpevents.Unsupported, -32026, ``), true, 0},
		{"callback", answer(mcpevents.CallbackEndpointError, -32027, ``), true, 0},
		{"internal", answer(mcpevents.Internal, -32603, ``), false, 0},
		{"method not found", answer(mcpevents.MethodNotFound, -32601, ``), true, 0},
		{"a number that nobody knows", answer("", -1, ``), true, 0},
		{"terminated: not found", over(answer(mcpevents.NotFound, -32023, ``)), true, 0},
		{"terminated: forbidden", over(answer(mcpevents.Forbidden, -32024, ``)), true, 0},
		{"terminated: internal", over(answer(mcpevents.Internal, -32603, ``)), false, 0},
		{"terminated: unsupported", over(answer(mcpevents.Unsupported, -32026, ``)), false, 0},
		{"terminated: exhausted", over(answer(mcpevents.ResourceExhausted, -32025, ``)), false, 30 * time.Second},
		{"terminated, and nothing else", over(nil), false, 0},
		{"terminated: unknown", over(answer("", 0, ``)), false, 0},
		{"ended", mcpevents.ErrEnded, false, 0},
		{"timeout", mcpevents.ErrTimeout, false, 0},
		{"idle", mcpevents.ErrIdle, false, 0},
		{"overflow", mcpevents.ErrOverflow, false, 0},
		{"reset", fmt.Errorf("%w: reset", mcpevents.ErrLost), false, 0},
		{"malformed", mcpevents.ErrProtocol, false, 0},
		{"too large", mcpevents.ErrTooLarge, false, 0},
		{"503", &mcpevents.StatusError{Status: 503}, false, 0},
		{"503 for a time", &mcpevents.StatusError{Status: 503, RetryAfter: 7 * time.Second}, false, 7 * time.Second},
		{"404", &mcpevents.StatusError{Status: 404}, false, 0},
		{"401", &mcpevents.StatusError{Status: 401}, true, 0},
		{"403", &mcpevents.StatusError{Status: 403}, true, 0},
		{"503 with an answer", errors.Join(&mcpevents.StatusError{Status: 503}, &mcpevents.Error{Code: -32000}), false, 0},
		{"401 with an answer", errors.Join(&mcpevents.StatusError{Status: 401}, mcpevents.ErrInternal), true, 0},
		{"400 with an answer", errors.Join(&mcpevents.StatusError{Status: 400}, mcpevents.ErrInvalidParams), true, 0},
		{"400 with an internal error", errors.Join(&mcpevents.StatusError{Status: 400}, mcpevents.ErrInternal), false, 0},
		{"400 with what is no answer of Events", errors.Join(&mcpevents.StatusError{Status: 400}, &mcpevents.Error{Code: -32000}), false, 0},
		{"404 to a session that is gone", fmt.Errorf("%w: %w", mcpevents.ErrClosed, errors.Join(&mcpevents.StatusError{Status: 404}, &mcpevents.Error{Code: -32001})), false, 0},
		{"429 that says for how long in its answer", errors.Join(&mcpevents.StatusError{Status: 429},
			&mcpevents.Error{Kind: mcpevents.ResourceExhausted, Data: []byte(`{"retryAfterMs":9000}`)}), false, 9 * time.Second},
		{"the extension is not offered", mcpevents.ErrNotOffered, true, 0},
		{"no mode", fmt.Errorf("%w: x", mcpevents.ErrNoMode), true, 0},
		{"no replay", mcpevents.ErrNoReplay, true, 0},
		{"closed, and made anew", fmt.Errorf("%w: EOF", mcpevents.ErrClosed), false, 0},
		{"the app says so", attend.Permanent(errors.New("enough")), true, 0},
		{"anything", errors.New("anything"), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := all(t, source(t, &script{end: c.err}, mcpsource.Config{}), "")
			if !errors.Is(err, c.err) {
				t.Errorf("Batches() ends with %v, want %v reachable", err, c.err)
			}
			if _, ok := errors.AsType[*attend.PermanentError](err); ok != c.permanent {
				t.Errorf("permanent: %t, want %t", ok, c.permanent)
			}
			var after time.Duration
			if e, ok := errors.AsType[*attend.RetryAfterError](err); ok {
				after = e.After
			}
			if after != c.after {
				t.Errorf("to be left alone for %v, want %v", after, c.after)
			}
		})
	}
	own := mcpsource.Config{Permanent: func(err error) bool { return errors.Is(err, mcpevents.ErrIdle) }}
	_, err := all(t, source(t, &script{end: mcpevents.ErrIdle}, own), "")
	if _, ok := errors.AsType[*attend.PermanentError](err); !ok {
		t.Errorf("Batches() ends with %v, want what Config.Permanent says", err)
	}
}

// C5, over the wire: Attach ends with the answer as a permanent error, or goes on.
func TestC5AnswersOverTheWire(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		terminated   bool
		want         error // nil: it goes on
	}{
		{"refused as forbidden", `{"code":-32024,"message":"Forbidden"}`, false, mcpevents.ErrForbidden},
		{"refused as invalid", `{"code":-32602,"message":"InvalidParams"}`, false, mcpevents.ErrInvalidParams},
		{"refused as exhausted", `{"code":-32025,"message":"ResourceExhausted","data":{"limit":"streams"}}`, false, nil},
		{"terminated as forbidden", `{"code":-32024,"message":"Forbidden"}`, true, mcpevents.ErrForbidden},
		{"terminated as gone", `{"code":-32023,"message":"NotFound","data":{"kind":"event"}}`, true, mcpevents.ErrNotFound},
		{"terminated in the old way", `{"code":-32012,"message":"Forbidden"}`, true, mcpevents.ErrForbidden},
		{"terminated as exhausted", `{"code":-32025,"message":"ResourceExhausted"}`, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := &peer{modes: `"push"`, serve: func(p *peer, k call) {
					switch {
					case k.Method != "events/stream":
					case c.terminated:
						p.active(k, "a")
						p.note(k, "terminated", `"error":`+c.answer)
					default:
						p.refuse(k, c.answer)
					}
				}}
				detach := newRig(t, nil).attach(t, source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{}))
				time.Sleep(10 * time.Minute)
				err := detach()
				_, permanent := errors.AsType[*attend.PermanentError](err)
				if c.want != nil && (!permanent || !errors.Is(err, c.want)) {
					t.Errorf("Attach() = %v, want a PermanentError that is %v", err, c.want)
				}
				n := len(p.seen("events/stream"))
				if c.want == nil && (!errors.Is(err, context.Canceled) || n < 15 || n > 21) {
					t.Errorf("Attach() = %v after %d streams in 10 minutes, want it to go on, one each half minute", err, n)
				}
			})
		})
	}
}

// C5: when the session closes the source ends, with an error that says so.
func TestC5AClosedSessionEndsTheSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.ServerConfig{}, nil)
		session := w.session(mcpevents.SessionConfig{})
		r := newRig(t, nil)
		done := make(chan error, 1)
		go func() { done <- r.Attach(t.Context(), repo, source(t, session, mcpsource.Config{})) }()
		time.Sleep(time.Second)
		_ = session.Close()
		err := <-done
		if _, ok := errors.AsType[*attend.PermanentError](err); !ok || !errors.Is(err, mcpevents.ErrClosed) || !strings.Contains(err.Error(), "the session is closed") {
			t.Errorf("Attach() = %v, want a PermanentError that says that the session is closed", err)
		}
	})
}

// C5 over HTTP: a reset and a 503 are plain, and nothing is lost.
func TestC5TroubleOfTheTransport(t *testing.T) {
	w := newWorld(t, mcpevents.ServerConfig{}, nil)
	inner := w.ev.Handler(w.mcp, mcpevents.HandlerConfig{})
	var streams atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Mcp-Method") != "events/stream" {
			inner.ServeHTTP(rw, req)
			return
		}
		switch streams.Add(1) {
		case 1: // cut in the middle of a frame
			_, _ = io.ReadAll(req.Body)
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: {\"jsonrpc\":")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case 2:
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusServiceUnavailable)
		default:
			inner.ServeHTTP(rw, req)
		}
	}))
	t.Cleanup(func() {
		_ = w.ev.Close()
		s.CloseClientConnections()
		s.Close()
	})
	session, err := over(t.Context(), s.URL, s.Client())
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer session.Close()
	r := newRig(t, nil)
	src := source(t, session, mcpsource.Config{})
	detach := r.attach(t, src)
	until(t, "a third stream", func() bool { return streams.Load() >= 3 && r.cursor(t, src) != "" })
	w.append(0, 3)
	r.untilHeard(t, ids(0, 3))
	if err := detach(); !errors.Is(err, context.Canceled) {
		t.Errorf("Attach() = %v, want it to go on", err)
	}
}

// C6: OnError hears of what does not end the subscription, and the subscription
// goes on.
func TestC6OnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method != "events/stream" {
				return
			}
			p.active(c, "c0")
			p.note(c, "error", `"error":{"code":-32603,"message":"upstream"}`)
			p.note(c, "event", wireEvent("odd", "c1", `{"n":"not a number"}`))
			p.noteTo(`"nobody"`, "event", wireEvent("stray", "c9", `{}`))
			p.write(`{"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":{}}`)
			p.event(c, "good", "c2")
		}}
		told, strays := make(chan error, 10), make(chan error, 10)
		r := newRig(t, nil)
		detach := r.attach(t, source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{OnError: func(err error) {
			if _, ok := errors.AsType[*mcpevents.StrayError](err); ok {
				strays <- err
			} else {
				told <- err
			}
		}}))
		time.Sleep(time.Second)
		if err := detach(); !errors.Is(err, context.Canceled) {
			t.Errorf("Attach() = %v, want it to go on", err)
		}
		if got := r.heard(); !slices.Equal(got, []string{"odd", "good"}) {
			t.Errorf("heard %v, want odd and good", got)
		}
		if len(told) != 2 || len(strays) != 2 {
			t.Fatalf("OnError heard %d times, and %d strays, want 2 and 2", len(told), len(strays))
		}
		if e, ok := errors.AsType[*mcpevents.FailureError](<-told); !ok || e.Cause.Message != "upstream" {
			t.Errorf("OnError first heard %v, want the server's failure", e)
		}
		if e, ok := errors.AsType[*mcpevents.MismatchError](<-told); !ok || e.ID != "odd" {
			t.Errorf("OnError then heard %v, want the mismatch of odd", e)
		}
		for _, want := range []string{"notifications/events/event", "notifications/events/heartbeat"} {
			if e, ok := errors.AsType[*mcpevents.StrayError](<-strays); !ok || e.Method != want {
				t.Errorf("a stray %v, want %s", e, want)
			}
		}
	})
}
