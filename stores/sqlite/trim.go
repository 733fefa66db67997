package sqlite

import (
	"context"
	"math"
	"time"

	attend "github.com/attend-go/attend/core"
)

// trimStep is how many rows one transaction deletes, and lookStep how many are
// looked at in one that reads.
const (
	trimStep = 256
	lookStep = 1000
)

// Trim deletes step by step, so that others can write in between. All rows that
// it is about are brought into the index first.
func (l *decisionLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	return l.fail("trim", l.trim(ctx, keep, now))
}

func (l *decisionLog) trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	m, err := l.marks(ctx)
	if err != nil {
		return err
	}
	for newest := m.newest; m.indexed < newest; {
		if err := l.d.update(ctx, func(c *conn) error { _, err := indexRows(c, indexStep); return err }); err != nil {
			return err
		}
		if m, err = l.marks(ctx); err != nil {
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
		for more := upTo > 0; more; {
			n := 0
			if err := l.d.update(ctx, func(cn *conn) (err error) { n, err = trimRows(cn, c, upTo, trimStep); return err }); err != nil {
				return err
			}
			more = n == trimStep
		}
	}
	return nil
}

func (l *decisionLog) marks(ctx context.Context) (m marks, err error) {
	err = l.d.view(ctx, func(c *conn) error {
		m, err = readMarks(c)
		return err
	})
	return m, err
}

// surplus is the position up to which the class has more than limit rows, 0 for
// none.
func (l *decisionLog) surplus(ctx context.Context, class, limit int) (p attend.Position, err error) {
	if limit <= 0 {
		return 0, nil
	}
	err = l.d.view(ctx, func(c *conn) error {
		n, err := c.number("SELECT pos FROM attend_log_index WHERE key = ?1 ORDER BY pos DESC LIMIT 1 OFFSET ?2", classKey(class), int64(limit))
		p = attend.Position(n)
		return err
	})
	return p, err
}

// stale is the class's newest position that is older than cutoff, 0 for none.
// Times need not be in the order of the log, so it looks from the newest on.
func (l *decisionLog) stale(ctx context.Context, class int, cutoff int64) (found attend.Position, err error) {
	for from := int64(math.MaxInt64); ; {
		n, last := 0, from
		err := l.d.view(ctx, func(c *conn) error {
			n, last, found = 0, from, 0
			for row, err := range c.rows(`SELECT l.pos, l.at FROM attend_log_index i CROSS JOIN attend_log l ON l.pos = i.pos
				WHERE i.key = ?1 AND i.pos < ?2 ORDER BY i.pos DESC LIMIT ?3`, classKey(class), from, int64(lookStep)) {
				if err != nil {
					return err
				}
				n, last = n+1, integer(row[0])
				if integer(row[1]) < cutoff {
					found = attend.Position(last)
					return nil
				}
			}
			return nil
		})
		if err != nil || found > 0 || n < lookStep {
			return found, err
		}
		from = last
	}
}

// trimRows deletes up to n of the class's oldest rows, none behind upTo, and
// tells how many. They are in the index.
func trimRows(c *conn, class int, upTo attend.Position, n int) (int, error) {
	m, err := readMarks(c)
	if err != nil {
		return 0, err
	}
	var entries []indexEntry
	var places []int64
	var keys []int64
	for row, err := range c.rows(`SELECT l.pos, l.type, l.scope, l.id FROM attend_log_index i CROSS JOIN attend_log l ON l.pos = i.pos
		WHERE i.key = ?1 AND i.pos <= ?2 ORDER BY i.pos LIMIT ?3`, classKey(class), int64(upTo), int64(n)) {
		if err != nil {
			return 0, err
		}
		pos := integer(row[0])
		places = append(places, pos)
		keys = rowKeys(keys[:0], attend.RowType(blob(row[1])), attend.Scope(blob(row[2])), attend.DecisionID(blob(row[3])))
		for _, k := range keys {
			entries = append(entries, indexEntry{k, attend.Position(pos)})
		}
	}
	if len(places) == 0 {
		return 0, nil
	}
	if err := deleteEntries(c, "attend_log_index", entries); err != nil {
		return 0, err
	}
	for _, pos := range places {
		if _, err := c.exec("DELETE FROM attend_log WHERE pos = ?1", pos); err != nil {
			return 0, err
		}
	}
	m.kept[class] -= int64(len(places))
	m.trimmed[class] = attend.Position(places[len(places)-1])
	return len(places), m.write(c)
}
