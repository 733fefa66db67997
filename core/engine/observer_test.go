package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/memory"
)

// An observer keeps what it is told, as text.
type observer struct {
	mu     sync.Mutex
	begun  time.Time
	traces []attend.Trace
}

func observe() *observer { return &observer{begun: time.Now()} }

func (o *observer) see(t attend.Trace) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.traces = append(o.traces, t)
}

// lines tells the traces of a scope, a line each; those of no scope are left
// out.
func (o *observer) lines(scope attend.Scope) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, t := range o.traces {
		if of, line := tell(t, o.begun); of == scope {
			out = append(out, line)
		}
	}
	return out
}

func tell(t attend.Trace, begun time.Time) (attend.Scope, string) {
	ids := func(refs []attend.EventRef) string {
		var out []string
		for _, r := range refs {
			out = append(out, strings.TrimPrefix(r.Source+"/"+r.ID, "/"))
		}
		return strings.Join(out, ",")
	}
	at := func(t time.Time) time.Duration { return t.Sub(begun) }
	switch t := t.(type) {
	case attend.TakenIn:
		return t.Scope, fmt.Sprint(at(t.At), " taken in ", ids(t.Events))
	case attend.Duplicate:
		return t.Scope, fmt.Sprint(at(t.At), " duplicate ", ids(t.Events))
	case attend.Shed:
		return t.Scope, fmt.Sprint(at(t.At), " shed ", t.Why, " ", ids(t.Events))
	case attend.Settled:
		return t.Scope, fmt.Sprint(at(t.At), " settled ", t.Reason, " ", t.Events, " waits ", t.Waits)
	case attend.Judged:
		return t.Scope, fmt.Sprint(at(t.Verdict.At), " judged ", t.Verdict.Route, " ", t.Verdict.Events)
	case attend.Thresholded:
		return t.Scope, fmt.Sprint(at(t.At), " threshold ", t.From, " to ", t.To)
	case attend.Retried:
		return t.Scope, fmt.Sprintf("%v retried %s failed %d next %v account %v: %s", at(t.At), t.Stage, t.Failed, at(t.Next), t.Account, t.Message)
	case attend.Delivered:
		return t.Scope, fmt.Sprint(at(t.At), " delivered ", t.Route, " attempts ", t.Attempts)
	case attend.DeadLettered:
		return t.Scope, fmt.Sprintf("%v dead letter %s attempts %d: %s", at(t.At), t.Stage, t.Attempts, t.Message)
	case attend.Conflict:
		return t.Scope, fmt.Sprint("conflict ", t.Losses)
	case attend.CaptureFailed:
		return t.Scope, fmt.Sprintf("%v capture failed %s: %v", at(t.At), t.What, t.Err)
	case attend.Swept:
		return "", fmt.Sprint(at(t.At), " swept ", t.Scopes, " failed ", t.Failed)
	}
	return "", fmt.Sprintf("unknown %T", t)
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("traces\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// E40: an observer sees every step of a scope, in order.
func TestE40TheLifeOfAScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe()
		cfg := config(
			attendtest.Fail(),
			attendtest.Answer{Route: attend.RouteSkip, Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.9, attend.RouteSkip: 0.1}},
			route(attend.RouteWait),
			attendtest.FailAccount(),
			attendtest.FailPermanently(),
		)
		cfg.Observer = o.see
		cfg.ActThreshold = 0.5
		cfg.Settle.MaxEvents = 3
		cfg.Facts = func(context.Context, attend.Scope) (json.RawMessage, error) { return nil, errDown }
		f := start(t, cfg)
		f.sink.Fail(1)
		push := func(events ...attend.Event) {
			t.Helper()
			if _, err := f.Push(t.Context(), "repo", events...); err != nil {
				t.Fatal(err)
			}
		}
		push(attend.Event{ID: "log-1", Name: "consequence.x"}, attend.Event{ID: "log-2", Name: "consequence.x"}, attend.Event{ID: "log-3", Name: "consequence.x"}, attend.Event{ID: "log-4", Name: "consequence.x"})
		push(attend.Event{ID: "log-4", Name: "consequence.x"})
		push(attend.Event{ID: "log-4", Name: "consequence.x"}, attend.Event{ID: "hi", Name: "flush.x"})
		sleep(10 * time.Second)
		push(attend.Event{ID: "look", Name: "passive.x"})
		sleep(5 * time.Second)
		push(attend.Event{ID: "talk", Name: "flush.x"})
		sleep(time.Minute)
		scripted := attendtest.ErrScripted.Error()
		wantLines(t, o.lines("repo"), []string{
			"0s taken in log-1,log-2,log-3,log-4",
			"0s shed count log-1",
			"0s duplicate log-4",
			"0s taken in hi",
			"0s duplicate log-4",
			"0s shed count log-2",
			"0s settled flush 3 waits 0",
			"0s capture failed facts: " + errDown.Error(),
			"0s retried judge failed 1 next 1s account false: " + scripted,
			"1s capture failed facts: " + errDown.Error(),
			"1s judged interrupt 3",
			"1s threshold skip to interrupt",
			"1s retried sink failed 1 next 2s account false: " + scripted,
			"2s delivered interrupt attempts 2",
			"10s taken in look",
			"14s settled passive 1 waits 0",
			"14s capture failed facts: " + errDown.Error(),
			"14s judged wait 1",
			"15s taken in talk",
			"15s settled flush 2 waits 1",
			"15s capture failed facts: " + errDown.Error(),
			"15s retried judge failed 0 next 16s account true: " + scripted,
			"16s capture failed facts: " + errDown.Error(),
			"16s dead letter judge attempts 1: " + scripted,
		})
	})
}

