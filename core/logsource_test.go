package attend_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
)

// sliceLog is an EventLog of one scope in memory: two events a batch, a cursor
// the number of events before it.
type sliceLog struct {
	mu      sync.Mutex
	events  []attend.Event
	err     error           // of the next Batches
	asked   []attend.Cursor // what Batches was called with
	trimmed int
}

func (l *sliceLog) Append(_ context.Context, _ attend.Scope, events []attend.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, events...)
	return nil
}

func (l *sliceLog) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		if scope != "ops/db" {
			yield(attend.Batch{}, fmt.Errorf("asked for scope %q", scope))
			return
		}
		l.mu.Lock()
		l.asked = append(l.asked, after)
		events, err, trimmed := slices.Clone(l.events), l.err, l.trimmed
		l.err = nil
		l.mu.Unlock()
		if err != nil {
			yield(attend.Batch{}, err)
			return
		}
		n, _ := strconv.Atoi(string(after))
		gap := after != "" && n < trimmed
		for n = max(n, trimmed); n < len(events); {
			end := min(n+2, len(events))
			b := attend.Batch{Events: events[n:end], Cursor: attend.Cursor(strconv.Itoa(end)), Gap: gap}
			if !yield(b, nil) {
				return
			}
			n, gap = end, false
		}
	}
}

func (l *sliceLog) calls() []attend.Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// waiterLog is a sliceLog that can wait.
type waiterLog struct {
	sliceLog
	grown chan struct{} // takes a value for each append
	waits []attend.Cursor
}

func (l *waiterLog) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	if scope != "ops/db" {
		return fmt.Errorf("asked for scope %q", scope)
	}
	l.mu.Lock()
	l.waits = append(l.waits, after)
	l.mu.Unlock()
	select {
	case <-l.grown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func numbered(from, to int) []attend.Event {
	var events []attend.Event
	for i := from; i <= to; i++ {
		events = append(events, attend.Event{ID: strconv.Itoa(i), Name: "n"})
	}
	return events
}

// reader collects what a source yields, until its loop ends.
type reader struct {
	mu   sync.Mutex
	got  []string // the events' ids, "gap", and the last error
	done bool
}

func read(ctx context.Context, s attend.Source, after attend.Cursor) *reader {
	r := new(reader)
	go func() {
		for b, err := range s.Batches(ctx, after) {
			r.mu.Lock()
			if b.Gap {
				r.got = append(r.got, "gap")
			}
			for _, e := range b.Events {
				r.got = append(r.got, e.ID)
			}
			if err != nil {
				r.got = append(r.got, err.Error())
			}
			r.mu.Unlock()
		}
		r.mu.Lock()
		r.done = true
		r.mu.Unlock()
	}()
	return r
}

func (r *reader) check(t *testing.T, when string, done bool, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, want) || r.done != done {
		t.Errorf("%s: read %q, done %v, want %q, %v", when, r.got, r.done, want, done)
	}
}

func TestLogSourceKey(t *testing.T) {
	if got := attend.LogSource("main", new(sliceLog), "ops/db").Key(); got != "log:main" {
		t.Errorf("Key() = %q, want %q", got, "log:main")
	}
}

func TestLogSourcePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := new(sliceLog)
		log.Append(ctx, "ops/db", numbered(1, 3))
		r := read(ctx, attend.LogSource("main", log, "ops/db"), "")
		r.check(t, "at once", false, "1", "2", "3")

		time.Sleep(300 * time.Millisecond)
		log.Append(ctx, "ops/db", numbered(4, 4))
		time.Sleep(699 * time.Millisecond)
		r.check(t, "just before a second", false, "1", "2", "3")
		time.Sleep(time.Millisecond)
		r.check(t, "after a second", false, "1", "2", "3", "4")

		time.Sleep(3 * time.Second)
		synctest.Wait()
		want := []attend.Cursor{"", "3", "4", "4", "4"}
		if got := log.calls(); !slices.Equal(got, want) {
			t.Errorf("the log was asked behind %q, want %q", got, want)
		}

		time.Sleep(500 * time.Millisecond)
		cancel()
		r.check(t, "when ctx ended", true, "1", "2", "3", "4", "context canceled")
	})
}

func TestLogSourceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := &waiterLog{grown: make(chan struct{}, 1)}
		r := read(ctx, attend.LogSource("main", log, "ops/db"), "")
		r.check(t, "at once", false)

		start := time.Now()
		log.Append(ctx, "ops/db", numbered(1, 1))
		log.grown <- struct{}{}
		r.check(t, "after an append", false, "1")
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v, want no time", d)
		}
		log.grown <- struct{}{} // for nothing
		r.check(t, "after a wake-up for nothing", false, "1")

		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := log.calls(), []attend.Cursor{"", "", "1"}; !slices.Equal(got, want) {
			t.Errorf("the log was asked behind %q, want %q: no polling", got, want)
		}
		if want := []attend.Cursor{"", "1", "1"}; !slices.Equal(log.waits, want) {
			t.Errorf("waited behind %q, want %q", log.waits, want)
		}
		cancel()
		r.check(t, "when ctx ended", true, "1", "context canceled")
	})
}

func TestLogSourceResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := new(sliceLog)
		log.Append(ctx, "ops/db", numbered(1, 5))
		r := read(ctx, attend.LogSource("main", log, "ops/db"), "3")
		r.check(t, "behind 3", false, "4", "5")
		cancel()
		r.check(t, "when ctx ended", true, "4", "5", "context canceled")
	})
}

func TestLogSourcePassesGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := &sliceLog{trimmed: 2}
		log.Append(ctx, "ops/db", numbered(1, 4))
		r := read(ctx, attend.LogSource("main", log, "ops/db"), "1")
		r.check(t, "behind what was trimmed", false, "gap", "3", "4")
		time.Sleep(2 * time.Second)
		r.check(t, "later", false, "gap", "3", "4")
		cancel()
		r.check(t, "when ctx ended", true, "gap", "3", "4", "context canceled")
	})
}

func TestLogSourceEndsWithTheLogsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &sliceLog{err: errors.New("disk is full")}
		r := read(t.Context(), attend.LogSource("main", log, "ops/db"), "")
		r.check(t, "at once", true, "disk is full")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(log.calls()); n != 1 {
			t.Errorf("the log was asked %d times, want once", n)
		}
	})
}

func TestLogSourceStopsWithItsLoop(t *testing.T) {
	log := new(sliceLog)
	log.Append(t.Context(), "ops/db", numbered(1, 5))
	source := attend.LogSource("main", log, "ops/db")
	for range source.Batches(t.Context(), "") {
		break
	}
	if n := len(log.calls()); n != 1 {
		t.Errorf("the log was asked %d times, want once", n)
	}
	// The same source begins again wherever it is asked to.
	for b, err := range source.Batches(t.Context(), "4") {
		if err != nil || len(b.Events) != 1 || b.Events[0].ID != "5" {
			t.Errorf("Batches behind 4 = %+v, %v, want event 5", b, err)
		}
		break
	}
}
