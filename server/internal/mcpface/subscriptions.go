package mcpface

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
)

// The scopes of the subscriptions: the index, and a record each below it.
const (
	indexScope  = "webhooks"
	recordScope = indexScope + "/"
)

// maxKnown is how many records are remembered. Beyond it all are forgotten, which
// costs a read each.
const maxKnown = 20_000

// Subscriptions are webhook subscriptions in an [attend.ScopeStore], so that they
// outlive the process and are shared by all servers on the store.
//
// Whoever looks for what is due reads the index, and does so all the time. An
// index that was empty is not read again for the next idle looks, unless this
// process has written to it. That costs nobody a delivery: a subscription is
// entered in the index by the server that made it, which looks at once and holds
// it by a lease; the others have to know of it before that lease ends.
//
// A record is the snapshot of a scope of the server's own, and its version is the
// scope's. The scope has no due time in the store: the engine works every scope
// that is due, and these are none of its own. When a record is due stands in the
// record, and in one index of all of them; see [dueIndex].
//
// Its methods may be called from many goroutines at once.
type Subscriptions struct {
	store attend.ScopeStore
	idle  int // looks that an empty index is left alone for; set before use

	mu     sync.Mutex
	known  map[string]knownRecord
	listed map[string]bool // in the index, as it was last seen here
	skips  int             // looks that are still to be left out
	saves  int             // writes to the index from here
}

// A knownRecord is what this process last saw of a record.
type knownRecord struct {
	version uint64
	due     int64
}

// idleLooks is how many looks a server leaves out behind an empty index: at a look
// a second it reads the index every ten seconds, and a lease is twice that at least.
const idleLooks = 9

// NewSubscriptions returns the subscriptions in a store. It stays the caller's,
// and must be open for as long as they are used.
func NewSubscriptions(store attend.ScopeStore) *Subscriptions {
	return &Subscriptions{store: store, known: make(map[string]knownRecord), listed: make(map[string]bool)}
}

var _ mcpevents.SubscriptionStore = (*Subscriptions)(nil)

func scopeOf(key string) attend.Scope { return access.ReservedScope(recordScope + key) }

// Load implements [mcpevents.SubscriptionStore].
func (s *Subscriptions) Load(ctx context.Context, key string) (mcpevents.SubscriptionRecord, error) {
	version, _, value, err := s.read(ctx, key)
	if err != nil {
		return mcpevents.SubscriptionRecord{}, err
	}
	return mcpevents.SubscriptionRecord{Version: version, Value: value}, nil
}

// read reads a record; version 0: there is none.
func (s *Subscriptions) read(ctx context.Context, key string) (version uint64, due int64, value []byte, err error) {
	r, err := s.store.Load(ctx, scopeOf(key))
	if err != nil {
		return 0, 0, nil, fmt.Errorf("mcpface: load a webhook subscription: %w", err)
	}
	if r.Version == 0 {
		s.forget(key)
		return 0, 0, nil, nil
	}
	due, value, err = openRecord(r)
	if err != nil {
		return r.Version, 0, nil, fmt.Errorf("mcpface: load a webhook subscription: %w", err)
	}
	s.note(key, knownRecord{r.Version, due})
	return r.Version, due, value, nil
}

// Write implements [mcpevents.SubscriptionStore].
func (s *Subscriptions) Write(ctx context.Context, writes []mcpevents.SubscriptionWrite) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]uint64, len(writes))
	var batch []attend.Write
	var places []int // of the batch's writes among all
	plans := make(map[string]plan)
	for i, w := range writes {
		old, ok, err := s.before(ctx, w)
		if err != nil {
			return nil, err
		}
		due := millis(w.Due)
		switch {
		case !ok: // somebody else's came first
			continue
		case w.Value == nil && w.Expect == 0:
			out[i] = 1 // there is none, as it should be
			continue
		case w.Value == nil:
			batch = append(batch, attend.Write{Scope: scopeOf(w.Key), Expect: w.Expect, Forget: true})
		default:
			if due != 0 && (old == 0 || due < old || !s.isListed(w.Key)) {
				plans[w.Key] = plan{due, w.Expect}
			}
			batch = append(batch, attend.Write{Scope: scopeOf(w.Key), Expect: w.Expect, Snapshot: sealRecord(due, w.Value)})
		}
		places = append(places, i)
	}
	if len(plans) > 0 {
		if err := s.announce(ctx, plans); err != nil {
			return nil, err
		}
	}
	if len(batch) == 0 {
		return out, nil
	}
	//check:allow commit these scopes are the server's own, and no engine works them
	outcomes, err := s.store.Commit(ctx, batch)
	if err == nil && len(outcomes) != len(batch) {
		err = fmt.Errorf("the store answered for %d of %d writes", len(outcomes), len(batch))
	}
	if err != nil {
		for _, i := range places {
			s.forget(writes[i].Key) // the outcome is not known
		}
		return nil, fmt.Errorf("mcpface: write webhook subscriptions: %w", err)
	}
	for n, i := range places {
		w := writes[i]
		out[i] = outcomes[n].Version
		if outcomes[n].Conflict() || w.Value == nil {
			s.forget(w.Key)
		} else {
			s.note(w.Key, knownRecord{out[i], millis(w.Due)})
		}
	}
	return out, nil
}

// before returns when the record that a write was made from is due, and whether it
// is still the one.
func (s *Subscriptions) before(ctx context.Context, w mcpevents.SubscriptionWrite) (due int64, ok bool, err error) {
	if w.Expect == 0 && w.Value != nil {
		return 0, true, nil // the commit finds out
	}
	s.mu.Lock()
	known := s.known[w.Key]
	s.mu.Unlock()
	if w.Expect != 0 && known.version == w.Expect {
		return known.due, true, nil
	}
	version, due, _, err := s.read(ctx, w.Key)
	return due, version == w.Expect, err
}

func (s *Subscriptions) note(key string, r knownRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[key] = r
}

func (s *Subscriptions) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// skip reports whether a look at the index is left out.
func (s *Subscriptions) skip() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skips == 0 {
		return false
	}
	s.skips--
	return true
}

// saved notes a write to the index, whatever came of it.
func (s *Subscriptions) saved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	s.skips = 0
}

func (s *Subscriptions) isListed(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed[key]
}

// recordFormat begins the stored form of a record: the format, when it is due, and
// the value.
const recordFormat = 1

func sealRecord(due int64, value []byte) []byte {
	return append(binary.AppendVarint([]byte{recordFormat}, due), value...)
}

func openRecord(r attend.Record) (due int64, value []byte, err error) {
	b := r.Snapshot
	switch {
	case len(b) > 0 && b[0] > recordFormat:
		return 0, nil, attend.ErrNewer
	case len(b) == 0 || b[0] != recordFormat || len(r.Tail) > 0:
		return 0, nil, attend.ErrCorrupt
	}
	due, n := binary.Varint(b[1:])
	if n <= 0 {
		return 0, nil, attend.ErrCorrupt
	}
	return due, b[1+n:], nil
}

// millis is a due time as it is kept; 0: never.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if ms := t.UnixMilli(); ms != 0 {
		return ms
	}
	return 1 // the beginning of 1970 is a time all the same
}
