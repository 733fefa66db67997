package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Two servers on one store deliver each event from one of them.
func TestTwoServersDeliverOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		second := w.server()
		defer w.run(second)()
		var want []string
		for i := range 20 {
			s := w.s
			if i%2 == 1 {
				s = second
			}
			if _, err := s.webhooks.subscribe(as("ann"), ask(map[string]any{"arguments": map[string]any{"n": i}})); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 30 {
			want = append(want, fmt.Sprint("e", i))
			w.add(want[i])
			after(20 * time.Second)
		}
		count := map[string]int{}
		for _, p := range w.e.all("") {
			count[p.header.Get(headerSubscription)+" "+p.body.EventID]++
		}
		if len(count) != 20*30 {
			t.Errorf("%d events were delivered, want %d", len(count), 20*30)
		}
		for key, n := range count {
			if n != 1 {
				t.Errorf("%s was delivered %d times", key, n)
			}
		}
	})
}

// A subscription that one server holds follows what another one answered: a new
// secret, a longer life, the end.
func TestTheOtherServerAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(map[string]any{"ttlMs": 60_000})
		settle()
		second := w.server() // without deliveries
		after(50 * time.Second)
		if _, err := second.webhooks.subscribe(as("ann"), ask(map[string]any{"ttlMs": 600_000, "secret": nextSecret})); err != nil {
			t.Fatal(err)
		}
		after(30 * time.Second)
		w.add("e1")
		settle()
		posts := w.e.all("")
		if len(posts) != 1 || !signed(t, posts[0], nextSecret) {
			t.Fatalf("%d deliveries after the refresh elsewhere, want one with the new secret", len(posts))
		}
		after(10 * time.Second)
		if _, err := second.webhooks.unsubscribe(as("ann"), ask(nil)); err != nil {
			t.Fatal(err)
		}
		after(6 * time.Second)
		w.add("e2")
		after(time.Hour)
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("delivered %q after unsubscribe elsewhere, want e1 alone", got)
		}
	})
}

// A server that dies is followed by another when its lease ends, and nothing is
// lost; one that stops gives its subscriptions back at once.
func TestTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(nil)
		w.add("e1")
		settle()
		// It dies: its store stops answering, and its network.
		dead := &cutStore{SubscriptionStore: w.store}
		w.end()
		w.store = dead
		w.start()
		w.add("e2")
		after(2 * time.Second)
		dead.set(errors.New("cut"))
		began := time.Now()
		w.store = dead.SubscriptionStore
		second := w.server()
		stop := w.run(second)
		w.add("e3")
		after(2 * time.Minute)
		w.end()
		stop()
		var took time.Duration
		for _, p := range w.e.all("") {
			if p.body.EventID == "e3" {
				took = p.at.Sub(began)
			}
		}
		if got := eventIDs(w.e.all("")); !strings.HasPrefix(got, "e1 e2 e3") {
			t.Errorf("delivered %q, want all three", got)
		}
		if took > 62*time.Second {
			t.Errorf("it was taken over after %v, want within a lease", took)
		}
		w.start()
		w.add("e4")
		after(2 * time.Second)
		if got := eventIDs(w.e.all("")); !strings.HasSuffix(got, " e4") {
			t.Errorf("after an orderly stop %q is delivered within two seconds, want e4 at the end", got)
		}
	})
}

// A server that slept while another one took its subscription over finds that
// out before it sends or writes anything.
func TestAServerThatSleptHasLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := NewMemorySubscriptions()
		cut := &cutStore{SubscriptionStore: inner}
		w := newWorld(t, func(w *world) { w.store = cut })
		id := w.subscribe(nil).ID
		w.add("e1")
		settle()
		cut.set(errors.New("asleep"))
		after(50 * time.Second) // its lease has not ended, and it is not renewed
		w.store = inner
		second := w.server()
		stop := w.run(second)
		after(30 * time.Second)
		owner := func() string {
			rec, err := load(t.Context(), &second.webhooks.ledger, second.webhooks.records, id)
			if err != nil || rec.value == nil {
				t.Fatal(err)
			}
			return rec.value.Owner
		}
		if got := owner(); got != second.webhooks.owner {
			t.Fatalf("the subscription is held by %q, want the second server", got)
		}
		cut.set(nil)
		for i := range 5 {
			w.add(fmt.Sprint("e", i+2))
			after(30 * time.Second)
			if got := owner(); got != second.webhooks.owner {
				t.Errorf("the first server took it back from a server that is alive")
			}
		}
		if got := eventIDs(w.e.all("")); got != "e1 e2 e3 e4 e5 e6" {
			t.Errorf("delivered %q, want each once", got)
		}
		stop()
	})
}

