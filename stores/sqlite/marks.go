package sqlite

import (
	"errors"

	attend "github.com/attend-go/attend/core"
)

// marks is what the file keeps of its logs beside their rows. Rows of a log are
// trimmed from the oldest on, class by class.
type marks struct {
	indexed attend.Position    // rows up to here are in the index; readers go through the rest
	kept    [2]int64           // rows of each class up to there
	trimmed [2]attend.Position // of each class
	newest  attend.Position    // ever appended
}

func readMarks(c *conn) (m marks, err error) {
	row, err := c.row("SELECT indexed, kept, kept_verdicts, trimmed, trimmed_verdicts FROM attend_marks")
	if err != nil || row == nil {
		return m, gone(err)
	}
	m.indexed = attend.Position(integer(row[0]))
	m.kept = [2]int64{integer(row[1]), integer(row[2])}
	m.trimmed = [2]attend.Position{attend.Position(integer(row[3])), attend.Position(integer(row[4]))}
	newest, err := c.number("SELECT max(pos) FROM attend_log")
	// A row that is not there any more was trimmed, and is its class's mark.
	m.newest = max(attend.Position(newest), m.trimmed[0], m.trimmed[1])
	return m, err
}

func (m *marks) write(c *conn) error {
	_, err := c.exec("UPDATE attend_marks SET indexed = ?1, kept = ?2, kept_verdicts = ?3, trimmed = ?4, trimmed_verdicts = ?5",
		int64(m.indexed), m.kept[0], m.kept[1], int64(m.trimmed[0]), int64(m.trimmed[1]))
	return err
}

func (m *marks) bounds(epoch string) attend.Bounds {
	return attend.Bounds{Epoch: epoch, Newest: m.newest, Trimmed: m.trimmed[0], TrimmedVerdicts: m.trimmed[1]}
}

// gone says that a row that is made with the tables is not there.
func gone(err error) error {
	if err == nil {
		err = errors.Join(attend.ErrCorrupt, errors.New("attend_marks is empty"))
	}
	return err
}
