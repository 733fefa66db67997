package journal

import (
	"context"
	"errors"
	"fmt"

	attend "github.com/attend-go/attend/core"
)

// errNothing rolls a transaction back in which nothing lands.
var errNothing = errors.New("journal: nothing to write")

// Commit applies the writes whose Expect is the scope's version, in one
// transaction with one record. An error means that the outcome of the whole
// call is unknown; the next call on this Journal looks what it was.
func (j *Journal) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	out, err := j.commit(ctx, writes, false)
	if err != nil {
		return nil, fmt.Errorf("commit of %d writes: %w", len(writes), err)
	}
	return out, nil
}

// Remove forgets the scope at whatever version it is.
func (j *Journal) Remove(ctx context.Context, scope attend.Scope) error {
	if _, err := j.commit(ctx, []attend.Write{{Scope: scope, Forget: true}}, true); err != nil {
		return fmt.Errorf("remove scope %.40q: %w", scope, err)
	}
	return nil
}

// A commit is one transaction, until it is known to have landed.
type commit struct {
	writes []attend.Write
	group  *group
	out    []attend.Outcome
	heads  []Head // of each write's scope, before this
	landed []Head // of those that land
	rows   []attend.Row
	on     *overlay // what it was made from
	prev   uint64   // the tag of its newest record
	tag    uint64
	body   []byte
	seq    uint64
	folds  []fold
	oldest uint64 // the records before it are dropped; 0: none
}

// commit waits for nobody but in Update, which knows for how long. The turn is
// taken inside, where the commit before this one has only to bring itself into
// the overlay: without that, its record would be read and its scopes be folded
// a second time.
func (j *Journal) commit(ctx context.Context, writes []attend.Write, remove bool) ([]attend.Outcome, error) {
	g, err := encode(writes) // while others commit
	if err != nil {
		return nil, err
	}
	if _, err := j.enter(ctx); err != nil {
		return nil, err
	}
	var c commit
	nothing, mine := false, false
	defer func() {
		if mine {
			<-j.turn
		}
	}()
	err = j.b.Update(ctx, func(tx Tx) error {
		c = commit{writes: writes, group: g}
		if !mine {
			select {
			case j.turn <- struct{}{}:
				mine = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		_, err := j.enter(ctx)
		if err == nil {
			err = j.try(tx, &c, remove)
		}
		nothing = errors.Is(err, errNothing)
		return err
	})
	if nothing {
		return c.out, nil
	}
	if err != nil {
		return nil, err
	}
	j.land(&c)
	return c.out, nil
}

// try does all of a commit that happens in its transaction.
func (j *Journal) try(tx Tx, c *commit, remove bool) error {
	if err := j.look(tx, c); err != nil {
		return err
	}
	if remove {
		if c.heads[0].Version == 0 {
			return errNothing
		}
		c.writes = []attend.Write{{Scope: c.writes[0].Scope, Forget: true, Expect: c.heads[0].Version}}
		var err error
		if c.group, err = encode(c.writes); err != nil {
			return err
		}
	}
	c.choose()
	if len(c.landed) == 0 {
		return errNothing
	}
	if err := j.fold(tx, c); err != nil {
		return err
	}
	var err error
	if c.seq, err = tx.Append(c.tag, c.body); err != nil {
		return err
	}
	if c.oldest > 0 {
		if err := tx.Drop(c.oldest); err != nil {
			return err
		}
	}
	if len(c.rows) == 0 {
		return nil
	}
	return tx.AppendRows(c.rows)
}

// look finds what is stored of the writes' scopes.
func (j *Journal) look(tx Tx, c *commit) error {
	c.heads = make([]Head, len(c.writes))
	var cold []int
	err := j.catchUp(tx, exclusive, func(o *overlay) error {
		c.on, c.prev = o, o.tag
		cold = cold[:0]
		for i := range c.writes {
			if e := o.scopes[c.writes[i].Scope]; e != nil {
				c.heads[i] = Head{Version: e.version, Seq: e.last, Due: e.due}
			} else {
				cold = append(cold, i)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, i := range cold {
		if c.heads[i], err = tx.Head(c.writes[i].Scope); err != nil {
			return err
		}
	}
	return nil
}

// choose says which writes land, and makes their record.
func (c *commit) choose() {
	c.out = make([]attend.Outcome, len(c.writes))
	seen := make(map[attend.Scope]struct{}, len(c.writes))
	lands := make([]bool, len(c.writes))
	for i := range c.writes {
		w := &c.writes[i]
		// A caller that names a scope twice breaks the contract; its second write
		// must not break the journal.
		if _, twice := seen[w.Scope]; twice || c.heads[i].Version != w.Expect {
			continue
		}
		seen[w.Scope] = struct{}{}
		lands[i] = true
		c.landed = append(c.landed, c.heads[i])
		c.rows = append(c.rows, w.Rows...)
		c.out[i].Version = max(c.group.made[i], 1)
	}
	c.tag = newTag()
	c.body = c.group.record(lands, len(c.landed) == len(c.writes), c.prev)
}

// land brings a commit that succeeded into the overlay. A reader may have been
// faster, or have made another overlay. What is needed no more goes with the
// next call, and so does an overlay that its record doesn't fit: that reads all
// of them again, and tells what is wrong.
func (j *Journal) land(c *commit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.overlay
	if o != c.on {
		return
	}
	for i := range c.folds {
		o.folded(c.folds[i].entry.scope, c.folds[i].entry.last)
	}
	if o.applied+1 == c.seq {
		if err := o.apply(c.seq, c.tag, c.body, func(i int, _ []byte) Head { return c.landed[i] }); err != nil {
			j.overlay = newOverlay(1)
			return
		}
	}
	o.credit -= float64(len(c.folds))
}
