package bolt

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// The buckets. Numbers in keys are big-endian, so that they sort.
var (
	bucketMeta    = []byte("attend/meta")         // see below
	bucketJournal = []byte("attend/journal")      // seq: tag, record; see backend.go for long ones
	bucketScopes  = []byte("attend/scopes")       // scope: version, seq, due, body
	bucketDue     = []byte("attend/due")          // due, scope
	bucketLog     = []byte("attend/log")          // position: row
	bucketIndex   = []byte("attend/log/index")    // hash, position: see index.go
	bucketEvents  = []byte("attend/events")       // position: event
	bucketKeys    = []byte("attend/events/index") // hash, position
	bucketGone    = []byte("attend/events/gone")  // scope: the newest position that was trimmed
)

// What bucketMeta holds.
var (
	metaVersion = []byte("version") // how many steps of the schema the file has had
	metaEpoch   = []byte("epoch")   // of the decision log
	metaEvents  = []byte("events")  // the epoch of the event log
	metaMarks   = []byte("marks")   // see marks.go
	metaFile    = []byte("file")    // which file of the file system it is
)

// schema are the steps that make the buckets: a file's version is how many of
// them it has had. A step that was released is never changed.
func schema() []func(*bbolt.Tx) error {
	return []func(*bbolt.Tx) error{func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketJournal, bucketScopes, bucketDue, bucketLog, bucketIndex, bucketEvents, bucketKeys, bucketGone} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		for _, name := range [][]byte{metaEpoch, metaEvents} {
			if err := meta.Put(name, []byte(rand.Text())); err != nil {
				return err
			}
		}
		return nil
	}}
}

// create makes the buckets or brings them up to date. In a shared file others
// may stand beside them.
func (d *database) create(ctx context.Context, shared bool) error {
	return d.update(ctx, func(tx *bbolt.Tx) error {
		if name, _ := tx.Cursor().First(); name != nil && !shared && tx.Bucket(bucketMeta) == nil {
			return fmt.Errorf("%s: it is a database of something else: it has none of attend's buckets", d.name)
		}
		if err := migrate(tx, schema()); err != nil {
			return err
		}
		return d.live(tx)
	})
}

// live draws new epochs where the file is a copy: what readers know of its logs
// may be of rows that are not in it.
func (d *database) live(tx *bbolt.Tx) error {
	life, err := readLife(tx)
	if err != nil {
		return err
	}
	meta := tx.Bucket(bucketMeta)
	id := string(meta.Get(metaFile))
	if !d.at.SameLife(id, life) {
		for _, name := range [][]byte{metaEpoch, metaEvents} {
			if err := meta.Put(name, []byte(rand.Text())); err != nil {
				return err
			}
		}
	}
	if is := d.at.ID(); is != "" && is != id {
		return meta.Put(metaFile, []byte(is))
	}
	return nil
}

func readLife(tx *bbolt.Tx) (l journal.Life, err error) {
	for i, name := range [][]byte{bucketLog, bucketEvents} {
		l[i].Newest = attend.Position(tx.Bucket(name).Sequence())
		if l[i].Epoch, err = epoch(tx, [][]byte{metaEpoch, metaEvents}[i]); err != nil {
			return l, err
		}
	}
	return l, nil
}

// migrate takes the steps that the file has not had.
func migrate(tx *bbolt.Tx, steps []func(*bbolt.Tx) error) error {
	meta, version := tx.Bucket(bucketMeta), uint64(0)
	if meta == nil {
		var err error
		if meta, err = tx.CreateBucket(bucketMeta); err != nil {
			return err
		}
	} else if version = number(meta.Get(metaVersion)); version == 0 {
		return fmt.Errorf("its buckets have no version: %w", attend.ErrCorrupt)
	}
	known := uint64(len(steps))
	if version > known {
		return fmt.Errorf("its buckets have version %d, this release knows %d: %w", version, known, attend.ErrNewer)
	}
	for _, step := range steps[version:] {
		if err := step(tx); err != nil {
			return err
		}
	}
	for _, name := range [][]byte{bucketJournal, bucketScopes, bucketDue, bucketLog, bucketIndex, bucketEvents, bucketKeys, bucketGone} {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("its bucket %s is missing: %w", name, attend.ErrCorrupt)
		}
	}
	if version == known {
		return nil
	}
	return meta.Put(metaVersion, key(known))
}

// epoch reads one of the epochs.
func epoch(tx *bbolt.Tx, name []byte) (string, error) {
	e := string(tx.Bucket(bucketMeta).Get(name))
	if e == "" || len(e) > 200 {
		return "", fmt.Errorf("its log has no epoch: %w", attend.ErrCorrupt)
	}
	return e, nil
}

// key is a number as a key.
func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// number reads a key's first number, 0 where there is none.
func number(k []byte) uint64 {
	if len(k) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(k)
}
