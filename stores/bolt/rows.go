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
)

const (
	pageRows  = 100     // rows that a reader takes at a time
	pageBytes = 1 << 20 // and about how much of them
	lookStep  = 1000    // rows that are looked at in one transaction
)

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
		m.newest++
		v := make([]byte, 4, 64+len(r.Type)+len(r.Scope)+len(r.ID)+len(r.Body))
		v = binary.AppendVarint(v, r.At.UnixMilli())
		for _, s := range []string{string(r.Type), string(r.Scope), string(r.ID)} {
			v = binary.AppendUvarint(v, uint64(len(s)))
			v = append(v, s...)
		}
		if err := b.Put(key(uint64(m.newest)), sealed(append(v, r.Body...))); err != nil {
			return err
		}
	}
	if err := b.SetSequence(uint64(m.newest)); err != nil {
		return err
	}
	if m.newest-m.indexed > 4*indexBehind {
		_, err = indexRows(tx, indexStep)
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

// A page is what a reader got at a time: perhaps nothing, and there is more.
type page struct {
	entries []attend.Entry
	next    attend.Position // where to go on
	more    bool
}

// readPage reads what q wants behind after: what the index has of each type,
// and then of the rows that are not in it yet.
func readPage(tx *bbolt.Tx, q attend.Query, m *marks, after attend.Position, epoch string) (p page, err error) {
	var found []attend.Position
	for _, t := range types(q) {
		n := 0
		for pos := range places(tx.Bucket(bucketIndex), prefixHash(t, narrow(q.Prefix)), after) {
			if n++; n > pageRows+1 {
				break
			}
			found = append(found, pos)
		}
	}
	slices.Sort(found)
	p.next = after
	size, looked := 0, 0
	add := func(r *row) (full bool) {
		p.next = r.pos
		looked++
		if q.Wants(r.typ) && q.Prefix.Covers(r.scope) {
			p.entries = append(p.entries, r.entry(epoch))
			size += len(r.body) + len(r.scope) + len(r.id)
		}
		p.more = looked >= lookStep || len(p.entries) >= pageRows || size >= pageBytes
		return p.more
	}
	for i, pos := range found {
		if i == pageRows { // behind this another type may have more
			p.more = true
			return p, nil
		}
		r, ok, err := readRow(tx, pos)
		if err != nil {
			return p, err
		}
		if ok && add(&r) {
			return p, nil
		}
		p.next = pos
	}
	for r, err := range rowsBehind(tx, max(p.next, m.indexed)) {
		if err != nil {
			return p, err
		}
		if add(&r) {
			return p, nil
		}
	}
	return p, nil
}

// types is what q asks for, each once.
func types(q attend.Query) []attend.RowType {
	if len(q.Types) == 0 {
		return []attend.RowType{attend.RowDecision}
	}
	ts := slices.Clone(q.Types)
	slices.Sort(ts)
	return slices.Compact(ts)
}

// findRow returns the newest row of an id, nil where there is none.
func findRow(tx *bbolt.Tx, id attend.DecisionID, t attend.RowType, epoch string) (found *attend.Entry, err error) {
	m, err := readMarks(tx)
	if err != nil {
		return nil, err
	}
	for r, err := range rowsBehind(tx, m.indexed) {
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
	for pos := range placesBack(tx.Bucket(bucketIndex), idHash(t, id), m.indexed+1) {
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
