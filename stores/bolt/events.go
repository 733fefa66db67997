package bolt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

const (
	batchEvents = 1000
	batchBytes  = 1 << 20
)

// A kept is an event as it is stored. Its body is the transaction's.
type kept struct {
	pos   attend.Position
	taken int64 // when it was appended, in Unix milliseconds
	scope attend.Scope
	id    string
	body  []byte // JSON
}

func eventHash(s attend.Scope, id string) uint64 { return hash(kindEvent, string(s), id) }

func scopeHash(s attend.Scope) uint64 { return hash(kindScope, string(s)) }

// appendEvents adds the batches' events but those that are kept already, and
// takes a small step of retention for each. It returns who has something new.
func appendEvents(tx *bbolt.Tx, line []*batch, keep attend.Retain, now int64) (topics []topic, err error) {
	b, index := tx.Bucket(bucketEvents), tx.Bucket(bucketKeys)
	b.FillPercent = 0.95 // keys only grow
	newest := attend.Position(b.Sequence())
	type name struct {
		scope attend.Scope
		id    string
	}
	seen := make(map[name]struct{}) // of this transaction: not in the index yet
	var all []entry
	total := 0
	for _, batch := range line {
		before := newest
		for _, e := range batch.events {
			total++
			h := eventHash(batch.scope, e.id)
			if _, ok := seen[name{batch.scope, e.id}]; ok {
				continue
			}
			if ok, err := hasEvent(tx, h, batch.scope, e.id); ok || err != nil {
				if err != nil {
					return nil, err
				}
				continue
			}
			seen[name{batch.scope, e.id}] = struct{}{}
			newest++
			v := make([]byte, 4, 32+len(batch.scope)+len(e.id)+len(e.body))
			v = binary.AppendVarint(v, now)
			for _, s := range []string{string(batch.scope), e.id} {
				v = binary.AppendUvarint(v, uint64(len(s)))
				v = append(v, s...)
			}
			if err := b.Put(key(uint64(newest)), sealed(append(v, e.body...))); err != nil {
				return nil, err
			}
			all = append(all, entry{h, newest}, entry{scopeHash(batch.scope), newest})
		}
		if newest > before {
			topics = append(topics, topic{"", string(batch.scope)})
		}
	}
	if err := b.SetSequence(uint64(newest)); err != nil {
		return nil, err
	}
	if err := put(index, all); err != nil {
		return nil, err
	}
	return topics, trimEvents(tx, keep, now, 2*total)
}

func decodeEvent(pos attend.Position, v []byte) (e kept, err error) {
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
	return kept{pos, taken, attend.Scope(parts[0]), parts[1], rest}, nil
}

// hasEvent reports whether an event with this id is kept in the scope.
func hasEvent(tx *bbolt.Tx, h uint64, scope attend.Scope, id string) (bool, error) {
	for pos := range places(tx.Bucket(bucketKeys), h, 0) {
		v := tx.Bucket(bucketEvents).Get(key(uint64(pos)))
		if v == nil {
			continue
		}
		e, err := decodeEvent(pos, v)
		if err != nil {
			return false, err
		}
		if e.scope == scope && e.id == id {
			return true, nil
		}
	}
	return false, nil
}

// trimEvents deletes up to n of the oldest events that keep does not keep.
func trimEvents(tx *bbolt.Tx, keep attend.Retain, now int64, n int) error {
	if keep.Count <= 0 && keep.Age <= 0 {
		return nil
	}
	b := tx.Bucket(bucketEvents)
	newest := b.Sequence()
	var all []entry
	var gone []attend.Position
	trimmed := make(map[attend.Scope]attend.Position)
	c := b.Cursor()
	for k, v := c.First(); k != nil && len(gone) < n; k, v = c.Next() {
		pos := attend.Position(number(k))
		e, err := decodeEvent(pos, v)
		if err != nil {
			return err
		}
		old := keep.Age > 0 && e.taken < now-keep.Age.Milliseconds()
		if !old && (keep.Count <= 0 || newest-uint64(pos) < uint64(keep.Count)) {
			break
		}
		all = append(all, entry{scopeHash(e.scope), pos}, entry{eventHash(e.scope, e.id), pos})
		gone = append(gone, pos)
		trimmed[e.scope] = pos
	}
	if len(gone) == 0 {
		return nil
	}
	if err := drop(tx.Bucket(bucketKeys), all); err != nil {
		return err
	}
	for _, pos := range gone {
		if err := b.Delete(key(uint64(pos))); err != nil {
			return err
		}
	}
	// A scope's mark stays when all of its events are gone: without it, who has
	// read everything could not be told from who lost something.
	for scope, pos := range trimmed {
		if err := tx.Bucket(bucketGone).Put(scopeKey(scope), key(uint64(pos))); err != nil {
			return err
		}
	}
	return nil
}

// place is where to read on behind after. It is not ok when events behind after
// are gone, or after is no cursor of this log; reading goes on from the oldest
// kept then.
func place(tx *bbolt.Tx, scope attend.Scope, after attend.Cursor, epoch string) (at attend.Position, ok bool, err error) {
	trimmed := attend.Position(number(tx.Bucket(bucketGone).Get(scopeKey(scope))))
	if after == "" {
		return trimmed, true, nil
	}
	newest := attend.Position(tx.Bucket(bucketEvents).Sequence())
	p, bad := attend.ParseLogCursor(string(after))
	if bad != nil || p.Epoch != epoch || p.Position > newest || p.Position < trimmed {
		return trimmed, false, nil
	}
	return p.Position, true, nil
}

// scopeEvents yields the scope's events behind at, oldest first. An error is its
// last pair.
func scopeEvents(tx *bbolt.Tx, scope attend.Scope, at attend.Position) iter.Seq2[kept, error] {
	return func(yield func(kept, error) bool) {
		for pos := range places(tx.Bucket(bucketKeys), scopeHash(scope), at) {
			v := tx.Bucket(bucketEvents).Get(key(uint64(pos)))
			if v == nil {
				continue
			}
			e, err := decodeEvent(pos, v)
			if err == nil && e.scope != scope {
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
	at, ok, err := place(tx, scope, after, epoch)
	if err != nil {
		return attend.Batch{}, err
	}
	b := attend.Batch{Gap: !ok}
	size := 0
	for k, err := range scopeEvents(tx, scope, at) {
		if err != nil {
			return attend.Batch{}, err
		}
		var e attend.Event
		if err := json.Unmarshal(k.body, &e); err != nil {
			// The decoder's error may quote the event.
			return attend.Batch{}, fmt.Errorf("event %d can't be read: %w", k.pos, attend.ErrCorrupt)
		}
		size += e.Size()
		if len(b.Events) > 0 && size > batchBytes {
			break
		}
		b.Events = append(b.Events, e)
		if at = k.pos; len(b.Events) == batchEvents {
			break
		}
	}
	b.Cursor = attend.Cursor(attend.LogCursor{Epoch: epoch, Position: at}.String())
	return b, nil
}
