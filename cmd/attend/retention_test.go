package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

// A log that nobody adds to is trimmed all the same, soon after its rows are too
// old.
func TestTrimByClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		ctx, cancel := context.WithCancel(t.Context())
		outcomes, err := s.Commit(ctx, []attend.Write{{Scope: "s", Snapshot: []byte("{}"), Rows: []attend.Row{
			{Scope: "s", ID: "1", Type: attend.RowDecision, At: time.Now(), Body: []byte("{}")},
			{Scope: "s", ID: "2", Type: attend.RowVerdict, At: time.Now(), Body: []byte("{}")},
		}}})
		if err != nil || outcomes[0].Conflict() {
			t.Fatal(outcomes, err)
		}
		var done sync.WaitGroup
		done.Go(func() { trimByClock(ctx, s.Log(), 720*time.Hour, slog.New(slog.DiscardHandler)) })
		rows := func() (n int) {
			for _, err := range s.Log().Read(ctx, attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowVerdict}}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		time.Sleep(720*time.Hour - time.Second)
		if n := rows(); n != 2 {
			t.Errorf("%d rows that are not too old, want 2", n)
		}
		time.Sleep(trimLatest * 3 / 2)
		if n := rows(); n != 0 {
			t.Errorf("%d rows that are too old, want 0", n)
		}
		cancel()
		done.Wait()
		trimByClock(t.Context(), nil, 0, nil) // returns
	})
}

// A badLog is one whose Trim fails.
type badLog struct {
	attend.DecisionLog
	tries int
}

func (l *badLog) Trim(context.Context, attend.Retain, time.Time) error {
	l.tries++
	return errors.New("no room")
}

func TestTrimGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var said strings.Builder
		log := new(badLog)
		trimByClock(ctx, log, 16*time.Minute, slog.New(slog.NewTextHandler(&said, nil)))
		if n := strings.Count(said.String(), "no room"); n != log.tries || n < 40 || n > 80 {
			t.Errorf("%d tries in an hour and %d warnings, want some 60 of each", log.tries, n)
		}
	})
}

func TestJittered(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := jittered(time.Minute)
		low, high = min(low, d), max(high, d)
	}
	if low < 45*time.Second || high > 75*time.Second || low > 46*time.Second || high < 74*time.Second {
		t.Errorf("jittered(1m) is from %v to %v, want 45s to 75s", low, high)
	}
}
