package sqlite

import (
	"context"
	"math"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A keeper keeps the log's index up to date and applies a store's own Retain,
// in the background.
type keeper struct {
	l    *decisionLog
	keep attend.Retain
	rows chan struct{} // has a token when rows came
}

// keeperPause lets others write between two steps, and rows come together.
const keeperPause = 20 * time.Millisecond

func (k *keeper) note() {
	select {
	case k.rows <- struct{}{}:
	default:
	}
}

func (k *keeper) run() {
	k.note() // what an earlier process has left
	for {
		select {
		case <-k.l.d.done:
			return
		case <-k.rows:
		}
		for more := true; more; {
			select {
			case <-k.l.d.done:
				return
			case <-time.After(keeperPause):
			}
			// What fails is tried again with the next rows: a full disk, or
			// somebody who holds the lock. Commits fail then as well, and tell.
			var err error
			if more, err = k.step(context.Background()); err != nil {
				more = false
			}
		}
	}
}

// step does some of what is to be done, and reports whether there was any.
func (k *keeper) step(ctx context.Context) (bool, error) {
	var t task
	err := k.l.d.view(ctx, func(c *conn) (err error) {
		t, err = k.look(c)
		return err
	})
	if err != nil || t == (task{}) {
		return false, err
	}
	return true, k.l.d.update(ctx, func(c *conn) error {
		if t.index {
			if _, err := indexRows(c, indexStep); err != nil {
				return err
			}
		}
		t, err := k.look(c) // others may have done it, and what is in the index counts now
		if err != nil {
			return err
		}
		for class, n := range t.trim {
			if _, err := trimRows(c, class, math.MaxInt64, n); n > 0 && err != nil {
				return err
			}
		}
		return nil
	})
}

// A task is what a step has to do.
type task struct {
	index bool
	trim  [2]int // so many rows of each class, the oldest
}

func (k *keeper) look(c *conn) (t task, err error) {
	m, err := readMarks(c)
	if err != nil {
		return t, err
	}
	t.index = int64(m.newest-m.indexed) >= k.behind()
	for class, limit := range [2]int{k.keep.Count, k.keep.Verdicts} {
		if limit > 0 {
			t.trim[class] = int(min(max(m.kept[class]-int64(limit), 0), trimStep))
		}
		if k.keep.Age > 0 && t.trim[class] < trimStep {
			n, err := k.old(c, class)
			if err != nil {
				return t, err
			}
			t.trim[class] = max(t.trim[class], n)
		}
	}
	return t, nil
}

// behind is how many rows may be missing in the index. What retention counts is
// in it.
func (k *keeper) behind() int64 {
	n := indexBehind
	for _, limit := range []int{k.keep.Count, k.keep.Verdicts} {
		if limit > 0 {
			n = min(n, max(1, limit/16))
		}
	}
	if k.keep.Age > 0 {
		n = min(n, 16)
	}
	return int64(n)
}

// old is how many of the class's oldest rows are over the age, of those that
// one step can take. It counts from the newest row's time, not from a clock: a
// log that is replayed from last year's events is not emptied.
func (k *keeper) old(c *conn, class int) (n int, err error) {
	const times = `SELECT l.at FROM attend_log_index i CROSS JOIN attend_log l ON l.pos = i.pos WHERE i.key = ?1 ORDER BY i.pos `
	newest, err := c.number(times+"DESC LIMIT 1", classKey(class))
	if err != nil {
		return 0, err
	}
	for row, err := range c.rows(times+"LIMIT ?2", classKey(class), int64(trimStep)) {
		if err != nil {
			return 0, err
		}
		if integer(row[0]) >= newest-k.keep.Age.Milliseconds() {
			break
		}
		n++
	}
	return n, nil
}
