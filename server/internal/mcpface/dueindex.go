package mcpface

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
)

// A dueIndex says of each record that has a due time when to look at it: never
// later than the record is due, and maybe sooner. So a record can be put off, which
// is what a lease does all the time, without a write to the index; who looks too
// soon sees that, and puts the entry right.
//
// A write that makes a record due sooner is announced in the index first. The
// entry then names the version that the write was made from, and as long as the
// record has that version nobody puts the entry off: the write may be on its way.
// Once the version is another one, that write can't land any more. So a crash
// between the two leaves an entry that is too early, and never one that is too
// late.
type dueIndex struct {
	version uint64
	tail    int // inputs behind the snapshot
	entries map[string]dueEntry
}

// A dueEntry does not change; it is replaced.
type dueEntry struct {
	Due int64 `json:"due"` // Unix milliseconds
	// Plans are writes that were announced and may be on their way.
	Plans []announced `json:"plans,omitempty"`
}

type announced struct {
	Expect uint64 `json:"expect"`
	At     int64  `json:"at"`
}

// A plan is a write that is to be announced.
type plan struct {
	due    int64
	expect uint64
}

// indexWire is a part of the index as it is stored: all of it in the snapshot,
// what changed in an input. A nil entry is one that is gone.
type indexWire struct {
	Format int                  `json:"format"`
	Keys   map[string]*dueEntry `json:"keys"`
}

const (
	indexFormat  = 1
	maxIndexTail = 64              // inputs before a new snapshot
	planLife     = 5 * time.Minute // no write is on its way for that long
	maxIndexRace = 50
)

func (s *Subscriptions) loadIndex(ctx context.Context) (*dueIndex, error) {
	s.mu.Lock()
	saves := s.saves
	s.mu.Unlock()
	r, err := s.store.Load(ctx, access.ReservedScope(indexScope))
	if err != nil {
		return nil, fmt.Errorf("mcpface: load the index of webhook subscriptions: %w", err)
	}
	x := &dueIndex{version: r.Version, tail: len(r.Tail), entries: make(map[string]dueEntry)}
	parts := r.Tail
	if r.Snapshot != nil {
		parts = slices.Insert(slices.Clone(parts), 0, r.Snapshot)
	}
	for _, b := range parts {
		var w indexWire
		if err := json.Unmarshal(b, &w); err != nil || w.Format < 1 {
			return nil, fmt.Errorf("mcpface: the index of webhook subscriptions: %w", attend.ErrCorrupt)
		}
		if w.Format > indexFormat {
			return nil, fmt.Errorf("mcpface: the index of webhook subscriptions: %w", attend.ErrNewer)
		}
		x.merge(w.Keys)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.listed)
	for key := range x.entries {
		s.listed[key] = true
	}
	if len(x.entries) == 0 && saves == s.saves { // or what was written meanwhile would wait
		s.skips = s.idle
	}
	return x, nil
}

func (x *dueIndex) merge(changes map[string]*dueEntry) {
	for key, e := range changes {
		if e == nil {
			delete(x.entries, key)
		} else {
			x.entries[key] = *e
		}
	}
}

// saveIndex writes changes onto x. False: somebody else's write came first.
func (s *Subscriptions) saveIndex(ctx context.Context, x *dueIndex, changes map[string]*dueEntry) (bool, error) {
	w := attend.Write{Scope: access.ReservedScope(indexScope), Expect: x.version}
	part := indexWire{Format: indexFormat, Keys: changes}
	whole := x.version == 0 || x.tail >= maxIndexTail
	if whole {
		all := &dueIndex{entries: make(map[string]dueEntry)}
		for key, e := range x.entries {
			all.entries[key] = e
		}
		all.merge(changes)
		part.Keys = make(map[string]*dueEntry, len(all.entries))
		for key, e := range all.entries {
			part.Keys[key] = &e
		}
	}
	b, err := json.Marshal(part)
	if err != nil {
		return false, fmt.Errorf("mcpface: write the index of webhook subscriptions: %w", err)
	}
	if whole {
		w.Snapshot = b
	} else {
		w.Inputs = [][]byte{b}
	}
	defer s.saved()
	//check:allow commit these scopes are the server's own, and no engine works them
	out, err := s.store.Commit(ctx, []attend.Write{w})
	if err != nil {
		return false, fmt.Errorf("mcpface: write the index of webhook subscriptions: %w", err)
	}
	return len(out) == 1 && !out[0].Conflict(), nil
}

// announce enters writes that make records due sooner, before they are made.
func (s *Subscriptions) announce(ctx context.Context, plans map[string]plan) error {
	for race := range maxIndexRace {
		x, err := s.loadIndex(ctx)
		if err != nil {
			return err
		}
		now := time.Now().UnixMilli()
		changes := make(map[string]*dueEntry, len(plans))
		for key, p := range plans {
			e, ok := x.entries[key]
			if !ok || p.due < e.Due {
				e.Due = p.due
			}
			e.Plans = append(slices.DeleteFunc(slices.Clone(e.Plans), func(a announced) bool {
				return a.Expect == p.expect || a.over(now)
			}), announced{p.expect, now})
			changes[key] = &e
		}
		ok, err := s.saveIndex(ctx, x, changes)
		if ok {
			s.mu.Lock()
			for key := range plans {
				s.listed[key] = true
			}
			s.mu.Unlock()
		}
		if ok || err != nil {
			return err
		}
		if race > 1 && !pause(ctx, rand.N(time.Duration(race)*time.Millisecond)) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("mcpface: the index of webhook subscriptions: %w", attend.ErrConflict)
}

// over reports whether the write has landed or never will.
func (a announced) over(now int64) bool {
	age := now - a.At
	return age > planLife.Milliseconds() || -age > planLife.Milliseconds() // of a clock that was set back
}

// right returns what an entry should be, now that its record was seen: nil to
// drop it. Version 0: there is no record.
func (e dueEntry) right(version uint64, due, now int64) *dueEntry {
	fixed := dueEntry{Due: due}
	for _, a := range e.Plans {
		switch {
		case a.over(now):
		case a.Expect == version: // it may be on its way
			fixed.Due = e.Due
			fixed.Plans = append(fixed.Plans, a)
		case a.Expect == 0: // that of a record that is there, or was; it may come back
			fixed.Plans = append(fixed.Plans, a)
		}
	}
	if fixed.Due == 0 && len(fixed.Plans) > 0 {
		fixed.Due = e.Due
	}
	if fixed.Due == 0 {
		return nil
	}
	return &fixed
}

func (e dueEntry) equal(o *dueEntry) bool {
	return o != nil && e.Due == o.Due && slices.Equal(e.Plans, o.Plans)
}

// pause waits, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
