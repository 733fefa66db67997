package sqlite_test

import (
	"sync"
	"testing"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

func TestEventLogConformance(t *testing.T) {
	var files sync.Map // of the logs
	open := func(t testing.TB, file string, c sqlite.Config) attend.EventLog {
		l := openEvents(t, file, c)
		files.Store(attend.EventLog(l), file)
		return l
	}
	conformance.EventLog(t, conformance.Events{
		New: func(t testing.TB) attend.EventLog { return open(t, newFile(t), sqlite.Config{}) },
		Reopen: func(t testing.TB, l attend.EventLog) attend.EventLog {
			file, _ := files.Load(l)
			return open(t, file.(string), sqlite.Config{})
		},
		Retain: func(t testing.TB, keep attend.Retain) attend.EventLog {
			return open(t, newFile(t), sqlite.Config{Retain: keep})
		},
	})
}

func openEvents(t testing.TB, file string, c sqlite.Config) *sqlite.EventLog {
	t.Helper()
	l, err := sqlite.OpenEventLog(t.Context(), file, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
