package journal

import (
	"cmp"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// foldBytes is how much one commit folds at least, if it has to fold at all,
// before it leaves the rest to the next ones.
const foldBytes = 1 << 20

// foldScopes is how many scopes are folded together at least, of many, since
// what is written beside them is the same for one as for some.
const foldScopes = 16

// dropBytes is how many bytes of records one commit drops at least, if so many
// can go.
const dropBytes = 256 << 10

// spare is the record before which records can be dropped: nobody needs them
// once the scopes in folded are. 0: there are none. Those before it are about
// limit bytes at most, since many may come to be of no need at a time, all behind
// one scope that had changed again and again.
func (o *overlay) spare(limit int, folded map[attend.Scope]bool) uint64 {
	to := o.applied + 1
	for e := o.front; e != nil; e = e.next {
		if !folded[e.scope] {
			to = e.first
			break
		}
	}
	at := o.oldest
	for size := 0; at < to && size < limit; at++ {
		size += o.costs[at-o.oldest]
	}
	if at == o.oldest {
		return 0
	}
	return at
}

// pick returns copies of the entries to fold in the transaction of a commit,
// the oldest first, and how many scopes that may be with those beside them.
//
// A record goes when all scopes are folded that it is the first one of. So the
// rate is that of scopes to bytes, twice, to get below the budget again: a
// commit's time stays about even, since the next ones wait until there are some
// to fold together. Far above the budget it is more.
func (o *overlay) pick(budget, writes, cost int) (picked []entry, most int) {
	total := o.cost + cost
	o.credit += 2 * float64(cost) / float64(total) * float64(len(o.scopes))
	if total/3 > budget/2 {
		o.credit += float64(writes) * max(2, float64(total)/float64(budget))
	}
	o.credit = min(o.credit, float64(4*writes+foldScopes))
	if o.credit < float64(min(foldScopes, len(o.scopes)/64)) && total/3 <= budget/2 {
		return nil, 0
	}
	for e := o.front; e != nil && len(picked) < int(o.credit); e = e.next {
		picked = append(picked, *e)
	}
	return picked, int(o.credit)
}

// A fold is an entry, and the state that has its records.
type fold struct {
	entry entry
	state State
}

// fold writes a few scopes' states, from before the commit: those that have
// waited longest, and of those whose states lie beside them the ones that have
// waited half as long. These cost next to nothing then, and would be folded
// alone soon after.
func (j *Journal) fold(tx Tx, c *commit) error {
	j.mu.Lock()
	cost := len(c.body) + len(c.landed)*changeCost
	var picked []entry
	most := 0
	total, spare := c.on.cost+cost, max(dropBytes, 2*cost)
	if j.overlay == c.on && total > j.budget {
		c.oldest = c.on.spare(spare, nil)
		if c.oldest == 0 || total/3 > j.budget/2 {
			picked, most = c.on.pick(j.budget, len(c.landed), cost)
		}
	}
	old := c.on.oldest + (c.on.applied-c.on.oldest)/2
	j.mu.Unlock()
	taken := make(map[attend.Scope]bool)
	size, limit := 0, max(foldBytes, 8*cost)
	for i := range picked {
		if size > limit || len(c.folds) >= most {
			break
		}
		if taken[picked[i].scope] {
			continue
		}
		group, err := j.beside(tx, c.on, &picked[i], old)
		if err != nil {
			return err
		}
		for k := range group {
			e := &group[k]
			if taken[e.scope] || size > limit || len(c.folds) >= most {
				continue
			}
			taken[e.scope] = true
			s, err := state(tx, e)
			if err != nil {
				return err
			}
			size += len(s.Body)
			c.folds = append(c.folds, fold{*e, s})
		}
	}
	if len(c.folds) == 0 {
		return nil
	}
	// Neighbours share pages.
	slices.SortFunc(c.folds, func(a, b fold) int { return cmp.Compare(a.entry.scope, b.entry.scope) })
	for i := range c.folds {
		if err := put(tx, &c.folds[i].entry, c.folds[i].state); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	c.oldest = c.on.spare(spare, taken)
	return nil
}

// beside returns copies of the entry, and of those whose states lie beside its
// own and whose first record is not behind old.
func (j *Journal) beside(tx Tx, o *overlay, e *entry, old uint64) ([]entry, error) {
	group := []entry{*e}
	names, err := tx.Beside(e.scope)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, scope := range names {
		if n := o.scopes[scope]; n != nil && n.first <= old {
			group = append(group, *n)
		}
	}
	return group, nil
}

// state is what a picked scope is folded to. The zero State: nothing, because
// it is gone or because another process has folded it.
func state(tx Tx, e *entry) (State, error) {
	s := State{Head: Head{Version: e.version, Seq: e.last, Due: e.due}}
	switch {
	case e.version == 0:
		return State{}, nil
	case e.whole != 0:
		s.Body = encodeState(e.over(pieces{}, 0))
		return s, nil
	}
	old, err := tx.State(e.scope)
	if err != nil {
		return State{}, err
	}
	p, err := base(e.scope, old)
	if err != nil || old.Seq >= e.last {
		return State{}, err
	}
	s.Body = encodeState(e.over(p, old.Seq))
	return s, nil
}

func put(tx Tx, e *entry, s State) error {
	switch {
	case s.Version != 0:
		return tx.Put(e.scope, s)
	case e.version == 0:
		return tx.Delete(e.scope)
	}
	return nil
}
