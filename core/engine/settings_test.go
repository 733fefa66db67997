package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// E48: a process with other settings works what one with the old ones left.
func TestE48DueWorkOfOtherSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		cfg := config()
		cfg.Store = store
		old, err := engine.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		push(t, old, "repo", "a", "closing.x")

		cfg = config(route(attend.RouteQueue))
		cfg.Store = store.Reopen()
		cfg.Settle.ClosingGrace = 700 * time.Millisecond
		f := start(t, cfg)
		sleep(10 * time.Second)
		if got := f.sink.Delivered(); len(got) != 1 {
			t.Fatalf("delivered %d decisions, want 1", len(got))
		}
		s, err := f.State(t.Context(), "repo")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Policy().ClosingGrace; got != 700*time.Millisecond {
			t.Errorf("the scope has ClosingGrace %v, want that of the process that worked it", got)
		}
	})
}

// E42, E48: an idle scope expires in a process with other settings too, and
// costs no more than that.
func TestE48ExpiryUnderOtherSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		cfg := config()
		cfg.Store = store
		cfg.IdleExpiry = time.Minute
		old, err := engine.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		push(t, old, "repo", "a", "consequence.x")

		cfg = config()
		cfg.Store = store.Reopen()
		cfg.IdleExpiry = time.Minute
		cfg.Settle.ClosingGrace = 700 * time.Millisecond
		start(t, cfg)
		sleep(2 * time.Minute)
		rec, err := store.Load(t.Context(), "repo")
		if err != nil || rec.Version != 0 {
			t.Errorf("Load() = version %d, %v, want no such scope", rec.Version, err)
		}
	})
}

// E39: a function that is nil within its interface, and timeouts that no lease
// can have.
func TestE39HollowAndEndless(t *testing.T) {
	for name, change := range map[string]func(*engine.Config){
		"Judge":           func(c *engine.Config) { c.Judge = attend.JudgeFunc(nil) },
		"Sink":            func(c *engine.Config) { c.Sink = attend.SinkFunc(nil) },
		"DeadLetter":      func(c *engine.Config) { c.DeadLetter = attend.LetterFunc(nil) },
		"JudgeTimeout":    func(c *engine.Config) { c.JudgeTimeout = time.Microsecond },
		"DeliveryTimeout": func(c *engine.Config) { c.DeliveryTimeout = 1 << 62 },
	} {
		cfg := engine.Config{
			Store: memory.New(), Kind: kinds, Judge: new(attendtest.Judge), Sink: new(attendtest.Sink), DeadLetter: new(attendtest.Letters),
		}
		change(&cfg)
		_, err := engine.New(cfg)
		if invalid, ok := errors.AsType[*attend.InvalidError](err); !ok || invalid.Field != name {
			t.Errorf("New() with a bad %s = %v, want an error that names it", name, err)
		}
	}
}
