package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// Rows come into the index some time after they were appended, many at once and
// in the index's order: each by itself would dirty a page for each of its keys
// in the commit that brought it, which is more than all the rest of a group.
const (
	indexBehind = 1024 // rows that may be missing in it
	indexStep   = 512  // rows that one transaction brings into it
)

// An indexEntry is a row of an index.
type indexEntry struct {
	key int64
	pos attend.Position
}

// indexRows brings up to n rows into the index, and tells how many.
func indexRows(c *conn, n int) (int, error) {
	m, err := readMarks(c)
	if err != nil {
		return 0, err
	}
	var entries []indexEntry
	var keys []int64
	rows := 0
	for row, err := range c.rows("SELECT pos, type, scope, id FROM attend_log WHERE pos > ?1 ORDER BY pos LIMIT ?2", int64(m.indexed), int64(n)) {
		if err != nil {
			return 0, err
		}
		t := attend.RowType(blob(row[1]))
		keys = rowKeys(keys[:0], t, attend.Scope(blob(row[2])), attend.DecisionID(blob(row[3])))
		m.indexed = attend.Position(integer(row[0]))
		m.kept[class(t)]++
		for _, k := range keys {
			entries = append(entries, indexEntry{k, m.indexed})
		}
		rows++
	}
	if rows == 0 {
		return 0, nil
	}
	if err := insertEntries(c, "attend_log_index", entries); err != nil {
		return 0, err
	}
	return rows, m.write(c)
}

// insertEntries adds entries to an index, in its order and many by one
// statement: a call into C costs about as much as an entry.
func insertEntries(c *conn, table string, entries []indexEntry) error {
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
			args = append(args, e.key, int64(e.pos))
		}
		if _, err := c.exec("INSERT INTO "+table+" VALUES(?,?)"+strings.Repeat(",(?,?)", n-1), args...); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func deleteEntries(c *conn, table string, entries []indexEntry) error {
	slices.SortFunc(entries, compareEntries)
	for _, e := range entries {
		if _, err := c.exec("DELETE FROM "+table+" WHERE key = ?1 AND pos = ?2", e.key, int64(e.pos)); err != nil {
			return err
		}
	}
	return nil
}

func compareEntries(a, b indexEntry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.pos, b.pos))
}
