package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
)

// Each benchmark runs what it measures and the bare limit in turns, within one
// run, and reports their ratio: absolute numbers move with the machine.

const benchScopes = 10_000

func benchConfig(store attend.ScopeStore) engine.Config {
	return engine.Config{
		Store: store, Kind: func(attend.Event) attend.Kind { return attend.KindConsequence },
		Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
		ResidentBytes: 1 << 30,
	}
}

func benchScope(i int) attend.Scope { return attend.Scope("ops/db-" + strconv.Itoa(i)) }

// benchEvents returns n events of some 200 bytes with ids that nobody else has.
func benchEvents(from uint64, n int) []attend.Event {
	out := make([]attend.Event, n)
	for i := range out {
		out[i] = attend.Event{
			ID: "event-" + strconv.FormatUint(from+uint64(i), 10), At: time.UnixMilli(1_767_225_600_000), Name: "build.log",
			Data: []byte(`{"repository":"ops/db","step":"compile","exit":0}`),
			Text: "compile: go: downloading golang.org/x/text v0.30.0",
		}
	}
	return out
}

// A bare store is the least that taking an event in can be: its input encoded,
// and handed to a map under a lock.
type bareStore struct {
	mu sync.Mutex
	m  map[attend.Scope][]byte
}

func (b *bareStore) push(scope attend.Scope, events []attend.Event) {
	in := machine.EncodeInput(machine.Arrive{At: events[0].At, Writer: 1, Number: 1, Events: events})
	b.mu.Lock()
	b.m[scope] = in
	b.mu.Unlock()
}

// A ruled store is the least that taking an event in by the rules can be: the
// event made valid, applied to its scope's state, and what bareStore does. It
// is what no engine can be faster than; all else is the engine's own cost.
type ruledStore struct {
	bareStore
	policy *machine.Policy
	states map[attend.Scope]*machine.State
}

