package bolt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// An index is a bucket whose keys are a key of package journal's and a
// position.

func entryKey(e journal.Entry) []byte {
	return binary.BigEndian.AppendUint64(key(uint64(e.Key)), uint64(e.Pos))
}

// entries are those of a row of the log.
func (r *row) entries(to []journal.Entry) []journal.Entry {
	return journal.RowEntries(to, r.pos, r.typ, r.scope, r.id)
}

// put adds entries to an index, in its order.
func put(b *bbolt.Bucket, entries []journal.Entry) error {
	slices.SortFunc(entries, compareEntries)
	for _, e := range entries {
		if err := b.Put(entryKey(e), nil); err != nil {
			return err
		}
	}
	return nil
}

func drop(b *bbolt.Bucket, entries []journal.Entry) error {
	slices.SortFunc(entries, compareEntries)
	for _, e := range entries {
		if err := b.Delete(entryKey(e)); err != nil {
			return err
		}
	}
	return nil
}

func compareEntries(a, b journal.Entry) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Pos, b.Pos))
}

// places yields the positions of a key behind after.
func places(b *bbolt.Bucket, of journal.Key, after attend.Position) iter.Seq[attend.Position] {
	return func(yield func(attend.Position) bool) {
		if after+1 == 0 {
			return
		}
		c, prefix := b.Cursor(), key(uint64(of))
		for k, _ := c.Seek(entryKey(journal.Entry{Key: of, Pos: after + 1})); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			if !yield(attend.Position(number(k[8:]))) {
				return
			}
		}
	}
}

// placesBack yields the positions of a key before p, newest first.
func placesBack(b *bbolt.Bucket, of journal.Key, p attend.Position) iter.Seq[attend.Position] {
	return func(yield func(attend.Position) bool) {
		c, prefix := b.Cursor(), key(uint64(of))
		k, _ := c.Seek(entryKey(journal.Entry{Key: of, Pos: p}))
		if k == nil {
			k, _ = c.Last()
		} else {
			k, _ = c.Prev()
		}
		for ; bytes.HasPrefix(k, prefix); k, _ = c.Prev() {
			if !yield(attend.Position(number(k[8:]))) {
				return
			}
		}
	}
}

// indexRows brings up to n rows into the index, and tells how many.
func indexRows(tx *bbolt.Tx, n int) (int, error) {
	m, err := readMarks(tx)
	if err != nil {
		return 0, err
	}
	var all []journal.Entry
	rows := 0
	for r, err := range rowsBehind(tx, m.Indexed) {
		if err != nil {
			return 0, err
		}
		if rows == n {
			break
		}
		rows++
		all = r.entries(all)
		m.Indexed = r.pos
		m.Kept[journal.Class(r.typ)]++
	}
	if rows == 0 {
		return 0, nil
	}
	if err := put(tx.Bucket(bucketIndex), all); err != nil {
		return 0, err
	}
	return rows, writeMarks(tx, m)
}
