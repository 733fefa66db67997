package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

func ExampleNewMemorySubscriptions() {
	s, err := NewServer(ServerConfig{
		Types:    []Type{{Name: "build.finished", Modes: []Mode{Webhook}, Backend: NewLog(LogConfig{})}},
		Webhooks: &WebhookConfig{Store: NewMemorySubscriptions()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(s.Run(ctx)) // delivers until ctx ends
	// Output: <nil>
}

// What stands for any store is checked in package storetest.
func TestMemorySubscriptionsHeedsContexts(t *testing.T) {
	m := NewMemorySubscriptions()
	if _, err := m.Write(t.Context(), []SubscriptionWrite{{Key: "a", Value: []byte("x"), Due: time.UnixMilli(9)}}); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Load(over, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Load = %v, want context.Canceled", err)
	}
	if _, err := m.Write(over, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v, want context.Canceled", err)
	}
	for _, err := range m.Due(over, time.UnixMilli(9)) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Due = %v, want context.Canceled", err)
		}
	}
}

func TestMemorySubscriptionsZeroValue(t *testing.T) {
	var m MemorySubscriptions
	if v, err := m.Write(t.Context(), []SubscriptionWrite{{Key: "a", Value: []byte("x")}}); err != nil || v[0] == 0 {
		t.Errorf("Write = %v, %v, want a version", v, err)
	}
}

// A group in which one write is refused by the store still writes the others.
func TestLedgerWritesOneByOneAfterAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &ledger{store: &pickyStore{MemorySubscriptions: NewMemorySubscriptions()}}
		results := make([]error, 6)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() {
				key := fmt.Sprint("k", i)
				if i == 3 {
					key = "bad"
				}
				_, results[i] = l.write(t.Context(), SubscriptionWrite{Key: key, Value: []byte("x")})
			})
		}
		wg.Wait()
		for i, err := range results {
			if (err != nil) != (i == 3) {
				t.Errorf("write %d: %v", i, err)
			}
		}
	})
}

type pickyStore struct{ *MemorySubscriptions }

func (s *pickyStore) Write(ctx context.Context, writes []SubscriptionWrite) ([]uint64, error) {
	time.Sleep(time.Millisecond) // so that the others queue
	for _, w := range writes {
		if w.Key == "bad" {
			return nil, errors.New("refused")
		}
	}
	return s.MemorySubscriptions.Write(ctx, writes)
}
