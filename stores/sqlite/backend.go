package sqlite

import (
	"context"
	"iter"
	"math"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// A backend is what the journal works on: the tables of one file. Package
// journal says what its methods promise, and what is in a record or a state.
type backend struct {
	d    *database
	wait *waiters
	log  *journal.Log
}

func (b *backend) Update(ctx context.Context, f func(journal.Tx) error) error {
	var t *tx
	err := b.d.update(ctx, func(c *conn) error {
		t = &tx{reader: reader{c: c}}
		return f(t)
	})
	if err != nil {
		return err
	}
	if len(t.topics) > 0 {
		b.wait.tell(t.topics, t.after, t.last)
		b.log.Grown()
	}
	return nil
}

func (b *backend) View(ctx context.Context, f func(journal.Reader) error) error {
	return b.d.view(ctx, func(c *conn) error { return f(&reader{c: c}) })
}

type reader struct {
	c      *conn
	bounds *journal.Bounds // once they were asked for
}

func (r *reader) Bounds() (journal.Bounds, error) {
	if r.bounds == nil {
		b, err := readBounds(r.c)
		if err != nil {
			return journal.Bounds{}, err
		}
		r.bounds = &b
	}
	return *r.bounds, nil
}

func readBounds(c *conn) (journal.Bounds, error) {
	row, err := c.row(`SELECT (SELECT min(seq) FROM attend_journal), (SELECT max(seq) FROM attend_journal), journal,
		(SELECT tag FROM attend_journal WHERE seq = (SELECT max(seq) FROM attend_journal)) FROM attend_marks`)
	if err != nil || row == nil {
		return journal.Bounds{}, gone(err)
	}
	if row[0] == nil {
		newest := uint64(integer(row[2]))
		return journal.Bounds{Oldest: newest + 1, Newest: newest}, nil
	}
	return journal.Bounds{Oldest: uint64(integer(row[0])), Newest: uint64(integer(row[1])), Tag: uint64(integer(row[3]))}, nil
}

func (r *reader) Records(seq uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for row, err := range r.c.rows("SELECT seq, tag, body FROM attend_journal WHERE seq > ?1 ORDER BY seq", int64(seq)) {
			if err != nil {
				yield(journal.Record{}, err)
				return
			}
			if !yield(journal.Record{Seq: uint64(integer(row[0])), Tag: uint64(integer(row[1])), Body: blob(row[2])}, nil) {
				return
			}
		}
	}
}

func (r *reader) Head(scope attend.Scope) (journal.Head, error) {
	row, err := r.c.row("SELECT version, seq, due FROM attend_scopes WHERE scope = ?1", bytes(scope))
	if err != nil || row == nil {
		return journal.Head{}, err
	}
	return head(row[0], row[1], row[2]), nil
}

func (r *reader) State(scope attend.Scope) (journal.State, error) {
	row, err := r.c.row("SELECT version, seq, due, body FROM attend_scopes WHERE scope = ?1", bytes(scope))
	if err != nil || row == nil {
		return journal.State{}, err
	}
	return journal.State{Head: head(row[0], row[1], row[2]), Body: blob(row[3])}, nil
}

// Beside is none: a scope's row has a page of its own, about.
func (r *reader) Beside(attend.Scope) ([]attend.Scope, error) { return nil, nil }

func head(version, seq, due any) journal.Head {
	h := journal.Head{Version: uint64(integer(version)), Seq: uint64(integer(seq)), Due: journal.Never}
	if due != nil {
		h.Due = integer(due)
	}
	return h
}

func (r *reader) Due(after journal.DueKey, upTo int64, page []journal.DueKey) ([]journal.DueKey, error) {
	for row, err := range r.c.rows(`SELECT due, scope FROM attend_scopes
		WHERE due <= ?1 AND (due, scope) > (?2, ?3) ORDER BY due, scope LIMIT ?4`,
		upTo, after.At, bytes(after.Scope), int64(cap(page)-len(page))) {
		if err != nil {
			return page, err
		}
		page = append(page, journal.DueKey{At: integer(row[0]), Scope: attend.Scope(blob(row[1]))})
	}
	return page, nil
}

type tx struct {
	reader
	topics []journal.Topic
	after  attend.Position // rows were appended behind it
	last   attend.Position // up to here
}

func (t *tx) Append(tag uint64, body []byte) (uint64, error) {
	b, err := t.Bounds()
	if err != nil {
		return 0, err
	}
	t.bounds = nil
	_, err = t.c.exec("INSERT INTO attend_journal VALUES(?1, ?2, ?3)", int64(b.Newest+1), int64(tag), bytes(body))
	return b.Newest + 1, err
}

func (t *tx) Drop(seq uint64) error {
	b, err := t.Bounds()
	if err != nil {
		return err
	}
	t.bounds = nil
	if _, err = t.c.exec("DELETE FROM attend_journal WHERE seq < ?1", int64(min(seq, math.MaxInt64))); err != nil || seq <= b.Newest {
		return err
	}
	// Nothing is left that tells which one was the newest.
	_, err = t.c.exec("UPDATE attend_marks SET journal = ?1", int64(b.Newest))
	return err
}

// Put looks first whether the due time is what it was: SQLite would take the
// scope out of the index and put it in again.
func (t *tx) Put(scope attend.Scope, s journal.State) error {
	var due any
	if s.Due != journal.Never {
		due = s.Due
	}
	name, body := bytes(scope), bytes(s.Body)
	n, err := t.c.exec("UPDATE attend_scopes SET version = ?1, seq = ?2, body = ?3 WHERE scope = ?4 AND due IS ?5",
		int64(s.Version), int64(s.Seq), body, name, due)
	if err != nil || n > 0 {
		return err
	}
	_, err = t.c.exec(`INSERT INTO attend_scopes(scope, version, seq, due, body) VALUES(?1, ?2, ?3, ?4, ?5)
		ON CONFLICT(scope) DO UPDATE SET version = excluded.version, seq = excluded.seq, due = excluded.due, body = excluded.body`,
		name, int64(s.Version), int64(s.Seq), due, body)
	return err
}

func (t *tx) Delete(scope attend.Scope) error {
	_, err := t.c.exec("DELETE FROM attend_scopes WHERE scope = ?1", bytes(scope))
	return err
}

func (t *tx) AppendRows(rows []attend.Row) error {
	if len(rows) == 0 {
		return nil
	}
	after, last, err := appendRows(t.c, rows)
	if err != nil {
		return err
	}
	if len(t.topics) == 0 {
		t.after = after
	}
	t.last = last
	for i := range rows {
		t.topics = journal.RowTopics(t.topics, rows[i].Type, rows[i].Scope)
	}
	return nil
}
