package machine

import (
	"iter"
	"math/bits"
	"slices"
)

const (
	blockLen = 32
	tailLen  = 8 // divides blockLen
)

// ids is an ordered set of 64-bit hashes, oldest first. It is a value: no
// method changes its receiver, and an add copies a few hashes now and then. A
// look-up costs a bit a block.
type ids struct {
	full []block // each of blockLen slots
	off  int     // slots of full[0] that are gone
	// The young ones, all live:
	mid  []uint64 // a multiple of tailLen, less than blockLen
	tail [tailLen]uint64
	ends int // hashes of tail, less than tailLen
	n    int // live ones in all
}

// A block is full and never changes, but for which of its slots are dead.
type block struct {
	slots  *[blockLen]uint64
	index  *[2 * blockLen]uint8 // open addressing over slots: place + 1, or 0
	filter [4]uint64            // a bit for the upper byte of each hash
	dead   uint32
}

func newBlock(slots *[blockLen]uint64) block {
	b := block{slots: slots, index: new([2 * blockLen]uint8)}
	for i, h := range slots {
		b.filter[h>>62] |= 1 << (h >> 56 & 63)
		p := h % (2 * blockLen)
		for b.index[p] != 0 {
			p = (p + 1) % (2 * blockLen)
		}
		b.index[p] = uint8(i + 1)
	}
	return b
}

// find returns the slot of a live h, or -1.
func (b *block) find(h uint64) int {
	if b.filter[h>>62]>>(h>>56&63)&1 == 0 {
		return -1
	}
	for p := h % (2 * blockLen); b.index[p] != 0; p = (p + 1) % (2 * blockLen) {
		if i := int(b.index[p]) - 1; b.slots[i] == h && b.dead>>i&1 == 0 {
			return i
		}
	}
	return -1
}

func (s *ids) has(h uint64) bool {
	_, slot := s.find(h)
	return slot >= 0
}

// find returns where h is: a block of full, or len(full) for the young ones,
// and its slot there; slot -1 where it is not.
func (s *ids) find(h uint64) (at, slot int) {
	for i := s.ends - 1; i >= 0; i-- {
		if s.tail[i] == h {
			return len(s.full), len(s.mid) + i
		}
	}
	for i := len(s.mid) - 1; i >= 0; i-- {
		if s.mid[i] == h {
			return len(s.full), i
		}
	}
	for at := len(s.full) - 1; at >= 0; at-- {
		if i := s.full[at].find(h); i >= 0 && (at > 0 || i >= s.off) {
			return at, i
		}
	}
	return 0, -1
}

// younger is how many live hashes came after the one at this place.
func (s *ids) younger(at, slot int) int {
	n := len(s.mid) + s.ends
	if at == len(s.full) {
		return n - 1 - slot
	}
	for _, b := range s.full[at+1:] {
		n += blockLen - bits.OnesCount32(b.dead)
	}
	rest := s.full[at].dead >> slot // slots from this one on, itself included
	return n + blockLen - slot - bits.OnesCount32(rest) - 1
}

// add returns s with h as its youngest. h must not be in s.
func (s ids) add(h uint64) ids {
	s.tail[s.ends] = h
	s.ends++
	s.n++
	if s.ends == tailLen {
		s.ends = 0
		s.mid = slices.Concat(s.mid, s.tail[:])
		if len(s.mid) == blockLen {
			s.full = append(slices.Clip(s.full), newBlock((*[blockLen]uint64)(s.mid)))
			s.mid = nil
		}
	}
	return s
}

// remove returns s without the hash at this place.
func (s ids) remove(at, slot int) ids {
	s.n--
	if at == len(s.full) {
		young := slices.Delete(slices.Concat(s.mid, s.tail[:s.ends]), slot, slot+1)
		s.ends = len(young) % tailLen
		s.mid = slices.Clip(young[:len(young)-s.ends])
		copy(s.tail[:], young[len(young)-s.ends:])
		return s
	}
	s.full = slices.Clone(s.full)
	s.full[at].dead |= 1 << slot
	if at > 0 && s.full[at].dead == 1<<blockLen-1 { // or a long flood would leave a trail of dead blocks
		s.full = slices.Delete(s.full, at, at+1)
	}
	return s.trim()
}

// drop returns s without its oldest. s must not be empty.
func (s ids) drop() ids {
	if len(s.full) == 0 {
		return s.remove(0, 0)
	}
	s.n--
	s.off++
	return s.trim()
}

// trim takes dead slots and used blocks off the old end.
func (s ids) trim() ids {
	for len(s.full) > 0 {
		for s.off < blockLen && s.full[0].dead>>s.off&1 == 1 {
			s.off++
		}
		if s.off < blockLen {
			break
		}
		s.full, s.off = s.full[1:], 0
	}
	return s
}

// all yields the hashes, oldest first.
func (s *ids) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		off := s.off
		for _, b := range s.full {
			for i := off; i < blockLen; i++ {
				if b.dead>>i&1 == 0 && !yield(b.slots[i]) {
					return
				}
			}
			off = 0
		}
		for _, h := range s.mid {
			if !yield(h) {
				return
			}
		}
		for _, h := range s.tail[:s.ends] {
			if !yield(h) {
				return
			}
		}
	}
}
