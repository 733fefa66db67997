package bolt

import (
	"context"
	"iter"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// A logBackend is what package journal's Log works on: the buckets of a
// decision log.
type logBackend struct {
	d     *database
	epoch string
	wait  waiters
}

func (b *logBackend) View(ctx context.Context, f func(journal.LogReader) error) error {
	return b.d.view(ctx, func(tx *bbolt.Tx) error { return f(&ltx{tx, b.epoch}) })
}

func (b *logBackend) Update(ctx context.Context, f func(journal.LogTx) error) error {
	return b.d.update(ctx, func(tx *bbolt.Tx) error { return f(&ltx{tx, b.epoch}) })
}

func (b *logBackend) Wait(ctx context.Context, topics []journal.Topic, look func(journal.LogReader) (bool, attend.Position, error)) error {
	return b.wait.wait(ctx, topics, func(tx *bbolt.Tx) (bool, error) {
		ready, _, err := look(&ltx{tx, b.epoch})
		return ready, err
	})
}

type ltx struct {
	tx    *bbolt.Tx
	epoch string
}

func (t *ltx) Marks() (journal.Marks, error) { return readMarks(t.tx) }

func (t *ltx) Page(q attend.Query, m journal.Marks, after attend.Position) (journal.Page, error) {
	return readPage(t.tx, q, m, after, t.epoch)
}

func (t *ltx) Find(id attend.DecisionID, typ attend.RowType) (*attend.Entry, error) {
	return findRow(t.tx, id, typ, t.epoch)
}

func (t *ltx) Oldest(class int) iter.Seq2[journal.RowTime, error] {
	return t.times(places(t.tx.Bucket(bucketIndex), journal.ClassKey(class), 0))
}

func (t *ltx) Newest(class int, before attend.Position) iter.Seq2[journal.RowTime, error] {
	return t.times(placesBack(t.tx.Bucket(bucketIndex), journal.ClassKey(class), before))
}

func (t *ltx) times(places iter.Seq[attend.Position]) iter.Seq2[journal.RowTime, error] {
	return func(yield func(journal.RowTime, error) bool) {
		for pos := range places {
			r, ok, err := readRow(t.tx, pos)
			if err == nil && !ok {
				continue
			}
			if !yield(journal.RowTime{Pos: pos, At: r.at}, err) || err != nil {
				return
			}
		}
	}
}

func (t *ltx) Index(n int) (int, error) { return indexRows(t.tx, n) }

func (t *ltx) Trim(class int, upTo attend.Position, n int) (int, error) {
	return trimRows(t.tx, class, upTo, n)
}
