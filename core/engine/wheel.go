package engine

import "math/bits"

// A wheel holds moments in the order in which they come: a hierarchical timing
// wheel of four levels of 256 slots, a tick a millisecond (Varghese and Lauck,
// 1987). A moment costs 24 bytes, and setting, moving and removing one costs
// the same however many there are. It does not lock.
type wheel struct {
	now   int64    // nothing before it is in a slot
	slots []moment // all moments; a free one is in the list at free
	free  int32
	heads [4 * 256]int32
	used  [4][4]uint64 // which of a level's slots hold something
}

// A moment is when something with this hash is due.
type moment struct {
	due        int64 // in Unix milliseconds; free ones have -1
	hash       uint64
	next, prev int32 // -1: none; prev <= -2: head of slot -2-prev
}

func (w *wheel) init(now int64) {
	w.now, w.free = now, -1
	for i := range w.heads {
		w.heads[i] = -1
	}
}

// set makes hash due at a moment and returns its id. With the id of an earlier
// set for the same hash, the moment is moved, but only to an earlier one: a
// later one is left for whoever hears of it to set again.
func (w *wheel) set(id int32, hash uint64, due int64) int32 {
	if id >= 0 && w.slots[id].due >= 0 && w.slots[id].hash == hash {
		if due >= w.slots[id].due {
			return id
		}
		w.unlink(id)
	} else if id = w.free; id >= 0 {
		w.free = w.slots[id].next
	} else {
		id = int32(len(w.slots))
		w.slots = append(w.slots, moment{})
	}
	w.slots[id].due, w.slots[id].hash = due, hash
	w.link(id)
	return id
}

// furthest is how far ahead a moment is kept exactly; a later one comes round
// and is looked at again.
const furthest = 1<<32 - 1

func (w *wheel) link(id int32) {
	m := &w.slots[id]
	due := min(max(m.due, w.now), w.now+furthest)
	level := 0
	if x := uint64(due ^ w.now); x > 0 {
		level = min(3, (bits.Len64(x)-1)/8)
	}
	slot := level*256 + int(due>>(8*level))&255
	m.next, m.prev = w.heads[slot], int32(-2-slot)
	if m.next >= 0 {
		w.slots[m.next].prev = id
	}
	w.heads[slot] = id
	w.used[level][slot&255>>6] |= 1 << (slot & 63)
}

func (w *wheel) unlink(id int32) {
	m := &w.slots[id]
	if m.next >= 0 {
		w.slots[m.next].prev = m.prev
	}
	if m.prev >= 0 {
		w.slots[m.prev].next = m.next
		return
	}
	slot := int(-2 - m.prev)
	if w.heads[slot] = m.next; m.next < 0 {
		w.used[slot>>8][slot&255>>6] &^= 1 << (slot & 63)
	}
}

// next is the earliest time at which advance has something to do.
func (w *wheel) next() (at int64, ok bool) {
	at, _, ok = w.ahead()
	return at, ok
}

// ahead finds the first slot in use. The lower level comes first: its slots are
// parts of the one that the level above stands at. On the top level, which
// comes round, the slots before the present one lie behind those after it.
func (w *wheel) ahead() (at int64, slot int, ok bool) {
	for level := range 4 {
		from := int(w.now>>(8*level)) & 255
		if level > 0 {
			from++ // the present one is spread over the levels below
		}
		base := w.now >> (8 * (level + 1)) << 8
		if i := w.firstUsed(level, from); i < 256 {
			return (base + int64(i)) << (8 * level), level*256 + i, true
		}
		if level == 3 {
			if i := w.firstUsed(level, 0); i < 256 {
				return (base + 256 + int64(i)) << (8 * level), level*256 + i, true
			}
		}
	}
	return 0, 0, false
}

func (w *wheel) firstUsed(level, from int) int {
	for word := from >> 6; word < 4; word++ {
		u := w.used[level][word]
		if word == from>>6 {
			u &= ^uint64(0) << (from & 63)
		}
		if u != 0 {
			return word<<6 + bits.TrailingZeros64(u)
		}
	}
	return 256
}

// advance moves on to a time, and calls fire for what was due at or before it,
// in order. A moment is gone when it fires; fire must not use the wheel.
func (w *wheel) advance(to int64, fire func(hash uint64)) {
	for {
		at, slot, ok := w.ahead()
		if !ok || at > to {
			w.now = max(w.now, to)
			return
		}
		w.now = max(w.now, at)
		id := w.heads[slot]
		w.heads[slot] = -1
		w.used[slot>>8][slot&255>>6] &^= 1 << (slot & 63)
		for id >= 0 {
			m := &w.slots[id]
			next := m.next
			if m.due > w.now {
				w.link(id)
			} else {
				hash := m.hash
				*m = moment{due: -1, next: w.free}
				w.free = id
				fire(hash)
			}
			id = next
		}
	}
}
