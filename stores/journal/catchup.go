package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	attend "github.com/attend-go/attend/core"
)

// errBehind says that a read transaction shows less than this process knows by
// now, because a commit ended meanwhile.
var errBehind = errors.New("journal: behind")

// errOther says that a record goes on from another one than the overlay ends
// with.
var errOther = errors.New("journal: another history")

// exclusive is the floor of a transaction that writes: nobody can know more.
const exclusive = math.MaxUint64

// catchUp brings the overlay to the moment of r, and calls look while it is
// there, under the lock. Floor was known before r began. Where r does not show
// it, somebody has put an older database in place; where that one has grown
// since, its records have other tags. Then a new overlay is made of what is
// there now.
//
// Whatever happened to this process's own commits, and whatever others
// committed, folded and dropped: the records say it.
func (j *Journal) catchUp(r Reader, floor uint64, look func(*overlay) error) error {
	b, err := r.Bounds()
	if err != nil {
		return err
	}
	if b.Oldest == 0 || b.Oldest > b.Newest+1 {
		return fmt.Errorf("journal from record %d to %d: %w", b.Oldest, b.Newest, attend.ErrCorrupt)
	}
	for {
		done, err := j.caught(b, floor, look)
		if done || err != nil {
			return err
		}
		if err := j.readOn(r, b, floor); err != nil {
			return err
		}
	}
}

// caught calls look if the overlay is at the moment of b.
func (j *Journal) caught(b Bounds, floor uint64, look func(*overlay) error) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.overlay
	switch {
	case b.Newest < o.applied && b.Newest >= floor:
		return true, errBehind
	case b.Newest != o.applied || b.Tag != o.tag:
		return false, nil
	}
	o.trim(b.Oldest)
	return true, look(o)
}

// readOn adds the records that the overlay hasn't got, or makes a new overlay.
// What r shows may only be a part of the way when it returns.
func (j *Journal) readOn(r Reader, b Bounds, floor uint64) error {
	j.mu.Lock()
	was, applied, tag := j.overlay, j.overlay.applied, j.overlay.tag
	j.mu.Unlock()
	var n *news
	err := errOther
	switch {
	case b.Newest > applied && b.Oldest <= applied+1:
		n, err = read(r, applied, tag, b.Newest)
	case b.Newest < applied && b.Newest >= floor, b.Newest == applied && b.Tag == tag:
		return nil // another goroutine was faster
	}
	o := was
	if errors.Is(err, errOther) {
		o = newOverlay(b.Oldest)
		n, err = read(r, b.Oldest-1, 0, b.Newest)
	}
	if err != nil {
		return err
	}
	if o != was {
		if err := n.add(o); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.overlay != was || was.applied != applied:
		return nil
	case o != was:
		j.overlay = o
		return nil
	}
	if err := n.add(o); err != nil {
		j.overlay = newOverlay(1) // it is half changed: read all of it again
		return err
	}
	return nil
}

// news are records, and what is folded of their scopes.
type news struct {
	records []Record
	heads   map[attend.Scope]Head
}

func (n *news) add(o *overlay) error {
	for _, rec := range n.records {
		err := o.apply(rec.Seq, rec.Tag, rec.Body, func(_ int, scope []byte) Head { return n.heads[attend.Scope(scope)] })
		if err != nil {
			return err
		}
	}
	return o.complete()
}

// read returns the records behind the one at from, which has the tag; 0: its
// tag is unknown. Where they are behind another one, the error is errOther.
func read(r Reader, from, tag, newest uint64) (*news, error) {
	n := &news{heads: make(map[attend.Scope]Head)}
	at := from
	for rec, err := range r.Records(from) {
		if err != nil {
			return nil, err
		}
		if at++; rec.Seq != at {
			return nil, fmt.Errorf("journal record %d is missing: %w", at, attend.ErrCorrupt)
		}
		rec.Body = bytes.Clone(rec.Body)
		n.records = append(n.records, rec)
		prev, err := decode(rec.Seq, rec.Body, func(c *change) error {
			if _, ok := n.heads[attend.Scope(c.scope)]; !ok {
				n.heads[attend.Scope(c.scope)] = Head{}
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case tag == 0 || prev == tag:
		case at == from+1:
			return nil, errOther
		default:
			return nil, fmt.Errorf("journal record %d does not go on from the one before it: %w", at, attend.ErrCorrupt)
		}
		tag = rec.Tag
	}
	if at != newest {
		return nil, fmt.Errorf("journal record %d is missing: %w", at+1, attend.ErrCorrupt)
	}
	for scope := range n.heads {
		h, err := r.Head(scope)
		if err != nil {
			return nil, err
		}
		n.heads[scope] = h
	}
	return n, nil
}
