package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// story is a flush, its judgment and its delivery, then a Flush and an End: five
// kinds of input. It returns the receipts.
func story(t *testing.T, f *fixture) []engine.Receipt {
	t.Helper()
	var out []engine.Receipt
	events := append(numbered("talk", "flush.x", 2), numbered("talk", "flush.x", 1)...)
	r, err := f.Push(t.Context(), "repo", events...)
	if err != nil {
		t.Errorf("Push() = %v, want nil", err)
	}
	out = append(out, r)
	sleep(time.Second)
	for i, settle := range []func(context.Context, attend.Scope) error{f.Flush, f.End} {
		r, err := f.Push(t.Context(), "repo", attend.Event{ID: fmt.Sprint("look-", i), Name: "passive.x"})
		if err != nil {
			t.Errorf("Push() = %v, want nil", err)
		}
		out = append(out, r)
		if err := settle(t.Context(), "repo"); err != nil {
			t.Errorf("Flush() or End() = %v, want nil", err)
		}
		sleep(time.Second)
	}
	return out
}

// E29, E44: an answer that is lost after the write landed is retried as the
// same input: the same ids, nothing doubled, the judge called once a window,
// and receipts that say what happened.
func TestE44AnAnswerThatIsLostAfterTheWriteLanded(t *testing.T) {
	storyCase(t, attendtest.FaultLost, func(t *testing.T, judged, attempts, delivered int) {
		if judged != 3 || attempts != 3 {
			t.Errorf("judged %d and tried to deliver %d times, want 3 and 3", judged, attempts)
		}
	})
}

// The same for an error before the write landed.
func TestE44AnErrorBeforeTheWriteLanded(t *testing.T) {
	storyCase(t, "refused", func(t *testing.T, judged, attempts, delivered int) {
		if judged != 3 || attempts != 3 {
			t.Errorf("judged %d and tried to deliver %d times, want 3 and 3", judged, attempts)
		}
	})
}

func storyCase(t *testing.T, fault attendtest.Fault, check func(t *testing.T, judged, attempts, delivered int)) {
	var ids []attend.DecisionID
	var receipts []engine.Receipt
	for n, commits := 0, 1; n <= commits; n++ {
		t.Run(fmt.Sprint("commit ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				log := cfg.Store.Log()
				store := &spy{ScopeStore: cfg.Store}
				at := func(k int, _ []attend.Write) error {
					if k == n {
						return errDown
					}
					return nil
				}
				if fault == attendtest.FaultLost {
					store.lose = at
				} else {
					store.refuse = at
				}
				cfg.Store = store
				f := start(t, cfg)
				got := story(t, f)
				gotIDs := decisions(t, log)
				if n == 0 {
					ids, receipts, commits = gotIDs, got, store.commits()
					if len(ids) != 3 || receipts[0] != (engine.Receipt{New: 2, Duplicates: 1}) {
						t.Fatalf("decisions %v, receipts %+v, want 3 and a duplicate", ids, receipts)
					}
				}
				if !slices.Equal(gotIDs, ids) {
					t.Errorf("decisions %v, want %v", gotIDs, ids)
				}
				if !slices.Equal(got, receipts) {
					t.Errorf("receipts %+v, want %+v", got, receipts)
				}
				check(t, len(f.judge.Calls()), len(f.sink.Attempts()), len(f.sink.Delivered()))
			})
		})
	}
}

