package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
)

// attempts records when a sink or a handler was called, and with what.
type attempts struct {
	mu    sync.Mutex
	begun time.Time
	said  []string
}

func (a *attempts) add(what any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, fmt.Sprintf("%v %v", time.Since(a.begun), what))
}

// list is what was recorded so far.
func (a *attempts) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

func rows(t *testing.T, e *engine.Engine, types ...attend.RowType) (out []attend.Row) {
	t.Helper()
	for r, err := range e.Log().Read(t.Context(), attend.Query{Types: types}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Row)
	}
	return out
}

// E24: a failed delivery is retried like a judge, after 1 s, 4 s and 16 s, and
// then it is a dead letter of stage sink that carries the decision.
func TestE24ADeliveryThatFails(t *testing.T) {
	for _, row := range []struct {
		name     string
		err      func(n int) error
		want     []string
		attempts int // of the dead letter; 0: none
	}{
		{"four times", func(int) error { return errDown }, []string{"0s", "1s", "5s", "21s"}, 4},
		{"three times", func(n int) error {
			if n < 4 {
				return errDown
			}
			return nil
		}, []string{"0s", "1s", "5s", "21s"}, 0},
		{"for good", func(int) error { return attend.Permanent(errDown) }, []string{"0s"}, 1},
		{"with a retry-after", func(n int) error {
			if n == 1 {
				return &attend.RetryAfterError{After: 7 * time.Second, Err: errDown}
			}
			return nil
		}, []string{"0s", "7s"}, 0},
		{"by a panic", func(n int) error {
			if n == 1 {
				panic("no")
			}
			return nil
		}, []string{"0s", "1s"}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, n := time.Now(), 0
				var at []string
				cfg := config(route(attend.RouteAsk))
				cfg.Sink = attend.SinkFunc(func(context.Context, attend.Decision) error {
					n++
					at = append(at, time.Since(begun).String())
					return row.err(n)
				})
				f := start(t, cfg)
				push(t, f.Engine, "repo", "a", "flush.x")
				sleep(2 * time.Minute)
				if !slices.Equal(at, row.want) {
					t.Errorf("delivered at %v, want %v", at, row.want)
				}
				letters := f.letters.Taken()
				if row.attempts == 0 {
					if len(letters) != 0 {
						t.Errorf("dead letters %v, want none", letters)
					}
					return
				}
				if len(letters) != 1 {
					t.Fatalf("%d dead letters, want one", len(letters))
				}
				l := letters[0]
				if l.Stage != attend.StageSink || l.Attempts != row.attempts || l.Message != errDown.Error() || l.Decision == nil || l.Decision.Route != attend.RouteAsk || l.ID != l.Decision.ID {
					t.Errorf("dead letter %+v, want stage sink, %d attempts, the decision and its id", l, row.attempts)
				}
			})
		})
	}
}

// E24: one at a time a scope, oldest first, though one of them fails for a
// while; other scopes are not held back.
func TestE24OneAtATimeOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{begun: time.Now()}
		var mu sync.Mutex
		busy := map[attend.Scope]bool{}
		cfg := config()
		cfg.Sink = attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			scope, id := d.Scope(), d.Window.Events[0].ID
			mu.Lock()
			if busy[scope] {
				t.Errorf("two deliveries of %s at a time", scope)
			}
			busy[scope] = true
			mu.Unlock()
			a.add(fmt.Sprint(scope, " ", id))
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			busy[scope] = false
			mu.Unlock()
			if scope == "repo" && id == "1" && time.Since(a.begun) < 4*time.Second {
				return errDown
			}
			return nil
		})
		f := start(t, cfg)
		for i := range 4 {
			push(t, f.Engine, "repo", fmt.Sprint(i), "flush.x")
			sleep(50 * time.Millisecond)
		}
		push(t, f.Engine, "other", "0", "flush.x")
		sleep(time.Minute)
		want := []string{
			"0s repo 0", "100ms repo 1", "200ms other 0", "1.2s repo 1",
			"5.3s repo 1", "5.4s repo 2", "5.5s repo 3",
		}
		if !slices.Equal(a.list(), want) {
			t.Errorf("deliveries %q, want %q", a.list(), want)
		}
	})
}

