package journal

import (
	"context"
	"fmt"
	"iter"
	"sync"

	attend "github.com/attend-go/attend/core"
)

// A Log is a store's decision log, on a [LogBackend]: an [attend.DecisionLog]
// and an [attend.Waiter], which say what its methods promise. Its fields are set
// before it is used, and then not changed.
type Log struct {
	Backend LogBackend
	Name    string        // of the store; its errors begin with it
	Epoch   string        // of the log
	Retain  attend.Retain // what Keep keeps; the zero one: everything

	once sync.Once
	rows chan struct{} // has a token when rows came
}

func (l *Log) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", l.Name, what, err)
}

func (l *Log) marks(ctx context.Context) (m Marks, err error) {
	err = l.Backend.View(ctx, func(r LogReader) error {
		m, err = r.Marks()
		return err
	})
	return m, err
}

// Bounds says what the log holds.
func (l *Log) Bounds(ctx context.Context) (attend.Bounds, error) {
	m, err := l.marks(ctx)
	if err != nil {
		return attend.Bounds{}, l.fail("bounds of the log", err)
	}
	return m.bounds(l.Epoch), nil
}

// Read takes a page at a time, each in a transaction of its own that is over
// when the rows are yielded. Rows that are trimmed before it came to them end
// it with a *TruncatedError, since leaving them out would be silent.
func (l *Log) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		q := q
		var seen attend.Bounds // of the page before
		for more := true; more; {
			p, now, err := l.page(ctx, q, seen)
			if err != nil {
				yield(attend.Entry{}, l.fail("read the log", err))
				return
			}
			for _, e := range p.Entries {
				if !yield(e, nil) {
					return
				}
			}
			seen, more = now, p.More
			q.After = attend.LogCursor{Epoch: l.Epoch, Position: p.Next}
		}
	}
}

func (l *Log) page(ctx context.Context, q attend.Query, seen attend.Bounds) (p Page, now attend.Bounds, err error) {
	err = l.Backend.View(ctx, func(r LogReader) error {
		m, err := r.Marks()
		if err != nil {
			return err
		}
		now = m.bounds(l.Epoch)
		// What was gone when the read began is no loss to it. It may well be
		// among rows of one class that are older than the trimmed ones of the
		// other.
		b := now
		if b.Trimmed == seen.Trimmed {
			b.Trimmed = 0
		}
		if b.TrimmedVerdicts == seen.TrimmedVerdicts {
			b.TrimmedVerdicts = 0
		}
		if err := b.Check(q); err != nil {
			return err
		}
		p, err = r.Page(q, m, q.After.Position)
		return err
	})
	return p, now, err
}

// Find returns the newest row of a type with an id. The zero type: decisions.
func (l *Log) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if t == "" {
		t = attend.RowDecision
	}
	var found *attend.Entry
	err := l.Backend.View(ctx, func(r LogReader) (err error) {
		found, err = r.Find(id, t)
		return err
	})
	if err == nil && found == nil {
		err = attend.ErrNotFound
	}
	if err != nil {
		return attend.Entry{}, l.fail("find in the log", err)
	}
	return *found, nil
}

// Wait blocks until there may be rows that q wants. The Backend is told at once
// of what this handle commits, and finds out what others do.
func (l *Log) Wait(ctx context.Context, q attend.Query) error {
	var topics []Topic
	for _, t := range Types(q) {
		for _, name := range namesOf(q.Prefix) {
			topics = append(topics, Topic{t, name})
		}
	}
	at := q.After.Position
	for {
		on := false
		err := l.Backend.Wait(ctx, topics, l.waiting(q, &at, &on))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !on {
			return l.fail("wait for the log", err)
		}
	}
}

// waitPages is how many pages a waiter looks at in one transaction.
const waitPages = 8

// waiting looks for a row that q wants behind at. Where that takes long it sets
// on, and the next look goes on: what was looked at once needs no second look.
func (l *Log) waiting(q attend.Query, at *attend.Position, on *bool) func(LogReader) (bool, attend.Position, error) {
	return func(r LogReader) (bool, attend.Position, error) {
		m, err := r.Marks()
		if err != nil {
			return false, 0, err
		}
		if m.bounds(l.Epoch).Check(q) != nil {
			return true, 0, nil
		}
		for pages, more := 0, true; more; pages++ {
			if *on = pages == waitPages; *on {
				return true, 0, nil
			}
			p, err := r.Page(q, m, *at)
			if err != nil || len(p.Entries) > 0 {
				return true, 0, err
			}
			*at, more = p.Next, p.More
		}
		*at = max(*at, m.Newest)
		return false, m.Newest, nil
	}
}
