package mcpface

import (
	"context"
	"path/filepath"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpevents/storetest"
	"github.com/attend-go/attend/stores/bolt"
)

// The promises of a subscription store, on each of the stores.
func TestM2Conformance(t *testing.T) {
	for _, over := range []string{"memory", "bolt"} {
		t.Run(over, func(t *testing.T) {
			storetest.Run(t, storetest.Store{
				New: func(t testing.TB) mcpevents.SubscriptionStore { return NewSubscriptions(open(t, over)) },
				Reopen: func(_ testing.TB, s mcpevents.SubscriptionStore) mcpevents.SubscriptionStore {
					return NewSubscriptions(s.(*Subscriptions).store)
				},
			})
		})
	}
}

// open opens an empty store.
func open(t testing.TB, over string) attend.ScopeStore {
	t.Helper()
	if over == "memory" {
		return memory.New()
	}
	s, err := bolt.Open(context.Background(), filepath.Join(t.TempDir(), "attend.db"), bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
