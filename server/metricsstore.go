package server

import (
	"context"
	"io"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Store returns s with its commits measured. It is an io.Closer, an
// [attend.EventLog] and an [attend.EventWaiter] where s is; its log is that of s.
// How full the lanes are is asked of s, so a Metrics is for one store. A nil
// store comes back as it is.
func (m *Metrics) Store(s attend.ScopeStore) attend.ScopeStore {
	if s == nil {
		return nil
	}
	m.lanes.watch(s)
	w := &measuredStore{s, m}
	c, closes := s.(io.Closer)
	l, logs := s.(attend.EventLog)
	wait, waits := s.(attend.EventWaiter)
	switch {
	case closes && logs && waits:
		return struct {
			*measuredStore
			io.Closer
			attend.EventLog
			attend.EventWaiter
		}{w, c, l, wait}
	case closes && logs:
		return struct {
			*measuredStore
			io.Closer
			attend.EventLog
		}{w, c, l}
	case closes:
		return struct {
			*measuredStore
			io.Closer
		}{w, c}
	case logs && waits:
		return struct {
			*measuredStore
			attend.EventLog
			attend.EventWaiter
		}{w, l, wait}
	case logs:
		return struct {
			*measuredStore
			attend.EventLog
		}{w, l}
	default:
		return w
	}
}

type measuredStore struct {
	attend.ScopeStore
	m *Metrics
}

// Commit is of [attend.ScopeStore].
func (w *measuredStore) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	began := time.Now()
	out, err := w.ScopeStore.Commit(ctx, writes) //check:allow commit it is the engine's own call, on its way
	w.m.commitSeconds.Observe(time.Since(began).Seconds())
	w.m.groupWrites.Observe(float64(len(writes)))
	for i := range out {
		switch {
		case err != nil || i >= len(writes):
		case out[i].Conflict():
			w.m.conflicts.Inc()
		default:
			w.m.lanes.wrote(writes[i].Rows)
		}
	}
	return out, err
}
