package machine

import (
	"iter"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// An entry is an event in a window. It never changes.
type entry struct {
	attend.Event
	taken ms     // when it was taken in
	order uint64 // its place among the events of its scope's open window
	hash  uint64 // of its identity
	size  int
}

const chunkLen = 16

// seq is a queue of entries, oldest first. It is a value: no method changes
// its receiver, and a push copies at most one chunk. So an arrival costs the
// same however long the window is.
type seq struct {
	full []*[chunkLen]*entry
	off  int // entries of full[0] that are gone
	tail []*entry
	n    int
}

func (q seq) push(e *entry) seq {
	tail := make([]*entry, len(q.tail)+1)
	copy(tail, q.tail)
	tail[len(q.tail)] = e
	q.tail = tail
	q.n++
	if len(tail) == chunkLen {
		q.full = append(slices.Clip(q.full), (*[chunkLen]*entry)(tail))
		q.tail = nil
	}
	return q
}

// first is the oldest entry; nil where there is none.
func (q *seq) first() *entry {
	switch {
	case q.n == 0:
		return nil
	case len(q.full) > 0:
		return q.full[0][q.off]
	}
	return q.tail[0]
}

// pop returns q without its oldest entry. q must not be empty.
func (q seq) pop() seq {
	q.n--
	if len(q.full) == 0 {
		q.tail = q.tail[1:]
		return q
	}
	if q.off++; q.off == chunkLen {
		q.full, q.off = q.full[1:], 0
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
		for _, e := range q.tail {
			if !yield(e) {
				return
			}
		}
	}
}
