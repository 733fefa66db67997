package journal

import (
	"bytes"
	"errors"
	"fmt"

	attend "github.com/attend-go/attend/core"
)

// errBehind says that a read transaction shows less than this process knows by
// now, because a commit ended meanwhile.
var errBehind = errors.New("journal: behind")

// catchUp brings the overlay to the moment of r, and calls look while it is
// there, under the lock. Floor was known before r began. Where r does not show
// it, somebody has put an older database in place.
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
		floor = 0 // an older database is in the overlay now
	}
}

// caught calls look if the overlay is at the moment of b.
func (j *Journal) caught(b Bounds, floor uint64, look func(*overlay) error) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.overlay
	switch {
	case b.Newest < floor:
		return false, nil
	case b.Newest < o.applied:
		return true, errBehind
	case b.Newest > o.applied:
		return false, nil
	}
	o.trim(b.Oldest)
	return true, look(o)
}

// readOn adds the records that the overlay hasn't got, or makes a new overlay.
// What r shows may only be a part of the way when it returns.
func (j *Journal) readOn(r Reader, b Bounds, floor uint64) error {
	j.mu.Lock()
	was, applied := j.overlay, j.overlay.applied
	j.mu.Unlock()
	fresh := b.Newest < floor || b.Oldest > applied+1
	from := applied
	if fresh {
		from = b.Oldest - 1
	} else if b.Newest <= applied {
		return nil // another goroutine was faster
	}
	bodies, heads, err := read(r, from, b.Newest)
	if err != nil {
		return err
	}
	head := func(_ int, scope []byte) Head { return heads[attend.Scope(scope)] }
	add := func(o *overlay) error {
		for i, body := range bodies {
			if err := o.apply(from+uint64(i)+1, body, head); err != nil {
				return err
			}
		}
		return o.complete()
	}
	if fresh {
		o := newOverlay(b.Oldest)
		if err := add(o); err != nil {
			return err
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.overlay == was && was.applied == applied {
			j.overlay = o
		}
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.overlay != was || was.applied != applied {
		return nil
	}
	if err := add(was); err != nil {
		j.overlay = newOverlay(1) // it is half changed: read all of it again
		return err
	}
	return nil
}

// read returns the bodies of the records behind from, and what is folded of
// their scopes.
func read(r Reader, from, newest uint64) (bodies [][]byte, heads map[attend.Scope]Head, err error) {
	heads = make(map[attend.Scope]Head)
	at := from
	for rec, err := range r.Records(from) {
		if err != nil {
			return nil, nil, err
		}
		if at++; rec.Seq != at {
			return nil, nil, fmt.Errorf("journal record %d is missing: %w", at, attend.ErrCorrupt)
		}
		body := bytes.Clone(rec.Body)
		bodies = append(bodies, body)
		err := decode(rec.Seq, body, func(c *change) error {
			if _, ok := heads[attend.Scope(c.scope)]; !ok {
				heads[attend.Scope(c.scope)] = Head{}
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if at != newest {
		return nil, nil, fmt.Errorf("journal record %d is missing: %w", at+1, attend.ErrCorrupt)
	}
	for scope := range heads {
		h, err := r.Head(scope)
		if err != nil {
			return nil, nil, err
		}
		heads[scope] = h
	}
	return bodies, heads, nil
}
