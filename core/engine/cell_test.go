package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
)

// pair are two processes on one store: the first runs, the second only pushes.
func pair(t *testing.T, cfg engine.Config) (runs *fixture, pushes *engine.Engine) {
	t.Helper()
	other := cfg
	other.Store = cfg.Store.(*memory.Store).Reopen()
	return start(t, cfg), newEngine(t, other)
}

// E9: Flush settles what another process has pushed since this one saw the
// scope.
func TestE9FlushOfWhatAnotherProcessPushed(t *testing.T) {
	for _, row := range []struct {
		name   string
		settle func(t *testing.T, e *engine.Engine) error
		want   attend.Reason
	}{
		{"Flush", func(t *testing.T, e *engine.Engine) error { return e.Flush(t.Context(), "repo") }, attend.ReasonForced},
		{"End", func(t *testing.T, e *engine.Engine) error { return e.End(t.Context(), "repo") }, attend.ReasonClosing},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, other := pair(t, config())
				push(t, f.Engine, "repo", "a", "flush.x")
				sleep(time.Second) // judged and delivered; nothing is open as far as f knows
				push(t, other, "repo", "b", "passive.x")
				if err := row.settle(t, f.Engine); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := f.sink.Delivered(); len(got) != 2 || got[1].Window.Reason != row.want {
					t.Errorf("delivered %v, want a second window, %s", got, row.want)
				}
			})
		})
	}
}

// E26: a process that only pushes sees that another has drained the lane.
func TestE26AFullLaneThatAnotherProcessDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.MaxOutbox = 1
		cfg.Judge = attend.RuleJudge
		other := cfg
		other.Store = cfg.Store.(*memory.Store).Reopen()
		e := newEngine(t, other)
		push(t, e, "repo", "a", "flush.x") // judged at once, its lane is full
		if _, err := e.Push(t.Context(), "repo", attend.Event{ID: "b", Name: "flush.x"}); !errors.Is(err, attend.ErrOutboxFull) {
			t.Fatalf("Push() = %v, want ErrOutboxFull", err)
		}
		f := start(t, cfg)
		sleep(5 * time.Second)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Fatalf("%d delivered by the other, want 1", n)
		}
		push(t, e, "repo", "b", "flush.x")
		sleep(5 * time.Second)
	})
}

// A scope that was removed knows none of its events any more.
func TestRemoveForgetsWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config())
		push(t, f.Engine, "repo", "a", "closing.x")
		if err := f.Remove(t.Context(), "repo"); err != nil {
			t.Fatal(err)
		}
		sleep(time.Minute)
		if n := len(f.judge.Calls()); n != 0 {
			t.Errorf("judged %d times after Remove, want 0", n)
		}
		if r, err := f.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "closing.x"}); r.New != 1 || err != nil {
			t.Errorf("Push() = %+v, %v, want it new", r, err)
		}
		sleep(time.Minute)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered, want 1", n)
		}
		if err := f.Remove(t.Context(), "unknown"); err != nil {
			t.Errorf("Remove(unknown) = %v, want nil", err)
		}
	})
}

// Remove while a write of the scope is under way: what is pushed afterwards is
// judged by what is there then.
func TestRemoveWhileAWriteIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		cfg := config()
		store := &spy{ScopeStore: mem}
		cfg.Store = store
		e := newEngine(t, cfg)
		push(t, e, "repo", "a", "consequence.x")
		store.change(func() { store.commitTakes = time.Second })
		done := make(chan struct{})
		go func() {
			push(t, e, "repo", "b", "consequence.x")
			close(done)
		}()
		sleep(100 * time.Millisecond)
		if err := e.Remove(t.Context(), "repo"); err != nil {
			t.Fatal(err)
		}
		r, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "consequence.x"})
		if r.New != 1 || err != nil {
			t.Errorf("Push() = %+v, %v, want a new again", r, err)
		}
		<-done
		if w, _ := e.Window(t.Context(), "repo"); len(w.Events) != 2 {
			t.Errorf("%d events, want b and a", len(w.Events))
		}
	})
}

// E34: a scope whose time is an hour ahead, from a process with a wrong clock,
// stops nobody for an hour.
func TestE34AClockThatWasAnHourAhead(t *testing.T) {
	for _, row := range []struct {
		name   string
		budget int // ResidentBytes
	}{{"resident", 0}, {"memory is short", 1}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.ResidentBytes = row.budget
				f := start(t, cfg)
				ahead(t, cfg, "repo", time.Hour)
				push(t, f.Engine, "repo", "done", "closing.x")
				if row.budget > 0 {
					for i := range 100 {
						push(t, f.Engine, attend.Scope(fmt.Sprint("other-", i)), "a", "consequence.x")
					}
				}
				sleep(499 * time.Millisecond)
				if n := len(f.judge.Calls()); n != 0 {
					t.Errorf("judged %d times inside the grace, want 0", n)
				}
				sleep(2 * time.Millisecond)
				if n := len(f.sink.Delivered()); n != 1 {
					t.Errorf("%d delivered after the grace, want 1", n)
				}
			})
		})
	}
}

// ahead brings an output event into a scope at a time of a wrong clock.
func ahead(t *testing.T, cfg engine.Config, scope attend.Scope, by time.Duration) {
	t.Helper()
	p, err := cfg.Policy()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(by)
	_, eff, err := engine.Apply(t.Context(), cfg.Store, scope, p, machine.Arrive{
		At: at, Events: []attend.Event{{ID: "wrong", At: at, Name: "consequence.x", Kind: attend.KindConsequence}},
	})
	if err != nil || eff.Fresh != 1 {
		t.Fatalf("Apply() = %+v, %v, want one event", eff, err)
	}
}

// E34: retries and leases count in the scope's own time as well.
func TestE34RetriesOfAScopeThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(fail(), fail(), route(attend.RouteQueue))
		f := start(t, cfg)
		ahead(t, cfg, "repo", time.Hour)
		begun := time.Now()
		push(t, f.Engine, "repo", "hi", "flush.x")
		var at []time.Duration
		for range 7000 {
			if n := len(f.judge.Calls()); n > len(at) {
				at = append(at, time.Since(begun))
			}
			sleep(time.Millisecond)
		}
		if len(at) != 3 || at[1] < time.Second || at[1] > 1003*time.Millisecond || at[2] < 5*time.Second || at[2] > 5010*time.Millisecond {
			t.Errorf("judged after %v, want some 0, 1 and 5 s", at)
		}
	})
}

// E34: a process whose clock is behind goes on from the scope's time.
func TestE34TimeNeverRunsBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		e := newEngine(t, cfg)
		ahead(t, cfg, "repo", time.Hour)
		want := time.Now().Add(time.Hour)
		push(t, e, "repo", "a", "consequence.x")
		for range 3 {
			time.Sleep(10 * time.Second)
			want = want.Add(10 * time.Second)
			push(t, e, "repo", "b"+want.String(), "consequence.x")
			s, err := e.State(t.Context(), "repo")
			if got := s.Now(); err != nil || !got.Equal(want) {
				t.Errorf("the scope's time is %v (%v), want %v", got, err, want)
			}
		}
	})
}