// E40: nothing is told before the write that it is about has landed.
func TestE40TracesComeAfterTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe()
		cfg := config()
		store := &spy{ScopeStore: cfg.Store, commitTakes: time.Second}
		cfg.Store, cfg.Observer = store, o.see
		f := start(t, cfg)
		go push(t, f.Engine, "repo", "a", "flush.x")
		sleep(999 * time.Millisecond)
		if got := o.lines("repo"); len(got) != 0 {
			t.Errorf("traces %v before the commit, want none", got)
		}
		sleep(time.Millisecond)
		wantLines(t, o.lines("repo"), []string{"0s taken in a", "0s settled flush 1 waits 0"})
		sleep(2 * time.Second)
	})
}

// E40, E44: a write whose answer was lost is told once, as it was.
func TestE40AWriteWhoseAnswerWasLost(t *testing.T) {
	var want []string
	for n, commits := 0, 1; n <= commits; n++ {
		t.Run(fmt.Sprint("commit ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := observe()
				cfg := config()
				store := &spy{ScopeStore: cfg.Store, lose: func(k int, _ []attend.Write) error {
					if k == n {
						return errDown
					}
					return nil
				}}
				cfg.Store, cfg.Observer = store, o.see
				f := start(t, cfg)
				for i := range 2 {
					if _, err := f.Push(t.Context(), "repo", numbered("a", "flush.x", 2+i)...); err != nil {
						t.Fatal(err)
					}
					sleep(time.Second)
				}
				var got []string
				for _, l := range o.lines("repo") {
					_, what, _ := strings.Cut(l, " ") // the time of a retry differs
					got = append(got, what)
				}
				if n == 0 {
					want, commits = got, store.commits()
				}
				wantLines(t, got, want)
			})
		})
	}
}

// E40: a conflict and a sweep are told too.
func TestE40ConflictsAndSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe()
		mem := memory.New()
		cfg := config()
		cfg.Store = mem
		push(t, newEngine(t, cfg), "repo", "a", "closing.x") // a process that only pushes
		mine := config()
		mine.Store, mine.Observer = mem.Reopen(), o.see
		f := start(t, mine)
		sleep(10 * time.Second)
		if got := len(f.sink.Delivered()); got != 1 {
			t.Fatalf("%d delivered, want 1", got)
		}
		swept := o.lines("")
		// Its due time, 500 ms, was written 2 s earlier.
		wantLines(t, swept, []string{"1s swept 1 failed 0"})

		push(t, newEngine(t, cfg), "repo", "b", "consequence.x")
		push(t, f.Engine, "repo", "c", "consequence.x")
		if got := o.lines("repo"); !slices.Contains(got, "conflict 1") {
			t.Errorf("traces %v, want a conflict among them", got)
		}
	})
}

// E40: traces of one scope come in order while many pushes compete.
func TestE40OrderUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		var mu sync.Mutex
		last := map[attend.Scope]time.Time{}
		taken := 0
		cfg.Observer = func(tr attend.Trace) {
			mu.Lock()
			defer mu.Unlock()
			switch tr := tr.(type) {
			case attend.TakenIn:
				taken += len(tr.Events)
				if tr.At.Before(last[tr.Scope]) {
					t.Errorf("%s: %v told after %v", tr.Scope, tr.At, last[tr.Scope])
				}
				last[tr.Scope] = tr.At
			case attend.Settled:
				if tr.At.Before(last[tr.Scope]) {
					t.Errorf("%s: settled %v told after %v", tr.Scope, tr.At, last[tr.Scope])
				}
				last[tr.Scope] = tr.At
			}
		}
		cfg.Store = &spy{ScopeStore: cfg.Store, commitTakes: time.Millisecond}
		f := start(t, cfg)
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				for k := range 20 {
					push(t, f.Engine, attend.Scope(fmt.Sprint("s-", i%3)), fmt.Sprint(i, "-", k), "closing.x")
					time.Sleep(time.Duration(k) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		sleep(10 * time.Second)
		if taken != 600 {
			t.Errorf("%d events told, want 600", taken)
		}
	})
}