func (r *ruledStore) push(b *testing.B, scope attend.Scope, events []attend.Event) {
	clean := make([]attend.Event, len(events))
	for i := range events {
		v, err := events[i].Clean()
		if err != nil {
			b.Error(err)
			return
		}
		v.Kind = attend.KindConsequence
		clean[i] = v
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[scope]
	if s == nil {
		s = new(machine.State)
		r.states[scope] = s
		s.Apply(machine.Configure{At: now, Scope: scope, Policy: r.policy})
	}
	in := machine.Arrive{At: now, Events: clean}
	if eff := s.Apply(in); eff.Fresh != len(clean) {
		b.Errorf("%d events taken in, want %d", eff.Fresh, len(clean))
	}
	r.m[scope] = machine.EncodeInput(in)
}

// load runs f from many goroutines, total times in all, and returns how long
// that took.
func load(goroutines, total int, f func(i int)) time.Duration {
	var next atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(total); i = next.Add(1) {
				f(int(i))
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}

// BenchmarkPush is events pushed and committed on the memory store, beside the
// bare limit, and beside that of the rules.
func BenchmarkPush(b *testing.B) {
	for _, c := range []struct{ goroutines, batch int }{{1, 1}, {16, 1}, {1000, 1}, {1, 100}, {16, 100}} {
		b.Run(fmt.Sprintf("goroutines=%d/batch=%d", c.goroutines, c.batch), func(b *testing.B) {
			e, err := engine.New(benchConfig(memory.New()))
			if err != nil {
				b.Fatal(err)
			}
			bare := &bareStore{m: make(map[attend.Scope][]byte)}
			policy := machine.DefaultPolicy()
			ruled := &ruledStore{bareStore{m: make(map[attend.Scope][]byte)}, &policy, make(map[attend.Scope]*machine.State)}
			var id atomic.Uint64
			pushes := max(40_000/c.batch, c.goroutines)
			prepare := func() [][]attend.Event {
				all := make([][]attend.Event, pushes+1)
				for i := range all {
					all[i] = benchEvents(id.Add(uint64(c.batch)), c.batch)
				}
				return all
			}
			for i := range benchScopes { // every scope exists
				if _, err := e.Push(b.Context(), benchScope(i), benchEvents(id.Add(1), 1)...); err != nil {
					b.Fatal(err)
				}
			}
			var took, limit, rules []float64
			for b.Loop() {
				all := prepare()
				runtime.GC()
				d := load(c.goroutines, pushes, func(i int) {
					if _, err := e.Push(b.Context(), benchScope(rand.IntN(benchScopes)), all[i]...); err != nil {
						b.Error(err)
					}
				})
				took = append(took, perEvent(d, pushes*c.batch))
				all = prepare()
				runtime.GC()
				d = load(c.goroutines, pushes, func(i int) { bare.push(benchScope(rand.IntN(benchScopes)), all[i]) })
				limit = append(limit, perEvent(d, pushes*c.batch))
				all = prepare()
				runtime.GC()
				d = load(c.goroutines, pushes, func(i int) { ruled.push(b, benchScope(rand.IntN(benchScopes)), all[i]) })
				rules = append(rules, perEvent(d, pushes*c.batch))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(1e9/median(took), "events/s")
			b.ReportMetric(1e9/median(limit), "bare-events/s")
			b.ReportMetric(median(limit)/median(took), "of-bare")
			b.ReportMetric(median(rules)/median(took), "of-rules")
		})
	}
}

func perEvent(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / float64(n) }

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// immediate is a judge that answers at once, but not a pure one: its windows
// take a lease, two commits and a delivery.
var immediate = attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
	return attend.Judgment{Route: attend.RouteInterrupt}, nil
})

// BenchmarkDelivered is the time from a push of a flush event to the sink.
func BenchmarkDelivered(b *testing.B) {
	for _, c := range []struct {
		name  string
		judge attend.Judge
	}{{"judge", immediate}, {"pure", attend.RuleJudge}} {
		b.Run(c.name, func(b *testing.B) {
			heard := make(chan time.Time, 1)
			cfg := benchConfig(memory.New())
			cfg.Kind = func(attend.Event) attend.Kind { return attend.KindFlush }
			cfg.Judge = c.judge
			cfg.Sink = attend.SinkFunc(func(context.Context, attend.Decision) error {
				heard <- time.Now()
				return nil
			})
			e, err := engine.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); e.Run(ctx) }()
			time.Sleep(50 * time.Millisecond) // Run has begun
			var id uint64
			var took []float64
			for b.Loop() {
				id++
				begun := time.Now()
				if _, err := e.Push(b.Context(), benchScope(int(id)%100), benchEvents(id, 1)...); err != nil {
					b.Fatal(err)
				}
				took = append(took, float64((<-heard).Sub(begun).Nanoseconds())/1e3)
			}
			stop()
			<-ended
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "p50-µs")
			b.ReportMetric(took[len(took)*99/100], "p99-µs")
		})
	}
}

// A slowStore takes its time to commit, as a disk does.
type slowStore struct {
	attend.ScopeStore
	pause time.Duration
}

func (s slowStore) Commit(ctx context.Context, w []attend.Write) ([]attend.Outcome, error) {
	time.Sleep(s.pause)
	return s.ScopeStore.Commit(ctx, w)
}

// BenchmarkProducers is one producer of single events against 64, on a store
// whose commit takes at least 0.2 ms.
func BenchmarkProducers(b *testing.B) {
	e, err := engine.New(benchConfig(slowStore{memory.New(), 200 * time.Microsecond}))
	if err != nil {
		b.Fatal(err)
	}
	var id atomic.Uint64
	rate := func(goroutines, total int) float64 {
		d := load(goroutines, total, func(int) {
			n := id.Add(1)
			if _, err := e.Push(b.Context(), benchScope(int(n)%benchScopes), benchEvents(n, 1)...); err != nil {
				b.Error(err)
			}
		})
		return float64(total) / d.Seconds()
	}
	var one, many []float64
	for b.Loop() {
		one = append(one, rate(1, 300))
		many = append(many, rate(64, 64*200))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(one), "1-producer/s")
	b.ReportMetric(median(many), "64-producers/s")
	b.ReportMetric(median(many)/median(one), "ratio")
}
