package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// A crashStep is one thing that producers do. Between two of them everything
// comes to rest, or other windows would be as right.
type crashStep struct {
	scope  attend.Scope
	do     string // push, flush, end, attach, stop, crowd
	events []string
}

// crashScript is what happens, and crashAnswers what is said to it, by the last
// event of a window: so many failures, which don't come again, and then always
// the same.
var (
	crashScript = []crashStep{
		{"repo", "push", []string{"l1:consequence", "a1:closing"}},
		{"repo", "push", []string{"a2:flush", "a1:closing"}}, // one has been there
		{"repo", "push", []string{"a3:flush"}},
		{"repo", "push", []string{"a4:flush"}},
		{"chat", "push", []string{"b1:closing"}},
		{"chat", "push", []string{"b2:closing"}}, // judged with b1, which was held
		{"chat", "push", []string{"b3:flush"}},
		{"chat", "push", []string{"l2:consequence"}},
		{"chat", "flush", nil},
		{"mail", "attach", []string{"c1:closing", "c2:odd", "c3:flush"}},
		{"", "crowd", nil}, // many scopes at once
		{"repo", "push", []string{"a5:closing"}},
		{"repo", "stop", []string{"a6:flush"}},
		{"repo", "push", []string{"l3:consequence"}},
	}
	crashAnswers = map[string]crashAnswer{
		"a2": {fails: 2, route: attend.RouteInterrupt},
		"a3": {always: attend.Permanent(errCrashScripted)},
		"a4": {route: attend.RouteAsk, sinkFails: 2},
		"b1": {route: attend.RouteWait},
		"b2": {route: attend.RouteNote},
		"b3": {route: attend.RouteQueue, sinkAlways: attend.Permanent(errCrashScripted), letterFails: 2},
		"l2": {route: attend.RouteSkip},
		"a6": {hangs: 1, route: attend.RouteInterrupt},
	}
	crashWant = []string{
		"chat l2 skipped", "chat note b1 b2", "chat queue b3", "chat sink b3",
		"crowd/0 queue x", "crowd/1 queue x", "crowd/2 queue x",
		"mail intake c2", "mail queue c1 c3",
		"repo ask a4", "repo interrupt a2", "repo interrupt a6", "repo judge a3", "repo l3 left", "repo queue a5", "repo queue l1 a1",
	}
)

var errCrashScripted = errors.New("scripted")

type crashAnswer struct {
	fails, hangs int
	always       error
	route        attend.Route // empty: queue
	sinkFails    int
	sinkAlways   error
	letterFails  int
}

// A crashWorld is what no process takes with it when it dies.
type crashWorld struct {
	mu      sync.Mutex
	asked   map[string]int
	sink    attendtest.Sink
	letters attendtest.Letters
}

// count is how often this was asked before.
func (w *crashWorld) count(lane string, win *attend.Window) (crashAnswer, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := win.Events[len(win.Events)-1].ID
	key := fmt.Sprint(lane, win.Scope, id)
	w.asked[key]++
	return crashAnswers[id], w.asked[key] - 1
}

// A crashProcess is an engine that runs, on a store of its own that can die. It
// calls nobody any more when it is dead.
type crashProcess struct {
	*engine.Engine
	store *attendtest.CrashStore
	stop  context.CancelFunc
	done  chan struct{}
}

