package storetest_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/attend-go/attend/mcpevents"
)

type (
	record = mcpevents.SubscriptionRecord
	change = mcpevents.SubscriptionWrite
)

// A wrong store is one handle on a shelf in memory, right but for its fault.
type wrong struct {
	fault
	shelf *shelf
	mine  uint64 // the last version that this handle gave
	own   map[string]bool
	told  map[string]time.Time
	used  map[string][]byte
	pool  chan struct{}
	busy  *atomic.Int64
}

// A shelf is what the handles of one store share.
type shelf struct {
	mu      sync.Mutex
	handles int
	version uint64
	rows    map[string]row
	gone    map[string]time.Time // due times of what was removed
}

type row struct {
	version uint64
	value   []byte
	due     time.Time
}

func newWrong(f fault) *wrong {
	return (&wrong{fault: f, shelf: &shelf{rows: map[string]row{}, gone: map[string]time.Time{}}}).reopen()
}

func (s *wrong) reopen() *wrong {
	s.shelf.handles++
	return &wrong{
		fault: s.fault, shelf: s.shelf, own: map[string]bool{}, told: map[string]time.Time{}, used: map[string][]byte{},
		pool: make(chan struct{}, 10), busy: new(atomic.Int64),
	}
}

// key is what the store makes of one.
func (s *wrong) key(key string) string {
	if s.fault == keysCut {
		return key[:min(len(key), 63)]
	}
	if s.fault == keysPatterns {
		for _, other := range slices.Sorted(mapsKeys(s.shelf.rows)) {
			if len(other) == len(key) && strings.Contains(key, "_") && matches(key, other) {
				return other
			}
		}
	}
	return key
}

func mapsKeys(m map[string]row) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

func matches(pattern, key string) bool {
	for i := range len(key) {
		if pattern[i] != '_' && pattern[i] != key[i] {
			return false
		}
	}
	return true
}

func (s *wrong) Load(_ context.Context, key string) (record, error) {
	s.shelf.mu.Lock()
	defer s.shelf.mu.Unlock()
	r := s.shelf.rows[s.key(key)]
	out := record{Version: r.version, Value: bytes.Clone(r.value)}
	switch {
	case s.fault == loadUnknown && r.version == 0:
		out.Value = []byte{}
	case s.fault == sharesLoaded:
		out.Value = r.value
	case s.fault == sharesBuffer && len(key) == 1: // those of many goroutines would be a race
		s.used[key] = append(s.used[key][:0], r.value...)
		out.Value = s.used[key]
	}
	return out, nil
}

func (s *wrong) Write(_ context.Context, writes []change) ([]uint64, error) {
	if s.fault == manyCut && len(writes) > 100 {
		out, err := s.Write(context.Background(), writes[:100])
		return append(out, make([]uint64, len(writes)-100)...), err
	}
	s.shelf.mu.Lock()
	defer s.shelf.mu.Unlock()
	fits := make([]bool, len(writes))
	for i, w := range writes {
		fits[i] = s.fits(w, s.shelf.rows[s.key(w.Key)])
	}
	if s.gaps(writes) { // between the look and the write
		s.shelf.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.shelf.mu.Lock()
	}
	out := make([]uint64, len(writes))
	for i, w := range writes {
		if !s.gaps(writes) {
			fits[i] = s.fits(w, s.shelf.rows[s.key(w.Key)])
		}
		switch {
		case fits[i]:
			out[i] = s.apply(w)
		case s.fault == refusalStopsRest:
			return out, nil
		case s.fault == refusalStopsAll && i > 0:
			for _, before := range writes[:i] {
				delete(s.shelf.rows, before.Key)
			}
			return make([]uint64, len(writes)), nil
		case s.fault == refusalMovesDue:
			if r, ok := s.shelf.rows[w.Key]; ok {
				r.due = w.Due
				s.shelf.rows[w.Key] = r
			}
		}
	}
	if s.fault == versionsSorted {
		slices.SortStableFunc(out, func(a, b uint64) int { // the applied first
			return cmp.Compare(min(b, 1), min(a, 1))
		})
	}
	return out, nil
}

// gaps reports whether the fault opens a gap in this call.
func (s *wrong) gaps(writes []change) bool {
	single := len(writes) == 1 && writes[0].Value != nil
	switch s.fault {
	case gapInWrite:
		return single && writes[0].Expect != 0 && s.shelf.handles == 1
	case gapInCreate:
		return single && writes[0].Expect == 0 && s.shelf.handles == 1
	case gapInGroup:
		return len(writes) > 1
	case gapInHandles:
		return single && s.shelf.handles > 1
	}
	return false
}

