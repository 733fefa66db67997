package attend

import (
	"context"
	"iter"
	"time"
)

// LogSource returns the events of one scope in an [EventLog] as a [Source] that
// never ends by itself. Its key is "log:" and name, which tells two logs of one
// scope apart. Where the log is no [EventWaiter] it is asked once a second.
func LogSource(name string, log EventLog, scope Scope) Source {
	return &logSource{key: "log:" + name, log: log, scope: scope}
}

type logSource struct {
	key   string
	log   EventLog
	scope Scope
}

func (s *logSource) Key() string { return s.key }

func (s *logSource) Batches(ctx context.Context, after Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for {
			for b, err := range s.log.Batches(ctx, s.scope, after) {
				if !yield(b, err) || err != nil {
					return
				}
				after = b.Cursor
			}
			if err := s.wait(ctx, after); err != nil {
				yield(Batch{}, err)
				return
			}
		}
	}
}

func (s *logSource) wait(ctx context.Context, after Cursor) error {
	if w, ok := s.log.(EventWaiter); ok {
		return w.WaitEvents(ctx, s.scope, after)
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
