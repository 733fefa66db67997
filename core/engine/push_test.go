package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// numbered returns n events of a name, with ids from prefix-0 on.
func numbered(prefix, name string, n int) []attend.Event {
	out := make([]attend.Event, n)
	for i := range out {
		out[i] = attend.Event{ID: fmt.Sprintf("%s-%d", prefix, i), Name: name}
	}
	return out
}

// E2: a push with an event that breaks a rule fails whole, and names its place.
func TestE2ABadEventFailsThePushAndIsNamed(t *testing.T) {
	good := attend.Event{ID: "good", Name: "closing.x"}
	for _, row := range []struct {
		name string
		bad  attend.Event
		is   error // nil: any
	}{
		{"no id", attend.Event{Name: "closing.x"}, attend.ErrInvalid},
		{"control character in the id", attend.Event{ID: "a\nb", Name: "closing.x"}, attend.ErrInvalid},
		{"no name", attend.Event{ID: "b"}, attend.ErrInvalid},
		{"id over 256 bytes", attend.Event{ID: strings.Repeat("x", 257), Name: "closing.x"}, attend.ErrInvalid},
		{"data is no JSON", attend.Event{ID: "b", Name: "closing.x", Data: []byte("{")}, attend.ErrInvalid},
		{"over 1 MiB", attend.Event{ID: "b", Name: "closing.x", Text: strings.Repeat("x", 1<<20)}, attend.ErrTooLarge},
		{"unknown kind", attend.Event{ID: "b", Name: "closes.x"}, attend.ErrInvalid},
		{"empty kind", attend.Event{ID: "b", Name: ".x"}, attend.ErrInvalid},
		{"kind panics", attend.Event{ID: "b", Name: "panic.x"}, nil},
		{"source set by the caller", attend.Event{ID: "b", Name: "closing.x", Source: "feed"}, attend.ErrInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				store := &spy{ScopeStore: cfg.Store}
				cfg.Store = store
				cfg.Kind = func(v attend.Event) attend.Kind {
					if strings.HasPrefix(v.Name, "panic") {
						panic("no such name")
					}
					return kinds(v)
				}
				e := newEngine(t, cfg)
				r, err := e.Push(t.Context(), "repo", good, good, row.bad, good)
				at, ok := errors.AsType[*attend.EventError](err)
				if !ok || at.Index != 2 {
					t.Fatalf("Push() = %v, want an EventError of place 2", err)
				}
				if row.is != nil && !errors.Is(err, row.is) {
					t.Errorf("Push() = %v, want %v", err, row.is)
				}
				if r != (engine.Receipt{}) || store.commits() != 0 {
					t.Errorf("Push() = %+v with %d commits, want nothing taken", r, store.commits())
				}
			})
		})
	}
}

// E2: the kind is asked once, when the event is taken in, and what a producer
// put there is not seen by anybody.
func TestE2TheKindIsAskedOnceAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		cfg := config()
		cfg.Kind = func(v attend.Event) attend.Kind {
			if v.Kind != "" {
				t.Errorf("Kind sees %q on the event, want none", v.Kind)
			}
			if asked++; asked > 1 {
				return attend.KindConsequence // a later change of the function
			}
			return attend.KindClosing
		}
		f := start(t, cfg)
		if _, err := f.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "x", Kind: attend.KindFlush}); err != nil {
			t.Fatal(err)
		}
		sleep(time.Minute)
		calls := f.judge.Calls()
		if len(calls) != 1 || calls[0].Window.Events[0].Kind != attend.KindClosing || asked != 1 {
			t.Fatalf("judged %+v after %d questions, want one closing event and one question", calls, asked)
		}
	})
}

func TestE1EventsGetWhatTheirProducerLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, config())
		own := time.UnixMilli(1_000_000_000_123)
		now := time.Now()
		if _, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "closing.x"}, attend.Event{ID: "b", Name: "closing.x", At: own}); err != nil {
			t.Fatal(err)
		}
		w, err := e.Window(t.Context(), "repo")
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Events[0]; !got.At.Equal(now) || string(got.Data) != "{}" || got.Source != "" {
			t.Errorf("event %+v, want the time of its arrival, {} and no source", got)
		}
		if got := w.Events[1].At; !got.Equal(own) {
			t.Errorf("at = %v, want the producer's %v", got, own)
		}
		if w.Scope != "repo" || w.Reason != "" {
			t.Errorf("window of %q with reason %q, want repo and none", w.Scope, w.Reason)
		}
	})
}

