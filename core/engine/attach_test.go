package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/memory"
)

// A feed is a source of batches, each with its place as cursor.
type feed struct {
	key     string
	batches []attend.Batch
	// before runs before a batch is handed over; its error ends the iteration.
	before func(ctx context.Context, i int) error
	end    func(ctx context.Context) error // once all are handed over; nil: the iterator ends

	mu     sync.Mutex
	starts []attend.Cursor // where it was started
	at     []time.Time
}

func (f *feed) Key() string { return f.key }

func (f *feed) Batches(ctx context.Context, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	f.mu.Lock()
	f.starts, f.at = append(f.starts, after), append(f.at, time.Now())
	f.mu.Unlock()
	return func(yield func(attend.Batch, error) bool) {
		next, _ := strconv.Atoi(string(after))
		for i := next; i < len(f.batches); i++ {
			if f.before != nil {
				if err := f.before(ctx, i); err != nil {
					yield(attend.Batch{}, err)
					return
				}
			}
			b := f.batches[i]
			if b.Cursor == "" {
				b.Cursor = attend.Cursor(strconv.Itoa(i + 1))
			}
			if !yield(b, nil) {
				return
			}
		}
		if f.end != nil {
			if err := f.end(ctx); err != nil {
				yield(attend.Batch{}, err)
			}
		}
	}
}

func (f *feed) started() ([]attend.Cursor, []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.starts), slices.Clone(f.at)
}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// feedOf is a feed of n batches of one event each.
func feedOf(key string, n int, name string) *feed {
	f := &feed{key: key}
	for i := range n {
		f.batches = append(f.batches, attend.Batch{Events: []attend.Event{{ID: fmt.Sprint(i), Name: name}}})
	}
	return f
}

// heard are the ids of the events delivered, with their sources.
func heard(sinks ...*attendtest.Sink) (out []string) {
	for _, s := range sinks {
		for _, d := range s.Delivered() {
			for _, v := range d.Window.Events {
				out = append(out, v.Source+"/"+v.ID)
			}
		}
	}
	slices.Sort(out)
	return out
}

// E38: a source whose iterator ends without an error ends Attach with nil; its
// events carry its key, and its cursor is committed.
func TestE38ASourceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		f := start(t, cfg)
		if err := f.Attach(t.Context(), "repo", feedOf("feed", 3, "closing.x")); err != nil {
			t.Errorf("Attach() = %v, want nil", err)
		}
		s, _ := f.State(t.Context(), "repo")
		if got := s.Cursor("feed"); got != "3" {
			t.Errorf("cursor %q, want 3", got)
		}
		if n := len(store.writes("repo")); n != 3 {
			t.Errorf("%d writes, want a batch and its cursor in one", n)
		}
		sleep(time.Second)
		if got := heard(f.sink); !slices.Equal(got, []string{"feed/0", "feed/1", "feed/2"}) {
			t.Errorf("heard %v, want the three events of the feed", got)
		}
	})
}

// E38: it goes on from the committed cursor.
func TestE38ItResumesFromTheCommittedCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config())
		src := feedOf("feed", 5, "closing.x")
		ctx, cancel := context.WithCancel(t.Context())
		src.before = func(ctx context.Context, i int) error {
			if i == 3 && len(src.starts) == 1 {
				cancel()
				return wait(ctx)
			}
			return nil
		}
		if err := f.Attach(ctx, "repo", src); !errors.Is(err, context.Canceled) {
			t.Errorf("Attach() = %v, want Canceled", err)
		}
		if err := f.Attach(t.Context(), "repo", src); err != nil {
			t.Errorf("Attach() = %v, want nil", err)
		}
		if got, _ := src.started(); !slices.Equal(got, []attend.Cursor{"", "3"}) {
			t.Errorf("started after %q, want the start and 3", got)
		}
	})
}

