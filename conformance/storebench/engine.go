package storebench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// batch is how many events a producer of many brings at a time.
const batch = 256

// push is events per second through an engine: from one producer of single
// events, from 64, and from 8 that bring 256 at a time, each of another scope;
// and what the peer takes.
func (s Subject) push(b *testing.B) {
	store := s.New(b)
	e, err := engine.New(engine.Config{
		Store: store, Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
		Kind:          func(attend.Event) attend.Kind { return attend.KindConsequence },
		ResidentBytes: 1 << 30, // all scopes: what is measured is no cache
	})
	if err != nil {
		b.Fatal(err)
	}
	var peer func([][]byte) error
	if s.Peer != nil {
		peer = s.Peer(b)
	}
	var id atomic.Int64
	push := func() error {
		n := id.Add(1)
		_, err := e.Push(context.Background(), scopeName(int(n*7919)%scopes), event(n))
		return err
	}
	pushAll := func() error {
		list := make([]engine.ScopePush, batch)
		for i := range list {
			n := id.Add(1)
			list[i] = engine.ScopePush{Scope: scopeName(int(n*7919) % scopes), Events: []attend.Event{event(n)}}
		}
		e.PushAll(context.Background(), list)
		for i := range list {
			if list[i].Err != nil {
				return list[i].Err
			}
		}
		return nil
	}
	var one, many, batches, appended []float64
	for b.Loop() {
		one = append(one, measure(b, 1, push))
		many = append(many, measure(b, 64, push))
		batches = append(batches, measure(b, 8, pushAll)*batch)
		if peer != nil {
			appended = append(appended, measure(b, 8, func() error {
				bodies := make([][]byte, batch)
				for i := range bodies {
					bodies[i] = event(id.Add(1)).Data
				}
				return peer(bodies)
			})*batch)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(one), "1x1-events/s")
	b.ReportMetric(median(many), "64x1-events/s")
	b.ReportMetric(median(many)/median(one), "64-of-1")
	b.ReportMetric(median(batches), "8x256-events/s")
	if peer != nil {
		b.ReportMetric(median(appended), "peer-8x256-events/s")
		b.ReportMetric(median(batches)/median(appended), "of-peer")
	}
}

// event is some 200 bytes.
func event(n int64) attend.Event {
	return attend.Event{
		ID: fmt.Sprint("event-", n), At: epoch, Name: "build.log",
		Data: fmt.Appendf(nil, `{"repository":"ops/db","step":"compile","line":%d,"text":"go: downloading golang.org/x/text v0.30.0 and its forty friends"}`, n),
		Text: "compile: go: downloading golang.org/x/text",
	}
}

// measure is how many calls of f a second a number of producers make.
func measure(b *testing.B, producers int, f func() error) float64 {
	b.Helper()
	const lasts = 400 * time.Millisecond
	var done atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range producers {
		wg.Go(func() {
			for time.Since(begun) < lasts && !b.Failed() {
				if err := f(); err != nil {
					b.Error(err)
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds()
}