// E24: 10 s, and the delivery's context ends; a success at the last moment of
// its lease, twice that, counts.
func TestE24TheDeliveryTimeout(t *testing.T) {
	for _, row := range []struct {
		name     string
		takes    time.Duration // 0: until the context ends
		attempts int
	}{{"hangs", 0, 2}, {"answers within the lease", 19 * time.Second, 1}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, ended := 0, time.Duration(0)
				cfg := config()
				cfg.Sink = attend.SinkFunc(func(ctx context.Context, _ attend.Decision) error {
					if calls++; calls > 1 {
						return nil
					}
					begun := time.Now()
					<-ctx.Done()
					ended = time.Since(begun)
					if row.takes == 0 {
						return ctx.Err()
					}
					time.Sleep(row.takes - ended)
					return nil
				})
				f := start(t, cfg)
				push(t, f.Engine, "repo", "a", "flush.x")
				sleep(2 * time.Minute)
				if ended != 10*time.Second || calls != row.attempts {
					t.Errorf("the context ended after %v, %d attempts, want 10s and %d", ended, calls, row.attempts)
				}
				if s, _ := f.State(t.Context(), "repo"); len(s.Decisions()) != 0 || len(f.letters.Attempts()) != 0 {
					t.Error("a decision or a dead letter is left, want the delivery counted")
				}
			})
		})
	}
}

// E25: dead letters have a lane of their own: one that nobody takes holds back
// neither decisions nor the others, is retried by RetryBackoff and then with
// doubling up to 60 s, and is never dropped.
func TestE25DeadLettersHoldBackNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{begun: time.Now()}
		cfg := config(attendtest.FailPermanently(), attendtest.FailPermanently(), route(attend.RouteQueue))
		cfg.DeadLetter = attend.LetterFunc(func(_ context.Context, l attend.DeadLetter) error {
			id := l.Window.Events[0].ID
			a.add(id)
			if id == "bad" {
				return attend.Permanent(errDown) // permanent or not: a letter is never given up
			}
			return nil
		})
		f := start(t, cfg)
		push(t, f.Engine, "repo", "bad", "flush.x")
		sleep(100 * time.Millisecond)
		push(t, f.Engine, "repo", "good", "flush.x")
		sleep(100 * time.Millisecond)
		push(t, f.Engine, "repo", "decided", "flush.x")
		sleep(100 * time.Millisecond)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered beside the dead letter, want 1", n)
		}
		sleep(5 * time.Minute)
		want := []string{"0s bad", "100ms good", "1s bad", "5s bad", "21s bad", "53s bad", "1m53s bad", "2m53s bad", "3m53s bad", "4m53s bad"}
		if !slices.Equal(a.list(), want) {
			t.Errorf("letters %q, want %q", a.list(), want)
		}
	})
}

// E25: the handler's panic and its timeout are failed attempts like any other,
// and the id of a letter is the same each time.
func TestE25TheIDOfALetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []attend.DecisionID
		cfg := config(attendtest.FailPermanently())
		cfg.DeadLetter = attend.LetterFunc(func(ctx context.Context, l attend.DeadLetter) error {
			ids = append(ids, l.ID)
			switch len(ids) {
			case 1:
				panic("no")
			case 2:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Minute)
		if len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] || ids[0] == "" {
			t.Errorf("letters %v, want three of one id", ids)
		}
	})
}

// A sink and a handler may push to the scope that they serve, as an agent does
// with what it says.
func TestASinkMayPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(route(attend.RouteQueue), attendtest.FailPermanently(), route(attend.RouteQueue))
		var f *fixture
		cfg.Sink = attend.SinkFunc(func(ctx context.Context, d attend.Decision) error {
			_, err := f.Push(ctx, d.Scope(), attend.Event{ID: "said " + string(d.ID), Name: "context.x"})
			return err
		})
		cfg.DeadLetter = attend.LetterFunc(func(ctx context.Context, l attend.DeadLetter) error {
			_, err := f.Push(ctx, l.Window.Scope, attend.Event{ID: "lost " + string(l.ID), Name: "consequence.x"})
			return err
		})
		f = start(t, cfg)
		for i := range 3 {
			push(t, f.Engine, "repo", fmt.Sprint(i), "flush.x")
			sleep(time.Second)
		}
		calls := f.judge.Calls()
		if len(calls) != 3 || len(calls[1].Window.Events) != 2 || len(calls[2].Window.Events) != 2 {
			t.Errorf("judged %+v, want what was said and what was lost in the windows behind", calls)
		}
	})
}

