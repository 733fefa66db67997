package sqlite

import (
	"encoding/json"
	"fmt"

	attend "github.com/attend-go/attend/core"
)

const (
	batchEvents = 1000
	batchBytes  = 1 << 20
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

func scopeKey(s attend.Scope) int64 { return key(kindScope, string(s)) }

func eventKey(s attend.Scope, id string) int64 { return key(kindEvent, string(s), id) }

// added is what an append came to.
type added struct {
	after, last int64 // the positions of the new rows: behind after, up to last
	topics      []topic
	bytes       int64
}

// appendEvents adds the batches' events but those that are kept already, and
// takes a small step of retention for each.
func appendEvents(c *conn, line []*batch, keep attend.Retain, now int64) (a added, err error) {
	m, err := readEventMarks(c)
	if err != nil {
		return a, err
	}
	a.after = int64(m.newest)
	var entries []indexEntry
	seen := make(map[string]struct{}) // of this transaction: not in the index yet
	total := 0
	for _, b := range line {
		total += len(b.events)
		before := m.newest
		for _, e := range b.events {
			k := eventKey(b.scope, e.id)
			name := string(b.scope) + "\x00" + e.id // an id has no NUL
			if _, ok := seen[name]; ok {
				continue
			}
			kept, err := hasEvent(c, k, b.scope, e.id)
			if err != nil {
				return a, err
			}
			if kept {
				continue
			}
			seen[name] = struct{}{}
			m.newest++
			_, err = c.exec("INSERT INTO attend_events VALUES(?1, ?2, ?3, ?4, ?5)", int64(m.newest), bytes(b.scope), bytes(e.id), now, e.body)
			if err != nil {
				return a, err
			}
			entries = append(entries, indexEntry{k, m.newest}, indexEntry{scopeKey(b.scope), m.newest})
			a.bytes += int64(len(e.body)) + pageSize/4
		}
		if m.newest > before {
			a.topics = append(a.topics, topic{"", string(b.scope)})
		}
	}
	a.last = int64(m.newest)
	if err := insertEntries(c, "attend_events_index", entries); err != nil {
		return a, err
	}
	return a, trimEvents(c, &m, keep, now, 2*total)
}

// hasEvent reports whether an event with this id is kept in the scope.
func hasEvent(c *conn, key int64, scope attend.Scope, id string) (bool, error) {
	for row, err := range c.rows(`SELECT e.scope, e.id FROM attend_events_index i CROSS JOIN attend_events e ON e.pos = i.pos
		WHERE i.key = ?1`, key) {
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
func trimEvents(c *conn, m *eventMarks, keep attend.Retain, now int64, n int) error {
	if keep.Count <= 0 && keep.Age <= 0 {
		return nil
	}
	var entries []indexEntry
	trimmed := make(map[attend.Scope]attend.Position)
	at := m.trimmed
	for row, err := range c.rows("SELECT pos, scope, id, taken FROM attend_events WHERE pos > ?1 ORDER BY pos LIMIT ?2", int64(at), int64(n)) {
		if err != nil {
			return err
		}
		pos := attend.Position(integer(row[0]))
		old := keep.Age > 0 && integer(row[3]) < now-keep.Age.Milliseconds()
		if !old && (keep.Count <= 0 || m.newest-pos < attend.Position(keep.Count)) {
			break
		}
		scope := attend.Scope(blob(row[1]))
		entries = append(entries, indexEntry{scopeKey(scope), pos}, indexEntry{eventKey(scope, string(blob(row[2]))), pos})
		trimmed[scope] = pos
		at = pos
	}
	if at == m.trimmed {
		return nil
	}
	m.trimmed = at
	if err := deleteEntries(c, "attend_events_index", entries); err != nil {
		return err
	}
	// A scope's mark stays when all of its events are gone: without it, who has
	// read everything could not be told from who lost something.
	for scope, pos := range trimmed {
		if _, err := c.exec("INSERT OR REPLACE INTO attend_events_trimmed VALUES(?1, ?2)", bytes(scope), int64(pos)); err != nil {
			return err
		}
	}
	if _, err := c.exec("DELETE FROM attend_events WHERE pos <= ?1", int64(at)); err != nil {
		return err
	}
	_, err := c.exec("UPDATE attend_marks SET trimmed_events = ?1", int64(at))
	return err
}

// place is where to read on behind after. It is not ok when events behind after
// are gone, or after is no cursor of this log; reading goes on from the oldest
// kept then.
func place(c *conn, scope attend.Scope, after attend.Cursor, epoch string) (m eventMarks, at attend.Position, ok bool, err error) {
	if m, err = readEventMarks(c); err != nil {
		return m, 0, false, err
	}
	n, err := c.number("SELECT pos FROM attend_events_trimmed WHERE scope = ?1", bytes(scope))
	trimmed := attend.Position(n)
	if err != nil || after == "" {
		return m, trimmed, true, err
	}
	p, bad := attend.ParseLogCursor(string(after))
	if bad != nil || p.Epoch != epoch || p.Position > m.newest || p.Position < trimmed {
		return m, trimmed, false, nil
	}
	return m, p.Position, true, nil
}

// scopeEvents finds events by a scope's key. Which of them are the scope's, the
// rows say.
const scopeEvents = `SELECT e.pos, e.scope, e.body FROM attend_events_index i CROSS JOIN attend_events e ON e.pos = i.pos
	WHERE i.key = ?1 AND i.pos > ?2 ORDER BY i.pos `

// readEvents returns the next batch behind after.
func readEvents(c *conn, scope attend.Scope, after attend.Cursor, epoch string) (attend.Batch, error) {
	_, at, ok, err := place(c, scope, after, epoch)
	if err != nil {
		return attend.Batch{}, err
	}
	b := attend.Batch{Gap: !ok}
	size := 0
	for row, err := range c.rows(scopeEvents, scopeKey(scope), int64(at)) {
		if err != nil {
			return attend.Batch{}, err
		}
		if attend.Scope(blob(row[1])) != scope {
			continue
		}
		var e attend.Event
		if err := json.Unmarshal(blob(row[2]), &e); err != nil {
			// The decoder's error may quote the event.
			return attend.Batch{}, fmt.Errorf("event %d can't be read: %w", integer(row[0]), attend.ErrCorrupt)
		}
		size += e.Size()
		if len(b.Events) > 0 && size > batchBytes {
			break
		}
		b.Events = append(b.Events, e)
		at = attend.Position(integer(row[0]))
		if len(b.Events) == batchEvents {
			break
		}
	}
	b.Cursor = attend.Cursor(attend.LogCursor{Epoch: epoch, Position: at}.String())
	return b, nil
}

// news finds the topics of events behind after.
func news(c *conn, after int64) (topics []topic, newest int64, err error) {
	newest = after
	for row, err := range c.rows("SELECT pos, scope FROM attend_events WHERE pos > ?1 ORDER BY pos LIMIT ?2", after, int64(lookStep)) {
		if err != nil {
			return nil, 0, err
		}
		newest = integer(row[0])
		topics = append(topics, topic{"", string(blob(row[1]))})
	}
	return topics, newest, nil
}
