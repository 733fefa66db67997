package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

func TestConformance(t *testing.T) {
	conformance.All(t, suite(func(t testing.TB, file string) attend.ScopeStore { return openStore(t, file, sqlite.Config{}) }))
}

// States are folded with nearly every commit.
func TestConformanceOfASmallBudget(t *testing.T) {
	c := sqlite.Config{Budget: 1}
	small := suite(func(t testing.TB, file string) attend.ScopeStore { return openStore(t, file, c) })
	conformance.Scope(t, small)
	conformance.Concurrent(t, small)
}

// suite says how to make stores in files of their own, and more of them on the
// same file.
func suite(open func(t testing.TB, file string) attend.ScopeStore) conformance.Store {
	var files sync.Map // by store
	in := func(t testing.TB, file string) attend.ScopeStore {
		s := open(t, file)
		files.Store(s, file)
		return s
	}
	return conformance.Store{
		New: func(t testing.TB) attend.ScopeStore { return in(t, newFile(t)) },
		Reopen: func(t testing.TB, s attend.ScopeStore) attend.ScopeStore {
			file, _ := files.Load(s)
			return in(t, file.(string))
		},
	}
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "attend.db") }

func openStore(t testing.TB, file string, c sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