// cutStore fails when it is told to.
type cutStore struct {
	SubscriptionStore
	mu  sync.Mutex
	err error
}

func (s *cutStore) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *cutStore) get() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *cutStore) Load(ctx context.Context, key string) (SubscriptionRecord, error) {
	if err := s.get(); err != nil {
		return SubscriptionRecord{}, err
	}
	return s.SubscriptionStore.Load(ctx, key)
}

func (s *cutStore) Write(ctx context.Context, w []SubscriptionWrite) ([]uint64, error) {
	if err := s.get(); err != nil {
		return nil, err
	}
	return s.SubscriptionStore.Write(ctx, w)
}

func (s *cutStore) Due(ctx context.Context, now time.Time) iter.Seq2[string, error] {
	if err := s.get(); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return s.SubscriptionStore.Due(ctx, now)
}

// A server whose store is gone stops sending before its lease ends: then another
// one may send.
func TestNoDeliveryWithoutALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &cutStore{SubscriptionStore: NewMemorySubscriptions()}
		w := newWorld(t, func(w *world) { w.store = cut })
		w.subscribe(nil)
		settle()
		cut.set(errors.New("gone"))
		after(2 * time.Minute)
		w.add("e1")
		after(time.Minute)
		if n := len(w.e.all("")); n != 0 {
			t.Errorf("%d deliveries without a lease, want none", n)
		}
		cut.set(nil)
		after(time.Minute)
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("when the store is back %q is delivered, want e1", got)
		}
	})
}

// A courier that is told of a change while the store fails neither runs in
// circles nor forgets it.
func TestAPokeWaitsForTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &cutStore{SubscriptionStore: NewMemorySubscriptions()}
		w := newWorld(t, func(w *world) { w.store = cut })
		second := w.server() // answers, and does not deliver
		id := w.subscribe(nil).ID
		settle()
		cut.set(errors.New("gone"))
		for range 2 {
			w.s.webhooks.poke(id)
			settle()
		}
		cut.set(nil)
		if _, err := second.webhooks.unsubscribe(as("ann"), ask(nil)); err != nil {
			t.Fatal(err)
		}
		after(2 * storePause)
		w.add("e1")
		settle()
		if got := eventIDs(w.e.all("")); got != "" {
			t.Errorf("after unsubscribe %q is delivered, want nothing", got)
		}
	})
}

// crashStore lets a process die at its nth write: before it, or after it with the
// answer lost. Nothing of that process reaches the store afterwards.
type crashStore struct {
	SubscriptionStore
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

var errCrash = errors.New("crashed")

func (s *crashStore) Write(ctx context.Context, w []SubscriptionWrite) ([]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nil, errCrash
	}
	if s.left--; s.left < 0 {
		if s.dead = true; s.after {
			_, _ = s.SubscriptionStore.Write(ctx, w)
		}
		return nil, errCrash
	}
	return s.SubscriptionStore.Write(ctx, w)
}

func (s *crashStore) Load(ctx context.Context, key string) (SubscriptionRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return SubscriptionRecord{}, errCrash
	}
	return s.SubscriptionStore.Load(ctx, key)
}

