package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

func TestMemorySubscriptions(t *testing.T) {
	m, ctx := NewMemorySubscriptions(), t.Context()
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	write := func(w ...SubscriptionWrite) []uint64 {
		t.Helper()
		v, err := m.Write(ctx, w)
		if err != nil || len(v) != len(w) {
			t.Fatalf("Write = %v, %v", v, err)
		}
		return v
	}
	if r, err := m.Load(ctx, "a"); err != nil || r.Version != 0 || r.Value != nil {
		t.Errorf("Load of nothing = %v, %v, want the zero record", r, err)
	}
	value := []byte("one")
	first := write(SubscriptionWrite{Key: "a", Value: value, Due: at(5)}, SubscriptionWrite{Key: "b", Expect: 7, Value: value})
	if first[0] == 0 || first[1] != 0 {
		t.Errorf("Write = %v, want the first applied and the second not", first)
	}
	value[0] = 'X'
	r, err := m.Load(ctx, "a")
	if err != nil || string(r.Value) != "one" || r.Version != first[0] {
		t.Errorf("Load = %s at %d, %v, want one at %d", r.Value, r.Version, err, first[0])
	}
	r.Value[0] = 'X'
	if r, _ := m.Load(ctx, "a"); string(r.Value) != "one" {
		t.Errorf("the store shares its memory: %s", r.Value)
	}
	if v := write(SubscriptionWrite{Key: "a", Value: value}); v[0] != 0 {
		t.Errorf("a write that expects nothing was applied")
	}
	second := write(SubscriptionWrite{Key: "a", Expect: first[0], Value: []byte("two"), Due: at(9)})
	if v := write(SubscriptionWrite{Key: "a", Expect: first[0], Value: value}); v[0] != 0 || second[0] == first[0] {
		t.Errorf("a write at an old version was applied")
	}
	if v := write(SubscriptionWrite{Key: "a", Expect: second[0]}); v[0] == 0 {
		t.Errorf("a removal was not applied")
	}
	third := write(SubscriptionWrite{Key: "a", Value: []byte("three"), Due: at(9)})
	if third[0] == first[0] || third[0] == second[0] {
		t.Errorf("version %d was used again", third[0])
	}
	write(SubscriptionWrite{Key: "c", Value: value, Due: at(3)}, SubscriptionWrite{Key: "d", Value: value}, SubscriptionWrite{Key: "e", Value: value, Due: at(10)})
	var due []string
	for key, err := range m.Due(ctx, at(9)) {
		if err != nil {
			t.Fatal(err)
		}
		due = append(due, key)
		write(SubscriptionWrite{Key: "x" + key, Value: value, Due: at(1)}) // nothing is held
	}
	if want := []string{"c", "a"}; !slices.Equal(due, want) {
		t.Errorf("Due = %v, want %v", due, want)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Load(over, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Load = %v, want context.Canceled", err)
	}
	if _, err := m.Write(over, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v, want context.Canceled", err)
	}
	for _, err := range m.Due(over, at(9)) {
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

func TestMemorySubscriptionsUnderRaces(t *testing.T) {
	m := NewMemorySubscriptions()
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			v, err := m.Write(t.Context(), []SubscriptionWrite{{Key: "a", Value: []byte{byte(i)}}})
			if err != nil {
				t.Error(err)
			}
			if v[0] != 0 {
				won.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	won.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d of 8 writes at one version were applied, want 1", n)
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
