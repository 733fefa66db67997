package sqlite

import (
	"context"
	"database/sql/driver"
	"iter"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// lookStep is how many new rows a poller looks at in one transaction.
const lookStep = 1000

// A logBackend is what package journal's Log works on: the tables of a decision
// log.
type logBackend struct {
	d     *database
	epoch string
	wait  waiters
}

func (b *logBackend) View(ctx context.Context, f func(journal.LogReader) error) error {
	return b.d.view(ctx, func(c *conn) error { return f(&ltx{c, b.epoch}) })
}

func (b *logBackend) Update(ctx context.Context, f func(journal.LogTx) error) error {
	return b.d.update(ctx, func(c *conn) error { return f(&ltx{c, b.epoch}) })
}

func (b *logBackend) Wait(ctx context.Context, topics []journal.Topic, look func(journal.LogReader) (bool, attend.Position, error)) error {
	return b.wait.wait(ctx, topics, func(c *conn) (bool, attend.Position, error) { return look(&ltx{c, b.epoch}) })
}

type ltx struct {
	c     *conn
	epoch string
}

func (t *ltx) Marks() (journal.Marks, error) { return readMarks(t.c) }

func (t *ltx) Page(q attend.Query, m journal.Marks, after attend.Position) (journal.Page, error) {
	return readPage(t.c, q, m, after, t.epoch)
}

func (t *ltx) Find(id attend.DecisionID, typ attend.RowType) (*attend.Entry, error) {
	return findRow(t.c, id, typ, t.epoch)
}

const rowTimes = "SELECT l.pos, l.at FROM attend_log_index i CROSS JOIN attend_log l ON l.pos = i.pos WHERE i.key = ?1 "

func (t *ltx) Oldest(class int) iter.Seq2[journal.RowTime, error] {
	return timesOf(t.c.rows(rowTimes+"ORDER BY i.pos", int64(journal.ClassKey(class))))
}

func (t *ltx) Newest(class int, before attend.Position) iter.Seq2[journal.RowTime, error] {
	return timesOf(t.c.rows(rowTimes+"AND i.pos < ?2 ORDER BY i.pos DESC", int64(journal.ClassKey(class)), int64(before)))
}

func timesOf(rows iter.Seq2[[]driver.Value, error]) iter.Seq2[journal.RowTime, error] {
	return func(yield func(journal.RowTime, error) bool) {
		for row, err := range rows {
			if err != nil {
				yield(journal.RowTime{}, err)
				return
			}
			if !yield(journal.RowTime{Pos: attend.Position(integer(row[0])), At: integer(row[1])}, nil) {
				return
			}
		}
	}
}

func (t *ltx) Index(n int) (int, error) { return indexRows(t.c, n) }

func (t *ltx) Trim(class int, upTo attend.Position, n int) (int, error) {
	return trimRows(t.c, class, upTo, n)
}

// newRows finds the topics of rows behind after.
func newRows(c *conn, after attend.Position) (topics []journal.Topic, newest attend.Position, err error) {
	newest = after
	for row, err := range c.rows("SELECT pos, type, scope FROM attend_log WHERE pos > ?1 ORDER BY pos LIMIT ?2", int64(after), int64(lookStep)) {
		if err != nil {
			return nil, 0, err
		}
		newest = attend.Position(integer(row[0]))
		topics = journal.RowTopics(topics, attend.RowType(blob(row[1])), attend.Scope(blob(row[2])))
	}
	return topics, newest, nil
}
