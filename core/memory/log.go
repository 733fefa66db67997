package memory

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A decisionLog is a store handle's view of the rows. Package attend's
// DecisionLog and Waiter say what the methods promise.
type decisionLog struct{ s *Store }

func (l *decisionLog) Bounds(ctx context.Context) (attend.Bounds, error) {
	if err := l.s.enter(ctx); err != nil {
		return attend.Bounds{}, err
	}
	defer l.s.d.mu.Unlock()
	return l.s.d.rows.bounds, nil
}

// Read takes 100 rows at a time. Rows that are trimmed before it came to them
// end it with a *TruncatedError, since leaving them out would be silent.
func (l *decisionLog) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		page := make([]*row, 0, pageSize)
		var seen attend.Bounds // of the page before
		for {
			var err error
			if page, seen, err = l.page(ctx, q, seen, page[:0]); err != nil {
				yield(attend.Entry{}, err)
				return
			}
			for _, r := range page {
				if q.Prefix.Covers(r.scope) && !yield(r.entry(seen.Epoch), nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			q.After = attend.LogCursor{Epoch: seen.Epoch, Position: page[len(page)-1].pos}
		}
	}
}

func (l *decisionLog) page(ctx context.Context, q attend.Query, seen attend.Bounds, page []*row) ([]*row, attend.Bounds, error) {
	if err := l.s.enter(ctx); err != nil {
		return nil, seen, err
	}
	defer l.s.d.mu.Unlock()
	rows := &l.s.d.rows
	now := rows.bounds
	// What was gone when the read began is no loss to it. It may well be among
	// rows of one class that are older than the trimmed ones of the other.
	if now.Trimmed == seen.Trimmed {
		now.Trimmed = 0
	}
	if now.TrimmedVerdicts == seen.TrimmedVerdicts {
		now.TrimmedVerdicts = 0
	}
	if err := now.Check(q); err != nil {
		return nil, seen, err
	}
	return rows.page(q, q.After.Position, page), rows.bounds, nil
}

func (l *decisionLog) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if t == "" {
		t = attend.RowDecision
	}
	if err := l.s.enter(ctx); err != nil {
		return attend.Entry{}, err
	}
	rows := &l.s.d.rows
	r, epoch := rows.newest[rowKey{t, id}], rows.bounds.Epoch
	l.s.d.mu.Unlock()
	if r == nil {
		return attend.Entry{}, attend.ErrNotFound
	}
	return r.entry(epoch), nil
}

func (l *decisionLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	for c, limit := range [2]int{keep.Count, keep.Verdicts} {
		upTo, err := l.surplus(ctx, c, limit)
		if err != nil {
			return err
		}
		if keep.Age > 0 {
			p, err := l.stale(ctx, c, now.Add(-keep.Age).UnixMilli())
			if err != nil {
				return err
			}
			upTo = max(upTo, p)
		}
		for more := upTo > 0; more; {
			if err := l.s.enter(ctx); err != nil {
				return err
			}
			more = l.s.d.rows.trim(c, upTo)
			l.s.d.mu.Unlock()
		}
	}
	return nil
}

func (l *decisionLog) surplus(ctx context.Context, c, limit int) (attend.Position, error) {
	if err := l.s.enter(ctx); err != nil {
		return 0, err
	}
	defer l.s.d.mu.Unlock()
	return l.s.d.rows.surplus(c, limit), nil
}

func (l *decisionLog) stale(ctx context.Context, c int, cutoff int64) (found attend.Position, err error) {
	for next := attend.Position(math.MaxUint64); found == 0 && next > 0; {
		if err := l.s.enter(ctx); err != nil {
			return 0, err
		}
		found, next = l.s.d.rows.stale(c, cutoff, next)
		l.s.d.mu.Unlock()
	}
	return found, nil
}

// Wait puts a waiter into the lists that q reads, and takes it out again.
func (l *decisionLog) Wait(ctx context.Context, q attend.Query) error {
	if err := l.s.enter(ctx); err != nil {
		return err
	}
	rows := &l.s.d.rows
	ready := rows.bounds.Check(q) != nil
	for _, x := range rows.wanted(q) {
		ready = ready || slices.ContainsFunc(behind(x.rows, q.After.Position), func(r *row) bool { return q.Prefix.Covers(r.scope) })
	}
	if ready {
		l.s.d.mu.Unlock()
		return nil
	}
	w := make(waiter, 1)
	p := listOf(q.Prefix)
	for _, t := range types(q) {
		x := rows.list(t, p)
		if x.waiting == nil {
			x.waiting = make(map[waiter]struct{})
		}
		x.waiting[w] = struct{}{}
	}
	l.s.d.mu.Unlock()

	var err error
	select {
	case <-w:
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.s.done:
		err = attend.ErrClosed
	}

	l.s.d.mu.Lock()
	defer l.s.d.mu.Unlock()
	for _, t := range types(q) {
		if x := rows.lists[listKey{t, p}]; x != nil {
			delete(x.waiting, w)
			rows.release(t, p, x)
		}
	}
	return err
}
