package mcpevents

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"
)

// A SubscriptionStore keeps what a server must know of its webhook
// subscriptions: small records of bytes under keys, each with a version and a
// time at which it wants to be looked at. Servers that share one share the
// subscriptions: each is delivered by one of them, which holds it by a lease in
// the record, and taken over by another when the lease ends. So their clocks
// must agree to within a few seconds.
//
// Every method may be called from many goroutines at once. A store knows nothing
// of what is in the bytes, copies what it keeps, and returns no memory that a
// later call writes over. Keys are 1 to 64 of a-z 0-9 _. A record is a few
// hundred bytes, and at most about 64 KiB. A store limits how long a call takes.
//
// Records hold the secrets that deliveries are signed with: who can read the
// store can forge deliveries.
//
// Package storetest checks a store, rule by rule.
type SubscriptionStore interface {
	// Load returns a record; for an unknown key the zero one and no error.
	Load(ctx context.Context, key string) (SubscriptionRecord, error)

	// Write applies each write whose Expect is the record's version (0: there is
	// none), one by one, and returns the new version of each in the same order,
	// 0 for one that was not applied. Of any number of concurrent writes at one
	// version exactly one is applied. No two writes of a call name one key. An
	// error means that the outcome of the whole call is unknown.
	Write(ctx context.Context, writes []SubscriptionWrite) ([]uint64, error)

	// Due yields the keys of the records whose time is at or before now, the
	// oldest first. It reads and claims nothing, and holds nothing while it
	// yields. An error is its last pair, also where ctx ends it.
	Due(ctx context.Context, now time.Time) iter.Seq2[string, error]
}

// A SubscriptionRecord is what a store holds under a key.
type SubscriptionRecord struct {
	// Version changes with each write and is never used again for this key, not
	// after the record was removed either. 0: there is no record.
	Version uint64
	Value   []byte
}

// A SubscriptionWrite replaces or removes one record.
type SubscriptionWrite struct {
	Key    string
	Expect uint64    // the version it was made from; 0: there is no record
	Value  []byte    // nil: the record is removed, and its new version is any number but 0
	Due    time.Time // whole milliseconds; zero: never
}

// MemorySubscriptions is a [SubscriptionStore] in memory: subscriptions end with
// the process, and clients make them again at their next refresh. For tests, and
// where that is fine. The zero value is an empty one.
type MemorySubscriptions struct {
	mu      sync.Mutex
	version uint64 // of the last write of any key
	records map[string]memoryRecord
}

type memoryRecord struct {
	version uint64
	value   []byte
	due     time.Time
}

// NewMemorySubscriptions returns an empty store.
func NewMemorySubscriptions() *MemorySubscriptions {
	return &MemorySubscriptions{records: make(map[string]memoryRecord)}
}

// Load implements [SubscriptionStore].
func (m *MemorySubscriptions) Load(ctx context.Context, key string) (SubscriptionRecord, error) {
	if err := ctx.Err(); err != nil {
		return SubscriptionRecord{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[key]
	return SubscriptionRecord{Version: r.version, Value: slices.Clone(r.value)}, nil
}

// Write implements [SubscriptionStore].
func (m *MemorySubscriptions) Write(ctx context.Context, writes []SubscriptionWrite) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]uint64, len(writes))
	for i, w := range writes {
		if m.records[w.Key].version != w.Expect {
			continue
		}
		m.version++
		out[i] = m.version
		if w.Value == nil {
			delete(m.records, w.Key)
			continue
		}
		if m.records == nil {
			m.records = make(map[string]memoryRecord)
		}
		m.records[w.Key] = memoryRecord{m.version, slices.Clone(w.Value), w.Due}
	}
	return out, nil
}

// Due implements [SubscriptionStore].
func (m *MemorySubscriptions) Due(ctx context.Context, now time.Time) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		type entry struct {
			key string
			due time.Time
		}
		var list []entry
		m.mu.Lock()
		for key, r := range m.records {
			if !r.due.IsZero() && !r.due.After(now) {
				list = append(list, entry{key, r.due})
			}
		}
		m.mu.Unlock()
		slices.SortFunc(list, func(a, b entry) int {
			return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.key, b.key))
		})
		for _, e := range list {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(e.key, nil) {
				return
			}
		}
	}
}