// E38: plain errors back off by RetryBackoff, whose last rung repeats, and begin
// anew once a batch came; a permanent one ends Attach.
func TestE38ErrorsOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config())
		src := feedOf("feed", 2, "consequence.x")
		fails := 0
		src.before = func(_ context.Context, i int) error {
			switch {
			case i == 0 && fails < 5, i == 1 && fails < 6:
				fails++
				return errDown
			case i == 1 && fails < 7:
				fails++
				return &attend.RetryAfterError{After: 10 * time.Second, Err: errDown}
			case i == 1:
				return attend.Permanent(errors.New("no such feed"))
			}
			return nil
		}
		begun := time.Now()
		err := f.Attach(t.Context(), "repo", src)
		if _, ok := errors.AsType[*attend.PermanentError](err); !ok || err.Error() != "no such feed" {
			t.Errorf("Attach() = %v, want the permanent error", err)
		}
		_, at := src.started()
		var got []time.Duration
		for _, a := range at {
			got = append(got, a.Sub(begun))
		}
		// 1, 4, 16, 16, 16; then a batch and 1; then 10 for the retry-after.
		if want := seconds(0, 1, 5, 21, 37, 53, 54, 64); !slices.Equal(got, want) {
			t.Errorf("started at %v, want %v", got, want)
		}
	})
}

// E38: one source key can be attached to a scope only once, another or in
// another scope as well, and again once it has ended.
func TestE38ErrAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		attach := func(scope attend.Scope, key string) {
			src := feedOf(key, 1, "consequence.x")
			src.end = wait
			wg.Go(func() {
				if err := f.Attach(ctx, scope, src); !errors.Is(err, context.Canceled) {
					t.Errorf("Attach(%s, %s) = %v, want Canceled", scope, key, err)
				}
			})
			synctest.Wait()
		}
		attach("repo", "feed")
		attach("repo", "other")
		attach("second", "feed")
		if err := f.Attach(t.Context(), "repo", feedOf("feed", 1, "closing.x")); !errors.Is(err, attend.ErrAttached) {
			t.Errorf("Attach() of an attached source = %v, want ErrAttached", err)
		}
		cancel()
		wg.Wait()
		if err := f.Attach(t.Context(), "repo", feedOf("feed", 1, "closing.x")); err != nil {
			t.Errorf("Attach() after the first has ended = %v, want nil", err)
		}
	})
}

func TestAttachOfABadScopeOrKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, config())
		for _, row := range []struct {
			scope attend.Scope
			key   string
		}{{"", "feed"}, {"repo", ""}, {"repo", "a\nb"}, {"repo", strings.Repeat("x", 1025)}} {
			if err := e.Attach(t.Context(), row.scope, &feed{key: row.key}); !errors.Is(err, attend.ErrInvalid) {
				t.Errorf("Attach(%q, %.9q) = %v, want ErrInvalid", row.scope, row.key, err)
			}
		}
		src := &feed{key: "feed", batches: []attend.Batch{{Cursor: attend.Cursor(strings.Repeat("x", 4097))}}}
		if err := e.Attach(t.Context(), "repo", src); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("Attach() with a cursor of 4,097 bytes = %v, want ErrInvalid", err)
		}
	})
}

// E33: a scope that is removed while its source runs ends the attachment, in
// this process or another.
func TestE33ErrRemoved(t *testing.T) {
	for _, here := range []bool{true, false} {
		t.Run(fmt.Sprint("removed here ", here), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, other := pair(t, config())
				src := feedOf("feed", 5, "consequence.x")
				src.before = func(context.Context, int) error {
					time.Sleep(time.Second)
					return nil
				}
				e := f.Engine
				if !here {
					e = other
				}
				time.AfterFunc(2500*time.Millisecond, func() {
					if err := e.Remove(t.Context(), "repo"); err != nil {
						t.Error(err)
					}
				})
				if err := f.Attach(t.Context(), "repo", src); !errors.Is(err, attend.ErrRemoved) {
					t.Errorf("Attach() = %v, want ErrRemoved", err)
				}
				if w, _ := f.Window(t.Context(), "repo"); len(w.Events) != 0 {
					t.Errorf("%d events after the end, want none", len(w.Events))
				}
			})
		})
	}
}

