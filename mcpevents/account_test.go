package mcpevents

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A hookStore runs a function around a write, once: that is where somebody else
// comes in between two lines.
type hookStore struct {
	SubscriptionStore
	mu     sync.Mutex
	before func(w SubscriptionWrite) func() // nil: not now
	after  func(w SubscriptionWrite) func()
}

func (s *hookStore) Write(ctx context.Context, writes []SubscriptionWrite) ([]uint64, error) {
	run := func(hook *func(SubscriptionWrite) func()) {
		for _, w := range writes {
			s.mu.Lock()
			var f func()
			if *hook != nil {
				if f = (*hook)(w); f != nil {
					*hook = nil
				}
			}
			s.mu.Unlock()
			if f != nil {
				f()
			}
		}
	}
	run(&s.before)
	versions, err := s.SubscriptionStore.Write(ctx, writes)
	run(&s.after)
	return versions, err
}

func (s *hookStore) set(before, after func(SubscriptionWrite) func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// removal is a hook for the write that removes a subscription.
func removal(f func()) func(SubscriptionWrite) func() {
	return func(w SubscriptionWrite) func() {
		if w.Value == nil && strings.HasPrefix(w.Key, "sub_") {
			return f
		}
		return nil
	}
}

// What is subscribed to again while the one before it is being ended is in the
// account, whichever way it ends.
func TestASubscriptionMadeWhileAnotherEndsCounts(t *testing.T) {
	for _, expires := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			hook := &hookStore{SubscriptionStore: NewMemorySubscriptions()}
			w := newWorld(t, func(w *world) { w.store, w.w.MaxPerPrincipal = hook, 1 })
			second := w.server()
			w.subscribe(map[string]any{"ttlMs": 60_000})
			settle()
			var again error
			hook.set(nil, removal(func() {
				_, again = second.webhooks.subscribe(as("ann"), ask(map[string]any{"ttlMs": 600_000}))
			}))
			if expires {
				after(61 * time.Second)
			} else if _, err := w.s.webhooks.unsubscribe(as("ann"), ask(nil)); err != nil {
				t.Fatal(err)
			}
			settle()
			if again != nil {
				t.Fatalf("expires %v: the subscribe in between: %v", expires, again)
			}
			_, err := w.s.webhooks.subscribe(as("ann"), ask(map[string]any{"arguments": map[string]any{"n": 2}}))
			refused(t, "a second subscription", err, ResourceExhausted, "limit", "subscriptions")
			if n := len(w.e.all("verification")); n != 2 {
				t.Errorf("expires %v: %d challenges, want one for each: consent ended with the first", expires, n)
			}
		})
	}
}

// Two calls that make one subscription at a time leave one entry, which goes with it.
func TestASubscriptionMadeTwiceAtOnceLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hook := &hookStore{SubscriptionStore: NewMemorySubscriptions()}
		w := newWorld(t, func(w *world) { w.store = hook })
		second := w.server()
		var other error
		hook.set(func(write SubscriptionWrite) func() {
			if !strings.HasPrefix(write.Key, "sub_") {
				return nil
			}
			return func() { _, other = second.webhooks.subscribe(as("ann"), ask(nil)) }
		}, nil)
		w.subscribe(nil)
		if other != nil {
			t.Fatal(other)
		}
		settle()
		if _, err := w.s.webhooks.unsubscribe(as("ann"), ask(nil)); err != nil {
			t.Fatal(err)
		}
		if a, err := load(t.Context(), &w.s.webhooks.ledger, accounts, accountKey("ann")); err != nil || a.version != 0 {
			t.Errorf("after unsubscribe the account has %+v, %v, want nothing", a.value, err)
		}
	})
}

// A crash between the end of a subscription and its account leaves neither consent
// behind nor a place that is taken.
func TestACrashBeforeTheAccountLeavesNoConsent(t *testing.T) {
	for _, most := range []int{1, 100} {
		bubble(t, func(t *testing.T) {
			cut := &cutStore{SubscriptionStore: NewMemorySubscriptions()}
			hook := &hookStore{SubscriptionStore: cut}
			w := newWorld(t, func(w *world) { w.store, w.w.NoExpiry, w.w.MaxPerPrincipal = hook, true, most })
			w.subscribe(map[string]any{"ttlMs": nil})
			settle()
			hook.set(nil, removal(func() { cut.set(errors.New("crashed")) }))
			if _, err := w.s.webhooks.unsubscribe(as("ann"), ask(nil)); err == nil {
				t.Fatal("unsubscribe is answered, though the store is gone")
			}
			cut.set(nil)
			w.subscribe(map[string]any{"arguments": map[string]any{"n": 2}})
			if n := len(w.e.all("verification")); n != 2 {
				t.Errorf("of %d: %d challenges, want another one after the end", most, n)
			}
		})
	}
}

// A subscription that was terminated stands for no consent while the endpoint is
// still to be told.
func TestATerminatedSubscriptionIsNoConsent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.c.Types = append(w.c.Types, Type{Name: "other", Modes: []Mode{Webhook}, Backend: NewLog(LogConfig{})})
		})
		w.subscribe(nil)
		settle()
		w.e.set(status(500))
		w.s.Withdraw("tick")
		settle()
		w.subscribe(map[string]any{"name": "other"})
		if n := len(w.e.all("verification")); n != 2 {
			t.Errorf("%d challenges, want another one after the end", n)
		}
	})
}

// countStore counts what is loaded.
type countStore struct {
	SubscriptionStore
	loads atomic.Int64
}

func (s *countStore) Load(ctx context.Context, key string) (SubscriptionRecord, error) {
	s.loads.Add(1)
	return s.SubscriptionStore.Load(ctx, key)
}

// Who has as many subscriptions as may be, and asks for more all the time, costs no
// look at all of them each time.
func TestAFullAccountIsNotReadForEachRefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		count := &countStore{SubscriptionStore: NewMemorySubscriptions()}
		w := newWorld(t, func(w *world) { w.store = count })
		for i := range 100 {
			w.subscribe(map[string]any{"arguments": map[string]any{"n": i}})
		}
		w.stop()
		count.loads.Store(0)
		const asked = 200
		for range asked {
			_, err := w.s.webhooks.subscribe(as("ann"), ask(map[string]any{"arguments": map[string]any{"n": 100}}))
			refused(t, "one more", err, ResourceExhausted, "limit", "subscriptions")
		}
		if n := count.loads.Load(); n > 2*asked+maxLooks*100 {
			t.Errorf("%d loads for %d refusals", n, asked)
		}
	})
}
