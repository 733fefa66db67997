package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	sqlite3 "github.com/mattn/go-sqlite3"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// ErrLocked says that others kept the file locked for longer than
// [Config.Patience]: somebody holds a transaction open, in this process or
// another. Nothing was written. It may be tried again.
var ErrLocked = errors.New("somebody keeps it locked")

// ErrReplaced says that the file was deleted, or another one put in its place,
// while a handle had it open. The handle is of no use any more: close it, and
// open what is there now. Nothing was written.
var ErrReplaced = journal.ErrReplaced

// errNoConn says that the caller's pool is empty.
var errNoConn = errors.New("no connection of the *sql.DB is free")

// busy reports whether err goes away by waiting. Each of them is an error of a
// lock that could not be had, and nothing was done.
func busy(err error) bool {
	return isAny(err, sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrProtocol)
}

// isAny reports whether err is SQLite's, with one of the codes.
func isAny(err error, codes ...sqlite3.ErrNo) bool {
	e, ok := errors.AsType[sqlite3.Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// broken reports whether err is SQLite's. A connection that had one is not used
// again: some leave it in a state of its own.
func broken(err error) bool {
	_, ok := errors.AsType[sqlite3.Error](err)
	return ok
}

// explain names the file, and says what SQLite's codes mean for it. SQLite's
// own error stays within reach.
func (d *database) explain(err error) error {
	if err == nil || errors.Is(err, attend.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	what := ""
	switch {
	case errors.Is(err, ErrLocked), errors.Is(err, ErrReplaced):
	case isAny(err, sqlite3.ErrFull):
		what = "no room is left: "
	case isAny(err, sqlite3.ErrReadonly):
		what, err = "it can't be written to: ", d.because(err)
	case isAny(err, sqlite3.ErrCantOpen, sqlite3.ErrPerm):
		what, err = "it can't be opened, or a file beside it: ", d.because(err)
	case isAny(err, sqlite3.ErrIoErr):
		what = "reading or writing failed: "
	case isAny(err, sqlite3.ErrNotADB):
		what = "it is no SQLite database: "
	case isAny(err, sqlite3.ErrCorrupt):
		return fmt.Errorf("%s: %w: %w", d.file, attend.ErrCorrupt, err)
	}
	return fmt.Errorf("%s: %s%w", d.file, what, err)
}

// because adds to SQLite's error that no file can be made in the folder, if that
// is so. It keeps its log there, and says no more than that this isn't there, or
// that the file can't be written to.
func (d *database) because(err error) error {
	e, ok := errors.AsType[sqlite3.Error](err)
	why := d.folder()
	if !ok || why == nil {
		return err
	}
	e.SystemErrno = 0 // of a file that it looked for
	return fmt.Errorf("no file can be made in its folder: %w: %w", why, e)
}

// folder returns why no file can be made where the file is. Nil: one can be made,
// or there is no such folder. The file itself is not tried: who opens and closes
// it gives up the locks that this process has on it.
func (d *database) folder() error {
	file := d.file
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".attend-*")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err // without the name, which nobody knows
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
