package mcpface

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/stores/bolt"
)

func at(ms int64) time.Time { return time.UnixMilli(ms) }

// stores are the ones that the tests of subscriptions run on.
func stores(t *testing.T, run func(t *testing.T, store attend.ScopeStore)) {
	for _, over := range []string{"memory", "bolt"} {
		t.Run(over, func(t *testing.T) { run(t, open(t, over)) })
	}
}

func write(t *testing.T, s mcpevents.SubscriptionStore, w ...mcpevents.SubscriptionWrite) []uint64 {
	t.Helper()
	v, err := s.Write(t.Context(), w)
	if err != nil || len(v) != len(w) {
		t.Fatalf("Write = %v, %v", v, err)
	}
	return v
}

func due(t *testing.T, s mcpevents.SubscriptionStore, now int64) []string {
	t.Helper()
	var keys []string
	for key, err := range s.Due(t.Context(), at(now)) {
		if err != nil {
			t.Fatalf("Due: %v", err)
		}
		keys = append(keys, key)
	}
	return keys
}

// The engine works each scope that is due in the store, and none of these is its.
func TestM2SubscriptionsAreNeverDueInTheStore(t *testing.T) {
	store := memory.New()
	s := NewSubscriptions(store)
	v := write(t, s, mcpevents.SubscriptionWrite{Key: "a", Value: []byte("one"), Due: at(5)})
	write(t, s, mcpevents.SubscriptionWrite{Key: "a", Expect: v[0], Value: []byte("two"), Due: at(2)})
	if got := due(t, s, 9); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("Due = %v", got)
	}
	for scope, err := range store.Due(t.Context(), time.Now().AddDate(1000, 0, 0)) {
		t.Errorf("the store has %q due, %v", scope, err)
	}
	for _, scope := range []attend.Scope{indexScope, recordScope + "a"} {
		full := access.ReservedScope(string(scope))
		if r, err := store.Load(t.Context(), full); err != nil || r.Version == 0 || !access.Reserved(string(full)) {
			t.Errorf("%q: %v, %v, want a reserved scope that is there", full, r, err)
		}
	}
}

// Random work by three processes on one store against the store in memory, which is
// the contract. Each has its own view of versions, often an old one.
func TestM2SubscriptionsLikeTheOnesInMemory(t *testing.T) {
	stores(t, func(t *testing.T, store attend.ScopeStore) {
		steps := 600
		if _, slow := store.(*bolt.Store); slow {
			steps = 200
		}
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, 7))
			model := mcpevents.NewMemorySubscriptions()
			processes := []*Subscriptions{NewSubscriptions(store), NewSubscriptions(store), NewSubscriptions(store)}
			type both struct{ real, model uint64 }
			views := make([]map[string]both, len(processes))
			for i := range views {
				views[i] = make(map[string]both)
			}
			for step := range steps {
				i := r.IntN(len(processes))
				if step%50 == 49 {
					processes[i] = NewSubscriptions(store) // it restarts
				}
				s, key := processes[i], fmt.Sprintf("s%d_%d", seed, r.IntN(8))
				switch r.IntN(4) {
				case 0:
					a, err := s.Load(t.Context(), key)
					b, _ := model.Load(t.Context(), key)
					if err != nil || !bytes.Equal(a.Value, b.Value) || (a.Version == 0) != (b.Version == 0) {
						t.Fatalf("step %d: Load = %q at %d, %v, want %q at %d", step, a.Value, a.Version, err, b.Value, b.Version)
					}
					views[i][key] = both{a.Version, b.Version}
				case 1:
					now := int64(r.IntN(120))
					got, want := due(t, s, now), due(t, model, now)
					got = slices.DeleteFunc(got, func(k string) bool { return k[:3] != fmt.Sprintf("s%d_", seed) })
					if !slices.Equal(got, want) {
						t.Fatalf("seed %d, step %d: Due(%d) = %v, want %v", seed, step, now, got, want)
					}
				default:
					v := views[i][key]
					w := mcpevents.SubscriptionWrite{Key: key, Expect: v.real}
					if r.IntN(5) > 0 {
						w.Value = []byte(fmt.Sprint(step))
						if r.IntN(4) > 0 {
							w.Due = at(int64(1 + r.IntN(100)))
						}
					}
					a := write(t, s, w)[0]
					w.Expect = v.model
					b := write(t, model, w)[0]
					if (a == 0) != (b == 0) {
						t.Fatalf("seed %d, step %d: Write of %q = %d, want %d", seed, step, key, a, b)
					}
					if a != 0 && w.Value != nil {
						views[i][key] = both{a, b}
					} else {
						delete(views[i], key)
					}
				}
			}
		}
	})
}

// Of concurrent writes at one version exactly one is applied, in several processes
// too, and none of the records is lost from the index.
func TestM2SubscriptionsUnderRaces(t *testing.T) {
	stores(t, func(t *testing.T, store attend.ScopeStore) {
		const keys = 4
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := make(map[string]int)
		for p := range 4 {
			s := NewSubscriptions(store)
			wg.Go(func() {
				for k := range keys {
					key := fmt.Sprint("k", k)
					v, err := s.Write(t.Context(), []mcpevents.SubscriptionWrite{{Key: key, Value: []byte{byte(p)}, Due: at(5)}})
					if err != nil {
						t.Error(err)
						return
					}
					if v[0] != 0 {
						mu.Lock()
						won[key]++
						mu.Unlock()
					}
					for _, err := range s.Due(t.Context(), at(9)) { // puts entries right meanwhile
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		for k := range keys {
			if n := won[fmt.Sprint("k", k)]; n != 1 {
				t.Errorf("%d of 4 writes at one version of k%d were applied, want 1", n, k)
			}
		}
		if got := due(t, NewSubscriptions(store), 9); len(got) != keys {
			t.Errorf("Due = %v, want all %d", got, keys)
		}
	})
}
