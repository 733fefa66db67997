package mcpface

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
)

// A spy counts what a store is asked, and can refuse or hold up commits of a scope.
type spy struct {
	attend.ScopeStore
	loads   map[attend.Scope]int
	commits map[attend.Scope]int
	before  func(w attend.Write) error // nil: nothing
}

func newSpy(s attend.ScopeStore) *spy {
	return &spy{ScopeStore: s, loads: make(map[attend.Scope]int), commits: make(map[attend.Scope]int)}
}

func (s *spy) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	s.loads[scope]++
	return s.ScopeStore.Load(ctx, scope)
}

func (s *spy) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	for _, w := range writes {
		s.commits[w.Scope]++
		if s.before != nil {
			if err := s.before(w); err != nil {
				return nil, err
			}
		}
	}
	return s.ScopeStore.Commit(ctx, writes)
}

var index = access.ReservedScope(indexScope)

// A lease that is renewed is no write to the index; who looks puts the entry right,
// all of them at once.
func TestM2AnEntryIsPutOffByWhoLooks(t *testing.T) { synctest.Test(t, putOff) }

func putOff(t *testing.T) {
	store := newSpy(memory.New())
	s := NewSubscriptions(store)
	versions := make(map[string]uint64)
	for i := range 5 {
		key := fmt.Sprint("k", i)
		versions[key] = write(t, s, mcpevents.SubscriptionWrite{Key: key, Value: []byte("x"), Due: at(5)})[0]
	}
	clear(store.commits)
	for round := range int64(3) {
		for key, v := range versions {
			versions[key] = write(t, s, mcpevents.SubscriptionWrite{Key: key, Expect: v, Value: []byte("y"), Due: at(100 + round)})[0]
		}
	}
	if n := store.commits[index]; n != 0 {
		t.Errorf("%d writes to the index while leases were renewed, want none", n)
	}
	if got := due(t, s, 50); got != nil {
		t.Errorf("Due = %v, want nothing", got)
	}
	if n := store.commits[index]; n != 1 {
		t.Errorf("%d writes to the index to put 5 entries right, want 1", n)
	}
	clear(store.loads)
	if got := due(t, s, 50); got != nil || len(store.loads) != 1 {
		t.Errorf("Due = %v after %v, want nothing after a look at the index alone", got, store.loads)
	}
	if got := due(t, s, 102); len(got) != 5 {
		t.Errorf("Due = %v, want all", got)
	}
	for key, v := range versions {
		write(t, s, mcpevents.SubscriptionWrite{Key: key, Expect: v})
	}
	time.Sleep(2 * planLife) // an old write that makes one of them may come until then
	due(t, s, 200)
	if x, err := s.loadIndex(t.Context()); err != nil || len(x.entries) != 0 {
		t.Errorf("the index has %v, %v, want nothing once the records are gone", x.entries, err)
	}
}

var errDied = errors.New("died")

// A process dies between the two writes. The record is as it was, and nothing that
// others do to the index makes it late once a write lands.
func TestM2ADeathBetweenIndexAndRecord(t *testing.T) {
	inner := memory.New()
	store := newSpy(inner)
	dying, other := NewSubscriptions(store), NewSubscriptions(inner)
	v := write(t, other, mcpevents.SubscriptionWrite{Key: "a", Value: []byte("x"), Due: at(100)})
	store.before = func(w attend.Write) error {
		if w.Scope != index {
			return errDied
		}
		return nil
	}
	sooner := mcpevents.SubscriptionWrite{Key: "a", Expect: v[0], Value: []byte("y"), Due: at(10)}
	if _, err := dying.Write(t.Context(), []mcpevents.SubscriptionWrite{sooner}); !errors.Is(err, errDied) {
		t.Fatalf("Write = %v", err)
	}
	if got := due(t, other, 50); got != nil {
		t.Errorf("Due = %v, want nothing: the write has not landed", got)
	}
	// It only hung, and lands now.
	rest := []attend.Write{{Scope: scopeOf("a"), Expect: v[0], Snapshot: sealRecord(10, []byte("y"))}}
	if out, err := inner.Commit(t.Context(), rest); err != nil || out[0].Conflict() {
		t.Fatalf("Commit = %v, %v", out, err)
	}
	if got := due(t, other, 50); !slices.Equal(got, []string{"a"}) {
		t.Errorf("Due = %v, want the record that is due", got)
	}
}

// A record that is made: its process dies in between, or comes back much later.
func TestM2ADeathWhileARecordIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		store := newSpy(inner)
		dying, other := NewSubscriptions(store), NewSubscriptions(inner)
		store.before = func(w attend.Write) error {
			if w.Scope != index {
				return errDied
			}
			return nil
		}
		made := []mcpevents.SubscriptionWrite{{Key: "a", Value: []byte("x"), Due: at(10)}}
		if _, err := dying.Write(t.Context(), made); !errors.Is(err, errDied) {
			t.Fatalf("Write = %v", err)
		}
		if got := due(t, other, 50); got != nil {
			t.Errorf("Due = %v, want nothing", got)
		}
		if x, err := other.loadIndex(t.Context()); err != nil || len(x.entries) != 1 {
			t.Errorf("the index has %v, %v: what is announced must stay", x.entries, err)
		}
		time.Sleep(2 * planLife)
		due(t, other, 50)
		if x, err := other.loadIndex(t.Context()); err != nil || len(x.entries) != 0 {
			t.Errorf("the index has %v, %v: what was announced long ago stays for ever", x.entries, err)
		}
		// Not even such a write is lost: the next one of the record sees it.
		out, err := inner.Commit(t.Context(), []attend.Write{{Scope: scopeOf("a"), Snapshot: sealRecord(10, []byte("x"))}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, other, mcpevents.SubscriptionWrite{Key: "a", Expect: out[0].Version, Value: []byte("y"), Due: at(20)})
		if got := due(t, other, 50); !slices.Equal(got, []string{"a"}) {
			t.Errorf("Due = %v, want the record", got)
		}
	})
}