// E30, E31: while the store is down a push fails with the store's error after
// its patience; once the store is back the scope works again at once.
func TestPushWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "consequence.x")
		store.change(func() { store.refuse = refused })
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			scope := attend.Scope("repo")
			if i%2 == 1 {
				scope = attend.Scope(fmt.Sprint("other-", i))
			}
			wg.Go(func() {
				_, err := f.Push(t.Context(), scope, attend.Event{ID: fmt.Sprint("b-", i), Name: "consequence.x"})
				if d := time.Since(begun); !errors.Is(err, errDown) || d < 2*time.Second || d > 5*time.Second {
					t.Errorf("Push() = %v after %v, want the store's error after some 2s", err, d)
				}
			})
		}
		wg.Wait()
		store.change(func() { store.refuse = nil })
		begun = time.Now()
		push(t, f.Engine, "repo", "c", "flush.x")
		synctest.Wait()
		if d := time.Since(begun); d > 100*time.Millisecond {
			t.Errorf("the first push after it took %v, want it at once", d)
		}
		if got := f.sink.Delivered(); len(got) != 1 || len(got[0].Window.Events) != 2 {
			t.Errorf("delivered %v, want one window of a and c", got)
		}
	})
}

// A push that comes while the scope's answer is still tried fails after its own
// patience, not after the answer's lease.
func TestPushToAScopeWhoseAnswerIsTriedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		cfg := config(attendtest.Answer{Route: attend.RouteQueue, Until: until})
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		store.change(func() { store.refuse = refused })
		close(until)
		sleep(time.Second)
		begun := time.Now()
		_, err := f.Push(t.Context(), "repo", attend.Event{ID: "b", Name: "consequence.x"})
		if d := time.Since(begun); !errors.Is(err, errDown) || d < 2*time.Second || d > 5*time.Second {
			t.Errorf("Push() = %v after %v, want the store's error after some 2s", err, d)
		}
		store.change(func() { store.refuse = nil })
		sleep(time.Second)
		push(t, f.Engine, "repo", "c", "flush.x")
		synctest.Wait()
		if got := len(f.sink.Delivered()); got != 2 || len(f.judge.Calls()) != 2 {
			t.Errorf("judged %d times, %d delivered, want 2 and 2", len(f.judge.Calls()), got)
		}
	})
}

// A claim that can't be written gives its permit back soon.
func TestAClaimThatCannotBeWrittenKeepsNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(fail(), route(attend.RouteQueue))
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store, cfg.MaxCalls = store, 1
		f := start(t, cfg)
		push(t, f.Engine, "bad", "a", "flush.x")
		store.change(func() {
			store.refuse = func(_ int, writes []attend.Write) error {
				if writes[0].Scope == "bad" {
					return errDown
				}
				return nil
			}
		})
		sleep(1500 * time.Millisecond) // its second attempt was claimed after 1 s
		push(t, f.Engine, "good", "a", "flush.x")
		sleep(2 * time.Second)
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered, want the good one, after the bad one's patience of 2s", n)
		}
		store.change(func() { store.refuse = nil })
		sleep(2 * time.Minute)
		if n := len(f.sink.Delivered()); n != 2 {
			t.Errorf("%d delivered in the end, want 2", n)
		}
	})
}

// An outage is one line of a log a write, not one a try.
func TestAnOutageIsLoggedOnceAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		lines := new(logLines)
		cfg.Logger = slog.New(lines)
		store := &spy{ScopeStore: cfg.Store, refuse: func(int, []attend.Write) error { return errDown }}
		cfg.Store = store
		e := newEngine(t, cfg)
		if _, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "closing.x"}); !errors.Is(err, errDown) {
			t.Fatalf("Push() = %v, want the store's error", err)
		}
		if got := lines.all(); store.commits() < 20 || len(got) != 1 {
			t.Errorf("%d lines for %d tries, want one: %v", len(got), store.commits(), got)
		}
	})
}

// A scope that can't be loaded fails its push with the store's error, and works
// again once it can.
func TestPushToAScopeThatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		e := newEngine(t, cfg)
		push(t, newEngine(t, cfg), "repo", "a", "consequence.x")
		store.change(func() { store.noLoad = unreadable })
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if _, err := e.Push(t.Context(), "repo", attend.Event{ID: fmt.Sprint(i), Name: "consequence.x"}); !errors.Is(err, errDown) {
					t.Errorf("Push() = %v, want the store's error", err)
				}
			})
		}
		wg.Wait()
		if _, err := e.Window(t.Context(), "repo"); !errors.Is(err, errDown) {
			t.Errorf("Window() = %v, want the store's error", err)
		}
		store.change(func() { store.noLoad = nil })
		push(t, e, "repo", "b", "consequence.x")
		if w, _ := e.Window(t.Context(), "repo"); len(w.Events) != 2 {
			t.Errorf("%d events, want a and b", len(w.Events))
		}
	})
}