// E33: two engines run one source: each event is taken once.
func TestE33TwoEnginesRunOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		var wg sync.WaitGroup
		var sinks []*attendtest.Sink
		var feeds []*feed
		for i := range 2 {
			cfg := config()
			cfg.Store = &spy{ScopeStore: mem.Reopen(), commitTakes: time.Millisecond}
			f := start(t, cfg)
			src := feedOf("feed", 200, "closing.x")
			src.before = func(_ context.Context, k int) error {
				time.Sleep(time.Duration(1+(k*7+i*5)%13) * time.Millisecond) // each is ahead at times
				if k%31 == 30 && len(src.starts) < 3+i {
					return errDown // and starts anew at times
				}
				return nil
			}
			sinks, feeds = append(sinks, f.sink), append(feeds, src)
			wg.Go(func() {
				if err := f.Attach(t.Context(), "repo", src); err != nil {
					t.Errorf("Attach() = %v, want nil", err)
				}
			})
		}
		wg.Wait()
		sleep(time.Minute)
		got := heard(sinks...)
		if len(got) != 200 || len(slices.Compact(got)) != 200 {
			t.Errorf("%d events heard, want 200, each once", len(got))
		}
		for i, s := range feeds {
			if starts, _ := s.started(); len(starts) > 210 {
				t.Errorf("feed %d was started %d times", i, len(starts))
			}
		}
	})
}

// E33: a source that is started again after another process has moved on finds
// its place, and does not spin.
func TestE33ASourceThatAnotherProcessMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := pair(t, config())
		src := feedOf("feed", 10, "consequence.x")
		src.before = func(_ context.Context, i int) error {
			if i == 2 && len(src.starts) == 1 {
				return errDown // a pause of 1 s, in which the other one runs on
			}
			return nil
		}
		twin := feedOf("feed", 6, "consequence.x")
		done := make(chan error)
		go func() { done <- f.Attach(t.Context(), "repo", src) }()
		synctest.Wait()
		if err := other.Attach(t.Context(), "repo", twin); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Attach() = %v, want nil", err)
		}
		starts, _ := src.started()
		if !slices.Equal(starts, []attend.Cursor{"", "6"}) {
			t.Errorf("started after %q, want the start and where the other was", starts)
		}
		if w, _ := f.Window(t.Context(), "repo"); len(w.Events) != 10 {
			t.Errorf("%d events, want 10", len(w.Events))
		}
	})
}

// E26, E38: a batch that meets a full lane is kept and tried again.
func TestE38ABatchThatMeetsAFullLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		cfg := config()
		cfg.MaxOutbox = 1
		sink := &attendtest.Sink{Handle: func(ctx context.Context, _ attend.Decision) error {
			select {
			case <-until:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		cfg.Sink = sink
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		src := feedOf("feed", 2, "flush.x")
		done := make(chan error)
		go func() { done <- f.Attach(t.Context(), "repo", src) }()
		sleep(4 * time.Second) // tries at 0 and 1 s
		close(until)
		if err := <-done; err != nil {
			t.Errorf("Attach() = %v, want nil", err)
		}
		sleep(time.Second)
		if got := heard(sink); !slices.Equal(got, []string{"/a", "feed/0", "feed/1"}) {
			t.Errorf("heard %v, want all three", got)
		}
		if starts, _ := src.started(); len(starts) != 1 {
			t.Errorf("the source was started %d times, want its batch kept", len(starts))
		}
	})
}

// E31, E33: a batch over the limits of a push goes in parts, of which the last
// moves the cursor.
func TestE38ABatchOverTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Settle.MaxEvents = 100_000
		store := &spy{ScopeStore: cfg.Store}
		cfg.Store = store
		e := newEngine(t, cfg)
		src := &feed{key: "feed", batches: []attend.Batch{
			{Events: numbered("a", "consequence.x", 25_000)},
			{Events: func() []attend.Event {
				out := numbered("big", "consequence.x", 20)
				for i := range out {
					out[i].Text = strings.Repeat("x", 1<<20-400)
				}
				return out
			}()},
		}}
		if err := e.Attach(t.Context(), "repo", src); err != nil {
			t.Fatal(err)
		}
		if n := len(store.writes("repo")); n != 5 {
			t.Errorf("%d writes, want three and two parts", n)
		}
		s, _ := e.State(t.Context(), "repo")
		if got := s.Cursor("feed"); got != "2" {
			t.Errorf("cursor %q, want 2", got)
		}
	})
}

