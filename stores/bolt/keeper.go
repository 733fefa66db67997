package bolt

import (
	"context"
	"math"
	"time"

	"go.etcd.io/bbolt"

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
			// What fails is tried again with the next rows: a full disk. Commits
			// fail then as well, and tell.
			var err error
			if more, err = k.step(context.Background()); err != nil {
				more = false
			}
		}
	}
}

// step does some of what is to be done, and reports whether it did.
func (k *keeper) step(ctx context.Context) (did bool, err error) {
	var t task
	err = k.l.d.view(ctx, func(tx *bbolt.Tx) (err error) {
		t, err = k.look(tx)
		return err
	})
	if err != nil || t == (task{}) {
		return false, err
	}
	err = k.l.d.update(ctx, func(tx *bbolt.Tx) error {
		done := 0
		if t.index {
			if done, err = indexRows(tx, indexStep); err != nil {
				return err
			}
		}
		t, err := k.look(tx) // what came into the index counts now
		if err != nil {
			return err
		}
		for class, n := range t.trim {
			trimmed, err := trimRows(tx, class, math.MaxUint64, n)
			if err != nil {
				return err
			}
			done += trimmed
		}
		did = done > 0
		return nil
	})
	return did, err
}

// A task is what a step has to do.
type task struct {
	index bool
	trim  [2]int // so many rows of each class, the oldest
}

func (k *keeper) look(tx *bbolt.Tx) (t task, err error) {
	m, err := readMarks(tx)
	if err != nil {
		return t, err
	}
	t.index = m.newest-m.indexed >= k.behind()
	for class, limit := range [2]int{k.keep.Count, k.keep.Verdicts} {
		if limit > 0 && m.kept[class] > uint64(limit) {
			t.trim[class] = int(min(m.kept[class]-uint64(limit), trimStep))
		}
		if k.keep.Age > 0 && t.trim[class] < trimStep {
			n, err := k.old(tx, class)
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
func (k *keeper) behind() attend.Position {
	n := indexBehind
	for _, limit := range []int{k.keep.Count, k.keep.Verdicts} {
		if limit > 0 {
			n = min(n, max(1, limit/16))
		}
	}
	if k.keep.Age > 0 {
		n = min(n, 16)
	}
	return attend.Position(n)
}

// old is how many of the class's oldest rows are over the age, of those that
// one step can take. It counts from the newest row's time, not from a clock: a
// log that is replayed from last year's events is not emptied.
func (k *keeper) old(tx *bbolt.Tx, class int) (n int, err error) {
	index := tx.Bucket(bucketIndex)
	cutoff := int64(math.MinInt64)
	for pos := range placesBack(index, classHash(class), math.MaxUint64) {
		r, ok, err := readRow(tx, pos)
		if err != nil {
			return 0, err
		}
		if ok {
			cutoff = r.at - k.keep.Age.Milliseconds()
			break
		}
	}
	for pos := range places(index, classHash(class), 0) {
		r, ok, err := readRow(tx, pos)
		if err != nil {
			return 0, err
		}
		if n == trimStep || ok && r.at >= cutoff {
			break
		}
		n++
	}
	return n, nil
}
