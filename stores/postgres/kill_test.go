package postgres_test

import (
	"context"
	"testing"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// durable is a store on a server of the test's own, which may be killed.
func durable() conformance.Durable {
	return conformance.Durable{
		New: func(t testing.TB) conformance.Place {
			server := ownServer(t, nil)
			if err := postgres.MigrateURL(context.Background(), server.URL(), postgres.Config{}); err != nil {
				t.Fatal(err)
			}
			return conformance.Place{Name: server.URL(), Server: server}
		},
		Open: func(place string) (attend.ScopeStore, error) {
			return postgres.Open(context.Background(), place, postgres.Config{Listen: place})
		},
		Processes: 2,
	}
}

func TestKill(t *testing.T) { conformance.Kill(t, durable()) }

func TestKillServer(t *testing.T) { conformance.KillServer(t, durable()) }
