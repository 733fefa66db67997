package journal

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	attend "github.com/attend-go/attend/core"
)

// pageSize is how much an iterator takes at a time.
const pageSize = 100

// Due yields the scopes that are due, oldest first, from the overlay and from
// the folded index. It takes 100 of each at a time and holds nothing while it
// yields. What a page costs doesn't depend on how many scopes are folded.
func (j *Journal) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	upTo := min(now.UnixMilli(), Never-1)
	return func(yield func(attend.Scope, error) bool) {
		after, more := DueKey{At: math.MinInt64}, true
		for more {
			var page []DueKey
			err := j.view(ctx, func(r Reader, floor uint64) (err error) {
				page, after, more, err = j.duePage(r, floor, after, upTo)
				return err
			})
			if err != nil {
				yield("", fmt.Errorf("read the due scopes: %w", err))
				return
			}
			for _, k := range page {
				if !yield(k.Scope, nil) {
					return
				}
			}
		}
	}
}

// duePage returns the next keys, where to go on behind them, and whether there
// may be more.
func (j *Journal) duePage(r Reader, floor uint64, after DueKey, upTo int64) (page []DueKey, next DueKey, more bool, err error) {
	fail := func(err error) ([]DueKey, DueKey, bool, error) { return nil, after, true, err }
	folded, err := r.Due(after, upTo, make([]DueKey, 0, pageSize))
	if err != nil {
		return fail(err)
	}
	var live []DueKey
	n := len(folded)
	last := DueKey{At: math.MaxInt64} // up to here both pages tell all
	if n == pageSize {
		last = folded[n-1]
	}
	err = j.catchUp(r, floor, func(o *overlay) error {
		// Of a scope that has an entry the folded due time means nothing.
		kept := folded[:0]
		for _, k := range folded {
			if o.scopes[k.Scope] == nil {
				kept = append(kept, k)
			}
		}
		folded = kept
		live = o.due.page(after, upTo, make([]DueKey, 0, pageSize))
		return nil
	})
	if err != nil {
		return fail(err)
	}
	if more = n == pageSize; len(live) == pageSize {
		more = true
		if live[pageSize-1].compare(last) < 0 {
			last = live[pageSize-1]
		}
	}
	for len(folded)+len(live) > 0 {
		from := &folded
		if len(folded) == 0 || len(live) > 0 && live[0].compare(folded[0]) < 0 {
			from = &live
		}
		if (*from)[0].compare(last) > 0 {
			break
		}
		page, *from = append(page, (*from)[0]), (*from)[1:]
	}
	return page, last, more, nil
}
