package customstore_test

import (
	"testing"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/examples/customstore"
)

func TestConformance(t *testing.T) { conformance.All(t, conformance.Store{New: newStore}) }

func newStore(t testing.TB) attend.ScopeStore {
	s, err := customstore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