func TestE31TheLimitsOfAPush(t *testing.T) {
	big := func(n, size int) []attend.Event {
		out := numbered("big", "consequence.x", n)
		for i := range out {
			out[i].Text = strings.Repeat("x", size)
		}
		return out
	}
	for _, row := range []struct {
		name   string
		events []attend.Event
		ok     bool
	}{
		{"10,000 events", numbered("a", "closing.x", engine.MaxPushEvents), true},
		{"10,001 events", numbered("a", "closing.x", engine.MaxPushEvents+1), false},
		{"just under 16 MiB", big(16, 1<<20-400), true},
		{"over 16 MiB", big(17, 1<<20-400), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, config())
				r, err := e.Push(t.Context(), "repo", row.events...)
				switch {
				case row.ok && (err != nil || r.New != len(row.events)):
					t.Errorf("Push() = %+v, %v, want all taken", r, err)
				case !row.ok && !errors.Is(err, attend.ErrTooLarge):
					t.Errorf("Push() = %v, want ErrTooLarge", err)
				}
				if w, _ := e.Window(t.Context(), "repo"); !row.ok && len(w.Events) != 0 {
					t.Errorf("%d events taken, want none", len(w.Events))
				}
			})
		})
	}
}

func TestPushOfABadScopeOrOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		e := newEngine(t, cfg)
		v := attend.Event{ID: "a", Name: "closing.x"}
		for _, scope := range []attend.Scope{"", "a\x00b", attend.Scope(strings.Repeat("x", 513)), "\xff"} {
			if _, err := e.Push(t.Context(), scope, v); !errors.Is(err, attend.ErrInvalid) {
				t.Errorf("Push(%.9q) = %v, want ErrInvalid", scope, err)
			}
			if err := e.Flush(t.Context(), scope); !errors.Is(err, attend.ErrInvalid) {
				t.Errorf("Flush(%.9q) = %v, want ErrInvalid", scope, err)
			}
			if err := e.End(t.Context(), scope); !errors.Is(err, attend.ErrInvalid) {
				t.Errorf("End(%.9q) = %v, want ErrInvalid", scope, err)
			}
			if err := e.Remove(t.Context(), scope); !errors.Is(err, attend.ErrInvalid) {
				t.Errorf("Remove(%.9q) = %v, want ErrInvalid", scope, err)
			}
			if _, err := e.Window(t.Context(), scope); !errors.Is(err, attend.ErrInvalid) {
				t.Errorf("Window(%.9q) = %v, want ErrInvalid", scope, err)
			}
		}
		if r, err := e.Push(t.Context(), "repo"); r != (engine.Receipt{}) || err != nil {
			t.Errorf("Push() of nothing = %+v, %v, want nothing and no error", r, err)
		}
		if n := store.commits(); n != 0 {
			t.Errorf("%d commits, want none", n)
		}
	})
}

// E31: a receipt says how many were new and how many duplicates, and E3: one
// that was seen changes nothing.
func TestE31Receipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		e := newEngine(t, cfg)
		for i, row := range []struct {
			events []attend.Event
			want   engine.Receipt
		}{
			{numbered("a", "closing.x", 3), engine.Receipt{New: 3}},
			{numbered("a", "closing.x", 5), engine.Receipt{New: 2, Duplicates: 3}},
			{numbered("a", "closing.x", 5), engine.Receipt{Duplicates: 5}},
			{append(numbered("b", "closing.x", 1), numbered("b", "closing.x", 1)...), engine.Receipt{New: 1, Duplicates: 1}},
		} {
			if got, err := e.Push(t.Context(), "repo", row.events...); got != row.want || err != nil {
				t.Errorf("push %d = %+v, %v, want %+v", i, got, err, row.want)
			}
		}
		if got, err := e.Push(t.Context(), "other", numbered("a", "closing.x", 3)...); got.New != 3 || err != nil {
			t.Errorf("the same ids in another scope = %+v, %v, want 3 new", got, err)
		}
		if n := len(store.writes("repo")); n != 3 {
			t.Errorf("%d writes, want 3: duplicates alone are not written", n)
		}
	})
}