func (w *crashWorld) start(t *testing.T, store *attendtest.CrashStore) *crashProcess {
	t.Helper()
	p := &crashProcess{store: store, done: make(chan struct{})}
	alive := func(ctx context.Context) error {
		if store.Crashed() {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	e, err := engine.New(engine.Config{
		Store: store,
		Kind: func(e attend.Event) attend.Kind {
			_, kind, _ := strings.Cut(e.Name, ".")
			return attend.Kind(kind)
		},
		Judge: attend.JudgeFunc(func(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
			if err := alive(ctx); err != nil {
				return attend.Judgment{}, err
			}
			a, n := w.count("judge", &in.Window)
			switch {
			case n < a.hangs:
				<-ctx.Done()
				return attend.Judgment{}, ctx.Err()
			case a.always != nil:
				return attend.Judgment{}, a.always
			case n < a.fails:
				return attend.Judgment{}, errCrashScripted
			case a.route == "":
				a.route = attend.RouteQueue
			}
			return attend.Judgment{Route: a.route}, nil
		}),
		Sink: attend.SinkFunc(func(ctx context.Context, d attend.Decision) error {
			if err := alive(ctx); err != nil {
				return err
			}
			return w.sink.Deliver(ctx, d)
		}),
		DeadLetter: attend.LetterFunc(func(ctx context.Context, l attend.DeadLetter) error {
			if err := alive(ctx); err != nil {
				return err
			}
			return w.letters.Letter(ctx, l)
		}),
		// What windows wait for is long beside the leases.
		Settle:       engine.Settle{ClosingGrace: 20 * time.Second, WaitHorizon: 10 * time.Minute, MaxWindow: 10 * time.Minute},
		JudgeTimeout: 2 * time.Second, DeliveryTimeout: 2 * time.Second, ShutdownGrace: time.Second,
		RetryBackoff: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Engine = e
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	go func() {
		defer close(p.done)
		if err := e.Run(ctx); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}()
	synctest.Wait()
	return p
}

// A crashRun is the script on its way through a store, with one fault.
type crashRun struct {
	t     *testing.T
	world *crashWorld
	p     *crashProcess
	old   []*crashProcess
	wrong []string // what must not be, a line each
}

func (r *crashRun) errorf(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf("wrong: "+format, args...))
}

// next replaces a process that has died, or that has been stopped.
func (r *crashRun) next() {
	r.p.stop()
	r.old = append(r.old, r.p)
	at, fault, n := r.p.store.At, r.p.store.Fault, r.p.store.Commits()
	store := r.p.store.Reopen()
	if at > n {
		store.At, store.Fault = at-n, fault
	}
	r.p = r.world.start(r.t, store)
}

// crashRest is how long everything takes to come to rest.
const crashRest = 90 * time.Second

// rest lets time pass. A process that dies meanwhile is replaced.
func (r *crashRun) rest() {
	for range crashRest / time.Second {
		time.Sleep(time.Second)
		synctest.Wait()
		if r.p.store.Crashed() {
			r.next()
		}
	}
}

// until calls f as often as the process dies under it, until it is known to
// have succeeded.
func (r *crashRun) until(what string, f func(ctx context.Context, e *engine.Engine) error) {
	for range 3 {
		ctx, cancel := context.WithCancel(r.t.Context())
		answer := make(chan error, 1)
		go func() { answer <- f(ctx, r.p.Engine) }()
		var err error
		for waiting := true; waiting; {
			select {
			case err = <-answer:
				waiting = false
			case <-time.After(100 * time.Millisecond):
				if r.p.store.Crashed() {
					cancel() // the dead don't wait
				}
			}
		}
		cancel()
		if err == nil {
			return
		}
		if !r.p.store.Crashed() {
			r.errorf("%s = %v, want nil", what, err)
			return
		}
		r.next()
	}
	r.errorf("%s does not come through", what)
}

func (r *crashRun) step(s crashStep) {
	events := crashEvents(s.events...)
	push := func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Push(ctx, s.scope, events...)
		return err
	}
	switch s.do {
	case "push":
		r.until("Push", push)
	case "flush":
		r.until("Flush", func(ctx context.Context, e *engine.Engine) error { return e.Flush(ctx, s.scope) })
	case "attach":
		r.until("Attach", func(ctx context.Context, e *engine.Engine) error { return e.Attach(ctx, s.scope, crashSource(events)) })
	case "crowd":
		r.until("Push to a crowd", func(ctx context.Context, e *engine.Engine) error {
			var errs [3]error
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() {
					_, errs[i] = e.Push(ctx, attend.Scope(fmt.Sprint("crowd/", i)), crashEvents("x:closing")...)
				})
			}
			wg.Wait()
			return errors.Join(errs[:]...)
		})
	case "stop":
		r.until("Push", push)
		if !r.p.store.Crashed() {
			r.p.stop()
			<-r.p.done
		}
		r.next()
	}
}

