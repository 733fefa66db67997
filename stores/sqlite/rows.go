package sqlite

import (
	"database/sql/driver"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

const (
	pageRows  = 100     // rows that a reader takes at a time
	pageBytes = 1 << 20 // and about how much of them
)

// appendRows adds rows to the log. Where nobody came round to the index for
// long, as with processes that live for one commit, it does some of that. The
// new rows lie behind after, up to last.
func appendRows(c *conn, rows []attend.Row) (after, last int64, err error) {
	m, err := readMarks(c)
	if err != nil {
		return 0, 0, err
	}
	after = int64(m.newest)
	for i := range rows {
		r := &rows[i]
		m.newest++
		_, err := c.exec("INSERT INTO attend_log VALUES(?1, ?2, ?3, ?4, ?5, ?6)", int64(m.newest),
			bytes(r.Type), bytes(r.Scope), bytes(r.ID), r.At.UnixMilli(), bytes(r.Body))
		if err != nil {
			return 0, 0, err
		}
	}
	if m.newest-m.indexed > 4*indexBehind {
		_, err = indexRows(c, max(indexStep, 2*len(rows)))
	}
	return after, int64(m.newest), err
}

const rowColumns = "SELECT pos, type, scope, id, at, body FROM attend_log "

func entryOf(row []driver.Value, epoch string) attend.Entry {
	return attend.Entry{
		Cursor: attend.LogCursor{Epoch: epoch, Position: attend.Position(integer(row[0]))},
		Row: attend.Row{
			Type: attend.RowType(blob(row[1])), Scope: attend.Scope(blob(row[2])), ID: attend.DecisionID(blob(row[3])),
			At: time.UnixMilli(integer(row[4])), Body: blob(row[5]),
		},
	}
}

// A page is what a reader got at a time: perhaps nothing, and there is more.
type page struct {
	entries []attend.Entry
	next    attend.Position // where to go on
	more    bool
}

// readPage reads what q wants behind after.
func readPage(c *conn, q attend.Query, m *marks, after attend.Position, epoch string) (p page, err error) {
	found, err := places(c, q, m, after, pageRows)
	if err != nil {
		return p, err
	}
	p.more = len(found) == pageRows
	size := 0
	for i, pos := range found {
		if size >= pageBytes {
			p.more = true
			break
		}
		row, err := c.row(rowColumns+"WHERE pos = ?1", int64(pos))
		if err != nil {
			return p, err
		}
		p.next = found[i]
		if row == nil {
			continue
		}
		if e := entryOf(row, epoch); q.Wants(e.Type) && q.Prefix.Covers(e.Scope) {
			p.entries = append(p.entries, e)
			size += len(e.Body) + len(e.Scope) + len(e.ID)
		}
	}
	return p, nil
}

// places returns the positions behind after, at most limit, of rows that q may
// want: of each type what the index has, and then of the rows that are not in
// it yet.
func places(c *conn, q attend.Query, m *marks, after attend.Position, limit int) ([]attend.Position, error) {
	var all []attend.Position
	add := func(n int, query string, args ...driver.Value) (int, error) {
		for row, err := range c.rows(query, append(args, int64(limit-n))...) {
			if err != nil {
				return n, err
			}
			all = append(all, attend.Position(integer(row[0])))
			n++
		}
		return n, nil
	}
	for _, t := range types(q) {
		n, err := 0, error(nil)
		if after < m.indexed {
			n, err = add(n, "SELECT pos FROM attend_log_index WHERE key = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3",
				prefixKey(t, narrow(q.Prefix)), int64(after))
		}
		if err == nil && n < limit {
			_, err = add(n, `SELECT pos FROM attend_log WHERE pos > ?1 AND type = ?2
				AND scope >= ?3 AND (?4 IS NULL OR scope < ?4) ORDER BY pos LIMIT ?5`,
				int64(max(after, m.indexed)), bytes(t), bytes(q.Prefix), nullable(beyond(q.Prefix)))
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return all[:min(limit, len(all))], nil
}

func nullable(b []byte) driver.Value {
	if b == nil {
		return nil
	}
	return b
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
func findRow(c *conn, id attend.DecisionID, t attend.RowType, epoch string) (*attend.Entry, error) {
	m, err := readMarks(c)
	if err != nil {
		return nil, err
	}
	row, err := c.row(rowColumns+"WHERE pos > ?1 AND type = ?2 AND id = ?3 ORDER BY pos DESC LIMIT 1",
		int64(m.indexed), bytes(t), bytes(id))
	if err != nil {
		return nil, err
	}
	if row != nil {
		e := entryOf(row, epoch)
		return &e, nil
	}
	for at, err := range c.rows("SELECT pos FROM attend_log_index WHERE key = ?1 ORDER BY pos DESC", idKey(t, id)) {
		if err != nil {
			return nil, err
		}
		row, err := c.row(rowColumns+"WHERE pos = ?1", at[0])
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		if e := entryOf(row, epoch); e.ID == id && e.Type == t {
			return &e, nil
		}
	}
	return nil, nil
}
