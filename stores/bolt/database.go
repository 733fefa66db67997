package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// A database is a handle on a file.
type database struct {
	db   *bbolt.DB
	name string
	at   *journal.File // what is at its path
	file *os.File      // of db, which is closed with the handle; nil: it is somebody else's
	turn chan struct{} // who writes has put a token in
	look chan struct{} // the same for who reads and waits until nobody writes
	done chan struct{} // closed by close
	back sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// What makes every later call fail: the file is damaged, or nobody knows
	// what of it is on the disk.
	broken error
	stuck  bool // bbolt's own locks may be held for good
	// The newest transaction that is on the disk for certain. bbolt shows one to
	// readers when it is written, before it is synced.
	synced int
	life   journal.Life // how far its logs went when this handle wrote last
}

// openFile opens the file, and makes it if there is none.
func openFile(ctx context.Context, file string, patience time.Duration) (*database, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if file == "" {
		return nil, &attend.InvalidError{Field: "file", Want: "a path"}
	}
	if patience <= 0 {
		patience = time.Second
	}
	info, err := os.Stat(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: it is no regular file", file)
	}
	fresh := err != nil || info.Size() == 0
	if !fresh {
		if err := checkFile(file, patience); err != nil {
			return nil, opening(file, err)
		}
	}
	db, f, err := openBolt(file, &bbolt.Options{
		Timeout: patience, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapSize(),
	})
	if err == nil && fresh {
		err = syncFolder(filepath.Dir(file))
	}
	if err != nil {
		if db != nil {
			db.Close()
		}
		return nil, opening(file, err)
	}
	at, err := journal.FileAt(file)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d := newDatabase(db, file, f)
	d.at = at
	if err := d.create(ctx, false); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func openShared(ctx context.Context, db *bbolt.DB) (*database, error) {
	at, err := journal.FileAt(db.Path())
	if err != nil {
		return nil, err
	}
	d := newDatabase(db, db.Path(), nil)
	d.at = at
	if err := d.create(ctx, true); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func newDatabase(db *bbolt.DB, name string, file *os.File) *database {
	return &database{db: db, name: name, file: file, turn: make(chan struct{}, 1), look: make(chan struct{}, 1), done: make(chan struct{})}
}

// mapSize is how much address space the file's map gets at first. Growing past
// it waits for readers.
func mapSize() int {
	if strconv.IntSize < 64 || runtime.GOOS == "windows" { // where the file would get that long
		return 0
	}
	return 1 << 30
}

// openBolt is bbolt.Open with an error for a panic.
func openBolt(file string, o *bbolt.Options) (db *bbolt.DB, f *os.File, err error) {
	o.OpenFile = func(name string, flag int, perm os.FileMode) (_ *os.File, err error) {
		f, err = os.OpenFile(name, flag, perm)
		return f, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, damaged(p)
			if f != nil {
				f.Close() // and with it its lock
			}
		}
	}()
	db, err = bbolt.Open(file, 0o600, o)
	return db, f, err
}

// damaged is the error for a panic of bbolt's.
func damaged(p any) error { return fmt.Errorf("bbolt stopped with %v: %w", p, attend.ErrCorrupt) }

// opening says what bbolt's errors mean for the file.
func opening(file string, err error) error {
	if errors.Is(err, berrors.ErrTimeout) {
		return fmt.Errorf("%s: %w%s", file, ErrLocked, holder(file))
	}
	if _, named := errors.AsType[*os.PathError](err); named {
		return err
	}
	return fmt.Errorf("%s: %w", file, err)
}

// notBolt says what it means that bbolt can't open a file to read it, unless the
// system or a lock is in the way.
func notBolt(err error) error {
	if _, system := errors.AsType[syscall.Errno](err); system || errors.Is(err, berrors.ErrTimeout) || errors.Is(err, attend.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("it is no bbolt database, or a damaged one: %w: %w", attend.ErrCorrupt, err)
}

// syncFolder makes a new file's name last.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// background runs f until the database is closed.
func (d *database) background(f func()) { d.back.Go(f) }

func (d *database) close() error {
	d.mu.Lock()
	closed, stuck, life := d.closed, d.stuck, d.life
	d.closed = true
	d.mu.Unlock()
	if closed {
		return nil
	}
	close(d.done)
	d.back.Wait()
	if life != (journal.Life{}) {
		d.at.Note(life)
	}
	if d.file == nil {
		return nil
	}
	err := error(nil)
	if stuck {
		err = d.file.Close() // and with it its lock; bbolt's own Close would wait for ever
	} else {
		err = d.db.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// enter is an error where the call has no business here any more.
func (d *database) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return attend.ErrClosed
	}
	return d.broken
}

// explain names the file in bbolt's errors, and says what they mean.
func (d *database) explain(err error) error {
	switch {
	case errors.Is(err, attend.ErrClosed), errors.Is(err, berrors.ErrDatabaseNotOpen):
		return attend.ErrClosed
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s: no room is left: %w", d.name, err)
	}
	return fmt.Errorf("%s: %w", d.name, err)
}

// refused names the file in an error of a transaction's function, if it is
// about the file.
func (d *database) refused(err error) error {
	if errors.Is(err, attend.ErrCorrupt) || errors.Is(err, attend.ErrNewer) {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return err
}
