package journal

import (
	"cmp"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// A fold is a scope whose state has its records up to seq.
type fold struct {
	scope attend.Scope
	seq   uint64
}

// foldBytes is how much one commit folds at least, if it has to fold at all,
// before it leaves the rest to the next ones.
const foldBytes = 1 << 20

// pick returns copies of the entries to fold in the transaction of a commit,
// the oldest first, and for each number of them which record is the oldest that
// is needed after so many; 0: the commit's own.
//
// A record goes when all scopes are folded that it is the first one of. So the
// rate is that of scopes to bytes, twice, to get below the budget again; a
// commit's time stays even. Far above the budget it is more.
func (o *overlay) pick(budget, writes, cost int) (picked []entry, oldest []uint64) {
	total := o.cost + cost
	if total <= budget {
		o.credit = 0
		return nil, nil
	}
	o.credit += 2 * float64(cost) / float64(total) * float64(len(o.scopes))
	if total/3 > budget/2 {
		o.credit += float64(writes) * max(2, float64(total)/float64(budget))
	}
	o.credit = min(o.credit, float64(4*writes+16))
	e := o.front
	for ; e != nil && len(picked) < int(o.credit); e = e.next {
		oldest = append(oldest, e.first)
		picked = append(picked, *e)
	}
	if len(picked) == 0 {
		return nil, nil
	}
	if e != nil {
		return picked, append(oldest, e.first)
	}
	return picked, append(oldest, 0)
}

// fold writes a few scopes' states, from before the commit.
func (j *Journal) fold(tx Tx, c *commit) error {
	j.mu.Lock()
	cost := len(c.body) + len(c.landed)*changeCost
	var picked []entry
	var oldest []uint64
	if j.overlay == c.on {
		picked, oldest = c.on.pick(j.budget, len(c.landed), cost)
	}
	j.mu.Unlock()
	var bodies []State
	size := 0
	for i := range picked {
		if size > max(foldBytes, 8*cost) {
			picked = picked[:i]
			break
		}
		s, err := state(tx, &picked[i])
		if err != nil {
			return err
		}
		size += len(s.Body)
		bodies = append(bodies, s)
	}
	if len(picked) == 0 {
		return nil
	}
	c.oldest = oldest[len(picked)]
	order := make([]int, len(picked))
	for i := range order {
		order[i] = i
	}
	// Neighbours share pages.
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(picked[a].scope, picked[b].scope) })
	for _, i := range order {
		e := &picked[i]
		c.folds = append(c.folds, fold{e.scope, e.last})
		if err := put(tx, e, bodies[i]); err != nil {
			return err
		}
	}
	return nil
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
