package sqlite

import (
	"errors"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

func readMarks(c *conn) (m journal.Marks, err error) {
	row, err := c.row("SELECT indexed, kept, kept_verdicts, trimmed, trimmed_verdicts FROM attend_marks")
	if err != nil || row == nil {
		return m, gone(err)
	}
	m.Indexed = attend.Position(integer(row[0]))
	m.Kept = [2]int64{integer(row[1]), integer(row[2])}
	m.Trimmed = [2]attend.Position{attend.Position(integer(row[3])), attend.Position(integer(row[4]))}
	newest, err := c.number("SELECT max(pos) FROM attend_log")
	// A row that is not there any more was trimmed, and is its class's mark.
	m.Newest = max(attend.Position(newest), m.Trimmed[0], m.Trimmed[1])
	return m, err
}

// writeMarks leaves out the newest row, which is in the log itself.
func writeMarks(c *conn, m journal.Marks) error {
	_, err := c.exec("UPDATE attend_marks SET indexed = ?1, kept = ?2, kept_verdicts = ?3, trimmed = ?4, trimmed_verdicts = ?5",
		int64(m.Indexed), m.Kept[0], m.Kept[1], int64(m.Trimmed[0]), int64(m.Trimmed[1]))
	return err
}

// gone says that a row that is made with the tables is not there.
func gone(err error) error {
	if err == nil {
		err = errors.Join(attend.ErrCorrupt, errors.New("attend_marks is empty"))
	}
	return err
}
