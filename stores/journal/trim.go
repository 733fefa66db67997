package journal

import (
	"context"
	"math"
	"time"

	attend "github.com/attend-go/attend/core"
)

const (
	trimStep = 256  // rows that one transaction deletes
	lookStep = 1000 // rows that are looked at in one that reads
)

// Trim deletes step by step, so that others can write in between. All rows that
// it is about are brought into the index first.
func (l *Log) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	return l.fail("trim the log", l.trim(ctx, keep, now))
}

func (l *Log) trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	m, err := l.marks(ctx)
	for newest := m.Newest; err == nil && m.Indexed < newest; {
		if err = l.Backend.Update(ctx, func(tx LogTx) error { _, err := tx.Index(IndexStep); return err }); err == nil {
			m, err = l.marks(ctx)
		}
	}
	if err != nil {
		return err
	}
	for class, limit := range [2]int{keep.Count, keep.Verdicts} {
		if m.surplus(class, limit) > 0 {
			err := l.trimAll(ctx, func(tx LogTx) (int, error) {
				m, err := tx.Marks()
				if err != nil {
					return 0, err
				}
				return trimOldest(tx, class, m.surplus(class, limit))
			})
			if err != nil {
				return err
			}
		}
		if keep.Age <= 0 {
			continue
		}
		upTo, err := l.stale(ctx, class, now.Add(-keep.Age).UnixMilli())
		if err == nil && upTo > 0 {
			err = l.trimAll(ctx, func(tx LogTx) (int, error) { return tx.Trim(class, upTo, trimStep) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trimAll does steps until one has less to do than it could.
func (l *Log) trimAll(ctx context.Context, step func(LogTx) (int, error)) error {
	for n := trimStep; n == trimStep; {
		err := l.Backend.Update(ctx, func(tx LogTx) (err error) {
			n, err = step(tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func trimOldest(tx LogTx, class, n int) (int, error) {
	if n == 0 {
		return 0, nil
	}
	return tx.Trim(class, math.MaxInt64, n)
}

// surplus is how many rows a class has above the limit, of those that one step
// can take.
func (m *Marks) surplus(class, limit int) int {
	if limit <= 0 {
		return 0
	}
	return int(min(max(m.Kept[class]-int64(limit), 0), trimStep))
}

// stale is the class's newest position that is older than cutoff, 0 for none.
// Times need not be in the order of the log, so it looks from the newest on.
func (l *Log) stale(ctx context.Context, class int, cutoff int64) (found attend.Position, err error) {
	for from, more := attend.Position(math.MaxInt64), true; more && err == nil; {
		begin := from
		err = l.Backend.View(ctx, func(r LogReader) error {
			n := 0
			from, more, found = begin, false, 0
			for p, err := range r.Newest(class, begin) {
				if err != nil {
					return err
				}
				if p.At < cutoff {
					found = p.Pos
					return nil
				}
				if from, n = p.Pos, n+1; n == lookStep {
					more = true
					return nil
				}
			}
			return nil
		})
	}
	return found, err
}
