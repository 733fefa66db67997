package bolt

import (
	"context"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// A decisionLog is a store's decision log. Package attend's DecisionLog and
// Waiter say what the methods promise.
type decisionLog struct {
	d     *database
	epoch string
	wait  waiters
	keep  keeper
}

func (l *decisionLog) init(d *database, keep attend.Retain) {
	l.d = d
	l.wait.d = d
	l.keep = keeper{l: l, keep: keep, rows: make(chan struct{}, 1)}
}

// grown tells who waits of rows that are on the disk.
func (l *decisionLog) grown(rows []attend.Row) {
	var topics []topic
	for i := range rows {
		for p := range prefixes(rows[i].Scope) {
			topics = append(topics, topic{string(rows[i].Type), string(p)})
		}
	}
	l.wait.tell(topics)
	l.keep.note()
}

func (l *decisionLog) Bounds(ctx context.Context) (b attend.Bounds, err error) {
	err = l.d.view(ctx, func(tx *bbolt.Tx) error {
		m, err := readMarks(tx)
		b = m.bounds(l.epoch)
		return err
	})
	if err != nil {
		return attend.Bounds{}, fmt.Errorf("bolt: bounds of the log: %w", err)
	}
	return b, nil
}

// Read takes a page at a time, each in a transaction of its own that is over
// when the rows are yielded. Rows that are trimmed before it came to them end
// it with a *TruncatedError, since leaving them out would be silent.
func (l *decisionLog) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		var seen attend.Bounds // of the page before
		for more := true; more; {
			p, now, err := l.page(ctx, q, seen)
			if err != nil {
				yield(attend.Entry{}, fmt.Errorf("bolt: read the log: %w", err))
				return
			}
			for _, e := range p.entries {
				if !yield(e, nil) {
					return
				}
			}
			seen, more = now, p.more
			q.After = attend.LogCursor{Epoch: l.epoch, Position: p.next}
		}
	}
}

func (l *decisionLog) page(ctx context.Context, q attend.Query, seen attend.Bounds) (p page, now attend.Bounds, err error) {
	err = l.d.view(ctx, func(tx *bbolt.Tx) error {
		m, err := readMarks(tx)
		if err != nil {
			return err
		}
		now = m.bounds(l.epoch)
		// What was gone when the read began is no loss to it. It may well be
		// among rows of one class that are older than the trimmed ones of the
		// other.
		b := now
		if b.Trimmed == seen.Trimmed {
			b.Trimmed = 0
		}
		if b.TrimmedVerdicts == seen.TrimmedVerdicts {
			b.TrimmedVerdicts = 0
		}
		if err := b.Check(q); err != nil {
			return err
		}
		p, err = readPage(tx, q, &m, q.After.Position, l.epoch)
		return err
	})
	return p, now, err
}

func (l *decisionLog) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if t == "" {
		t = attend.RowDecision
	}
	var found *attend.Entry
	err := l.d.view(ctx, func(tx *bbolt.Tx) (err error) {
		found, err = findRow(tx, id, t, l.epoch)
		return err
	})
	if err == nil && found == nil {
		err = attend.ErrNotFound
	}
	if err != nil {
		return attend.Entry{}, fmt.Errorf("bolt: find in the log: %w", err)
	}
	return *found, nil
}

// Wait is told at once of what this handle commits, and looks four times a
// second for what others of this process did.
func (l *decisionLog) Wait(ctx context.Context, q attend.Query) error {
	var topics []topic
	for _, t := range types(q) {
		topics = append(topics, topic{string(t), string(narrow(q.Prefix))})
	}
	at := q.After.Position
	err := l.wait.wait(ctx, topics, func(tx *bbolt.Tx) (bool, error) {
		m, err := readMarks(tx)
		if err != nil {
			return false, err
		}
		if m.bounds(l.epoch).Check(q) != nil {
			return true, nil
		}
		// What was looked at once needs no second look.
		for more := true; more; {
			p, err := readPage(tx, q, &m, at, l.epoch)
			if err != nil || len(p.entries) > 0 {
				return true, err
			}
			at, more = p.next, p.more
		}
		at = max(at, m.newest)
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("bolt: wait for the log: %w", err)
	}
	return nil
}
