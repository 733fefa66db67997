package conformance_test

import (
	"testing"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

func TestMemory(t *testing.T) {
	conformance.All(t, conformance.Store{New: newStore, Reopen: reopen})
}

func newStore(t testing.TB) attend.ScopeStore {
	s := memory.New()
	t.Cleanup(func() { s.Close() })
	return s
}

func reopen(t testing.TB, s attend.ScopeStore) attend.ScopeStore {
	again := s.(*memory.Store).Reopen()
	t.Cleanup(func() { again.Close() })
	return again
}

func TestMemoryEventLog(t *testing.T) {
	conformance.EventLog(t, conformance.Events{
		New: func(t testing.TB) attend.EventLog {
			l := memory.NewEventLog()
			t.Cleanup(func() { l.Close() })
			return l
		},
		Reopen: func(t testing.TB, l attend.EventLog) attend.EventLog {
			again := l.(*memory.EventLog).Reopen()
			t.Cleanup(func() { again.Close() })
			return again
		},
		Retain: func(t testing.TB, keep attend.Retain) attend.EventLog {
			l := memory.NewEventLogWith(memory.Options{Retain: keep})
			t.Cleanup(func() { l.Close() })
			return l
		},
	})
}