// E31: a push of duplicates is answered no sooner than the write with their
// originals.
func TestE31ADuplicateIsAnsweredNoSoonerThanItsOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Store = &spy{ScopeStore: cfg.Store, commitTakes: time.Second}
		e := newEngine(t, cfg)
		begun := time.Now()
		first := make(chan time.Duration)
		go func() {
			push(t, e, "repo", "a", "closing.x")
			first <- time.Since(begun)
		}()
		sleep(400 * time.Millisecond)
		r, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "closing.x"})
		second := time.Since(begun)
		if r.Duplicates != 1 || err != nil {
			t.Errorf("Push() = %+v, %v, want a duplicate", r, err)
		}
		if d := <-first; d != time.Second || second < d {
			t.Errorf("answers after %v and %v, want the duplicate's no sooner than the original's second", d, second)
		}
	})
}

// The same where the original's write fails: nobody may be told that the event
// is safe.
func TestE31ADuplicateOfAWriteThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		down := errors.New("disk full")
		cfg.Store = &spy{ScopeStore: cfg.Store, commitTakes: time.Second, refuse: func(int, []attend.Write) error { return down }}
		e := newEngine(t, cfg)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "closing.x"})
				errs <- err
			}()
			sleep(time.Millisecond)
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, down) {
				t.Errorf("Push() = %v, want the store's error", err)
			}
		}
	})
}

func TestPushWhoseContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		e := newEngine(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Push(ctx, "repo", attend.Event{ID: "a", Name: "closing.x"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Push() = %v, want Canceled", err)
		}
		if err := e.Flush(ctx, "repo"); !errors.Is(err, context.Canceled) {
			t.Errorf("Flush() = %v, want Canceled", err)
		}
		if n := store.commits(); n != 0 {
			t.Errorf("%d commits, want none", n)
		}
	})
}

// A push that waits behind another's commit returns when its context ends, and
// may have landed: pushing again is safe.
func TestPushWhoseContextEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Store = &spy{ScopeStore: cfg.Store, commitTakes: time.Second}
		e := newEngine(t, cfg)
		go push(t, e, "repo", "a", "consequence.x")
		sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := e.Push(ctx, "repo", attend.Event{ID: "b", Name: "consequence.x"})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("Push() = %v after %v, want DeadlineExceeded after 100ms", err, time.Since(begun))
		}
		sleep(5 * time.Second)
		if r, err := e.Push(t.Context(), "repo", attend.Event{ID: "b", Name: "consequence.x"}); r.New+r.Duplicates != 1 || err != nil {
			t.Errorf("Push() again = %+v, %v, want it taken once", r, err)
		}
		if w, _ := e.Window(t.Context(), "repo"); len(w.Events) != 2 {
			t.Errorf("%d events, want a and b once each", len(w.Events))
		}
	})
}

// A push that commits itself returns when the store has answered.
func TestPushWhoseContextEndsWhileItCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Store = &spy{ScopeStore: cfg.Store, commitTakes: time.Second}
		e := newEngine(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		r, err := e.Push(ctx, "repo", attend.Event{ID: "a", Name: "closing.x"})
		if r.New != 1 || err != nil || time.Since(begun) != time.Second {
			t.Errorf("Push() = %+v, %v after %v, want it taken after a second", r, err, time.Since(begun))
		}
	})
}

// E9: Flush and End settle what is open, and do nothing and make no state where
// nothing is.
func TestE9FlushAndEnd(t *testing.T) {
	for _, row := range []struct {
		name string
		f    func(*engine.Engine, context.Context, attend.Scope) error
		want attend.Reason
		wait bool
	}{
		{"Flush", (*engine.Engine).Flush, attend.ReasonForced, false},
		{"End", (*engine.Engine).End, attend.ReasonClosing, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memory.New()
				store := &spy{ScopeStore: mem}
				judge := new(attendtest.Judge)
				cfg := config()
				cfg.Store, cfg.Judge = store, judge
				f := start(t, cfg)
				if err := row.f(f.Engine, t.Context(), "empty"); err != nil {
					t.Errorf("on nothing = %v, want nil", err)
				}
				if n := store.commits(); n != 0 {
					t.Errorf("%d commits on nothing, want none", n)
				}
				push(t, f.Engine, "repo", "a", "passive.x")
				if err := row.f(f.Engine, t.Context(), "repo"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				calls := judge.Calls()
				if len(calls) != 1 || calls[0].Window.Reason != row.want {
					t.Fatalf("judged %+v, want one window settled %s", calls, row.want)
				}
				if got := calls[0].Routes[len(calls[0].Routes)-1] == attend.RouteWait; got != row.wait {
					t.Errorf("wait offered: %v, want %v", got, row.wait)
				}
			})
		})
	}
}
