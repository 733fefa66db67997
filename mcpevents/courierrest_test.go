package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A word from elsewhere that comes while the store is left alone, after it failed,
// waits until the store is asked again: the courier does not go round meanwhile,
// which would take a processor, and stop the clock of a bubble.
func TestAWordWhileTheStoreRests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &cutStore{SubscriptionStore: NewMemorySubscriptions()}
		w := newWorld(t, func(w *world) { w.store = cut })
		id := w.subscribe(map[string]any{"secret": testSecret}).ID
		settle()
		cut.set(errors.New("gone"))
		w.add("e1") // taken, which is to be written
		after(10*time.Second + 300*time.Millisecond)
		for range 10 {
			w.s.webhooks.poke(id)
			after(130 * time.Millisecond)
		}
		cut.set(nil)
		w.subscribe(map[string]any{"secret": nextSecret}) // the store is still left alone for a moment
		after(2 * time.Second)
		w.e.clear()
		w.add("e2")
		settle()
		if posts := w.e.all(""); len(posts) != 1 || !signed(t, posts[0], nextSecret) {
			t.Errorf("%d deliveries, want e2 signed by the new secret", len(posts))
		}
	})
}

// A word that comes just when a courier lies down to rest is not slept over, whether
// the store may be asked or not.
func TestAWordBeforeTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.stop()
		for i := range 20_000 {
			c := &courier{h: w.s.webhooks, win: newWindow(&webhookRecord{})}
			c.hold(stored[webhookRecord]{value: &webhookRecord{Lease: time.Now().Add(time.Hour).UnixMilli()}})
			c.checked = time.Now().Add(time.Hour)
			c.storeAt = time.Now().Add(time.Duration(i%2) * storePause)
			began := time.Now()
			go func() { // somewhere along the way
				for range i % 23 {
					runtime.Gosched()
				}
				c.poke(false)
			}()
			for word := false; !word; {
				c.rest(t.Context())
				c.mu.Lock()
				word = c.poked
				c.mu.Unlock()
			}
			if took := time.Since(began); took > storePause {
				t.Fatalf("the rest took %v", took)
			}
		}
	})
}

// slowLog takes its time for a page.
type slowLog struct{ *Log }

func (b slowLog) Read(ctx context.Context, sub Subscription, q Query) (Page, error) {
	time.Sleep(2 * time.Second)
	return b.Log.Read(ctx, sub, q)
}

// A long way through events that are not sent, and a backend that is slow, take no
// lease: it is renewed meanwhile.
func TestALongReadKeepsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.w.MaxBody = 400
			w.c.Types[0].Backend = slowLog{w.log}
		})
		id := w.subscribe(nil).ID
		settle()
		list := make([]Event, 3200)
		for i := range list {
			list[i] = Event{ID: fmt.Sprint("large", i), Data: []byte(`{"x":"` + strings.Repeat("x", 400) + `"}`)}
		}
		if err := w.log.Append(list...); err != nil {
			t.Fatal(err)
		}
		for range 18 {
			after(10 * time.Second)
			rec, err := load(t.Context(), &w.s.webhooks.ledger, w.s.webhooks.records, id)
			if err != nil {
				t.Fatal(err)
			}
			if end := moment(rec.value.Lease); !end.After(time.Now()) {
				t.Fatalf("the lease ended %v ago", time.Since(end))
			}
		}
		w.add("e1")
		after(time.Minute)
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("behind them %q is delivered, want e1", got)
		}
	})
}

// unwritable is a store that only reads, when it is told to.
type unwritable struct{ *cutStore }

func (s unwritable) Load(ctx context.Context, key string) (SubscriptionRecord, error) {
	return s.SubscriptionStore.Load(ctx, key)
}

// A gap that could not be written yet is not forgotten when the subscription turns
// out to be renewed elsewhere.
func TestAGapOutlivesARenewalElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := unwritable{&cutStore{SubscriptionStore: NewMemorySubscriptions()}}
		w := newWorld(t, func(w *world) { w.store, w.w.MaxBody = store, 400 })
		w.store = store.SubscriptionStore
		second := w.server() // answers, and does not deliver
		w.subscribe(map[string]any{"ttlMs": 60_000})
		w.e.set(status(500))
		after(58 * time.Second)
		store.set(errors.New("read only"))
		if err := w.log.Append(Event{ID: "large", Data: []byte(`{"x":"` + strings.Repeat("x", 400) + `"}`)}); err != nil {
			t.Fatal(err)
		}
		settle()
		if _, err := second.webhooks.subscribe(as("ann"), ask(nil)); err != nil {
			t.Fatal(err)
		}
		after(2500 * time.Millisecond)
		store.set(nil)
		w.e.set(nil)
		w.e.clear()
		after(5 * time.Minute)
		if n := len(w.e.all("gap")); n != 1 {
			t.Errorf("%d gaps are told afterwards, want 1", n)
		}
	})
}

// slowWrites is a store whose writes take a second.
type slowWrites struct{ SubscriptionStore }

func (s slowWrites) Write(ctx context.Context, w []SubscriptionWrite) ([]uint64, error) {
	time.Sleep(time.Second)
	return s.SubscriptionStore.Write(ctx, w)
}

// A subscription that is being taken when Run ends is given back as well.
func TestRunGivesBackWhatItIsTaking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.store = slowWrites{w.store} })
		id := w.subscribe(nil).ID
		time.Sleep(time.Second / 2)
		w.stop()
		after(10 * time.Second)
		rec, err := load(t.Context(), &w.s.webhooks.ledger, w.s.webhooks.records, id)
		if err != nil {
			t.Fatal(err)
		}
		if rec.value.Owner != "" {
			t.Errorf("it is still held by the server that stopped, for %v", time.Until(moment(rec.value.Lease)))
		}
	})
}

// idleLog says that there is more, and has nothing.
type idleLog struct {
	*Log
	reads *atomic.Int64
}

func (b idleLog) Read(_ context.Context, _ Subscription, q Query) (Page, error) {
	time.Sleep(time.Millisecond) // or the clock of the bubble would stand still
	b.reads.Add(1)
	return Page{Cursor: q.After, More: true}, nil
}

func TestABackendThatPromisesMoreTakesNoProcessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var reads atomic.Int64
		w := newWorld(t, func(w *world) { w.c.Types[0].Backend = idleLog{w.log, &reads} })
		w.subscribe(nil)
		after(10 * time.Second)
		if n := reads.Load(); n > 250 {
			t.Errorf("%d reads in ten seconds", n)
		}
	})
}

// What a record says of events that are not there any more is forgotten.
func TestWhatIsSaidOfNothingIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		id := w.subscribe(nil).ID
		settle()
		w.stop()
		records := w.s.webhooks.records
		if _, err := change(t.Context(), &w.s.webhooks.ledger, records, id, nil, func(r *webhookRecord) (*webhookRecord, verdict, error) {
			r.Settled, r.Tries = []Cursor{"gone1", "gone2"}, []storedTry{{"gone3", tries{N: 1, First: 1}}}
			return r, put, nil
		}); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.add("e1")
		after(time.Minute)
		rec, err := load(t.Context(), &w.s.webhooks.ledger, records, id)
		if err != nil || len(rec.value.Settled)+len(rec.value.Tries) != 0 {
			t.Errorf("the record still says %v, %v (%v)", rec.value.Settled, rec.value.Tries, err)
		}
	})
}
