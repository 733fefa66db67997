package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// kinds takes the kind from the part of an event's name before the dot.
func kinds(e attend.Event) attend.Kind {
	kind, _, _ := strings.Cut(e.Name, ".")
	return attend.Kind(kind)
}

// A fixture is an engine on a memory store with a scripted judge and a
// recording sink, run until the test ends.
type fixture struct {
	*engine.Engine
	store   *memory.Store
	judge   *attendtest.Judge
	sink    *attendtest.Sink
	letters *attendtest.Letters
	stop    func() // ends Run and waits for it
}

func config(judge ...attendtest.Answer) engine.Config {
	return engine.Config{
		Store: memory.New(), Kind: kinds, Judge: &attendtest.Judge{Script: judge},
		Sink: new(attendtest.Sink), DeadLetter: new(attendtest.Letters), Logger: slog.New(slog.DiscardHandler),
	}
}

func start(t *testing.T, cfg engine.Config) *fixture {
	t.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Engine: e}
	f.store, _ = cfg.Store.(*memory.Store)
	f.judge, _ = cfg.Judge.(*attendtest.Judge)
	f.sink, _ = cfg.Sink.(*attendtest.Sink)
	f.letters, _ = cfg.DeadLetter.(*attendtest.Letters)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		checkPermits(t, e, cfg.MaxCalls)
	}
	t.Cleanup(f.stop)
	synctest.Wait()
	return f
}

func push(t *testing.T, e *engine.Engine, scope attend.Scope, id, name string) {
	t.Helper()
	if _, err := e.Push(t.Context(), scope, attend.Event{ID: id, Name: name}); err != nil {
		t.Errorf("Push(%q, %s) = %v, want nil", scope, id, err)
	}
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func fail() attendtest.Answer { return attendtest.Fail() }

func route(r attend.Route) attendtest.Answer {
	return attendtest.Answer{Route: r}
}

func TestABuildIsJudgedAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config(route(attend.RouteQueue)))
		push(t, f.Engine, "repo", "done-1", "closing.build")
		sleep(499 * time.Millisecond)
		if n := len(f.judge.Calls()); n != 0 {
			t.Errorf("judged %d times inside the grace, want 0", n)
		}
		sleep(time.Millisecond)
		if got := f.sink.Delivered(); len(got) != 1 || got[0].Route != attend.RouteQueue {
			t.Errorf("delivered %v, want one queue", got)
		}
	})
}