// Two announce at one time, and the one of the older version comes last.
func TestM2ALateAnnouncementHidesNoOther(t *testing.T) {
	inner := memory.New()
	s := NewSubscriptions(inner)
	v := write(t, s, mcpevents.SubscriptionWrite{Key: "a", Value: []byte("x"), Due: at(100)})
	w := write(t, s, mcpevents.SubscriptionWrite{Key: "a", Expect: v[0], Value: []byte("y"), Due: at(100)})
	if err := s.announce(t.Context(), map[string]plan{"a": {10, w[0]}}); err != nil {
		t.Fatal(err)
	}
	if err := s.announce(t.Context(), map[string]plan{"a": {20, v[0]}}); err != nil {
		t.Fatal(err)
	}
	due(t, s, 50) // puts right what is to be put right
	out, err := inner.Commit(t.Context(), []attend.Write{{Scope: scopeOf("a"), Expect: w[0], Snapshot: sealRecord(10, []byte("z"))}})
	if err != nil || out[0].Conflict() {
		t.Fatalf("Commit = %v, %v", out, err)
	}
	if got := due(t, s, 50); !slices.Equal(got, []string{"a"}) {
		t.Errorf("Due = %v, want the record", got)
	}
}

// The index stays small: what changes is added behind it, and rewritten now and
// then.
func TestM2TheIndexIsRewritten(t *testing.T) {
	store := memory.New()
	s := NewSubscriptions(store)
	for i := range 3 * maxIndexTail {
		write(t, s, mcpevents.SubscriptionWrite{Key: fmt.Sprint("k", i), Value: []byte("x"), Due: at(int64(1000 - i))})
		r, err := store.Load(t.Context(), index)
		if err != nil || len(r.Tail) > maxIndexTail || r.Snapshot == nil {
			t.Fatalf("the index has %d inputs behind %d bytes, %v", len(r.Tail), len(r.Snapshot), err)
		}
	}
	got := due(t, NewSubscriptions(store), 2000)
	if len(got) != 3*maxIndexTail || got[0] != fmt.Sprint("k", 3*maxIndexTail-1) || got[len(got)-1] != "k0" {
		t.Errorf("Due = %d keys, %v first, want all, the oldest first", len(got), got[:1])
	}
}

// What a newer release wrote is left alone, and one bad record holds up no other.
func TestM2SubscriptionsOfANewerRelease(t *testing.T) {
	store := memory.New()
	s := NewSubscriptions(store)
	v := write(t, s, mcpevents.SubscriptionWrite{Key: "a", Value: []byte("secret"), Due: at(5)}, mcpevents.SubscriptionWrite{Key: "b", Value: []byte("x"), Due: at(6)})
	newer := append([]byte{recordFormat + 1}, "secret"...)
	if _, err := store.Commit(t.Context(), []attend.Write{{Scope: scopeOf("a"), Expect: v[0], Snapshot: newer}}); err != nil {
		t.Fatal(err)
	}
	other := NewSubscriptions(store)
	if _, err := other.Load(t.Context(), "a"); !errors.Is(err, attend.ErrNewer) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Load = %v, want ErrNewer without what is in it", err)
	}
	if got := due(t, other, 9); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("Due = %v, want both", got)
	}
	r, err := store.Load(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), []attend.Write{{Scope: index, Expect: r.Version, Inputs: [][]byte{[]byte(`{"format":2}`)}}}); err != nil {
		t.Fatal(err)
	}
	for _, err := range other.Due(t.Context(), at(9)) {
		if !errors.Is(err, attend.ErrNewer) {
			t.Errorf("Due = %v, want ErrNewer", err)
		}
	}
}

// A clock that was set back far does not keep an entry alive for ever.
func TestM2AnAnnouncementOfTheFuture(t *testing.T) {
	now := time.Now().UnixMilli()
	e := dueEntry{Due: 5, Plans: []announced{{Expect: 0, At: now + 2*planLife.Milliseconds()}}}
	if got := e.right(0, 0, now); got != nil {
		t.Errorf("an entry announced in the far future stays: %v", got)
	}
	e = dueEntry{Due: 5, Plans: []announced{{Expect: 7, At: now}, {Expect: 8, At: now}}}
	if got := e.right(7, 90, now); got == nil || got.Due != 5 || !slices.Equal(got.Plans, e.Plans[:1]) {
		t.Errorf("an entry whose write may be on its way became %v", got)
	}
	if got := e.right(9, 90, now); got == nil || got.Due != 90 || got.Plans != nil {
		t.Errorf("an entry whose writes can't land any more became %v", got)
	}
}
