package bolt_test

import (
	"context"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// Processes that work on a file are killed at random moments. The budget is
// small, so that folding happens all the time.
func TestKill(t *testing.T) {
	d := conformance.Durable{
		New: func(t testing.TB) conformance.Place { return conformance.Place{Name: newFile(t)} },
		Open: func(place string) (attend.ScopeStore, error) {
			return bolt.Open(context.Background(), place, bolt.Config{Budget: 10_000, Patience: 10 * time.Second})
		},
	}
	if testing.Short() {
		d.Kills = 20
	}
	conformance.Kill(t, d)
}
