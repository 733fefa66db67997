package sqlite

import (
	"context"
	"sync/atomic"
	"time"
)

// A checkpointer writes the log of SQLite, the file that ends in -wal, back
// into the database, on a connection of its own: in a commit that would be a
// stall of 60 to 300 ms.
type checkpointer struct {
	d     *database
	wrote chan struct{} // has a token while there is something to do
	bytes atomic.Int64  // about how much was written since the last time

	// When somebody was in the way of beginning anew, and how much was copied
	// then.
	busy   time.Time
	copied int64
}

// pageSize is SQLite's, and good enough where a caller's file has another one.
const pageSize = 4096

const (
	checkpointBytes = 16 << 20            // written before the log is written back
	checkpointIdle  = time.Second         // or after a write, if it isn't that much
	checkpointPages = 64 << 20 / pageSize // in the log before it begins anew
	checkpointRest  = 1 << 20 / pageSize  // of those, copied while nobody writes
	checkpointAgain = 10 * time.Second    // behind somebody who reads for long
)

// note counts what a transaction has written.
func (k *checkpointer) note(n int64) {
	if k.bytes.Add(n) >= checkpointBytes {
		select {
		case k.wrote <- struct{}{}:
		default:
		}
	}
}

func (k *checkpointer) run() {
	var c *conn
	defer func() {
		if c != nil {
			c.close() // there is nobody to tell
		}
	}()
	idle := time.NewTicker(checkpointIdle)
	defer idle.Stop()
	for {
		select {
		case <-k.d.done:
			return
		case <-k.wrote:
		case <-idle.C:
		}
		if k.bytes.Swap(0) == 0 {
			continue
		}
		// What fails here is tried again after the next writes. Where it goes
		// on failing, writers find out themselves.
		if c == nil {
			var err error
			if c, err = k.connect(); err != nil {
				continue
			}
		}
		if k.checkpoint(c, checkpointPages) != nil {
			c.close()
			c = nil
		}
	}
}

// connect lets others hold up beginning anew for a while: nobody can write
// meanwhile.
func (k *checkpointer) connect() (*conn, error) {
	c, err := k.d.connect(context.Background(), time.Now().Add(k.d.patience), true)
	if err != nil {
		return nil, err
	}
	if err := c.hold(func() error { return c.set("PRAGMA busy_timeout=100") }); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// checkpoint copies what is in the log without holding up anybody. That never
// comes to an end while others write, so that the log would grow: past limit
// pages the rest of it is copied while nobody writes, and the log begins anew.
// It can't while somebody reads in it. Writers wait for that once, and not again
// before there is more to copy, or that somebody has had some time.
func (k *checkpointer) checkpoint(c *conn, limit int64) error {
	var copied int64
	for range 4 {
		w, err := writeBack(c, "PASSIVE")
		if err != nil || w.pages < limit {
			return err
		}
		if copied = w.copied; w.pages-w.copied < checkpointRest {
			break
		}
	}
	if copied == k.copied && time.Since(k.busy) < checkpointAgain {
		return nil
	}
	// Our own writer would begin again between any two tries.
	w, err := k.d.take(k.d.life, k.d.writer, time.Now().Add(k.d.patience))
	if err != nil {
		return err
	}
	defer func() { k.d.writer <- w }()
	r, err := writeBack(c, "RESTART")
	if k.busy = (time.Time{}); r.busy {
		k.busy, k.copied = time.Now(), r.copied
	}
	return err
}

// written is what a checkpoint came to.
type written struct {
	busy          bool  // somebody was in the way
	pages, copied int64 // how many are in the log, and how many of those are copied
}

// writeBack does a checkpoint. One that others are in the way of is no error.
func writeBack(c *conn, mode string) (w written, err error) {
	err = c.hold(func() error {
		row, err := c.row("PRAGMA wal_checkpoint(" + mode + ")")
		if busy(err) {
			w.busy = true
			return nil
		}
		if err == nil && row != nil {
			w = written{integer(row[0]) != 0, integer(row[1]), integer(row[2])}
		}
		return err
	})
	return w, err
}
