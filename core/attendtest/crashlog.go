package attendtest

import (
	"context"
	"iter"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A crashLog is the log of a CrashStore, and dies with it.
type crashLog struct {
	s   *CrashStore
	log attend.DecisionLog
}

func (l *crashLog) Bounds(ctx context.Context) (attend.Bounds, error) {
	if err := l.s.check(); err != nil {
		return attend.Bounds{}, err
	}
	b, err := l.log.Bounds(ctx)
	return answer(l.s, b, err)
}

func (l *crashLog) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return each(l.s, func() iter.Seq2[attend.Entry, error] { return l.log.Read(ctx, q) })
}

func (l *crashLog) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if err := l.s.check(); err != nil {
		return attend.Entry{}, err
	}
	e, err := l.log.Find(ctx, id, t)
	return answer(l.s, e, err)
}

func (l *crashLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	if err := l.s.check(); err != nil {
		return err
	}
	_, err := answer(l.s, struct{}{}, l.log.Trim(ctx, keep, now))
	return err
}

// A crashWaiter is a crashLog whose log can wait.
type crashWaiter struct {
	crashLog
	w attend.Waiter
}

// Wait ends at once when the process dies.
func (l *crashWaiter) Wait(ctx context.Context, q attend.Query) error {
	ctx, done := l.s.untilDeath(ctx)
	defer done()
	if err := l.s.check(); err != nil {
		return err
	}
	_, err := answer(l.s, struct{}{}, l.w.Wait(ctx, q))
	return err
}

// untilDeath returns a context that ends when the process dies.
func (s *CrashStore) untilDeath(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil {
		s.waits = make(map[*context.CancelFunc]struct{})
	}
	s.waits[&cancel] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waits, &cancel)
		cancel()
	}
}
