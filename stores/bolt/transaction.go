package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// update calls f in a transaction that writes, and returns when it is on the
// disk. What f returns is f's error. When f had none, any error leaves open
// whether it landed, but what comes next sees it or sees it not.
func (d *database) update(ctx context.Context, f func(*bbolt.Tx) error) error {
	if err := d.take(ctx, d.turn); err != nil {
		return err
	}
	tx, err := d.writer(ctx, d.turn)
	if err != nil {
		return err
	}
	defer func() { <-d.turn }()
	return d.write(tx, f)
}

// take puts a token into a turn.
func (d *database) take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.done:
		return attend.ErrClosed
	}
}

// writer begins a transaction that writes, for the one whose turn it is. The turn
// is over when there is an error.
//
// In a database that is shared others write as long as they like, and bbolt waits
// for them whatever becomes of ctx or of this handle. So a goroutine does it
// there, which outlives the call that leaves. It has the turn until it is
// through: there is one of them at most.
func (d *database) writer(ctx context.Context, turn chan struct{}) (*bbolt.Tx, error) {
	if err := d.enter(ctx); err != nil {
		<-turn
		return nil, err
	}
	if d.file != nil {
		tx, err := d.beginTx(true)
		if err != nil {
			<-turn
		}
		return tx, err
	}
	type begun struct {
		tx  *bbolt.Tx
		err error
	}
	came, left := make(chan begun), make(chan struct{})
	go func() {
		tx, err := d.beginTx(true)
		select {
		case came <- begun{tx, err}:
			return
		case <-left:
		}
		if err == nil {
			tx.Rollback()
		}
		<-turn
	}()
	select {
	case b := <-came:
		if b.err != nil {
			<-turn
		}
		return b.tx, b.err
	case <-ctx.Done():
		close(left)
		return nil, ctx.Err()
	case <-d.done:
		close(left)
		return nil, attend.ErrClosed
	}
}

// beginTx is bbolt's Begin with an error for a panic, which leaves with its
// locks.
func (d *database) beginTx(writes bool) (tx *bbolt.Tx, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			tx, err = nil, d.breaks(damaged(p), true)
		}
	}()
	if tx, err = d.db.Begin(writes); err != nil {
		return nil, d.explain(err)
	}
	return tx, nil
}

func (d *database) write(tx *bbolt.Tx, f func(*bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
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
	return d.read(ctx, f)
}

func (d *database) read(ctx context.Context, f func(*bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = d.explain(damaged(p))
		}
	}()
	if err := d.at.InPlace(); err != nil {
		return d.explain(err)
	}
	tx, err := d.reader(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return d.refused(f(tx))
}

// reader begins a transaction that reads. Where it shows one that may not be on
// the disk yet, it waits until that is over: what a reader told others must not
// be gone after a power cut.
func (d *database) reader(ctx context.Context) (*bbolt.Tx, error) {
	if tx, err := d.certain(); tx != nil || err != nil {
		return tx, err
	}
	// Not behind all who wait to write, and one at a time: the others find that it
	// is over.
	if err := d.take(ctx, d.look); err != nil {
		return nil, err
	}
	if tx, err := d.certain(); tx != nil || err != nil {
		<-d.look
		return tx, err
	}
	w, err := d.writer(ctx, d.look) // when nobody writes
	if err != nil {
		return nil, err
	}
	defer func() { <-d.look }()
	defer w.Rollback()
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	d.onDisk(w.ID() - 1)
	return d.beginTx(false)
}

// certain begins a transaction that reads, unless it shows one that may not
// be on the disk yet. Then it is nil.
func (d *database) certain() (*bbolt.Tx, error) {
	tx, err := d.beginTx(false)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	synced := d.synced
	d.mu.Unlock()
	if tx.ID() > synced {
		return nil, tx.Rollback()
	}
	return tx, nil
}
