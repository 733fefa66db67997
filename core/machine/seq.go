package machine

import (
	"iter"
	"slices"
)

const chunkLen = 8

// seq is a queue of entries, oldest first. It is a value: no method changes
// its receiver, and what a push copies does not depend on how long it is, but
// for a pointer a chunk, once a chunk.
type seq struct {
	full  []*[chunkLen]*entry
	off   int // entries of full[0] that are gone
	tail  [chunkLen]*entry
	ends  int // entries of tail
	n     int
	since ms // when the first was taken in
}

func (q seq) push(e *entry) seq {
	if q.n == 0 {
		q.since = e.taken
	}
	q.tail[q.ends] = e
	q.ends++
	q.n++
	if q.ends == chunkLen {
		chunk := q.tail
		q.full = append(slices.Clip(q.full), &chunk)
		q.tail, q.ends = [chunkLen]*entry{}, 0
	}
	return q
}

// first is the oldest entry; nil where there is none.
func (q *seq) first() *entry {
	if len(q.full) > 0 {
		return q.full[0][q.off]
	}
	return q.tail[0]
}

// pop returns q without its oldest entry. q must not be empty.
func (q seq) pop() seq {
	q.n--
	if len(q.full) == 0 {
		copy(q.tail[:], q.tail[1:])
		q.ends--
		q.tail[q.ends] = nil
	} else if q.off++; q.off == chunkLen {
		q.full, q.off = q.full[1:], 0
	}
	q.since = 0
	if e := q.first(); e != nil {
		q.since = e.taken
	}
	return q
}

// all yields the entries, oldest first.
func (q *seq) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		off := q.off
		for _, c := range q.full {
			for _, e := range c[off:] {
				if !yield(e) {
					return
				}
			}
			off = 0
		}
		for _, e := range q.tail[:q.ends] {
			if !yield(e) {
				return
			}
		}
	}
}