// E24, E25: with LogOnly and LogLetters the rows are the delivery, no lane is
// kept, and no handler is called.
func TestE24DeliveryByTheLogAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(route(attend.RouteQueue), attendtest.FailPermanently(), route(attend.RouteSkip))
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store, cfg.Sink, cfg.DeadLetter = store, attend.LogOnly, attend.LogLetters
		f := start(t, cfg)
		for _, id := range []string{"queued", "failed", "skipped"} {
			push(t, f.Engine, "repo", id, "flush.x")
			sleep(time.Second)
		}
		got := rows(t, f.Engine, attend.RowDecision, attend.RowLetter)
		if len(got) != 2 || got[0].Type != attend.RowDecision || got[1].Type != attend.RowLetter {
			t.Fatalf("rows %v, want a decision and a letter", got)
		}
		var l attend.DeadLetter
		if err := l.UnmarshalJSON(got[1].Body); err != nil || l.Stage != attend.StageJudge || l.Window.Events[0].ID != "failed" {
			t.Errorf("letter %+v (%v), want the failed window", l, err)
		}
		s, _ := f.State(t.Context(), "repo")
		if len(s.Decisions())+len(s.Letters()) != 0 {
			t.Error("something is in a lane, want none kept")
		}
		if n := len(store.writes("repo")); n != 6 {
			t.Errorf("%d writes, want two a window and none for a delivery", n)
		}
	})
}

// E41: what woke nobody is in the log as rows of its own, unless it is left out.
func TestE41VerdictRows(t *testing.T) {
	for _, omit := range []bool{false, true} {
		t.Run(fmt.Sprint("omitted ", omit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(route(attend.RouteSkip), route(attend.RouteWait), route(attend.RouteQueue))
				cfg.OmitVerdicts = omit
				f := start(t, cfg)
				for i := range 2 {
					push(t, f.Engine, "repo", fmt.Sprint(i), "closing.x")
					sleep(time.Second)
				}
				sleep(time.Minute)
				var steps []attend.Step
				for _, r := range rows(t, f.Engine, attend.RowVerdict) {
					var m attend.Mark
					if err := m.UnmarshalJSON(r.Body); err != nil {
						t.Fatal(err)
					}
					steps = append(steps, m.Step)
				}
				want := []attend.Step{attend.StepSkipped, attend.StepWaited, attend.StepDelivered}
				if omit {
					want = nil
				}
				if !slices.Equal(steps, want) {
					t.Errorf("verdict rows %v, want %v", steps, want)
				}
			})
		})
	}
}

// E41: what a write drops is told in one row for each cause, however many inputs
// are gathered into it, and in the order in which it went.
func TestE41DropsAreOneRowAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond}
		cfg.Store, cfg.Settle.MaxEvents = store, 3
		e := newEngine(t, cfg)
		push(t, e, "repo", "first", "consequence.x")
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { push(t, e, "repo", fmt.Sprint("e-", i), "consequence.x") })
		}
		wg.Wait()
		if n := len(store.writes("repo")); n != 3 {
			t.Fatalf("%d writes, want 3", n)
		}
		got := rows(t, e, attend.RowVerdict)
		if len(got) != 1 {
			t.Fatalf("%d rows of the last write, want one", len(got))
		}
		var m attend.Mark
		if err := m.UnmarshalJSON(got[0].Body); err != nil {
			t.Fatal(err)
		}
		if m.Step != attend.StepDropped || m.Why != attend.WhyCount || len(m.Events) != 48 || m.Events[0].ID != "first" {
			t.Errorf("dropped for %s: %d events from %v, want 48 from the first", m.Why, len(m.Events), m.Events[0])
		}
	})
}

