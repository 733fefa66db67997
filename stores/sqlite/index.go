package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// indexRows brings up to n rows into the index, and tells how many.
func indexRows(c *conn, n int) (int, error) {
	m, err := readMarks(c)
	if err != nil {
		return 0, err
	}
	var entries []journal.Entry
	rows := 0
	for row, err := range c.rows("SELECT pos, type, scope, id FROM attend_log WHERE pos > ?1 ORDER BY pos LIMIT ?2", int64(m.Indexed), int64(n)) {
		if err != nil {
			return 0, err
		}
		t := attend.RowType(blob(row[1]))
		m.Indexed = attend.Position(integer(row[0]))
		m.Kept[journal.Class(t)]++
		entries = journal.RowEntries(entries, m.Indexed, t, attend.Scope(blob(row[2])), attend.DecisionID(blob(row[3])))
		rows++
	}
	if rows == 0 {
		return 0, nil
	}
	if err := insertEntries(c, "attend_log_index", entries); err != nil {
		return 0, err
	}
	return rows, writeMarks(c, m)
}

// insertEntries adds entries to an index, in its order and many by one
// statement: a call into C costs about as much as an entry.
func insertEntries(c *conn, table string, entries []journal.Entry) error {
	slices.SortFunc(entries, compareEntries)
	entries = slices.Compact(entries)
	const many = 64
	for len(entries) > 0 {
		n := 1
		if len(entries) >= many {
			n = many
		}
		args := make([]driver.Value, 0, 2*many)
		for _, e := range entries[:n] {
			args = append(args, int64(e.Key), int64(e.Pos))
		}
		if _, err := c.exec("INSERT INTO "+table+" VALUES(?,?)"+strings.Repeat(",(?,?)", n-1), args...); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func deleteEntries(c *conn, table string, entries []journal.Entry) error {
	slices.SortFunc(entries, compareEntries)
	for _, e := range entries {
		if _, err := c.exec("DELETE FROM "+table+" WHERE key = ?1 AND pos = ?2", int64(e.Key), int64(e.Pos)); err != nil {
			return err
		}
	}
	return nil
}

// compareEntries is SQLite's order, whose integers have a sign.
func compareEntries(a, b journal.Entry) int {
	return cmp.Or(cmp.Compare(int64(a.Key), int64(b.Key)), cmp.Compare(a.Pos, b.Pos))
}
