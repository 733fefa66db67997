package bolt

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

func readMarks(tx *bbolt.Tx) (m journal.Marks, err error) {
	m.Newest = attend.Position(tx.Bucket(bucketLog).Sequence())
	v := tx.Bucket(bucketMeta).Get(metaMarks)
	if v == nil {
		return m, nil
	}
	if len(v) != 40 {
		return m, fmt.Errorf("the log's marks can't be read: %w", attend.ErrCorrupt)
	}
	m.Indexed = attend.Position(number(v))
	for c := range m.Kept {
		m.Kept[c] = int64(number(v[8+16*c:]))
		m.Trimmed[c] = attend.Position(number(v[16+16*c:]))
	}
	return m, nil
}

// writeMarks leaves out the newest row, which is the bucket's counter.
func writeMarks(tx *bbolt.Tx, m journal.Marks) error {
	v := key(uint64(m.Indexed))
	for c := range m.Kept {
		v = binary.BigEndian.AppendUint64(v, uint64(m.Kept[c]))
		v = binary.BigEndian.AppendUint64(v, uint64(m.Trimmed[c]))
	}
	return tx.Bucket(bucketMeta).Put(metaMarks, v)
}