// E41: rows of one write stand in the order in which it happened.
func TestE41RowsOfAWriteAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: 50 * time.Millisecond}
		cfg.Store, cfg.Settle.MaxEvents, cfg.Judge = store, 3, attend.RuleJudge
		e := newEngine(t, cfg)
		push(t, e, "repo", "first", "consequence.x")
		var wg sync.WaitGroup
		do := func(name, kind string, n int) {
			for i := range n {
				wg.Go(func() { push(t, e, "repo", fmt.Sprint(name, i), kind) })
			}
			time.Sleep(5 * time.Millisecond)
		}
		wg.Go(func() { push(t, e, "other", "x", "consequence.x") }) // leads
		time.Sleep(5 * time.Millisecond)
		do("earlier", "consequence.x", 6)
		do("spoken", "flush.x", 1)
		do("later", "consequence.x", 6)
		wg.Wait()
		var last time.Time
		got := rows(t, e, attend.RowVerdict, attend.RowDecision)
		for _, r := range got {
			if r.At.Before(last) {
				t.Errorf("a row of %d stands behind one of %d", r.At.UnixMilli(), last.UnixMilli())
			}
			last = r.At
		}
		if len(got) != 2 {
			t.Errorf("%d rows, want the decision and what was dropped", len(got))
		}
	})
}

// E26: a full lane refuses pushes, with nothing taken, and neither Flush nor
// End; what was taken earlier finds room; it drains, and pushes go on.
func TestE26AFullLane(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer attendtest.Answer
		set    func(*engine.Config)
	}{
		{"decisions", route(attend.RouteQueue), func(c *engine.Config) { c.MaxOutbox = 2 }},
		{"dead letters", attendtest.FailPermanently(), func(c *engine.Config) { c.MaxDeadLetters = 2 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := make(chan struct{})
				hold := func(ctx context.Context) error {
					select {
					case <-until:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				cfg := config(row.answer)
				row.set(&cfg)
				sink := &attendtest.Sink{Handle: func(ctx context.Context, _ attend.Decision) error { return hold(ctx) }}
				letters := &attendtest.Letters{Handle: func(ctx context.Context, _ attend.DeadLetter) error { return hold(ctx) }}
				cfg.Sink, cfg.DeadLetter = sink, letters
				f := start(t, cfg)
				push(t, f.Engine, "repo", "a", "flush.x")
				synctest.Wait()
				if _, err := f.Push(t.Context(), "repo", attend.Event{ID: "b", Name: "flush.x"}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				r, err := f.Push(t.Context(), "repo", attend.Event{ID: "d", Name: "passive.x"})
				if !errors.Is(err, attend.ErrOutboxFull) || r != (engine.Receipt{}) {
					t.Errorf("Push() = %+v, %v, want ErrOutboxFull", r, err)
				}
				if w, _ := f.Window(t.Context(), "repo"); len(w.Events) != 0 {
					t.Errorf("%d events taken by a refused push, want none", len(w.Events))
				}
				if err := f.Flush(t.Context(), "repo"); err != nil {
					t.Errorf("Flush() = %v, want nil", err)
				}
				if err := f.End(t.Context(), "repo"); err != nil {
					t.Errorf("End() = %v, want nil", err)
				}
				push(t, f.Engine, "other", "a", "flush.x")
				close(until)
				sleep(time.Second)
				push(t, f.Engine, "repo", "d", "flush.x")
				synctest.Wait()
				n := len(sink.Delivered()) + len(letters.Taken())
				if n != 4 {
					t.Errorf("%d were taken in the end, want a, b, d and the other scope's", n)
				}
			})
		})
	}
}

// E26: an open window with MaxBacklog acts waiting for its slot refuses too.
func TestE26AFullBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		cfg := config(attendtest.Answer{Route: attend.RouteQueue, Until: until}, route(attend.RouteQueue))
		cfg.MaxBacklog = 5
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		if _, err := f.Push(t.Context(), "repo", numbered("b", "flush.x", 5)...); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Push(t.Context(), "repo", attend.Event{ID: "c", Name: "flush.x"}); !errors.Is(err, attend.ErrOutboxFull) {
			t.Errorf("Push() = %v, want ErrOutboxFull", err)
		}
		close(until)
		synctest.Wait()
		push(t, f.Engine, "repo", "c", "flush.x")
		synctest.Wait()
		if got := f.sink.Delivered(); len(got) != 3 || len(got[1].Window.Events) != 5 {
			t.Errorf("delivered %v, want a, the backlog, and c", got)
		}
	})
}
