package sqlite_test

import (
	"context"
	"testing"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// One process alone, and several on one file. The budget is small, so that
// states are folded all the time.
func TestKill(t *testing.T)          { conformance.Kill(t, durable(1)) }
func TestKillProcesses(t *testing.T) { conformance.Kill(t, durable(3)) }

func durable(processes int) conformance.Durable {
	return conformance.Durable{
		New: func(t testing.TB) conformance.Place { return conformance.Place{Name: newFile(t)} },
		Open: func(place string) (attend.ScopeStore, error) {
			return sqlite.Open(context.Background(), place, sqlite.Config{Budget: 100_000})
		},
		Processes: processes,
	}
}
