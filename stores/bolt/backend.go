package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// A backend is a database as package journal wants it.
type backend struct {
	d    *database
	wait *waiters
	log  *journal.Log
}

// Update begins a transaction, and tells the log's readers of new rows once it
// is on the disk.
func (b *backend) Update(ctx context.Context, f func(journal.Tx) error) error {
	t := &jtx{}
	err := b.d.update(ctx, func(tx *bbolt.Tx) error {
		t = &jtx{jreader: jreader{tx}}
		return f(t)
	})
	if err == nil && len(t.rows) > 0 {
		var topics []journal.Topic
		for i := range t.rows {
			topics = journal.RowTopics(topics, t.rows[i].Type, t.rows[i].Scope)
		}
		b.wait.Tell(topics)
		b.log.Grown()
	}
	return err
}

func (b *backend) View(ctx context.Context, f func(journal.Reader) error) error {
	return b.d.view(ctx, func(tx *bbolt.Tx) error { return f(&jreader{tx}) })
}

type jreader struct{ tx *bbolt.Tx }

func (r *jreader) Bounds() (journal.Bounds, error) {
	j := r.tx.Bucket(bucketJournal)
	b := journal.Bounds{Newest: j.Sequence(), Oldest: j.Sequence() + 1}
	c := j.Cursor()
	if k, _ := c.First(); k != nil {
		b.Oldest = number(k)
		k, v := c.Last()
		b.Tag = number(recordOf(j, k, v))
	}
	return b, nil
}

// longRecord is how long a record is at least that has a bucket of its own. bbolt
// does not split a page that has up to four values, however long they are, and
// writes all of it again when one is added.
const longRecord = 2 << 10

var recordKey = []byte("record")

// recordOf is the record under a key of the journal, whose value is nil where it
// has a bucket of its own.
func recordOf(j *bbolt.Bucket, k, v []byte) []byte {
	if v != nil {
		return v
	}
	if own := j.Bucket(k); own != nil {
		return own.Get(recordKey)
	}
	return nil
}

func (r *jreader) Records(seq uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		j := r.tx.Bucket(bucketJournal)
		c := j.Cursor()
		for k, v := c.Seek(key(seq + 1)); k != nil; k, v = c.Next() {
			v = recordOf(j, k, v)
			rec := journal.Record{Seq: number(k), Tag: number(v), Body: v[min(len(v), 8):]}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// A scope's value begins with three numbers.
const scopeHeader = 24

// scopeKey is the scope as a key, which may not be empty.
func scopeKey(s attend.Scope) []byte { return append([]byte{'s'}, s...) }

func (r *jreader) Head(scope attend.Scope) (journal.Head, error) {
	s, err := r.State(scope)
	return s.Head, err
}

func (r *jreader) State(scope attend.Scope) (journal.State, error) {
	v := r.tx.Bucket(bucketScopes).Get(scopeKey(scope))
	if v == nil {
		return journal.State{}, nil
	}
	if len(v) < scopeHeader {
		return journal.State{}, fmt.Errorf("folded state of scope %.40q is cut off: %w", scope, attend.ErrCorrupt)
	}
	return journal.State{
		Head: journal.Head{Version: number(v), Seq: number(v[8:]), Due: int64(number(v[16:]))},
		Body: v[scopeHeader:],
	}, nil
}

// besideBytes is how many bytes of states Beside goes through, to either side.
const besideBytes = 16 << 10

// Beside is what comes before and behind in the bucket. Several states share a
// page, and some hundred of these share one that is written with each of them.
func (r *jreader) Beside(scope attend.Scope) ([]attend.Scope, error) {
	var found []attend.Scope
	c := r.tx.Bucket(bucketScopes).Cursor()
	for _, step := range []func() (k, v []byte){c.Prev, c.Next} {
		c.Seek(scopeKey(scope))
		for size := 0; size < besideBytes; {
			k, v := step()
			if k == nil {
				break
			}
			found = append(found, attend.Scope(k[1:]))
			size += len(k) + len(v)
		}
	}
	return found, nil
}

// dueKey sorts times before 1970 before the others.
func dueKey(k journal.DueKey) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(k.Scope)), uint64(k.At)^(1<<63))
	return append(b, k.Scope...)
}

func (r *jreader) Due(after journal.DueKey, upTo int64, page []journal.DueKey) ([]journal.DueKey, error) {
	c := r.tx.Bucket(bucketDue).Cursor()
	from := dueKey(after)
	k, _ := c.Seek(from)
	if bytes.Equal(k, from) {
		k, _ = c.Next()
	}
	for ; k != nil && len(page) < cap(page); k, _ = c.Next() {
		at := int64(number(k) ^ (1 << 63))
		if at > upTo {
			break
		}
		page = append(page, journal.DueKey{At: at, Scope: attend.Scope(k[8:])})
	}
	return page, nil
}

type jtx struct {
	jreader
	rows []attend.Row
}

// Append gives a long record a bucket of its own: bbolt writes a page with few
// values again and again, as those behind them come.
func (t *jtx) Append(tag uint64, body []byte) (uint64, error) {
	j := t.tx.Bucket(bucketJournal)
	j.FillPercent = 1 // keys only grow
	seq, err := j.NextSequence()
	if err != nil {
		return 0, err
	}
	v := append(key(tag), body...)
	if len(v) < longRecord {
		return seq, j.Put(key(seq), v)
	}
	own, err := j.CreateBucket(key(seq))
	if err != nil {
		return seq, err
	}
	return seq, own.Put(recordKey, v)
}

func (t *jtx) Drop(seq uint64) error {
	j := t.tx.Bucket(bucketJournal)
	for {
		k, v := j.Cursor().First()
		if k == nil || number(k) >= seq {
			return nil
		}
		drop := j.Delete
		if v == nil {
			drop = j.DeleteBucket
		}
		if err := drop(bytes.Clone(k)); err != nil {
			return err
		}
	}
}

func (t *jtx) Put(scope attend.Scope, s journal.State) error {
	old, err := t.Head(scope)
	if err != nil {
		return err
	}
	was := int64(journal.Never)
	if old.Version != 0 {
		was = old.Due
	}
	if err := t.setDue(scope, was, s.Due); err != nil {
		return err
	}
	v := make([]byte, 0, scopeHeader+len(s.Body))
	v = binary.BigEndian.AppendUint64(v, s.Version)
	v = binary.BigEndian.AppendUint64(v, s.Seq)
	v = binary.BigEndian.AppendUint64(v, uint64(s.Due))
	return t.tx.Bucket(bucketScopes).Put(scopeKey(scope), append(v, s.Body...))
}

func (t *jtx) Delete(scope attend.Scope) error {
	old, err := t.Head(scope)
	if err != nil || old.Version == 0 {
		return err
	}
	if err := t.setDue(scope, old.Due, journal.Never); err != nil {
		return err
	}
	return t.tx.Bucket(bucketScopes).Delete(scopeKey(scope))
}

func (t *jtx) setDue(scope attend.Scope, was, due int64) error {
	if was == due {
		return nil
	}
	b := t.tx.Bucket(bucketDue)
	if was != journal.Never {
		if err := b.Delete(dueKey(journal.DueKey{At: was, Scope: scope})); err != nil {
			return err
		}
	}
	if due == journal.Never {
		return nil
	}
	return b.Put(dueKey(journal.DueKey{At: due, Scope: scope}), nil)
}

func (t *jtx) AppendRows(rows []attend.Row) error {
	t.rows = append(t.rows, rows...)
	return appendRows(t.tx, rows)
}
