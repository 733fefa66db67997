package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// An overlay is what a journal's records say beyond the folded states, in
// memory. The Journal's lock guards it.
type overlay struct {
	oldest, applied uint64 // the records that it was made from
	tag             uint64 // of the newest of them
	costs           []int  // of each of them
	cost            int    // of all
	credit          float64
	scopes          map[attend.Scope]*entry
	due             dueIndex
	// The entries in the order of their first records, which is the order of
	// folding.
	front, back *entry
	torn        int // entries whose beginning is in no record and in no state
}

// An entry is a scope with changes that are in no folded state. What it keeps
// are records' bytes.
type entry struct {
	scope   attend.Scope
	version uint64 // 0: it is gone
	due     int64
	// The oldest record that has something of it, and the newest. What is in
	// records before first is folded.
	first, last uint64
	// The record that made the folded state count for nothing: with a snapshot,
	// or where the scope began or ended. 0: the folded state counts.
	whole      uint64
	snap       []byte
	tail       []part
	torn       bool
	prev, next *entry
}

// A part is the inputs of one record.
type part struct {
	seq    uint64
	inputs []byte
}

// What a scope's change costs in memory beside its bytes, about.
const changeCost = 160

func newOverlay(oldest uint64) *overlay {
	return &overlay{oldest: oldest, applied: oldest - 1, scopes: make(map[attend.Scope]*entry)}
}

// apply adds a record's changes. head says of a change's scope what was folded
// of it, if it has no entry.
func (o *overlay) apply(seq, tag uint64, body []byte, head func(i int, scope []byte) Head) error {
	if seq != o.applied+1 {
		return fmt.Errorf("journal record %d is missing: %w", o.applied+1, attend.ErrCorrupt)
	}
	n := 0
	_, err := decode(seq, body, func(c *change) error {
		n++
		return o.change(seq, c, func() Head { return head(n-1, c.scope) })
	})
	if err != nil {
		return err
	}
	o.applied, o.tag = seq, tag
	o.costs = append(o.costs, len(body)+n*changeCost)
	o.cost += len(body) + n*changeCost
	return nil
}

func (o *overlay) change(seq uint64, c *change, head func() Head) error {
	e := o.scopes[attend.Scope(c.scope)]
	if e == nil {
		h := head()
		if h.Seq >= seq {
			return nil // it is folded already
		}
		e = &entry{scope: attend.Scope(strings.Clone(string(c.scope))), version: h.Version, due: Never, first: seq}
		if h.Version != 0 {
			o.setDue(e, h.Due)
		} else if c.expect != 0 {
			// A life that ended and was folded so, while records of it are still
			// there: its end must be among them.
			e.torn, e.version = true, c.expect
			o.torn++
		}
		o.scopes[e.scope] = e
		o.insert(e)
	}
	if e.version != c.expect {
		return fmt.Errorf("journal record %d does not fit what is stored of scope %.40q: %w", seq, e.scope, attend.ErrCorrupt)
	}
	if c.version == 0 || c.expect == 0 || c.snap != nil {
		e.whole, e.snap, e.tail = seq, c.snap, nil
	}
	if c.version == 0 && e.torn {
		e.torn = false
		o.torn--
	}
	if len(c.inputs) > 0 {
		e.tail = append(e.tail, part{seq, c.inputs})
	}
	if !c.keepDue {
		o.setDue(e, c.due)
	}
	e.version, e.last = c.version, seq
	return nil
}

func (o *overlay) setDue(e *entry, due int64) {
	if e.due == due {
		return
	}
	if e.due != Never {
		o.due.remove(DueKey{e.due, e.scope})
	}
	if due != Never {
		o.due.insert(DueKey{due, e.scope})
	}
	e.due = due
}

// complete says that the record that r reads up to was the last one of its
// moment.
func (o *overlay) complete() error {
	if o.torn == 0 {
		return nil
	}
	for e := o.front; e != nil; e = e.next {
		if e.torn {
			return fmt.Errorf("journal record %d goes on with scope %.40q, of which nothing is stored: %w", e.first, e.scope, attend.ErrCorrupt)
		}
	}
	return nil
}

// folded says that the scope's folded state has its records up to seq.
func (o *overlay) folded(scope attend.Scope, seq uint64) {
	if e := o.scopes[scope]; e != nil && e.last <= seq {
		o.drop(e)
	}
}

// trim says that the records before oldest are gone, so what they had is
// folded. Little of them is kept: a few bytes keep a whole record in memory.
func (o *overlay) trim(oldest uint64) {
	for ; o.oldest < oldest && len(o.costs) > 0; o.oldest++ {
		o.cost -= o.costs[0]
		o.costs = o.costs[1:]
	}
	for e := o.front; e != nil && e.first < oldest; {
		next := e.next
		if e.last < oldest {
			o.drop(e)
		} else {
			e.trim(oldest)
		}
		e = next
	}
}

func (e *entry) trim(oldest uint64) {
	e.first = oldest
	if e.whole < oldest {
		e.whole, e.snap = 0, nil
	}
	// Who has a copy of e reads its tail without the lock. The time for a new
	// one is taken when it is worth it.
	gone, _ := slices.BinarySearchFunc(e.tail, oldest, func(p part, seq uint64) int { return cmp.Compare(p.seq, seq) })
	if 2*gone >= len(e.tail) {
		e.tail = slices.Clone(e.tail[gone:])
	}
}

func (o *overlay) drop(e *entry) {
	o.setDue(e, Never)
	o.unlink(e)
	delete(o.scopes, e.scope)
}

// insert puts e where its first record says, which is near the back.
func (o *overlay) insert(e *entry) {
	at := o.back
	for at != nil && at.first > e.first {
		at = at.prev
	}
	e.prev = at
	if at == nil {
		e.next, o.front = o.front, e
	} else {
		e.next, at.next = at.next, e
	}
	if e.next == nil {
		o.back = e
	} else {
		e.next.prev = e
	}
}

func (o *overlay) unlink(e *entry) {
	if e.prev == nil {
		o.front = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		o.back = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// over puts the entry's pieces over its folded state, which it may have none
// of. parts are those behind seq.
func (e *entry) over(base pieces, seq uint64) pieces {
	p := pieces{snap: e.snap}
	if e.whole == 0 {
		p = base
	} else {
		seq = 0
	}
	for _, t := range e.tail {
		if t.seq > seq {
			p.tail = append(p.tail, t.inputs)
		}
	}
	return p
}
