package sqlite

import (
	"database/sql/driver"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// appendRows adds rows to the log. Where nobody came round to the index for
// long, as with processes that live for one commit, it does some of that. The
// new rows lie behind after, up to last.
func appendRows(c *conn, rows []attend.Row) (after, last attend.Position, err error) {
	m, err := readMarks(c)
	if err != nil {
		return 0, 0, err
	}
	after = m.Newest
	for i := range rows {
		r := &rows[i]
		m.Newest++
		_, err := c.exec("INSERT INTO attend_log VALUES(?1, ?2, ?3, ?4, ?5, ?6)", int64(m.Newest),
			bytes(r.Type), bytes(r.Scope), bytes(r.ID), r.At.UnixMilli(), bytes(r.Body))
		if err != nil {
			return 0, 0, err
		}
	}
	if m.Newest-m.Indexed > 4*journal.IndexBehind {
		_, err = indexRows(c, max(journal.IndexStep, 2*len(rows)))
	}
	return after, m.Newest, err
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

// readPage reads what q wants behind after.
func readPage(c *conn, q attend.Query, m journal.Marks, after attend.Position, epoch string) (p journal.Page, err error) {
	found, err := places(c, q, m, after, journal.PageRows)
	if err != nil {
		return p, err
	}
	p.More = len(found) == journal.PageRows
	size := 0
	for i, pos := range found {
		if size >= journal.PageBytes {
			p.More = true
			break
		}
		row, err := c.row(rowColumns+"WHERE pos = ?1", int64(pos))
		if err != nil {
			return p, err
		}
		p.Next = found[i]
		if row == nil {
			continue
		}
		if e := entryOf(row, epoch); q.Wants(e.Type) && q.Prefix.Covers(e.Scope) {
			p.Entries = append(p.Entries, e)
			size += len(e.Body) + len(e.Scope) + len(e.ID)
		}
	}
	return p, nil
}

// places returns the positions behind after, at most limit, of rows that q may
// want: of each type what the index has, and then of the rows that are not in
// it yet.
func places(c *conn, q attend.Query, m journal.Marks, after attend.Position, limit int) ([]attend.Position, error) {
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
	for _, t := range journal.Types(q) {
		n, err := 0, error(nil)
		if after < m.Indexed {
			for _, k := range journal.PrefixKeys(t, q.Prefix) {
				of, err := add(0, "SELECT pos FROM attend_log_index WHERE key = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3", int64(k), int64(after))
				if err != nil {
					return nil, err
				}
				n += of
			}
		}
		if n < limit {
			_, err = add(n, `SELECT pos FROM attend_log WHERE pos > ?1 AND type = ?2
				AND scope >= ?3 AND (?4 IS NULL OR scope < ?4) ORDER BY pos LIMIT ?5`,
				int64(max(after, m.Indexed)), bytes(t), bytes(q.Prefix), nullable(beyond(q.Prefix)))
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(limit, len(all))], nil
}

func nullable(b []byte) driver.Value {
	if b == nil {
		return nil
	}
	return b
}

// beyond is the first name behind all that begin with p, nil where there is
// none.
func beyond(p attend.Prefix) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xff {
			b := bytes(p[:i+1])
			b[i]++
			return b
		}
	}
	return nil
}

// findRow returns the newest row of an id, nil where there is none.
func findRow(c *conn, id attend.DecisionID, t attend.RowType, epoch string) (*attend.Entry, error) {
	m, err := readMarks(c)
	if err != nil {
		return nil, err
	}
	row, err := c.row(rowColumns+"WHERE pos > ?1 AND type = ?2 AND id = ?3 ORDER BY pos DESC LIMIT 1",
		int64(m.Indexed), bytes(t), bytes(id))
	if err != nil {
		return nil, err
	}
	if row != nil {
		e := entryOf(row, epoch)
		return &e, nil
	}
	for at, err := range c.rows("SELECT pos FROM attend_log_index WHERE key = ?1 ORDER BY pos DESC", int64(journal.IDKey(t, id))) {
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
