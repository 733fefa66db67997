package mcpface

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
)

// Where there are no subscriptions the store is left alone, nearly.
func TestM2NoSubscriptionsCostNearlyNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(memory.New())
		w := newWorld(t, func(c *Config) { c.Store, c.Named = store, named })
		stop := run(t, w.face)
		time.Sleep(10 * time.Minute)
		stop()
		if n := store.loads[index]; n < 55 || n > 65 || len(store.loads) != 1 || len(store.commits) != 0 {
			t.Errorf("in 10 min without subscriptions: loads %v, commits %v, want one load in 10 s, of the index", store.loads, store.commits)
		}
	})
}

// What another server has made is seen after so many looks, and what was made here
// at once.
func TestM2ASubscriptionEndsTheQuiet(t *testing.T) {
	store := memory.New()
	here, there := NewSubscriptions(store), NewSubscriptions(store)
	here.idle, there.idle = idleLooks, idleLooks
	quiet := func() {
		t.Helper()
		if a, b := due(t, here, 9), due(t, there, 9); a != nil || b != nil {
			t.Fatalf("Due = %v and %v, want nothing", a, b)
		}
	}
	quiet()
	v := write(t, there, mcpevents.SubscriptionWrite{Key: "a", Value: []byte("x"), Due: at(5)})
	if got := due(t, there, 9); !slices.Equal(got, []string{"a"}) {
		t.Errorf("Due where it was made = %v, want it at once", got)
	}
	looks := 1
	for ; due(t, here, 9) == nil; looks++ {
		if looks > idleLooks+1 {
			t.Fatalf("another server does not see it after %d looks", looks)
		}
	}
	for range 3 { // it is there: no look is left out
		if got := due(t, here, 9); !slices.Equal(got, []string{"a"}) {
			t.Errorf("Due = %v, want what is there", got)
		}
	}
	write(t, there, mcpevents.SubscriptionWrite{Key: "a", Expect: v[0]})
	quiet()
	if _, err := here.Load(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	write(t, here, mcpevents.SubscriptionWrite{Key: "a", Value: []byte("x"), Due: at(5)})
	if got := due(t, here, 9); !slices.Equal(got, []string{"a"}) {
		t.Errorf("Due where it was made again = %v, want it at once", got)
	}
}

// A subscription is made between a look at the index and what the look concludes.
func TestM2ASubscriptionDuringALook(t *testing.T) {
	store := &late{ScopeStore: memory.New()}
	s := NewSubscriptions(store)
	s.idle = idleLooks
	store.loaded = func() {
		write(t, s, mcpevents.SubscriptionWrite{Key: "a", Value: []byte("x"), Due: at(5)})
	}
	if got := due(t, s, 9); got != nil {
		t.Fatalf("Due = %v, want what was there when it looked", got)
	}
	if got := due(t, s, 9); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the next Due = %v, want what was made meanwhile", got)
	}
}

// A late store answers a load with what was there before something happened, once.
type late struct {
	attend.ScopeStore
	loaded func()
}

func (l *late) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	r, err := l.ScopeStore.Load(ctx, scope)
	if f := l.loaded; f != nil {
		l.loaded = nil
		f()
	}
	return r, err
}