func crashEvents(specs ...string) []attend.Event {
	var out []attend.Event
	for _, s := range specs {
		id, kind, _ := strings.Cut(s, ":")
		out = append(out, attend.Event{ID: id, Name: "event." + kind, At: time.UnixMilli(1000)})
	}
	return out
}

// A crashSource brings its events one by one. Its cursors are their ids.
type crashSource []attend.Event

func (crashSource) Key() string { return "feed" }

func (s crashSource) Batches(_ context.Context, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		at := slices.IndexFunc(s, func(e attend.Event) bool { return e.ID == string(after) })
		for _, e := range s[at+1:] {
			if !yield(attend.Batch{Events: []attend.Event{e}, Cursor: attend.Cursor(e.ID)}, nil) {
				return
			}
		}
	}
}

// play runs the script with a fault at a commit, and returns a line for each
// decision, dead letter, and event that is left or let go.
func (r *crashRun) play(inner attend.ScopeStore, fault attendtest.Fault, at int) (lines []string, commits int) {
	r.world = &crashWorld{asked: make(map[string]int)}
	r.world.sink.Handle = func(_ context.Context, d attend.Decision) error {
		a, n := r.world.count("sink", &d.Window)
		if n < a.sinkFails {
			return errCrashScripted
		}
		return a.sinkAlways
	}
	r.world.letters.Handle = func(_ context.Context, l attend.DeadLetter) error {
		if a, n := r.world.count("letter", &l.Window); n < a.letterFails {
			return errCrashScripted
		}
		return nil
	}
	r.p = r.world.start(r.t, &attendtest.CrashStore{Store: inner, At: at, Fault: fault})
	for _, s := range crashScript {
		r.step(s)
		r.rest()
	}
	r.p.stop()
	for _, p := range append(r.old, r.p) {
		<-p.done
		commits += p.store.Commits()
	}
	return r.heard(inner), commits
}

func (r *crashRun) heard(store attend.ScopeStore) []string {
	line := func(w *attend.Window, what string) string {
		s := fmt.Sprint(w.Scope, " ", what)
		for _, e := range w.Events {
			s += " " + e.ID
		}
		return s
	}
	var lines, logged, delivered []string
	q := attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowVerdict}}
	for e, err := range store.Log().Read(r.t.Context(), q) {
		if err != nil {
			r.t.Fatal(err)
		}
		if e.Type == attend.RowDecision {
			var d attend.Decision
			if err := d.UnmarshalJSON(e.Body); err != nil {
				r.t.Fatal(err)
			}
			if id := attend.NewDecisionID(d.Window.Scope, d.Window.Events); e.ID != id {
				r.errorf("the decision on %s has the id %s, want %s", line(&d.Window, ""), e.ID, id)
			}
			logged = append(logged, line(&d.Window, string(d.Route)))
			continue
		}
		var m attend.Mark
		if err := m.UnmarshalJSON(e.Body); err != nil {
			r.t.Fatal(err)
		}
		if m.Step == attend.StepSkipped {
			for _, ref := range m.Events {
				lines = append(lines, fmt.Sprint(e.Scope, " ", ref.ID, " skipped"))
			}
		}
	}
	gaveUp := make(map[attend.DecisionID]bool)
	for _, l := range r.world.letters.Taken() {
		gaveUp[l.ID] = l.Stage == attend.StageSink
		lines = append(lines, line(&l.Window, string(l.Stage)))
	}
	for _, d := range r.world.sink.Attempts() {
		if slices.ContainsFunc(r.world.sink.Delivered(), func(o attend.Decision) bool { return o.ID == d.ID }) || gaveUp[d.ID] {
			delivered = append(delivered, line(&d.Window, string(d.Route)))
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines) // the handler may see a letter again after a crash
	slices.Sort(logged)
	slices.Sort(delivered)
	if d := slices.Compact(delivered); !slices.Equal(d, logged) {
		r.errorf("the sink has heard of %q, the log holds %q", d, logged)
	}
	lines = append(lines, logged...) // not compacted: none is twice
	for _, scope := range []attend.Scope{"repo", "chat", "mail", "crowd/0", "crowd/1", "crowd/2"} {
		s, err := r.p.State(r.t.Context(), scope)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, e := range s.Window().Events {
			lines = append(lines, fmt.Sprint(scope, " ", e.ID, " left"))
		}
		if _, busy := s.Slot(); busy || len(s.Decisions())+len(s.Letters()) > 0 {
			r.errorf("%s has not come to rest", scope)
		}
	}
	lines = append(lines, r.wrong...)
	slices.Sort(lines)
	return lines
}

