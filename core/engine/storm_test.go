package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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

// dice is a random number generator for many goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// A storm: three processes on one store that come and go, a store that is slow,
// fails before or after a write landed, a judge and a sink that fail, hang and
// panic, little memory and few permits, pushes, flushes and ends from all sides.
// Every event that was acknowledged is in exactly one window that was decided,
// and every permit comes back.
func TestStorm(t *testing.T) {
	seeds := uint64(20)
	if os.Getenv("ATTEND_SOAK") != "" {
		seeds = 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

func storm(t *testing.T, seed uint64) {
	d := &dice{r: rand.New(rand.NewPCG(seed, 7))}
	mem := memory.New()
	sink := &attendtest.Sink{Handle: func(ctx context.Context, _ attend.Decision) error {
		switch d.n(30) {
		case 0:
			return errDown
		case 1:
			<-ctx.Done()
			return ctx.Err()
		case 2:
			panic("the sink")
		}
		time.Sleep(time.Duration(d.n(100)) * time.Millisecond)
		return nil
	}}
	judge := attend.JudgeFunc(func(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
		time.Sleep(time.Duration(d.n(500)) * time.Millisecond)
		switch d.n(20) {
		case 0:
			return attend.Judgment{}, errDown
		case 1:
			<-ctx.Done()
			return attend.Judgment{}, ctx.Err()
		case 2:
			panic("the judge")
		case 3, 4:
			if slices.Contains(in.Routes, attend.RouteWait) {
				return attend.Judgment{Route: attend.RouteWait}, nil
			}
		}
		return attend.Judgment{Route: attend.RouteQueue}, nil
	})
	calm := false
	var engines []*engine.Engine
	for range 3 {
		store := &spy{ScopeStore: mem.Reopen(), commitTakes: 2 * time.Millisecond, loadTakes: time.Millisecond}
		fault := func(odds int) error {
			if !calm && d.n(odds) == 0 {
				return errDown
			}
			return nil
		}
		store.refuse = func(int, []attend.Write) error { return fault(40) }
		store.lose = func(int, []attend.Write) error { return fault(40) }
		store.noLoad = func(attend.Scope) error { return fault(40) }
		cfg := config()
		cfg.Store, cfg.Judge, cfg.Sink, cfg.MaxCalls, cfg.ResidentBytes = store, judge, sink, 3, []int{1, 16 * 8000, 0}[seed%3]
		cfg.ShutdownGrace, cfg.DeadLetter = 300*time.Millisecond, attend.LogLetters
		engines = append(engines, newEngine(t, cfg))
	}

	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	for i, e := range engines {
		runs.Go(func() {
			for ctx.Err() == nil {
				on, off := context.WithTimeout(ctx, time.Duration(1+d.n(20))*time.Second)
				if err := e.Run(on); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				off()
				time.Sleep(time.Duration(d.n(2000*i+1)) * time.Millisecond) // the first comes back at once
			}
		})
	}

	var mu sync.Mutex
	acked := map[string]bool{}
	var pushers sync.WaitGroup
	for p := range 12 {
		pushers.Go(func() {
			for k := range 40 {
				e, scope := engines[d.n(3)], attend.Scope(fmt.Sprint("s-", d.n(6)))
				v := attend.Event{ID: fmt.Sprintf("%d-%d", p, k), Name: []string{"closing.x", "flush.x", "passive.x", "continuous.x"}[d.n(4)]}
				for {
					_, err := e.Push(t.Context(), scope, v)
					if err == nil {
						break
					}
					if !errors.Is(err, errDown) && !errors.Is(err, attend.ErrConflict) {
						t.Errorf("Push() = %v, want nil or the store's error", err)
					}
				}
				mu.Lock()
				acked[string(scope)+"/"+v.ID] = true
				mu.Unlock()
				switch d.n(12) {
				case 0:
					e.Flush(t.Context(), scope)
				case 1:
					e.End(t.Context(), scope)
				}
				time.Sleep(time.Duration(d.n(1500)) * time.Millisecond)
			}
		})
	}
	pushers.Wait()
	synctest.Wait()
	sleep(10 * time.Minute) // the storm goes on for what is left, and all of it is decided
	calm = true
	sleep(2 * time.Minute)
	stop()
	runs.Wait()

	seen := map[string]int{}
	for row, err := range mem.Log().Read(t.Context(), attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}) {
		if err != nil {
			t.Fatal(err)
		}
		var v attend.DeadLetter // what both have in common, and the stage
		if err := v.UnmarshalJSON(row.Body); err != nil {
			t.Fatal(err)
		}
		if v.Stage == attend.StageSink {
			continue // of a decision that has its row
		}
		for _, ev := range v.Window.Events {
			seen[string(row.Scope)+"/"+ev.ID]++
		}
	}
	for id := range acked {
		if seen[id] != 1 {
			t.Errorf("%s is in %d decisions, want 1", id, seen[id])
		}
	}
	if len(seen) != len(acked) {
		t.Errorf("%d events decided, want %d", len(seen), len(acked))
	}
	for i := range 6 {
		s, err := engines[0].State(t.Context(), attend.Scope(fmt.Sprint("s-", i)))
		if _, busy := s.Slot(); err != nil || busy || len(s.Decisions()) != 0 || len(s.Window().Events) != 0 {
			t.Errorf("s-%d is not at rest (%v): slot %v, %d decisions, %d events open", i, err, busy, len(s.Decisions()), len(s.Window().Events))
		}
	}
}
