package bolt

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// Update calls f in a transaction of the store's.
func Update(ctx context.Context, s *Store, f func(*bbolt.Tx) error) error { return s.d.update(ctx, f) }

// View calls f in a transaction of the store's.
func View(ctx context.Context, s *Store, f func(*bbolt.Tx) error) error { return s.d.view(ctx, f) }

// Unsynced makes the store forget which transactions are on the disk.
func Unsynced(s *Store) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.synced = 0
}

// Fail is what happens when a commit ended with an error, of the newest
// transaction that a reader sees or of one that it doesn't see.
func Fail(s *Store, visible bool) error {
	id := 0
	if err := s.d.db.View(func(tx *bbolt.Tx) error { id = tx.ID(); return nil }); err != nil {
		return err
	}
	if !visible {
		id++
	}
	return s.d.failed(id, errors.New("input/output error"))
}

// Indexed is how many rows of the log are in its index, and how many entries
// the index has.
func Indexed(s *Store) (rows, entries int, err error) {
	err = s.d.view(context.Background(), func(tx *bbolt.Tx) error {
		m, err := readMarks(tx)
		rows = int(m.Kept[0] + m.Kept[1])
		entries = tx.Bucket(bucketIndex).Stats().KeyN
		return err
	})
	return rows, entries, err
}

// Migrate opens a database with steps beyond those of this release.
func Migrate(db *bbolt.DB, more ...func(*bbolt.Tx) error) error {
	return db.Update(func(tx *bbolt.Tx) error { return migrate(tx, append(schema(), more...)) })
}

// HolderPid finds the process that holds an inode in a list of locks.
func HolderPid(locks, inode string) int { return holderPid(locks, inode) }

// Beside is what package journal folds along with a scope.
func Beside(s *Store, scope attend.Scope) (found []attend.Scope, err error) {
	err = s.d.view(context.Background(), func(tx *bbolt.Tx) error {
		found, err = (&jreader{tx}).Beside(scope)
		return err
	})
	return found, err
}
