package machine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// idsPair is a set and the plain slice that it must be like.
type idsPair struct {
	set   ids
	plain []uint64
}

func (p *idsPair) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	if got := slices.Collect(p.set.all()); !slices.Equal(got, p.plain) || p.set.n != len(p.plain) {
		t.Fatalf("all() = %d of n %d, want %d: %v, want %v", len(got), p.set.n, len(p.plain), got, p.plain)
	}
	for range min(len(p.plain), 8) {
		i := r.IntN(len(p.plain))
		at, slot := p.set.find(p.plain[i])
		if slot < 0 || !p.set.has(p.plain[i]) {
			t.Fatalf("find(%d) = %d, %d, want a place", p.plain[i], at, slot)
		}
		if got, want := p.set.younger(at, slot), len(p.plain)-1-i; got != want {
			t.Fatalf("younger(%d, %d) = %d, want %d", at, slot, got, want)
		}
	}
	if absent := r.Uint64() | 1<<63; p.set.has(absent) {
		t.Fatalf("has(%d) = true, want false", absent)
	}
}

// step changes the pair by one operation. Small numbers of few residues make
// the blocks' indexes collide.
func (p idsPair) step(r *rand.Rand, next uint64) idsPair {
	p.plain = slices.Clone(p.plain)
	switch k := r.IntN(10); {
	case k < 6 || len(p.plain) == 0:
		h := next
		if r.IntN(2) == 0 {
			h = next * 2 * blockLen
		}
		if slices.Contains(p.plain, h) {
			return p
		}
		p.set, p.plain = p.set.add(h), append(p.plain, h)
	case k < 8:
		i := r.IntN(len(p.plain))
		at, slot := p.set.find(p.plain[i])
		p.set, p.plain = p.set.remove(at, slot), slices.Delete(p.plain, i, i+1)
	case k == 8: // to the young end
		i := r.IntN(len(p.plain))
		h := p.plain[i]
		at, slot := p.set.find(h)
		p.set, p.plain = p.set.remove(at, slot).add(h), append(slices.Delete(p.plain, i, i+1), h)
	default:
		p.set, p.plain = p.set.drop(), p.plain[1:]
	}
	return p
}

func TestIDs(t *testing.T) {
	rounds := uint64(60)
	if testing.Short() {
		rounds = 12
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(seed, 3))
		var p idsPair
		var kept []idsPair // older values, and branches that left from them
		for i := range 500 {
			if len(kept) > 0 && r.IntN(40) == 0 {
				p = kept[r.IntN(len(kept))]
			}
			p = p.step(r, uint64(i+1))
			p.check(t, r)
			if r.IntN(10) == 0 {
				kept = append(kept, p)
			}
		}
		for i := range kept {
			kept[i].check(t, r)
		}
	}
}

// The empty set answers as one.
func TestIDsEmpty(t *testing.T) {
	var s ids
	if s.has(0) || s.has(1) || s.n != 0 || slices.Collect(s.all()) != nil {
		t.Errorf("the zero ids holds something: %v", slices.Collect(s.all()))
	}
	s = s.add(7).drop()
	if s.has(7) || s.n != 0 {
		t.Errorf("an id is there after it was dropped")
	}
}

// idsBytes is what a set holds on to.
func idsBytes(s *ids) int {
	n := 8*cap(s.mid) + int(unsafe.Sizeof(block{}))*cap(s.full)
	for _, b := range s.full {
		n += len(b.slots)*8 + len(b.index)
	}
	return n
}

// A flood through a memory of fixed length leaves no blocks behind, whether ids
// go at the old end, from the middle, or move to the young end for ever.
func TestIDsFlood(t *testing.T) {
	const size, flood = 500, 30_000
	tests := []struct {
		name   string
		step   func(s ids, i uint64) ids
		blocks int // at most
	}{
		{"drop", func(s ids, i uint64) ids { return s.add(i).drop() }, size/blockLen + 2},
		{"remove the oldest", func(s ids, i uint64) ids {
			at, slot := s.find(i - size)
			return s.add(i).remove(at, slot)
		}, size/blockLen + 2},
		{"remove from the middle", func(s ids, i uint64) ids {
			at, slot := s.find(i - size/2)
			if slot < 0 {
				return s.add(i).drop()
			}
			return s.add(i).remove(at, slot)
		}, size/blockLen + 2},
		{"move to the young end", func(s ids, i uint64) ids {
			// Every eighth sleeps, the others take turns.
			h := i%size + 1
			if h%8 == 0 {
				return s
			}
			at, slot := s.find(h)
			return s.remove(at, slot).add(h)
		}, 4 * size / blockLen},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s ids
			for i := range uint64(size) {
				s = s.add(i + 1)
			}
			most := 0
			for i := range uint64(flood) {
				s = tt.step(s, size+i+1)
				most = max(most, len(s.full))
			}
			if s.n != size {
				t.Fatalf("n = %d after the flood, want %d", s.n, size)
			}
			if most > tt.blocks {
				t.Errorf("up to %d blocks for %d ids, want at most %d", most, size, tt.blocks)
			}
			if got, limit := idsBytes(&s), 2*tt.blocks*int(unsafe.Sizeof(block{})+8*blockLen+2*blockLen); got > limit {
				t.Errorf("%d bytes after %d ids went through, want at most %d", got, flood, limit)
			}
		})
	}
}