// A crash at any write loses no event, and no two processes disagree about what
// was taken by more than what was on its way.
func TestCrashAtAnyWriteLosesNothing(t *testing.T) {
	for _, late := range []bool{false, true} {
		for n := range 10 {
			bubble(t, func(t *testing.T) {
				inner := NewMemorySubscriptions()
				crash := &crashStore{SubscriptionStore: inner, left: n, after: late}
				w := newWorld(t, func(w *world) { w.store = crash })
				head, err := w.log.Head(t.Context(), Subscription{})
				if err != nil {
					t.Fatal(err)
				}
				fails := map[string]int{}
				var mu sync.Mutex
				w.e.set(func(p post) (int, http.Header, error) {
					mu.Lock()
					defer mu.Unlock()
					if fails[p.body.EventID]++; fails[p.body.EventID] == 1 && p.body.EventID != "e1" {
						return 500, nil, nil
					}
					return 200, nil, nil
				})
				w.add("e1", "e2", "e3")
				// The client subscribes with its cursor and tries again until it
				// is answered, as it must.
				cursor := map[string]any{"cursor": string(head)}
				_, err = w.s.webhooks.subscribe(as("ann"), ask(cursor))
				after(10 * time.Second)
				w.add("e4", "e5")
				after(20 * time.Second)
				w.stop()
				if crash.mu.Lock(); !crash.dead {
					t.Errorf("crash at write %d, late %v: there was no crash", n, late)
				}
				crash.mu.Unlock()
				w.store = inner
				w.start()
				after(2 * time.Minute)
				if err != nil {
					w.subscribe(cursor)
				}
				w.add("e6")
				after(20 * time.Minute)
				taken := map[string]int{}
				for _, p := range w.e.all("") {
					taken[p.body.EventID]++
				}
				for _, id := range []string{"e1", "e2", "e3", "e4", "e5", "e6"} {
					if taken[id] == 0 || id != "e1" && taken[id] == 1 {
						t.Errorf("crash at write %d, late %v: %s was never accepted: %v", n, late, id, taken)
					}
					if taken[id] > 4 {
						t.Errorf("crash at write %d, late %v: %s came %d times", n, late, id, taken[id])
					}
				}
				if end, _ := w.log.Head(t.Context(), Subscription{}); w.subscribe(nil).Cursor != end {
					t.Errorf("crash at write %d, late %v: the watermark is not at the end", n, late)
				}
				w.end()
			})
		}
	}
}

// Many endpoints of which some hang do not keep the others waiting.
func TestHangingEndpointsHoldNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.Parallel, w.w.MaxPerPrincipal = 32, 500 })
		for i := range 200 {
			host := "good"
			if i < 10 {
				host = "bad"
			}
			if _, err := w.s.webhooks.subscribe(as(fmt.Sprint("p", i)), ask(map[string]any{"url": fmt.Sprintf("https://%s-%d.example.net/", host, i)})); err != nil {
				t.Fatal(err)
			}
		}
		w.e.set(func(p post) (int, http.Header, error) {
			if strings.Contains(p.url, "bad") {
				return 0, nil, nil
			}
			return 200, nil, nil
		})
		began := time.Now()
		for i := range 20 {
			w.add(fmt.Sprint("e", i))
		}
		after(time.Minute)
		var late time.Duration
		count := 0
		for _, p := range w.e.all("") {
			if strings.Contains(p.url, "good") {
				count++
				late = max(late, p.at.Sub(began))
			}
		}
		if count != 190*20 {
			t.Errorf("%d deliveries to the good ones, want %d", count, 190*20)
		}
		if late > 6*time.Second {
			t.Errorf("the last one came after %v", late)
		}
	})
}

// The ledger keeps writers apart that meet on one record.
func TestLedgerUnderRaces(t *testing.T) {
	l := &ledger{store: NewMemorySubscriptions()}
	c := codec[account]{decode: accounts.decode, encode: accounts.encode, due: accounts.due}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				key := []string{"a", "b", "c"}[rand.N(3)]
				_, err := change(t.Context(), l, c, key, nil, func(a *account) (*account, verdict, error) {
					var list []accountEntry
					if a != nil {
						list = slices.Clone(a.Entries)
					}
					return &account{Entries: append(list, accountEntry{ID: fmt.Sprint(i, "-", j)})}, put, nil
				})
				if err != nil {
					t.Errorf("change: %v", err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, key := range []string{"a", "b", "c"} {
		r, err := load(t.Context(), l, c, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.value.Entries {
			if seen[e.ID] {
				t.Errorf("%s was written twice", e.ID)
			}
			seen[e.ID] = true
		}
	}
	if len(seen) != 160 {
		t.Errorf("%d entries, want 160", len(seen))
	}
}

// hungStore hangs in Write until the call's context ends, once told to.
type hungStore struct {
	SubscriptionStore
	hung chan struct{}
}

func (s *hungStore) Write(ctx context.Context, w []SubscriptionWrite) ([]uint64, error) {
	select {
	case <-s.hung:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
	}
	return s.SubscriptionStore.Write(ctx, w)
}

func TestRunReturnsThoughTheStoreHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := &hungStore{NewMemorySubscriptions(), make(chan struct{})}
		w := newWorld(t, func(w *world) { w.store, w.w.MaxPerPrincipal = h, 500 })
		for i := range 300 {
			w.subscribe(map[string]any{"arguments": map[string]any{"n": i}})
		}
		after(time.Second)
		close(h.hung)
		began := time.Now()
		w.stop()
		if d := time.Since(began); d > time.Minute {
			t.Errorf("Run returned after %v, want within a minute", d)
		}
		after(time.Minute) // for the last write
	})
}
