package main

import (
	"context"
	"errors"
	"time"
)

// An ending knows how much is left of the time that a process has to end.
type ending struct {
	drain time.Duration
	began time.Time
	known chan struct{} // closed once began is set
	stop  func() bool   // false: the end has begun
}

// newEnding begins to count once ctx has ended.
func newEnding(ctx context.Context, drain time.Duration) *ending {
	e := &ending{drain: drain, known: make(chan struct{})}
	e.stop = context.AfterFunc(ctx, func() {
		e.began = time.Now()
		close(e.known)
	})
	return e
}

// left is a second at the least. It may be called once.
func (e *ending) left() time.Duration {
	if e.stop() {
		return e.drain
	}
	<-e.known
	return max(time.Second, e.drain-time.Since(e.began))
}

// closeWithin closes a store, unless something that was cut off keeps it.
func closeWithin(d time.Duration, close func() error) error {
	closed := make(chan error, 1)
	go func() { closed <- close() }()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case err := <-closed:
		return err
	case <-t.C:
		return errors.New("the store could not be closed in time")
	}
}
