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
	return &database{db: db, name: name, file: file, turn: make(chan struct{}, 1), done: make(chan struct{})}
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

// update calls f in a transaction that writes, and returns when it is on the
// disk. What f returns is f's error. When f had none, any error leaves open
// whether it landed, but what comes next sees it or sees it not.
func (d *database) update(ctx context.Context, f func(*bbolt.Tx) error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-d.done:
		return attend.ErrClosed
	}
	if err := d.enter(ctx); err != nil {
		return err
	}
	return d.write(f)
}

func (d *database) write(f func(*bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := d.db.Begin(true)
	if err != nil {
		return d.explain(err)
	}
	id := tx.ID()
	committing := false
	defer func() {
		p := recover()
		if !committing {
			tx.Rollback() // also where f ended its goroutine; after another Rollback it does nothing
		}
		switch {
		case p == nil:
		case committing: // it has left with its locks, so nobody calls it again
			err = d.breaks(damaged(p), true)
		default:
			err = d.explain(damaged(p))
		}
	}()
	if err := d.at.Check(); err != nil {
		return d.explain(err)
	}
	if err := f(tx); err != nil {
		return d.refused(err)
	}
	life, err := readLife(tx)
	if err != nil {
		return d.refused(err)
	}
	// Not by Update: when there is a panic it goes through the whole file, in
	// another goroutine, where the next one ends the process.
	committing = true
	if err := tx.Commit(); err != nil {
		return d.failed(id, err)
	}
	d.onDisk(id)
	d.note(life)
	return nil
}

// note keeps how far the logs go, in the mark too now and then.
func (d *database) note(life journal.Life) {
	d.mu.Lock()
	d.life = life
	d.mu.Unlock()
	if d.at.Due() {
		d.at.Note(life)
	}
}

// failed finds out what is left of a transaction that could not be committed.
// Mostly nothing: there was no room, say, and the next one may find some. But
// where its last page is written and the sync fails, the system may well take
// the page for written from then on; no later sync can be believed.
func (d *database) failed(id int, err error) error {
	tx, e := d.db.Begin(false)
	if e != nil {
		return d.explain(errors.Join(err, e))
	}
	shown := tx.ID()
	tx.Rollback()
	if shown < id {
		return d.explain(err)
	}
	return d.breaks(fmt.Errorf("what is on the disk is unknown, it has to be opened anew: %w", err), false)
}

func (d *database) breaks(err error, stuck bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = fmt.Errorf("%s: %w", d.name, err)
	}
	d.stuck = d.stuck || stuck
	return d.broken
}

func (d *database) onDisk(id int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = max(d.synced, id)
}

// view calls f in a transaction that reads, of what is on the disk.
func (d *database) view(ctx context.Context, f func(*bbolt.Tx) error) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	return d.read(f)
}

func (d *database) read(f func(*bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = d.explain(damaged(p))
		}
	}()
	if err := d.at.InPlace(); err != nil {
		return d.explain(err)
	}
	tx, err := d.begin()
	if err != nil {
		return d.explain(err)
	}
	defer tx.Rollback()
	return d.refused(f(tx))
}

// begin begins a transaction that reads. Where it shows one that may not be on
// the disk yet, it waits until that is over: what a reader told others must not
// be gone after a power cut.
func (d *database) begin() (*bbolt.Tx, error) {
	for {
		tx, err := d.db.Begin(false)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		synced := d.synced
		d.mu.Unlock()
		if tx.ID() <= synced {
			return tx, nil
		}
		if err := tx.Rollback(); err != nil {
			return nil, err
		}
		w, err := d.db.Begin(true) // when nobody writes
		if err != nil {
			return nil, err
		}
		d.onDisk(w.ID() - 1)
		if err := w.Rollback(); err != nil {
			return nil, err
		}
		if err := d.enter(context.Background()); err != nil {
			return nil, err
		}
	}
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
