package engine

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A list is a wheel in its plainest form.
type list struct {
	now   int64
	items []item
}

type item struct {
	due  int64
	hash uint64
}

func (l *list) advance(to int64) (fired []item) {
	l.now = max(l.now, to)
	slices.SortStableFunc(l.items, func(a, b item) int { return cmp.Compare(a.due, b.due) })
	n := 0
	for n < len(l.items) && l.items[n].due <= to {
		n++
	}
	fired = slices.Clone(l.items[:n])
	l.items = l.items[n:]
	return fired
}

// Random sets, moves and advances, from a tick to hundreds of days: the wheel
// fires what the list fires, and sooner or later moments in their order.
func TestWheelAgainstAList(t *testing.T) {
	spans := []int64{1, 3, 255, 256, 257, 1 << 16, 1<<16 + 1, 1 << 24, 1 << 31, 1<<32 - 1, 1 << 33, 1 << 35}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := int64(1_700_000_000_000) + r.Int64N(1<<34)
		var w wheel
		w.init(now)
		l := list{now: now}
		ids := map[uint64]int32{}
		due := map[uint64]int64{}
		for hash := uint64(0); hash < 2000; hash++ {
			span := spans[r.IntN(len(spans))]
			switch k := r.IntN(10); {
			case k < 6: // a new one, sometimes overdue
				at := l.now + r.Int64N(span+1) - r.Int64N(3)
				ids[hash], due[hash] = w.set(-1, hash, at), at
				l.items = append(l.items, item{at, hash})
			case k < 8 && len(ids) > 0: // one moves, and stays where it is if that is later
				h := slices.Sorted(maps.Keys(ids))[r.IntN(len(ids))]
				at := l.now + r.Int64N(span+1)
				ids[h] = w.set(ids[h], h, at)
				if at < due[h] {
					due[h] = at
					for i := range l.items {
						if l.items[i].hash == h {
							l.items[i].due = at
						}
					}
				}
			default:
				to := l.now + r.Int64N(span+1)
				var got []item
				w.advance(to, func(hash uint64) { got = append(got, item{due[hash], hash}) })
				want := l.advance(to)
				check(t, seed, got, want)
				for _, f := range want {
					delete(ids, f.hash)
					delete(due, f.hash)
				}
			}
			if at, ok := w.next(); ok != (len(l.items) > 0) {
				t.Fatalf("seed %d: next() = %d, %v with %d set", seed, at, ok, len(l.items))
			} else if ok {
				first := slices.MinFunc(l.items, func(a, b item) int { return cmp.Compare(a.due, b.due) })
				if at > max(first.due, l.now) {
					t.Fatalf("seed %d: next() = %d, but the first is due at %d", seed, at, first.due)
				}
			}
		}
	}
}

// check compares what fired: the same, in the order of time. What was due
// before it was set counts as due then.
func check(t *testing.T, seed uint64, got, want []item) {
	t.Helper()
	byHash := func(a, b item) int { return cmp.Compare(a.hash, b.hash) }
	for i := 1; i < len(got); i++ {
		if got[i].due < got[i-1].due && got[i-1].due-got[i].due > 3 {
			t.Fatalf("seed %d: %d fired after %d", seed, got[i].due, got[i-1].due)
		}
	}
	a, b := slices.SortedFunc(slices.Values(got), byHash), slices.SortedFunc(slices.Values(want), byHash)
	if !slices.Equal(a, b) {
		t.Fatalf("seed %d: fired %v, want %v", seed, a, b)
	}
}

// What is far ahead costs a few looks, and an idle wheel none.
func TestWheelCostsNothingWhenIdle(t *testing.T) {
	var w wheel
	now := int64(1_700_000_000_123)
	w.init(now)
	if at, ok := w.next(); ok {
		t.Errorf("next() of an empty wheel = %d, want none", at)
	}
	w.advance(now+int64(100*24*time.Hour/time.Millisecond), func(uint64) { t.Error("an empty wheel fired") })

	looks, fired := 0, 0
	far := w.now + int64(40*24*time.Hour/time.Millisecond)
	w.set(-1, 7, far)
	for at, ok := w.next(); ok; at, ok = w.next() {
		if looks++; looks > 10 {
			t.Fatalf("more than 10 looks for one moment 40 days ahead")
		}
		w.advance(at, func(hash uint64) {
			if fired++; hash != 7 || w.now != far {
				t.Errorf("fired %d at %d, want 7 at %d", hash, w.now, far)
			}
		})
	}
	if fired != 1 {
		t.Errorf("fired %d times, want once", fired)
	}
	allocs := testing.AllocsPerRun(100, func() { w.advance(w.now+3_600_000, func(uint64) {}) })
	if allocs != 0 {
		t.Errorf("an advance over an idle hour allocates %v times, want 0", allocs)
	}
}

// Moments are kept in the memory of those that are gone.
func TestWheelUsesItsMemoryAgain(t *testing.T) {
	var w wheel
	w.init(0)
	for round := range int64(1000) {
		for i := range uint64(10) {
			w.set(-1, i, w.now+round%300)
		}
		w.advance(w.now+300, func(uint64) {})
	}
	if n := len(w.slots); n > 10 {
		t.Errorf("%d slots for 10 moments at a time, want 10", n)
	}
}

// An id that is old does not move what is not its own.
func TestWheelAnOldID(t *testing.T) {
	var w wheel
	w.init(0)
	old := w.set(-1, 1, 10)
	w.advance(10, func(uint64) {})
	other := w.set(-1, 2, 50) // in the place of the first
	if other != old {
		t.Fatal("the place was not used again, so the test shows nothing")
	}
	mine := w.set(old, 1, 20)
	var got []uint64
	w.advance(100, func(hash uint64) { got = append(got, hash) })
	if mine == other || !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("fired %v, want 1 and 2", got)
	}
}