// What a newer release or a broken disk wrote is left alone.
func TestPushToAScopeThatCannotBeRead(t *testing.T) {
	for _, row := range []struct {
		name     string
		snapshot []byte
		want     error
	}{
		{"corrupt", []byte("\x01\x01junk"), attend.ErrCorrupt},
		{"newer", []byte("\x01\x09junk"), attend.ErrNewer},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				store := cfg.Store
				if _, err := store.Commit(t.Context(), []attend.Write{{Scope: "repo", Snapshot: row.snapshot}}); err != nil {
					t.Fatal(err)
				}
				e := newEngine(t, cfg)
				if _, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "closing.x"}); !errors.Is(err, row.want) {
					t.Errorf("Push() = %v, want %v", err, row.want)
				}
				if rec, _ := store.Load(t.Context(), "repo"); !slices.Equal(rec.Snapshot, row.snapshot) || len(rec.Tail) != 0 {
					t.Errorf("the record is %+v, want it untouched", rec)
				}
			})
		})
	}
}

// E30: two engines on one store push one scope; each lost race is tried again,
// and nobody hears of it.
func TestE30TwoEnginesPushOneScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		store := &spy{ScopeStore: mem, commitTakes: time.Millisecond}
		var engines []*fixture
		for range 2 {
			cfg := config()
			cfg.Store = store
			engines = append(engines, start(t, cfg))
		}
		var wg sync.WaitGroup
		for i := range 60 {
			f := engines[i%2]
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				r, err := f.Push(t.Context(), "repo", attend.Event{ID: fmt.Sprint("e-", i/2), Name: "continuous.x"})
				if r.New+r.Duplicates != 1 || err != nil {
					t.Errorf("Push() = %+v, %v, want one event and nil", r, err)
				}
			})
		}
		wg.Wait()
		sleep(time.Minute)
		if store.lostRaces() == 0 {
			t.Error("no race was lost, so the test shows nothing")
		}
		seen := map[string]int{}
		for _, f := range engines {
			for _, d := range f.sink.Delivered() {
				for _, v := range d.Window.Events {
					seen[v.ID]++
				}
			}
		}
		for i := range 30 {
			if n := seen[fmt.Sprint("e-", i)]; n != 1 {
				t.Errorf("event %d was delivered %d times, want once", i, n)
			}
		}
	})
}

// E30: after 8 losses in a row and 2 s, ErrConflict, and nothing of the call is
// taken.
func TestE30ErrConflict(t *testing.T) {
	for _, row := range []struct {
		name string
		f    func(t *testing.T, e *engine.Engine) error
	}{
		{"Push", func(t *testing.T, e *engine.Engine) error {
			_, err := e.Push(t.Context(), "repo", attend.Event{ID: "b", Name: "consequence.x"})
			return err
		}},
		{"Flush", func(t *testing.T, e *engine.Engine) error { return e.Flush(t.Context(), "repo") }},
		{"End", func(t *testing.T, e *engine.Engine) error { return e.End(t.Context(), "repo") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				losses := 0
				cfg.Observer = func(tr attend.Trace) {
					if c, ok := tr.(attend.Conflict); ok {
						losses++
						if c.Losses != losses || c.Scope != "repo" {
							t.Errorf("trace %+v, want loss %d of repo", c, losses)
						}
					}
				}
				store := &spy{ScopeStore: cfg.Store}
				cfg.Store = store
				e := newEngine(t, cfg)
				push(t, e, "repo", "a", "consequence.x")
				store.change(func() { store.lag = always })
				begun := time.Now()
				err := row.f(t, e)
				if d := time.Since(begun); !errors.Is(err, attend.ErrConflict) || d < 2*time.Second || d > 2200*time.Millisecond {
					t.Errorf("%v after %v, want ErrConflict after 2s", err, d)
				}
				// 2 s of pauses that double from 2 to 50 ms, half to one and a half of each.
				if losses < 30 || losses > 90 {
					t.Errorf("%d losses, want some 45", losses)
				}
				store.change(func() { store.lag = nil })
				if w, _ := e.Window(t.Context(), "repo"); len(w.Events) != 1 {
					t.Errorf("%d events, want a alone", len(w.Events))
				}
				push(t, e, "repo", "c", "consequence.x")
			})
		})
	}
}

