package journal

import (
	"context"
	"math"
	"time"

	attend "github.com/attend-go/attend/core"
)

const (
	// IndexBehind is how many rows may be missing in the index while a Log is
	// kept. Where that is four times as many, nobody keeps it, as with processes
	// that live for one commit: commits then do some of it.
	IndexBehind = 1024
	// IndexStep is how many rows one transaction brings into the index.
	IndexStep = 512

	pause = 20 * time.Millisecond // between two steps: others can write, and rows come together
	again = 10 * time.Second      // after a step that failed
)

// Grown says that rows were appended: Keep has something to do.
func (l *Log) Grown() {
	select {
	case l.grown() <- struct{}{}:
	default:
	}
}

func (l *Log) grown() chan struct{} {
	l.once.Do(func() { l.rows = make(chan struct{}, 1) })
	return l.rows
}

// Keep keeps the index up to date and applies Retain, until done is closed. One
// goroutine of each handle is for that.
func (l *Log) Keep(done <-chan struct{}) {
	l.Grown() // what an earlier process has left
	var retry <-chan time.Time
	for {
		select {
		case <-done:
			return
		case <-l.grown():
		case <-retry:
		}
		retry = nil
		for more := true; more; {
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
			// What fails is tried again with the next rows, or a while later: a
			// full disk, or somebody who holds the lock. Commits fail then as well,
			// and tell.
			var err error
			if more, err = l.step(context.Background()); err != nil {
				more, retry = false, time.After(again)
			}
		}
	}
}

// step does some of what is to be done, and reports whether it did.
func (l *Log) step(ctx context.Context) (did bool, err error) {
	var t task
	err = l.Backend.View(ctx, func(r LogReader) (err error) {
		t, err = l.look(r)
		return err
	})
	if err != nil || t == (task{}) {
		return false, err
	}
	err = l.Backend.Update(ctx, func(tx LogTx) error {
		done := 0
		if t.index {
			if done, err = tx.Index(IndexStep); err != nil {
				return err
			}
		}
		t, err := l.look(tx) // others may have done it, and what came into the index counts now
		if err != nil {
			return err
		}
		for class, n := range t.trim {
			trimmed, err := trimOldest(tx, class, n)
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

func (l *Log) look(r LogReader) (t task, err error) {
	m, err := r.Marks()
	if err != nil {
		return t, err
	}
	t.index = m.Newest-m.Indexed >= l.behind()
	for class, limit := range [2]int{l.Retain.Count, l.Retain.Verdicts} {
		t.trim[class] = m.surplus(class, limit)
		if l.Retain.Age > 0 && t.trim[class] < trimStep {
			n, err := l.old(r, class)
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
func (l *Log) behind() attend.Position {
	n := IndexBehind
	for _, limit := range []int{l.Retain.Count, l.Retain.Verdicts} {
		if limit > 0 {
			n = min(n, max(1, limit/16))
		}
	}
	if l.Retain.Age > 0 {
		n = min(n, 16)
	}
	return attend.Position(n)
}

// old is how many of the class's oldest rows are over the age, of those that
// one step can take. It counts from the newest row's time, not from a clock: a
// log that is replayed from last year's events is not emptied.
func (l *Log) old(r LogReader, class int) (n int, err error) {
	cutoff := int64(math.MinInt64)
	for p, err := range r.Newest(class, math.MaxInt64) {
		if err != nil {
			return 0, err
		}
		cutoff = p.At - l.Retain.Age.Milliseconds()
		break
	}
	for p, err := range r.Oldest(class) {
		if err != nil {
			return 0, err
		}
		if n == trimStep || p.At >= cutoff {
			break
		}
		n++
	}
	return n, nil
}
