package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
)

// A meter counts what runs at a time, and in which order it began.
type meter struct {
	mu      sync.Mutex
	running int
	most    int
	order   []attend.Scope
}

func (m *meter) run(scope attend.Scope, d time.Duration) {
	m.mu.Lock()
	m.running++
	m.most = max(m.most, m.running)
	m.order = append(m.order, scope)
	m.mu.Unlock()
	time.Sleep(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
}

func (m *meter) judge(d time.Duration) attend.JudgeFunc {
	return func(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
		m.run(in.Window.Scope, d)
		return attend.Judgment{Route: attend.RouteQueue}, nil
	}
}

// E49, B22: 5,000 scopes settle at once, and the judge takes 2 s: a queue eats
// neither leases nor attempts.
func TestE49FiveThousandScopesSettleAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, sends meter
		cfg := config()
		cfg.Judge = calls.judge(2 * time.Second)
		o := observe()
		cfg.Observer = func(tr attend.Trace) {
			switch tr.(type) {
			case attend.Retried, attend.DeadLettered, attend.Conflict:
				o.see(tr)
			}
		}
		cfg.Sink = attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			sends.run(d.Window.Scope, 2*time.Second)
			return nil
		})
		f := start(t, cfg)
		pushTogether(t, f.Engine, 5000, one("closing.x"))
		sleep(170 * time.Second) // 79 rounds of 64 calls
		if len(calls.order) != 5000 || len(sends.order) != 5000 {
			t.Errorf("%d calls and %d deliveries, want 5000 each", len(calls.order), len(sends.order))
		}
		if calls.most != 64 || sends.most != 64 {
			t.Errorf("%d calls and %d deliveries at a time, want 64 each", calls.most, sends.most)
		}
		if len(o.traces) != 0 || len(f.letters.Attempts()) != 0 {
			t.Errorf("traces %v and %d dead letters, want nothing failed", o.traces, len(f.letters.Attempts()))
		}
	})
}

// E49: windows that somebody spoke in come first, then the longest settled.
func TestE49TheOrderInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		cfg := config()
		cfg.MaxCalls = 1
		cfg.Judge = m.judge(10 * time.Second)
		f := start(t, cfg)
		push(t, f.Engine, "first", "a", "flush.x") // holds the only permit
		at := func(scope attend.Scope, name string, end bool) {
			push(t, f.Engine, scope, "a", name)
			if end {
				if err := f.End(t.Context(), scope); err != nil {
					t.Error(err)
				}
			}
			sleep(time.Millisecond)
		}
		at("quiet-1", "passive.x", true)
		at("quiet-2", "passive.x", true)
		at("spoke-1", "flush.x", false)
		at("quiet-3", "passive.x", true)
		at("spoke-2", "flush.x", false)
		push(t, f.Engine, "forced", "a", "passive.x")
		if err := f.Flush(t.Context(), "forced"); err != nil {
			t.Error(err)
		}
		sleep(2 * time.Minute)
		want := []attend.Scope{"first", "spoke-1", "spoke-2", "forced", "quiet-1", "quiet-2", "quiet-3"}
		if !slices.Equal(m.order, want) {
			t.Errorf("judged %v, want %v", m.order, want)
		}
	})
}

// E49: nobody starves in line: deliveries go out in the order in which they had
// to wait, while new ones keep coming.
func TestE49DeliveriesInLineGoOutInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		cfg := config()
		cfg.MaxCalls = 1
		cfg.Judge = attend.RuleJudge
		cfg.Sink = attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
			m.run(d.Window.Scope, time.Second)
			return nil
		})
		f := start(t, cfg)
		var want []attend.Scope
		for i := range 30 {
			scope := attend.Scope(fmt.Sprintf("s-%02d", i))
			want = append(want, scope)
			push(t, f.Engine, scope, "a", "flush.x")
			sleep(200 * time.Millisecond)
		}
		sleep(time.Minute)
		if !slices.Equal(m.order, want) {
			t.Errorf("delivered %v, want them in the order in which they came", m.order)
		}
	})
}

// The same for windows that settled in one moment.
func TestE49WindowsOfOneMomentAreJudgedInTheOrderOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		cfg := config()
		cfg.MaxCalls = 1
		cfg.Judge = m.judge(time.Second)
		f := start(t, cfg)
		var want []attend.Scope
		for i := range 20 {
			scope := attend.Scope(fmt.Sprintf("s-%02d", i))
			want = append(want, scope)
			push(t, f.Engine, scope, "a", "flush.x")
		}
		sleep(time.Minute)
		if !slices.Equal(m.order, want) {
			t.Errorf("judged %v, want them in the order in which they came", m.order)
		}
	})
}