// E2: an event of a source that no kind takes, or that breaks a rule, becomes a
// dead letter of stage intake, and the rest is taken.
func TestE2ABadEventOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Kind = func(v attend.Event) attend.Kind {
			if v.Name == "panic" {
				panic("no")
			}
			return kinds(v)
		}
		f := start(t, cfg)
		src := &feed{key: "feed", batches: []attend.Batch{{Events: []attend.Event{
			{ID: "good-1", Name: "closing.x"},
			{ID: "no kind", Name: "shouting.x"},
			{ID: "broken\x00id", Name: "closing.x"},
			{ID: "panics", Name: "panic"},
			{ID: "too big", Name: "closing.x", Text: strings.Repeat("x", 1<<20)},
			{ID: "no json", Name: "closing.x", Data: []byte("{")},
			{ID: "good-2", Name: "closing.x"},
		}}}}
		if err := f.Attach(t.Context(), "repo", src); err != nil {
			t.Fatal(err)
		}
		sleep(time.Second)
		if got := heard(f.sink); !slices.Equal(got, []string{"feed/good-1", "feed/good-2"}) {
			t.Errorf("heard %v, want the good ones", got)
		}
		letters := f.letters.Taken()
		if len(letters) != 5 {
			t.Fatalf("%d dead letters, want 5", len(letters))
		}
		ids := map[attend.DecisionID]bool{}
		for _, l := range letters {
			ids[l.ID] = true
			if l.Stage != attend.StageIntake || l.Message == "" || l.Attempts != 0 || len(l.Window.Events) != 1 || l.Window.Events[0].Source != "feed" {
				t.Errorf("dead letter %+v, want stage intake with the event and why", l)
			}
		}
		if len(ids) != 5 {
			t.Errorf("%d ids of 5 letters, want one each", len(ids))
		}
		s, _ := f.State(t.Context(), "repo")
		if got := s.Cursor("feed"); got != "1" {
			t.Errorf("cursor %q, want 1: the source goes on", got)
		}
	})
}

// E1, E38: a scope can have several sources, and the same id of two of them is
// two events. E11: a gap is told by the window.
func TestE38SeveralSourcesAndAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config())
		a, b := feedOf("a", 2, "closing.x"), feedOf("b", 2, "closing.x")
		b.batches[1].Gap = true
		var wg sync.WaitGroup
		for _, src := range []*feed{a, b} {
			wg.Go(func() {
				if err := f.Attach(t.Context(), "repo", src); err != nil {
					t.Errorf("Attach() = %v, want nil", err)
				}
			})
		}
		wg.Wait()
		sleep(time.Second)
		got := f.sink.Delivered()
		if len(got) != 1 || len(got[0].Window.Events) != 4 || !got[0].Window.Gap {
			t.Errorf("delivered %+v, want one window of four events with a gap", got)
		}
		s, _ := f.State(t.Context(), "repo")
		if s.Cursor("a") != "2" || s.Cursor("b") != "2" {
			t.Errorf("cursors %q and %q, want 2 each", s.Cursor("a"), s.Cursor("b"))
		}
	})
}

// A source that can't resume has no cursor, and its events are known by their
// ids.
func TestE38ASourceWithoutACursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, config())
		for range 2 {
			if err := e.Attach(t.Context(), "repo", bare{}); err != nil {
				t.Fatal(err)
			}
		}
		if w, _ := e.Window(t.Context(), "repo"); len(w.Events) != 3 {
			t.Errorf("%d events, want 3 once each", len(w.Events))
		}
	})
}

type bare struct{}

func (bare) Key() string { return "bare" }

func (bare) Batches(context.Context, attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for _, v := range numbered("a", "consequence.x", 3) {
			if !yield(attend.Batch{Events: []attend.Event{v}}, nil) {
				return
			}
		}
	}
}