// E30: 2 s alone are not enough where a try is slow: there are 8 in any case.
func TestE30EightLossesAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: 400 * time.Millisecond, lag: func(attend.Write) bool { return true }}
		cfg.Store = store
		e := newEngine(t, cfg)
		_, err := e.Push(t.Context(), "repo", attend.Event{ID: "a", Name: "consequence.x"})
		if n := store.commits(); !errors.Is(err, attend.ErrConflict) || n != 8 {
			t.Errorf("Push() = %v after %d tries, want ErrConflict after 8", err, n)
		}
	})
}

// E30: a push that loses a few races gets through.
func TestE30AFewLossesAreNobodysBusiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		lost := 0
		store := &spy{ScopeStore: cfg.Store, lag: func(attend.Write) bool { lost++; return lost <= 7 }}
		cfg.Store = store
		e := newEngine(t, cfg)
		begun := time.Now()
		push(t, e, "repo", "a", "consequence.x")
		// 7 pauses of 2, 4, 8, 16, 32, 50 and 50 ms, each half to one and a half.
		if d := time.Since(begun); d < 81*time.Millisecond || d > 243*time.Millisecond {
			t.Errorf("Push() took %v, want the pauses between 8 tries", d)
		}
	})
}

// E30: a judge's answer that is there is tried until its lease ends.
func TestE30AnAnswerIsTriedUntilItsLeaseEnds(t *testing.T) {
	for _, row := range []struct {
		name   string
		outage time.Duration
		judged int
	}{
		{"25 s", 25 * time.Second, 1},
		{"40 s", 40 * time.Second, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, how := range []string{"conflicts", "errors", "loads fail"} {
				t.Run(how, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { answerOutage(t, how, row.outage, row.judged) })
				})
			}
		})
	}
}

func answerOutage(t *testing.T, how string, outage time.Duration, judged int) {
	until := make(chan struct{})
	cfg := config(attendtest.Answer{Route: attend.RouteQueue, Until: until})
	store := &spy{ScopeStore: cfg.Store}
	cfg.Store = store
	if how == "loads fail" {
		cfg.ResidentBytes = 1 // the scope has left by the time of the answer
	}
	f := start(t, cfg)
	push(t, f.Engine, "repo", "a", "flush.x")
	synctest.Wait()
	for i := range 200 {
		push(t, f.Engine, attend.Scope(fmt.Sprint("other-", i)), "a", "consequence.x")
	}
	switch how {
	case "conflicts":
		store.change(func() { store.lag = always })
	case "errors":
		store.change(func() { store.refuse = refused })
	default:
		store.change(func() { store.noLoad = unreadable })
	}
	close(until)
	sleep(outage)
	store.change(func() { store.lag, store.refuse, store.noLoad = nil, nil, nil })
	sleep(2 * time.Minute)
	if got := len(f.judge.Calls()); got != judged {
		t.Errorf("judged %d times, want %d", got, judged)
	}
	if got := len(f.sink.Delivered()); got != 1 {
		t.Errorf("%d delivered, want 1", got)
	}
	if got := f.letters.Attempts(); len(got) != 0 {
		t.Errorf("dead letters %v, want none", got)
	}
}

// logLines is a slog.Handler that keeps the messages.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logLines) WithGroup(string) slog.Handler            { return l }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Level.String()+" "+r.Message)
	return nil
}

func (l *logLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}