// E49: dead letters share the deliveries' limit.
func TestE49DeadLettersShareTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		cfg := config(attendtest.FailPermanently())
		cfg.MaxCalls = 5
		cfg.DeadLetter = attend.LetterFunc(func(_ context.Context, l attend.DeadLetter) error {
			m.run(l.Window.Scope, time.Second)
			return nil
		})
		f := start(t, cfg)
		pushTogether(t, f.Engine, 50, one("flush.x"))
		sleep(20 * time.Second)
		if m.most != 5 || len(m.order) != 50 {
			t.Errorf("%d letters, %d at a time, want 50 and 5", len(m.order), m.most)
		}
	})
}

// A scope whose place in line comes to nothing (another process took the work)
// passes its permit on.
func TestE49APlaceInLineThatCameToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		cfg := config()
		cfg.MaxCalls = 1
		cfg.Judge = m.judge(10 * time.Second)
		f := start(t, cfg)
		push(t, f.Engine, "first", "a", "flush.x")
		for i := range 5 {
			scope := attend.Scope(fmt.Sprint("gone-", i))
			push(t, f.Engine, scope, "a", "flush.x")
			sleep(time.Millisecond)
			if err := f.Remove(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
		}
		push(t, f.Engine, "last", "a", "passive.x")
		if err := f.End(t.Context(), "last"); err != nil {
			t.Fatal(err)
		}
		sleep(time.Minute)
		if want := []attend.Scope{"first", "last"}; !slices.Equal(m.order, want) {
			t.Errorf("judged %v, want %v", m.order, want)
		}
	})
}

// A scope in line that can't be loaded when its turn comes passes its permit
// on, and is found by a later sweep.
func TestE49AScopeInLineThatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		cfg.MaxCalls, cfg.ResidentBytes = 1, 1
		cfg.Judge = m.judge(10 * time.Second)
		f := start(t, cfg)
		push(t, f.Engine, "first", "a", "flush.x")
		for i := range 3 {
			push(t, f.Engine, attend.Scope(fmt.Sprint("bad-", i)), "a", "flush.x")
		}
		push(t, f.Engine, "good", "a", "passive.x")
		f.End(t.Context(), "good")
		synctest.Wait()
		for i := range 200 { // so that those in line are not resident any more
			push(t, f.Engine, attend.Scope(fmt.Sprint("other-", i)), "a", "consequence.x")
		}
		for i := range 3 {
			if scope := attend.Scope(fmt.Sprint("bad-", i)); engine.Holds(f.Engine, scope) {
				t.Fatalf("%s is resident, want it evicted", scope)
			}
		}
		store.change(func() {
			store.noLoad = func(scope attend.Scope) error {
				if strings.HasPrefix(string(scope), "bad-") {
					return errDown
				}
				return nil
			}
		})
		sleep(15 * time.Second)
		if want := []attend.Scope{"first", "good"}; !slices.Equal(m.order, want) {
			t.Errorf("judged %v, want %v: the good one at once", m.order, want)
		}
		store.change(func() { store.noLoad = nil })
		sleep(3 * time.Minute)
		if len(m.order) != 5 {
			t.Errorf("judged %v, want the bad ones too once they can be loaded", m.order)
		}
	})
}

// A window's place in the line for judge calls holds back no delivery of its
// scope: one that failed is tried again when it is due.
func TestE49ALineForCallsHoldsBackNoDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{begun: time.Now()}
		calls := 0
		cfg := config()
		cfg.MaxCalls = 1
		cfg.Judge = attend.JudgeFunc(func(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
			if in.Window.Scope == "other" {
				time.Sleep(2 * time.Minute)
			}
			return attend.Judgment{Route: attend.RouteQueue}, nil
		})
		cfg.Sink = attend.SinkFunc(func(context.Context, attend.Decision) error {
			a.add("")
			if calls++; calls <= 2 {
				return errDown
			}
			return nil
		})
		f := start(t, cfg)
		push(t, f.Engine, "repo", "1", "flush.x") // delivered at 0 s, and to be tried again at 1 and 5 s
		synctest.Wait()
		push(t, f.Engine, "other", "1", "flush.x") // holds the only call
		push(t, f.Engine, "repo", "2", "flush.x")  // stands in line
		sleep(time.Minute)
		if want := []string{"0s ", "1s ", "5s "}; !slices.Equal(a.list(), want) {
			t.Errorf("deliveries %q, want %q", a.list(), want)
		}
		sleep(3 * time.Minute)
	})
}