func (s *wrong) fits(w change, r row) bool {
	switch {
	case s.fault == olderFits && w.Value != nil && r.version != 0 && w.Expect != 0 && w.Expect < r.version,
		s.fault == existsFits && w.Value != nil && w.Expect == 0,
		s.fault == nothingFits && w.Value != nil && r.version == 0,
		s.fault == removalFits && w.Value == nil && r.version != 0:
		return true
	}
	return r.version == w.Expect
}

func (s *wrong) apply(w change) uint64 {
	key := s.key(w.Key)
	r := s.shelf.rows[key]
	s.shelf.version++
	version := s.shelf.version
	s.mine++
	switch {
	case s.fault == versionsOfHandles:
		version = s.mine
	case s.fault == versionsAnew:
		version = r.version + 1
	case s.fault == sameKeepsVersion && r.version != 0 && bytes.Equal(r.value, w.Value) && r.due.Equal(w.Due):
		version = r.version
	}
	if w.Value == nil {
		if s.fault == removalEmpties {
			s.shelf.rows[key] = row{version: version}
			return version
		}
		if s.fault == removalKeepsDue {
			s.shelf.gone[key] = r.due
		}
		delete(s.shelf.rows, key)
		if s.fault == removalAnswers0 {
			return 0
		}
		return version
	}
	value, due := bytes.Clone(w.Value), w.Due
	switch s.fault {
	case valueKept:
		if r.version != 0 && r.due.Equal(due) && len(r.value) == 3 { // nothing seems to change
			value = r.value
		}
	case valueOver:
		if len(value) < len(r.value) {
			value = append(value, r.value[len(value):]...)
		}
	case valueText:
		value = bytes.ToValidUTF8(value, []byte("\ufffd"))
	case valueCut:
		value = value[:min(len(value), 60_000)]
	case sharesWritten:
		value = w.Value
	case madeDue:
		if r.version == 0 && due.IsZero() {
			due = time.UnixMilli(0)
		}
	case dueStays:
		if due.IsZero() {
			due = r.due
		}
	case dueEarlier:
		if !r.due.IsZero() && due.After(r.due) {
			due = r.due
		}
	case dueSeconds:
		due = due.Truncate(time.Second)
	}
	s.shelf.rows[key] = row{version, value, due}
	s.own[key] = true
	if s.fault == versionsOff {
		return version + 1
	}
	return version
}

func (s *wrong) Due(ctx context.Context, now time.Time) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if s.fault == dueAlone {
			if s.busy.Add(1) > 1 {
				s.busy.Add(-1)
				yield("", errors.New("another one is under way"))
				return
			}
			for range 100 {
				runtime.Gosched()
			}
			s.busy.Add(-1)
		}
		list := s.list(now)
		if s.fault == dueHolds {
			s.shelf.mu.Lock()
			defer s.shelf.mu.Unlock()
		}
		if s.fault == dueLeaks {
			s.pool <- struct{}{}
		}
		for i, key := range list {
			if err := ctx.Err(); err != nil && s.fault == dueSilent {
				return
			} else if err != nil && (!yield("", err) || s.fault != dueGoesOn) {
				return
			}
			if s.fault == dueCut && i == 1000 {
				break
			}
			if !yield(key, nil) {
				return
			}
		}
		if s.fault == dueLeaks {
			<-s.pool
		}
	}
}

// list is what is due.
func (s *wrong) list(now time.Time) []string {
	s.shelf.mu.Lock()
	defer s.shelf.mu.Unlock()
	type entry struct {
		key string
		due time.Time
	}
	var list []entry
	add := func(key string, due time.Time) {
		switch {
		case due.IsZero(), due.After(now) && s.fault != dueByClock, due.After(time.Now()),
			s.fault == dueLate && due.Equal(now), s.fault == dueOfOwn && !s.own[key],
			s.fault == dueClaims && s.told[key].Equal(now):
			return
		}
		s.told[key] = now
		list = append(list, entry{key, due})
	}
	for key, r := range s.shelf.rows {
		add(key, r.due)
		if s.fault == dueRenews {
			r.version = s.shelf.version + 1
			s.shelf.version++
			s.shelf.rows[key] = r
		}
	}
	for key, due := range s.shelf.gone {
		add(key, due)
	}
	slices.SortFunc(list, func(a, b entry) int {
		if s.fault == dueByName {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.key, b.key))
	})
	keys := make([]string, len(list))
	for i, e := range list {
		keys[i] = e.key
	}
	return keys
}
