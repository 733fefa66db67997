package mcpface

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A place is a record's in the order of what is due.
type place struct {
	key string
	due int64
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.due, o.due), cmp.Compare(p.key, o.key))
}

// Due implements [mcpevents.SubscriptionStore]. It reads the index and the records
// of which that says that they may be due, no more of them at a time than are
// needed to yield the next one, and puts right what it finds to be too early. See
// [Subscriptions] for when it does not look at all.
func (s *Subscriptions) Due(ctx context.Context, now time.Time) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if ctx.Err() == nil && s.skip() {
			return
		}
		x, err := s.loadIndex(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield("", err)
			return
		}
		var list, ready []place
		for key, e := range x.entries {
			if e.Due <= now.UnixMilli() {
				list = append(list, place{key, e.Due})
			}
		}
		slices.SortFunc(list, place.compare)
		changes := make(map[string]*dueEntry)
		defer func() {
			if len(changes) > 0 {
				// Where that fails, the next one who looks does it.
				_, _ = s.saveIndex(ctx, x, changes)
			}
		}()
		for len(list) > 0 || len(ready) > 0 {
			if len(list) > 0 && (len(ready) == 0 || list[0].compare(ready[0]) < 0) {
				p := list[0]
				list = list[1:]
				e := x.entries[p.key]
				version, due, _, err := s.read(ctx, p.key)
				switch {
				case errors.Is(err, attend.ErrNewer), errors.Is(err, attend.ErrCorrupt):
					due = p.due // who takes it hears of that, and the others are not held up
				case err != nil:
					yield("", err)
					return
				}
				if due != 0 && due <= now.UnixMilli() {
					p.due = max(due, p.due)
					i, _ := slices.BinarySearchFunc(ready, p, place.compare)
					ready = slices.Insert(ready, i, p)
				} else if fixed := e.right(version, due, time.Now().UnixMilli()); !e.equal(fixed) {
					changes[p.key] = fixed
				}
				continue
			}
			key := ready[0].key
			ready = ready[1:]
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(key, nil) {
				return
			}
		}
	}
}
