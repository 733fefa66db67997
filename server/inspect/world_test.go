package inspect_test

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/inspect"
)

const scope = attend.Scope("ops/db")

// A world is an engine in a bubble, whose clock begins at the year 2000.
type world struct {
	t       testing.TB
	store   *memory.Store
	engine  *engine.Engine
	judge   *attendtest.Judge
	sink    *attendtest.Sink
	letters *attendtest.Letters
	stop    context.CancelFunc
	done    chan error
}

// kind makes its kind of an event's name: flush.x is a flush. A name that begins
// otherwise has none.
func kind(e attend.Event) attend.Kind {
	name, _, _ := strings.Cut(e.Name, ".")
	return attend.Kind(name)
}

// newWorld makes an engine that runs, in a bubble.
func newWorld(t testing.TB, c engine.Config, script ...attendtest.Answer) *world {
	w := &world{
		t: t, store: memory.New(), judge: &attendtest.Judge{Script: script},
		sink: new(attendtest.Sink), letters: new(attendtest.Letters), done: make(chan error, 1),
	}
	c.Store, c.Kind, c.Judge, c.Logger = w.store, kind, w.judge, slog.New(slog.DiscardHandler)
	if c.Sink == nil {
		c.Sink = w.sink
	}
	if c.DeadLetter == nil {
		c.DeadLetter = w.letters
	}
	var err error
	if w.engine, err = engine.New(c); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	go func() { w.done <- w.engine.Run(ctx) }()
	synctest.Wait()
	return w
}

// end stops the engine. A bubble is not over before.
func (w *world) end() {
	w.stop()
	<-w.done
}

// push brings events with these ids and names, in pairs.
func (w *world) push(pairs ...string) {
	w.t.Helper()
	var events []attend.Event
	for i := 0; i < len(pairs); i += 2 {
		events = append(events, attend.Event{ID: pairs[i], Name: pairs[i+1]})
	}
	if _, err := w.engine.Push(w.t.Context(), scope, events...); err != nil {
		w.t.Fatal(err)
	}
}

// explain asks the store alone, and checks that the answer goes over a wire.
func (w *world) explain(event string) inspect.Explanation {
	w.t.Helper()
	x, err := inspect.FromStore(w.t.Context(), w.store, inspect.Question{Scope: scope, Event: event})
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := json.Marshal(x)
	if err != nil {
		w.t.Fatal(err)
	}
	var again inspect.Explanation
	if err := json.Unmarshal(b, &again); err != nil {
		w.t.Fatal(err)
	}
	if len(x.Lives) > 0 && !reflect.DeepEqual(x, again) {
		w.t.Errorf("over a wire %+v becomes %+v", x, again)
	}
	return x
}

// A batches source brings batches and then waits.
type batches struct {
	key  string
	list []attend.Batch
}

func (b batches) Key() string { return b.key }

func (b batches) Batches(ctx context.Context, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for _, one := range b.list {
			if !yield(one, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

const second = time.Second

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
