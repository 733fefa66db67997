package journal

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	attend "github.com/attend-go/attend/core"
)

// A Batch is one Append of an event log, with all that can be done before its
// transaction.
type Batch struct {
	Scope  attend.Scope
	Events []BatchEvent

	done chan struct{} // closed when err says how it went
	err  error
}

// A BatchEvent is an event as it is kept.
type BatchEvent struct {
	ID   string
	Body []byte // JSON
}

// MakeBatch returns the batch of clean events. Its error is an
// [*attend.EventError].
func MakeBatch(scope attend.Scope, in []attend.Event) (*Batch, error) {
	b := &Batch{Scope: scope, Events: make([]BatchEvent, len(in)), done: make(chan struct{})}
	for i, e := range in {
		e, err := e.Clean()
		if err == nil {
			b.Events[i].ID = e.ID
			b.Events[i].Body, err = json.Marshal(e)
		}
		if err != nil {
			return nil, &attend.EventError{Index: i, Err: err}
		}
	}
	return b, nil
}

// A Line is the batches that wait for a transaction, which those that come
// together share. The zero Line is empty. Append may be called from many
// goroutines at once.
type Line struct {
	mu      sync.Mutex
	waiting []*Batch
	turn    chan struct{} // who commits has put a token in
}

// Append puts b into the line, and returns when it was committed, or has left
// the line, with ctx's error or one of commit's. Whoever has the turn calls
// commit, for all who wait. It begins a transaction and in that calls take, for
// the batches to add: its error is that of all of them. When it did not come to
// that, it is the caller's alone.
func (l *Line) Append(ctx context.Context, b *Batch, commit func(take func() []*Batch) error) error {
	l.mu.Lock()
	if l.turn == nil {
		l.turn = make(chan struct{}, 1)
	}
	l.waiting = append(l.waiting, b)
	l.mu.Unlock()
	for {
		var err error
		select {
		case <-b.done: // somebody took it along
			return b.err
		case l.turn <- struct{}{}:
			err = l.commit(commit) // those before it, if they are large
			<-l.turn
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			if l.leave(b) {
				return err
			}
			<-b.done
			return b.err
		}
	}
}

func (l *Line) commit(f func(take func() []*Batch) error) error {
	if l.empty() {
		return nil
	}
	var taken []*Batch
	err := f(func() []*Batch {
		if taken == nil {
			taken = l.take()
		}
		return taken
	})
	if taken == nil {
		return err
	}
	for _, b := range taken {
		b.err = err
		close(b.done)
	}
	return nil
}

func (l *Line) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) == 0
}

// maxLine is how many bytes of events one transaction takes along.
const maxLine = 1 << 20

// take returns nil where nobody waits any more.
func (l *Line) take() []*Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.waiting) && size < maxLine {
		for _, e := range l.waiting[n].Events {
			size += len(e.Body)
		}
		n++
	}
	if n == 0 {
		return nil
	}
	taken := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return taken
}

func (l *Line) leave(b *Batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, b)
	if i < 0 {
		return false
	}
	l.waiting = slices.Concat(l.waiting[:i], l.waiting[i+1:])
	return true
}
