package sqlite

import (
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// trimRows deletes up to n of the class's oldest rows, none behind upTo, and
// tells how many. They are in the index.
func trimRows(c *conn, class int, upTo attend.Position, n int) (int, error) {
	m, err := readMarks(c)
	if err != nil {
		return 0, err
	}
	var entries []journal.Entry
	var places []int64
	for row, err := range c.rows(`SELECT l.pos, l.type, l.scope, l.id FROM attend_log_index i CROSS JOIN attend_log l ON l.pos = i.pos
		WHERE i.key = ?1 AND i.pos <= ?2 ORDER BY i.pos LIMIT ?3`, int64(journal.ClassKey(class)), int64(upTo), int64(n)) {
		if err != nil {
			return 0, err
		}
		pos := integer(row[0])
		places = append(places, pos)
		entries = journal.RowEntries(entries, attend.Position(pos), attend.RowType(blob(row[1])), attend.Scope(blob(row[2])), attend.DecisionID(blob(row[3])))
	}
	if len(places) == 0 {
		return 0, nil
	}
	if err := deleteEntries(c, "attend_log_index", entries); err != nil {
		return 0, err
	}
	for _, pos := range places {
		if _, err := c.exec("DELETE FROM attend_log WHERE pos = ?1", pos); err != nil {
			return 0, err
		}
	}
	m.Kept[class] -= int64(len(places))
	m.Trimmed[class] = attend.Position(places[len(places)-1])
	return len(places), writeMarks(c, m)
}
