package bolt_test

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

func TestConformance(t *testing.T) {
	conformance.All(t, conformance.Store{New: func(t testing.TB) attend.ScopeStore {
		return open(t, filepath.Join(t.TempDir(), "attend.db"), bolt.Config{})
	}})
}

// Handles that share a database, and fold at every commit.
func TestConformanceShared(t *testing.T) {
	dbs := make(map[attend.ScopeStore]*bbolt.DB)
	handle := func(t testing.TB, db *bbolt.DB) attend.ScopeStore {
		s, err := bolt.New(t.Context(), db, bolt.Config{Budget: 1})
		if err != nil {
			t.Fatal(err)
		}
		dbs[s] = db
		t.Cleanup(func() { s.Close() })
		return s
	}
	conformance.All(t, conformance.Store{
		New:    func(t testing.TB) attend.ScopeStore { return handle(t, database(t)) },
		Reopen: func(t testing.TB, s attend.ScopeStore) attend.ScopeStore { return handle(t, dbs[s]) },
	})
}

func TestEventLogConformance(t *testing.T) {
	log := func(t testing.TB, c bolt.Config) attend.EventLog {
		l, err := bolt.OpenEventLog(t.Context(), filepath.Join(t.TempDir(), "attend.db"), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	conformance.EventLog(t, conformance.Events{
		New:    func(t testing.TB) attend.EventLog { return log(t, bolt.Config{}) },
		Retain: func(t testing.TB, keep attend.Retain) attend.EventLog { return log(t, bolt.Config{Retain: keep}) },
	})
}

func TestEventLogConformanceShared(t *testing.T) {
	dbs := make(map[attend.EventLog]*bbolt.DB)
	handle := func(t testing.TB, db *bbolt.DB, c bolt.Config) attend.EventLog {
		l, err := bolt.NewEventLog(t.Context(), db, c)
		if err != nil {
			t.Fatal(err)
		}
		dbs[l] = db
		t.Cleanup(func() { l.Close() })
		return l
	}
	conformance.EventLog(t, conformance.Events{
		New:    func(t testing.TB) attend.EventLog { return handle(t, database(t), bolt.Config{}) },
		Reopen: func(t testing.TB, l attend.EventLog) attend.EventLog { return handle(t, dbs[l], bolt.Config{}) },
		Retain: func(t testing.TB, keep attend.Retain) attend.EventLog {
			return handle(t, database(t), bolt.Config{Retain: keep})
		},
	})
}
