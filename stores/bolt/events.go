package bolt

import (
	"encoding/binary"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// appendEvents adds the batches' events but those that are kept already, and
// takes a small step of retention for each. It returns who has something new.
func appendEvents(tx *bbolt.Tx, line []*journal.Batch, keep attend.Retain, now int64) ([]journal.Topic, error) {
	b, index := tx.Bucket(bucketEvents), tx.Bucket(bucketKeys)
	b.FillPercent = 0.95 // keys only grow
	kept := func(scope attend.Scope, id string) (bool, error) { return hasEvent(tx, scope, id) }
	a, err := journal.AddEvents(line, attend.Position(b.Sequence()), now, kept, func(e journal.EventRow) error {
		v := make([]byte, 4, 32+len(e.Scope)+len(e.ID)+len(e.Body))
		v = binary.AppendVarint(v, e.Taken)
		for _, s := range []string{string(e.Scope), e.ID} {
			v = binary.AppendUvarint(v, uint64(len(s)))
			v = append(v, s...)
		}
		return b.Put(key(uint64(e.Pos)), sealed(append(v, e.Body...)))
	})
	if err != nil {
		return nil, err
	}
	if err := b.SetSequence(uint64(a.Newest)); err != nil {
		return nil, err
	}
	if err := put(index, a.Entries); err != nil {
		return nil, err
	}
	return a.Topics, trimEvents(tx, keep, now, 2*a.Total)
}

// decodeEvent reads an event. Its body is the transaction's.
func decodeEvent(pos attend.Position, v []byte) (e journal.EventRow, err error) {
	bad := fmt.Errorf("event %d can't be read: %w", pos, attend.ErrCorrupt)
	rest, ok := unsealed(v)
	taken, n := binary.Varint(rest)
	if !ok || n <= 0 {
		return e, bad
	}
	rest = rest[n:]
	var parts [2]string
	for i := range parts {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return e, bad
		}
		parts[i], rest = string(rest[n:n+int(size)]), rest[n+int(size):]
	}
	return journal.EventRow{Pos: pos, Taken: taken, Scope: attend.Scope(parts[0]), BatchEvent: journal.BatchEvent{ID: parts[1], Body: rest}}, nil
}

// hasEvent reports whether an event with this id is kept in the scope.
func hasEvent(tx *bbolt.Tx, scope attend.Scope, id string) (bool, error) {
	for pos := range places(tx.Bucket(bucketKeys), journal.EventKey(scope, id), 0) {
		v := tx.Bucket(bucketEvents).Get(key(uint64(pos)))
		if v == nil {
			continue
		}
		e, err := decodeEvent(pos, v)
		if err != nil {
			return false, err
		}
		if e.Scope == scope && e.ID == id {
			return true, nil
		}
	}
	return false, nil
}

// trimEvents deletes up to n of the oldest events that keep does not keep.
func trimEvents(tx *bbolt.Tx, keep attend.Retain, now int64, n int) error {
	b := tx.Bucket(bucketEvents)
	old, err := journal.FindOldEvents(func(yield func(journal.EventRow, error) bool) {
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if !yield(decodeEvent(attend.Position(number(k)), v)) {
				return
			}
		}
	}, keep, attend.Position(b.Sequence()), now, n)
	if err != nil || len(old.Rows) == 0 {
		return err
	}
	if err := drop(tx.Bucket(bucketKeys), old.Entries); err != nil {
		return err
	}
	for _, pos := range old.Rows {
		if err := b.Delete(key(uint64(pos))); err != nil {
			return err
		}
	}
	for scope, pos := range old.Trimmed {
		if err := tx.Bucket(bucketGone).Put(scopeKey(scope), key(uint64(pos))); err != nil {
			return err
		}
	}
	return nil
}

// place is where to read on behind after.
func place(tx *bbolt.Tx, scope attend.Scope, after attend.Cursor, epoch string) (at attend.Position, ok bool) {
	trimmed := attend.Position(number(tx.Bucket(bucketGone).Get(scopeKey(scope))))
	return journal.Place(after, epoch, attend.Position(tx.Bucket(bucketEvents).Sequence()), trimmed)
}

// scopeEvents yields the scope's events behind at, oldest first. An error is its
// last pair.
func scopeEvents(tx *bbolt.Tx, scope attend.Scope, at attend.Position) iter.Seq2[journal.EventRow, error] {
	return func(yield func(journal.EventRow, error) bool) {
		for pos := range places(tx.Bucket(bucketKeys), journal.ScopeKey(scope), at) {
			v := tx.Bucket(bucketEvents).Get(key(uint64(pos)))
			if v == nil {
				continue
			}
			e, err := decodeEvent(pos, v)
			if err == nil && e.Scope != scope {
				continue // of the same hash
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// readEvents returns the next batch behind after.
func readEvents(tx *bbolt.Tx, scope attend.Scope, after attend.Cursor, epoch string) (attend.Batch, error) {
	at, ok := place(tx, scope, after, epoch)
	b, err := journal.ReadBatch(scopeEvents(tx, scope, at), at, epoch)
	b.Gap = !ok
	return b, err
}
