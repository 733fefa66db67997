package bolt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// lookStep is how many rows are looked at in one transaction.
const lookStep = 1000

// A row is a row of the log. Its strings and its body are the transaction's.
type row struct {
	pos   attend.Position
	at    int64 // in Unix milliseconds
	typ   attend.RowType
	scope attend.Scope
	id    attend.DecisionID
	body  []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed puts the CRC-32C of what comes behind the first four bytes there.
func sealed(v []byte) []byte {
	binary.BigEndian.PutUint32(v, crc32.Checksum(v[4:], castagnoli))
	return v
}

func unsealed(v []byte) ([]byte, bool) {
	if len(v) < 4 || binary.BigEndian.Uint32(v) != crc32.Checksum(v[4:], castagnoli) {
		return nil, false
	}
	return v[4:], true
}

// appendRows adds rows to the log. Where nobody came round to the index for
// long, as with processes that live for one commit, it does some of that.
func appendRows(tx *bbolt.Tx, rows []attend.Row) error {
	m, err := readMarks(tx)
	if err != nil {
		return err
	}
	b := tx.Bucket(bucketLog)
	b.FillPercent = 0.95 // keys only grow
	for i := range rows {
		r := &rows[i]
		m.Newest++
		v := make([]byte, 4, 64+len(r.Type)+len(r.Scope)+len(r.ID)+len(r.Body))
		v = binary.AppendVarint(v, r.At.UnixMilli())
		for _, s := range []string{string(r.Type), string(r.Scope), string(r.ID)} {
			v = binary.AppendUvarint(v, uint64(len(s)))
			v = append(v, s...)
		}
		if err := b.Put(key(uint64(m.Newest)), sealed(append(v, r.Body...))); err != nil {
			return err
		}
	}
	if err := b.SetSequence(uint64(m.Newest)); err != nil {
		return err
	}
	if m.Newest-m.Indexed > 4*journal.IndexBehind {
		_, err = indexRows(tx, journal.IndexStep)
	}
	return err
}

// decodeRow reads a row.
func decodeRow(pos attend.Position, v []byte) (r row, err error) {
	rest, ok := unsealed(v)
	at, n := binary.Varint(rest)
	if !ok || n <= 0 {
		return r, badRow(pos)
	}
	rest = rest[n:]
	var parts [3]string
	for i := range parts {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return r, badRow(pos)
		}
		parts[i], rest = string(rest[n:n+int(size)]), rest[n+int(size):]
	}
	return row{pos, at, attend.RowType(parts[0]), attend.Scope(parts[1]), attend.DecisionID(parts[2]), rest}, nil
}

func badRow(pos attend.Position) error {
	return fmt.Errorf("row %d of the log can't be read: %w", pos, attend.ErrCorrupt)
}

// readRow reads the row at pos, and false where it is gone.
func readRow(tx *bbolt.Tx, pos attend.Position) (row, bool, error) {
	v := tx.Bucket(bucketLog).Get(key(uint64(pos)))
	if v == nil {
		return row{}, false, nil
	}
	r, err := decodeRow(pos, v)
	return r, err == nil, err
}

// rowsBehind yields the rows behind pos, oldest first. An error is its last
// pair.
func rowsBehind(tx *bbolt.Tx, pos attend.Position) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		c := tx.Bucket(bucketLog).Cursor()
		for k, v := c.Seek(key(uint64(pos) + 1)); k != nil; k, v = c.Next() {
			r, err := decodeRow(attend.Position(number(k)), v)
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// entry is the row as callers get it.
func (r *row) entry(epoch string) attend.Entry {
	return attend.Entry{
		Cursor: attend.LogCursor{Epoch: epoch, Position: r.pos},
		Row:    attend.Row{Scope: r.scope, ID: r.id, Type: r.typ, At: time.UnixMilli(r.at), Body: append([]byte{}, r.body...)},
	}
}

// readPage reads what q wants behind after: what the index has of each type,
// and then of the rows that are not in it yet.
func readPage(tx *bbolt.Tx, q attend.Query, m journal.Marks, after attend.Position, epoch string) (p journal.Page, err error) {
	var found []attend.Position
	for _, t := range journal.Types(q) {
		for _, k := range journal.PrefixKeys(t, q.Prefix) {
			n := 0
			for pos := range places(tx.Bucket(bucketIndex), k, after) {
				if n++; n > journal.PageRows+1 {
					break
				}
				found = append(found, pos)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	p.Next = after
	size, looked := 0, 0
	add := func(r *row) (full bool) {
		p.Next = r.pos
		looked++
		if q.Wants(r.typ) && q.Prefix.Covers(r.scope) {
			p.Entries = append(p.Entries, r.entry(epoch))
			size += len(r.body) + len(r.scope) + len(r.id)
		}
		p.More = looked >= lookStep || len(p.Entries) >= journal.PageRows || size >= journal.PageBytes
		return p.More
	}
	for i, pos := range found {
		if i == journal.PageRows { // behind this another type may have more
			p.More = true
			return p, nil
		}
		r, ok, err := readRow(tx, pos)
		if err != nil {
			return p, err
		}
		if ok && add(&r) {
			return p, nil
		}
		p.Next = pos
	}
	for r, err := range rowsBehind(tx, max(p.Next, m.Indexed)) {
		if err != nil {
			return p, err
		}
		if add(&r) {
			return p, nil
		}
	}
	return p, nil
}

// findRow returns the newest row of an id, nil where there is none.
func findRow(tx *bbolt.Tx, id attend.DecisionID, t attend.RowType, epoch string) (found *attend.Entry, err error) {
	m, err := readMarks(tx)
	if err != nil {
		return nil, err
	}
	for r, err := range rowsBehind(tx, m.Indexed) {
		if err != nil {
			return nil, err
		}
		if r.id == id && r.typ == t {
			e := r.entry(epoch)
			found = &e
		}
	}
	if found != nil {
		return found, nil
	}
	for pos := range placesBack(tx.Bucket(bucketIndex), journal.IDKey(t, id), m.Indexed+1) {
		r, ok, err := readRow(tx, pos)
		if err != nil {
			return nil, err
		}
		if ok && r.id == id && r.typ == t {
			e := r.entry(epoch)
			return &e, nil
		}
	}
	return nil, nil
}