// crashOnce plays the script in a bubble of its own.
func crashOnce(t *testing.T, inner attend.ScopeStore, fault attendtest.Fault, at int) (lines []string, commits int) {
	synctest.Test(t, func(t *testing.T) {
		r := &crashRun{t: t}
		lines, commits = r.play(inner, fault, at)
	})
	return lines, commits
}

// The same things happen, whatever commit the process dies at, or loses the
// answer of: no event is lost or counted twice, and each window is decided once,
// under the same id.
func TestCrashAtEachCommit(t *testing.T) {
	got, base := crashOnce(t, memory.New(), "", 0)
	if !reflect.DeepEqual(got, crashWant) {
		t.Fatalf("without a fault:\n got %q\nwant %q", got, crashWant)
	}
	runs := 0
	// How many commits there are depends on who shares one.
	for at, struck := 1, true; struck; at++ {
		struck = false
		for _, fault := range []attendtest.Fault{attendtest.FaultBefore, attendtest.FaultAfter, attendtest.FaultLost} {
			got, commits := crashOnce(t, memory.New(), fault, at)
			if !reflect.DeepEqual(got, crashWant) {
				t.Errorf("fault %q at commit %d of %d:\n got %q\nwant %q", fault, at, commits, got, crashWant)
			}
			if commits >= at {
				struck = true
				runs++
			}
		}
	}
	t.Logf("%d commits, %d runs with a fault", base, runs)
}

// A crashLossy is a store that leaves out something of what it holds.
type crashLossy struct {
	attend.ScopeStore
	load func(rec *attend.Record)
	due  func(scope attend.Scope) bool // what is listed; nil: all
}

func (s *crashLossy) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	rec, err := s.ScopeStore.Load(ctx, scope)
	if s.load != nil {
		s.load(&rec)
	}
	return rec, err
}

func (s *crashLossy) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return func(yield func(attend.Scope, error) bool) {
		for scope, err := range s.ScopeStore.Due(ctx, now) {
			if (s.due == nil || err != nil || s.due(scope)) && !yield(scope, err) {
				return
			}
		}
	}
}

// What a store loses shows in a crash.
func TestCrashFindsWhatIsLost(t *testing.T) {
	for _, test := range []struct {
		name  string
		store *crashLossy
	}{
		{"the newest input", &crashLossy{load: func(rec *attend.Record) { rec.Tail = rec.Tail[:max(len(rec.Tail)-1, 0)] }}},
		{"the snapshot", &crashLossy{load: func(rec *attend.Record) { rec.Snapshot = nil }}},
		{"a due scope", &crashLossy{due: func(scope attend.Scope) bool { return scope != "crowd/1" }}},
	} {
		found := false
		for at := 1; at <= 80 && !found; at++ {
			test.store.ScopeStore = memory.New()
			got, _ := crashOnce(t, test.store, attendtest.FaultAfter, at)
			found = !reflect.DeepEqual(got, crashWant)
		}
		if !found {
			t.Errorf("no crash shows that a store loses %s", test.name)
		}
	}
}
