package bolt

import (
	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// trimRows deletes up to n of the class's oldest rows, none behind upTo, and
// tells how many. They are in the index.
func trimRows(tx *bbolt.Tx, class int, upTo attend.Position, n int) (int, error) {
	m, err := readMarks(tx)
	if err != nil {
		return 0, err
	}
	var all []journal.Entry
	var gone []attend.Position
	for pos := range places(tx.Bucket(bucketIndex), journal.ClassKey(class), 0) {
		if pos > upTo || len(gone) == n {
			break
		}
		r, ok, err := readRow(tx, pos)
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, badRow(pos)
		}
		all = r.entries(all)
		gone = append(gone, pos)
	}
	if len(gone) == 0 {
		return 0, nil
	}
	if err := drop(tx.Bucket(bucketIndex), all); err != nil {
		return 0, err
	}
	for _, pos := range gone {
		if err := tx.Bucket(bucketLog).Delete(key(uint64(pos))); err != nil {
			return 0, err
		}
	}
	m.Kept[class] = max(0, m.Kept[class]-int64(len(gone)))
	m.Trimmed[class] = gone[len(gone)-1]
	return len(gone), writeMarks(tx, m)
}
