package bolt

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// marks say how far the decision log goes, and how much of it is in the index.
type marks struct {
	newest  attend.Position // the bucket's counter
	indexed attend.Position // rows up to here are in the index
	// By class: how many rows of those in the index are kept, and the newest
	// position that was trimmed.
	kept    [2]uint64
	trimmed [2]attend.Position
}

// class is what retention counts a type with: decisions and dead letters, or
// verdict rows.
func class(t attend.RowType) int {
	if t == attend.RowVerdict {
		return 1
	}
	return 0
}

func readMarks(tx *bbolt.Tx) (m marks, err error) {
	m.newest = attend.Position(tx.Bucket(bucketLog).Sequence())
	v := tx.Bucket(bucketMeta).Get(metaMarks)
	if v == nil {
		return m, nil
	}
	if len(v) != 40 {
		return m, fmt.Errorf("the log's marks can't be read: %w", attend.ErrCorrupt)
	}
	m.indexed = attend.Position(number(v))
	for c := range m.kept {
		m.kept[c] = number(v[8+16*c:])
		m.trimmed[c] = attend.Position(number(v[16+16*c:]))
	}
	return m, nil
}

func (m *marks) write(tx *bbolt.Tx) error {
	v := key(uint64(m.indexed))
	for c := range m.kept {
		v = binary.BigEndian.AppendUint64(v, m.kept[c])
		v = binary.BigEndian.AppendUint64(v, uint64(m.trimmed[c]))
	}
	return tx.Bucket(bucketMeta).Put(metaMarks, v)
}

func (m *marks) bounds(epoch string) attend.Bounds {
	return attend.Bounds{Epoch: epoch, Newest: m.newest, Trimmed: m.trimmed[0], TrimmedVerdicts: m.trimmed[1]}
}
