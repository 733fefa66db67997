package bolt

import (
	"context"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// trimStep is how many rows one transaction deletes.
const trimStep = 256

// Trim deletes step by step, so that others can write in between. All rows that
// it is about are brought into the index first.
func (l *decisionLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	if err := l.trim(ctx, keep, now); err != nil {
		return fmt.Errorf("bolt: trim the log: %w", err)
	}
	return nil
}

func (l *decisionLog) trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	b, err := l.Bounds(ctx)
	if err != nil {
		return err
	}
	for indexed := attend.Position(0); indexed < b.Newest; {
		err := l.d.view(ctx, func(tx *bbolt.Tx) error {
			m, err := readMarks(tx)
			indexed = m.indexed
			return err
		})
		if err == nil && indexed < b.Newest {
			err = l.d.update(ctx, func(tx *bbolt.Tx) error { _, err := indexRows(tx, indexStep); return err })
		}
		if err != nil {
			return err
		}
	}
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
		for n := trimStep; upTo > 0 && n == trimStep; {
			if err := l.d.update(ctx, func(tx *bbolt.Tx) (err error) { n, err = trimRows(tx, c, upTo, trimStep); return err }); err != nil {
				return err
			}
		}
	}
	return nil
}

// surplus is the position up to which the class has more than limit rows, 0 for
// none.
func (l *decisionLog) surplus(ctx context.Context, class, limit int) (attend.Position, error) {
	n := 0
	return l.newest(ctx, class, func(*bbolt.Tx, attend.Position) (bool, error) {
		n++
		return limit > 0 && n > limit, nil
	}, limit <= 0)
}

// stale is the class's newest position that is older than cutoff, 0 for none.
// Times need not be in the order of the log, so it looks from the newest on.
func (l *decisionLog) stale(ctx context.Context, class int, cutoff int64) (attend.Position, error) {
	return l.newest(ctx, class, func(tx *bbolt.Tx, pos attend.Position) (bool, error) {
		r, ok, err := readRow(tx, pos)
		return ok && r.at < cutoff, err
	}, false)
}

// newest is the class's newest position that is one, 0 for none. It looks at a
// thousand in each transaction.
func (l *decisionLog) newest(ctx context.Context, class int, is func(*bbolt.Tx, attend.Position) (bool, error), none bool) (found attend.Position, err error) {
	for from, more := attend.Position(math.MaxUint64), !none; more && found == 0 && err == nil; {
		more = false
		err = l.d.view(ctx, func(tx *bbolt.Tx) error {
			n := 0
			for pos := range placesBack(tx.Bucket(bucketIndex), classHash(class), from) {
				yes, err := is(tx, pos)
				if err != nil {
					return err
				}
				if yes {
					found = pos
					return nil
				}
				if from, n = pos, n+1; n == lookStep {
					more = true
					return nil
				}
			}
			return nil
		})
	}
	return found, err
}

// trimRows deletes up to n of the class's oldest rows, none behind upTo, and
// tells how many. They are in the index.
func trimRows(tx *bbolt.Tx, class int, upTo attend.Position, n int) (int, error) {
	m, err := readMarks(tx)
	if err != nil {
		return 0, err
	}
	var all []entry
	var gone []attend.Position
	for pos := range places(tx.Bucket(bucketIndex), classHash(class), 0) {
		if pos > upTo || len(gone) == n {
			break
		}
		r, ok, err := readRow(tx, pos)
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, badRow(pos)
		}
		all = r.entries(all)
		gone = append(gone, pos)
	}
	if len(gone) == 0 {
		return 0, nil
	}
	if err := drop(tx.Bucket(bucketIndex), all); err != nil {
		return 0, err
	}
	for _, pos := range gone {
		if err := tx.Bucket(bucketLog).Delete(key(uint64(pos))); err != nil {
			return 0, err
		}
	}
	m.kept[class] -= min(m.kept[class], uint64(len(gone)))
	m.trimmed[class] = gone[len(gone)-1]
	return len(gone), m.write(tx)
}
