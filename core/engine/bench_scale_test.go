//go:build unix

package engine_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"syscall"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

// A farStore keeps nothing of its scopes in this process's heap: each looks the
// same, so that what the benchmark counts is the engine's alone.
type farStore struct{ attend.ScopeStore }

func (farStore) Load(context.Context, attend.Scope) (attend.Record, error) {
	return attend.Record{}, nil
}

func (farStore) Commit(_ context.Context, w []attend.Write) ([]attend.Outcome, error) {
	out := make([]attend.Outcome, len(w))
	for i := range out {
		out[i].Version = w[i].Expect + 1
	}
	return out, nil
}

func (farStore) Due(context.Context, time.Time) iter.Seq2[attend.Scope, error] {
	return func(func(attend.Scope, error) bool) {}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkMemory is what a scope costs in the engine's memory that is not
// resident: idle, and with a deadline that is to come.
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		name   string
		scopes int
		kind   attend.Kind
	}{{"idle", 1_000_000, attend.KindConsequence}, {"due", 100_000, attend.KindPassive}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				cfg := benchConfig(farStore{memory.New()})
				cfg.Kind = func(attend.Event) attend.Kind { return c.kind }
				cfg.Judge = immediate
				cfg.ResidentBytes = 1 << 20
				cfg.Settle.PassiveQuiet = time.Hour
				cfg.Settle.MaxWindow = 2 * time.Hour
				e, err := engine.New(cfg)
				if err != nil {
					b.Fatal(err)
				}
				ctx, stop := context.WithCancel(b.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); e.Run(ctx) }()
				time.Sleep(20 * time.Millisecond)
				push := func(from, to int) {
					for i := from; i < to; i++ {
						if _, err := e.Push(ctx, benchScope(i), benchEvents(1, 1)...); err != nil {
							b.Fatal(err)
						}
					}
				}
				push(0, 10_000) // the resident part is full
				before := heap()
				push(10_000, 10_000+c.scopes)
				b.ReportMetric(max(heap()-before, 0)/float64(c.scopes), "B/scope")
				b.ReportMetric(0, "ns/op")
				stop()
				<-ended
				runtime.KeepAlive(e)
			}
		})
	}
}

// BenchmarkSweep is one sweep that takes over the work of 100 scopes, among
// 1,000 stored and among 1,000,000: listed, loaded, claimed, judged and
// delivered. A process that only pushes left them.
func BenchmarkSweep(b *testing.B) {
	const due = 100
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("stored=%d", n), func(b *testing.B) {
			store := memory.New()
			for i := range n {
				_, err := store.Commit(b.Context(), []attend.Write{{
					Scope: benchScope(i), Inputs: [][]byte{{0}}, Due: time.Now().Add(24 * time.Hour),
				}})
				if err != nil {
					b.Fatal(err)
				}
			}
			cfg := benchConfig(store)
			cfg.Kind = func(attend.Event) attend.Kind { return attend.KindFlush }
			cfg.Judge, cfg.SweepInterval = immediate, time.Hour
			heard := make(chan struct{}, due)
			cfg.Sink = attend.SinkFunc(func(context.Context, attend.Decision) error {
				heard <- struct{}{}
				return nil
			})
			pusher, err := engine.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			e, err := engine.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); e.Run(ctx) }()
			time.Sleep(20 * time.Millisecond)
			id := 0
			for b.Loop() {
				b.StopTimer()
				for range due {
					id++
					if _, err := pusher.Push(ctx, attend.Scope(fmt.Sprint("left-", id)), benchEvents(uint64(id), 1)...); err != nil {
						b.Fatal(err)
					}
				}
				time.Sleep(2 * time.Millisecond) // overdue now
				b.StartTimer()
				e.Sweep(ctx)
				for range due {
					<-heard
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*due), "ns/scope")
			stop()
			<-ended
		})
	}
}

func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDue is the processor time that a pending deadline costs in the
// alarm's wheel, set and gone off, beside a time.AfterFunc each.
func BenchmarkDue(b *testing.B) {
	const n = 200_000
	var wheel, timers []float64
	for b.Loop() {
		runtime.GC()
		begun := cpu()
		fired := engine.RunWheel(n)
		wheel = append(wheel, (cpu()-begun)/n)
		if fired != n {
			b.Fatalf("%d of %d went off", fired, n)
		}
		runtime.GC()
		begun = cpu()
		done := make(chan struct{}, n)
		for i := range n {
			time.AfterFunc(time.Duration(i%1000)*time.Millisecond, func() { done <- struct{}{} })
		}
		for range n {
			<-done
		}
		timers = append(timers, (cpu()-begun)/n)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(wheel), "cpu-ns/due")
	b.ReportMetric(median(timers), "AfterFunc-cpu-ns/due")
	b.ReportMetric(median(wheel)/median(timers), "of-AfterFunc")
}
