package server_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// A sick store answers its log's bounds as it is told to.
type sick struct {
	attend.ScopeStore
	asked atomic.Int64

	mu   sync.Mutex
	err  error
	hang chan struct{} // not nil: it answers when this is closed, whatever the context says
}

func (s *sick) be(err error, hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.hang = err, hang
}

func (s *sick) Log() attend.DecisionLog { return sickLog{s.ScopeStore.Log(), s} }

type sickLog struct {
	attend.DecisionLog
	s *sick
}

func (l sickLog) Bounds(ctx context.Context) (attend.Bounds, error) {
	l.s.asked.Add(1)
	l.s.mu.Lock()
	err, hang := l.s.err, l.s.hang
	l.s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if err != nil {
		return attend.Bounds{}, err
	}
	return l.DecisionLog.Bounds(ctx)
}

func (l sickLog) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return l.DecisionLog.Read(ctx, q)
}

func TestReadinessAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{ScopeStore: memory.New()}
		w := newWorld(t, engine.Config{Store: store}, server.Config{StoreTimeout: time.Second})
		if got := w.ask("GET", "/readyz", ""); got.status != 200 || !strings.Contains(got.body, `"status":"ready"`) {
			t.Errorf("GET /readyz = %d %s, want ready", got.status, got.body)
		}

		store.be(errors.New("secret: the disk is gone"), nil)
		time.Sleep(time.Second)
		got := w.ask("GET", "/readyz", "")
		if got.status != 503 || got.header.Get("Retry-After") == "" || strings.Contains(got.problem(t), "secret") {
			t.Errorf("with a store that fails = %d %s, want 503, a time to try again, and no cause", got.status, got.body)
		}
		if got := w.ask("GET", "/healthz", ""); got.status != 200 {
			t.Errorf("GET /healthz with a store that fails = %d, want 200", got.status)
		}

		// One that hangs is asked once, however many want to know, and they are
		// answered in time.
		hang := make(chan struct{})
		store.be(nil, hang)
		time.Sleep(time.Second)
		before, began := store.asked.Load(), time.Now()
		var many sync.WaitGroup
		for range 20 {
			many.Go(func() {
				if got := w.ask("GET", "/readyz", ""); got.status != 503 {
					t.Errorf("with a store that hangs = %d, want 503", got.status)
				}
			})
		}
		many.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("a store that hangs was waited for %v, want StoreTimeout", took)
		}
		if n := store.asked.Load() - before; n != 1 {
			t.Errorf("a store that hangs was asked %d times, want once", n)
		}

		close(hang)
		store.be(nil, nil)
		time.Sleep(time.Second)
		if got := w.ask("GET", "/readyz", ""); got.status != 200 {
			t.Errorf("with a store that is well again = %d %s, want 200", got.status, got.body)
		}
		// Whoever asks all the time does not load the store.
		before = store.asked.Load()
		for range 100 {
			w.ask("GET", "/readyz", "")
		}
		if n := store.asked.Load() - before; n > 0 {
			t.Errorf("100 questions at once reached the store %d times", n)
		}
	})
}

// A judge's account that fails is told in a 200.
func TestReadinessTellsOfTheJudgesAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge := &attendtest.Judge{Script: []attendtest.Answer{attendtest.FailAccount(), {Route: attend.RouteQueue}}}
		w := newWorld(t, engine.Config{Judge: judge}, server.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.engine.Run(ctx) }()
		if got := w.ask("GET", "/readyz", ""); got.status != 200 || !strings.Contains(got.body, `"judgeAccount":"works"`) {
			t.Errorf("before = %d %s, want a judge that works", got.status, got.body)
		}
		if _, err := w.engine.Push(ctx, "ops", attend.Event{ID: "1", Name: "flush.x"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := w.ask("GET", "/readyz", ""); got.status != 200 || !strings.Contains(got.body, `"judgeAccount":"fails"`) {
			t.Errorf("while it fails = %d %s, want a 200 that says so", got.status, got.body)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.ask("GET", "/readyz", ""); got.status != 200 || !strings.Contains(got.body, `"judgeAccount":"works"`) {
			t.Errorf("afterwards = %d %s, want a judge that works", got.status, got.body)
		}
		cancel()
		<-done
	})
}

// An app with an HTTP server of its own drains by itself.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, server.Config{})
		if err := w.server.Drain(t.Context()); err != nil {
			t.Errorf("Drain = %v, want nil where nothing is under way", err)
		}
		if got := w.ask("GET", "/readyz", ""); got.status != 503 || !strings.Contains(got.problem(t), "draining") {
			t.Errorf("readiness = %d %s, want 503, draining", got.status, got.body)
		}
		if got := w.ask("GET", "/healthz", ""); got.status != 200 {
			t.Errorf("health = %d, want 200", got.status)
		}
		got := w.ask("GET", "/v1/decisions", "")
		if got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("a request = %d, want 503 with a time to try again", got.status)
		}
		got.problem(t)
	})
}
