package sqlite

import (
	"iter"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// eventMarks says how far the event log goes. Its rows are trimmed in the order
// of their positions, which have no gaps.
type eventMarks struct{ newest, trimmed attend.Position }

func readEventMarks(c *conn) (m eventMarks, err error) {
	row, err := c.row("SELECT trimmed_events, (SELECT max(pos) FROM attend_events) FROM attend_marks")
	if err != nil || row == nil {
		return m, gone(err)
	}
	m.trimmed = attend.Position(integer(row[0]))
	m.newest = max(m.trimmed, attend.Position(integer(row[1])))
	return m, nil
}

// added is what an append came to.
type added struct {
	after, last attend.Position // of the new rows: behind after, up to last
	topics      []journal.Topic
}

// appendEvents adds the batches' events but those that are kept already, and
// takes a small step of retention for each.
func appendEvents(c *conn, line []*journal.Batch, keep attend.Retain, now int64) (a added, err error) {
	m, err := readEventMarks(c)
	if err != nil {
		return a, err
	}
	kept := func(scope attend.Scope, id string) (bool, error) { return hasEvent(c, scope, id) }
	n, err := journal.AddEvents(line, m.newest, now, kept, func(e journal.EventRow) error {
		_, err := c.exec("INSERT INTO attend_events VALUES(?1, ?2, ?3, ?4, ?5)", int64(e.Pos), bytes(e.Scope), bytes(e.ID), e.Taken, e.Body)
		return err
	})
	if err != nil {
		return a, err
	}
	a.after, a.last, a.topics = m.newest, n.Newest, n.Topics
	if err := insertEntries(c, "attend_events_index", n.Entries); err != nil {
		return a, err
	}
	m.newest = n.Newest
	return a, trimEvents(c, m, keep, now, 2*n.Total)
}

// hasEvent reports whether an event with this id is kept in the scope.
func hasEvent(c *conn, scope attend.Scope, id string) (bool, error) {
	for row, err := range c.rows(`SELECT e.scope, e.id FROM attend_events_index i CROSS JOIN attend_events e ON e.pos = i.pos
		WHERE i.key = ?1`, int64(journal.EventKey(scope, id))) {
		if err != nil {
			return false, err
		}
		if attend.Scope(blob(row[0])) == scope && string(blob(row[1])) == id {
			return true, nil
		}
	}
	return false, nil
}

// trimEvents deletes up to n of the oldest events that keep does not keep.
func trimEvents(c *conn, m eventMarks, keep attend.Retain, now int64, n int) error {
	old, err := journal.FindOldEvents(func(yield func(journal.EventRow, error) bool) {
		for row, err := range c.rows("SELECT pos, scope, id, taken FROM attend_events WHERE pos > ?1 ORDER BY pos LIMIT ?2", int64(m.trimmed), int64(n)) {
			if err != nil {
				yield(journal.EventRow{}, err)
				return
			}
			e := journal.EventRow{Pos: attend.Position(integer(row[0])), Scope: attend.Scope(blob(row[1])), Taken: integer(row[3])}
			e.ID = string(blob(row[2]))
			if !yield(e, nil) {
				return
			}
		}
	}, keep, m.newest, now, n)
	if err != nil || len(old.Rows) == 0 {
		return err
	}
	if err := deleteEntries(c, "attend_events_index", old.Entries); err != nil {
		return err
	}
	for scope, pos := range old.Trimmed {
		if _, err := c.exec("INSERT OR REPLACE INTO attend_events_trimmed VALUES(?1, ?2)", bytes(scope), int64(pos)); err != nil {
			return err
		}
	}
	last := int64(old.Rows[len(old.Rows)-1])
	if _, err := c.exec("DELETE FROM attend_events WHERE pos <= ?1", last); err != nil {
		return err
	}
	_, err = c.exec("UPDATE attend_marks SET trimmed_events = ?1", last)
	return err
}

// place is where to read on behind after.
func place(c *conn, scope attend.Scope, after attend.Cursor, epoch string) (m eventMarks, at attend.Position, ok bool, err error) {
	if m, err = readEventMarks(c); err != nil {
		return m, 0, false, err
	}
	trimmed, err := c.number("SELECT pos FROM attend_events_trimmed WHERE scope = ?1", bytes(scope))
	at, ok = journal.Place(after, epoch, m.newest, attend.Position(trimmed))
	return m, at, ok, err
}

// scopeEvents yields the scope's events behind at, oldest first. An error is its
// last pair.
func scopeEvents(c *conn, scope attend.Scope, at attend.Position) iter.Seq2[journal.EventRow, error] {
	return func(yield func(journal.EventRow, error) bool) {
		for row, err := range c.rows(`SELECT e.pos, e.scope, e.body FROM attend_events_index i CROSS JOIN attend_events e ON e.pos = i.pos
			WHERE i.key = ?1 AND i.pos > ?2 ORDER BY i.pos `, int64(journal.ScopeKey(scope)), int64(at)) {
			if err != nil {
				yield(journal.EventRow{}, err)
				return
			}
			if attend.Scope(blob(row[1])) != scope {
				continue // of the same key
			}
			e := journal.EventRow{Pos: attend.Position(integer(row[0])), Scope: scope}
			e.Body = blob(row[2])
			if !yield(e, nil) {
				return
			}
		}
	}
}

// readEvents returns the next batch behind after.
func readEvents(c *conn, scope attend.Scope, after attend.Cursor, epoch string) (attend.Batch, error) {
	_, at, ok, err := place(c, scope, after, epoch)
	if err != nil {
		return attend.Batch{}, err
	}
	b, err := journal.ReadBatch(scopeEvents(c, scope, at), at, epoch)
	b.Gap = !ok
	return b, err
}

// newEvents finds the topics of events behind after.
func newEvents(c *conn, after attend.Position) (topics []journal.Topic, newest attend.Position, err error) {
	newest = after
	for row, err := range c.rows("SELECT pos, scope FROM attend_events WHERE pos > ?1 ORDER BY pos LIMIT ?2", int64(after), int64(lookStep)) {
		if err != nil {
			return nil, 0, err
		}
		newest = attend.Position(integer(row[0]))
		topics = append(topics, journal.Topic{Name: string(blob(row[1]))})
	}
	return topics, newest, nil
}
