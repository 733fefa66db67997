package journal

import (
	"fmt"

	attend "github.com/attend-go/attend/core"
)

// Overlay says how much is in memory: scopes, due times and what budget counts.
func Overlay(j *Journal) (scopes, due, cost int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range j.overlay.due.blocks {
		due += len(b)
	}
	return len(j.overlay.scopes), due, j.overlay.cost
}

// Audit checks what the overlay says of itself.
func Audit(j *Journal) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.overlay
	n, due, cost, at := 0, 0, 0, o.oldest
	var prev *entry
	for e := o.front; e != nil; prev, e = e, e.next {
		n++
		if o.scopes[e.scope] != e || e.prev != prev || e.torn {
			return fmt.Errorf("entry of %q is not in its place", e.scope)
		}
		if e.first < at || e.last < e.first || e.last > o.applied {
			return fmt.Errorf("entry of %q has records %d to %d, want them from %d to %d", e.scope, e.first, e.last, at, o.applied)
		}
		if stale := stale(e, o.oldest); e.whole != 0 && e.whole < o.oldest || len(stale) > 0 && 2*len(stale) >= len(e.tail) {
			return fmt.Errorf("entry of %q keeps %d parts of %d that are of records before %d", e.scope, len(stale), len(e.tail), o.oldest)
		}
		if at = e.first; e.due != Never {
			due++
		}
	}
	for _, c := range o.costs {
		cost += c
	}
	keys := len(o.due.keys())
	switch {
	case o.back != prev || n != len(o.scopes):
		return fmt.Errorf("%d of %d entries are in order", n, len(o.scopes))
	case keys != due:
		return fmt.Errorf("%d keys in the due index, want %d", keys, due)
	case cost != o.cost || len(o.costs) != int(o.applied-o.oldest+1):
		return fmt.Errorf("%d records that cost %d, want %d and %d", len(o.costs), o.cost, o.applied-o.oldest+1, cost)
	}
	return nil
}

func stale(e *entry, oldest uint64) (seqs []uint64) {
	for _, p := range e.tail {
		if p.seq < oldest {
			seqs = append(seqs, p.seq)
		}
	}
	return seqs
}

// Pinned is how many records the overlay was made from, and how many others
// are in memory because an entry has a part of them.
func Pinned(j *Journal) (records, others int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	seqs := make(map[uint64]bool)
	for e := j.overlay.front; e != nil; e = e.next {
		for _, seq := range append(stale(e, j.overlay.oldest), e.whole) {
			if seq != 0 && seq < j.overlay.oldest {
				seqs[seq] = true
			}
		}
	}
	return len(j.overlay.costs), len(seqs)
}

func (x *dueIndex) keys() (keys []DueKey) {
	for _, b := range x.blocks {
		keys = append(keys, b...)
	}
	return keys
}

// A DueIndex is the index of what is in memory.
type DueIndex = dueIndex

// Insert, Remove, Page and Keys open the index to tests.
func (x *dueIndex) Insert(k DueKey) { x.insert(k) }

// Remove takes a key out.
func (x *dueIndex) Remove(k DueKey) { x.remove(k) }

// Page is what the index answers.
func (x *dueIndex) Page(after DueKey, upTo int64, n int) []DueKey {
	return x.page(after, upTo, make([]DueKey, 0, n))
}

// Keys are all keys, and Blocks how many blocks they are in.
func (x *dueIndex) Keys() []DueKey { return x.keys() }

// Blocks is how many blocks there are.
func (x *dueIndex) Blocks() int { return len(x.blocks) }

// Encode makes a record of writes that all land.
func Encode(writes []attend.Write) ([]byte, error) {
	g, err := encode(writes)
	if err != nil {
		return nil, err
	}
	return g.record(nil, true, 0), nil
}

// Decode reads a record and returns how many changes it has.
func Decode(body []byte) (n int, err error) {
	_, err = decode(1, body, func(*change) error { n++; return nil })
	return n, err
}

// DecodeState reads a folded state's body.
func DecodeState(body []byte) (attend.Record, error) {
	p, err := decodeState("s", body)
	if err != nil {
		return attend.Record{}, err
	}
	return p.record(1), nil
}

// DecodeChanges reads changes without their header.
func DecodeChanges(b []byte) {
	for d := (decoder{rest: b}); len(d.rest) > 0; {
		d.change()
	}
}

// Seal makes a record of changes as bytes.
func Seal(changes []byte) []byte {
	b := append(make([]byte, recordStart), changes...)
	seal(b, 0)
	return b
}
