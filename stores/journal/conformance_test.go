package journal_test

import (
	"testing"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
)

// The suites run with hardly anything folded, and with everything at once.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget int
	}{{"overlay", 0}, {"folded", 1}, {"both", 20_000}} {
		t.Run(c.name, func(t *testing.T) {
			handle := func(t testing.TB, b *backend) attend.ScopeStore {
				s, err := open(b, c.budget)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}
			conformance.All(t, conformance.Store{
				New:    func(t testing.TB) attend.ScopeStore { return handle(t, newBackend()) },
				Reopen: func(t testing.TB, s attend.ScopeStore) attend.ScopeStore { return handle(t, s.(*store).b) },
			})
		})
	}
}
