package sqlite

import (
	"context"
	"fmt"
	"iter"

	attend "github.com/attend-go/attend/core"
)

// A decisionLog is a store's decision log. Package attend's DecisionLog and
// Waiter say what the methods promise.
type decisionLog struct {
	d     *database
	epoch string
	wait  waiters
	keep  *keeper
}

func (l *decisionLog) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s: %w", what, err)
}

func (l *decisionLog) Bounds(ctx context.Context) (attend.Bounds, error) {
	m, err := l.marks(ctx)
	if err != nil {
		return attend.Bounds{}, l.fail("bounds of the log", err)
	}
	return m.bounds(l.epoch), nil
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
				yield(attend.Entry{}, l.fail("read the log", err))
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
	err = l.d.view(ctx, func(c *conn) error {
		m, err := readMarks(c)
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
		p, err = readPage(c, q, &m, q.After.Position, l.epoch)
		return err
	})
	return p, now, err
}

func (l *decisionLog) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if t == "" {
		t = attend.RowDecision
	}
	var found *attend.Entry
	err := l.d.view(ctx, func(c *conn) (err error) {
		found, err = findRow(c, id, t, l.epoch)
		return err
	})
	if err == nil && found == nil {
		err = attend.ErrNotFound
	}
	if err != nil {
		return attend.Entry{}, l.fail("find in the log", err)
	}
	return *found, nil
}

// Wait is told at once of what this handle commits; see the poller for others.
func (l *decisionLog) Wait(ctx context.Context, q attend.Query) error {
	topics := make([]topic, 0, 3)
	for _, t := range types(q) {
		topics = append(topics, topic{string(t), string(narrow(q.Prefix))})
	}
	return l.fail("wait for the log", l.wait.wait(ctx, topics, func(c *conn) (ready bool, newest int64, err error) {
		m, err := readMarks(c)
		if err != nil {
			return false, 0, err
		}
		if m.bounds(l.epoch).Check(q) != nil {
			return true, 0, nil
		}
		for after, more := q.After.Position, true; more; {
			p, err := readPage(c, q, &m, after, l.epoch)
			if err != nil || len(p.entries) > 0 {
				return true, 0, err
			}
			after, more = p.next, p.more
		}
		return false, int64(m.newest), nil
	}))
}

// topicsOf are the topics of a row, as Wait names them.
func topicsOf(topics []topic, t attend.RowType, s attend.Scope) []topic {
	for p := range prefixes(s) {
		topics = append(topics, topic{string(t), string(p)})
	}
	return topics
}

// news finds the topics of rows behind after.
func (l *decisionLog) news(c *conn, after int64) (topics []topic, newest int64, err error) {
	newest = after
	for row, err := range c.rows("SELECT pos, type, scope FROM attend_log WHERE pos > ?1 ORDER BY pos LIMIT ?2", after, int64(lookStep)) {
		if err != nil {
			return nil, 0, err
		}
		newest = integer(row[0])
		topics = topicsOf(topics, attend.RowType(blob(row[1])), attend.Scope(blob(row[2])))
	}
	return topics, newest, nil
}
