package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance"
	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

// openPlace opens a store by its URL and prefix, without help of a test.
func openPlace(place string) (attend.ScopeStore, error) {
	url, prefix, _ := strings.Cut(place, " ")
	o := quiet()
	o.Prefix = prefix
	return redis.Open(context.Background(), url, *o)
}

func TestKill(t *testing.T) {
	conformance.Kill(t, conformance.Durable{
		New: func(t testing.TB) conformance.Place {
			return conformance.Place{Name: servers.Redis(t).URL() + " " + quiet().Prefix}
		},
		Open:      openPlace,
		Processes: 2,
	})
}

func TestKillServerAlways(t *testing.T) {
	conformance.KillServer(t, conformance.Durable{New: ownServer("always"), Open: openPlace, Processes: 2})
}

func TestKillServerEverysec(t *testing.T) {
	conformance.KillServer(t, conformance.Durable{New: ownServer("everysec"), Open: openPlace, Processes: 2, Loss: 2 * time.Second})
}

func ownServer(sync string) func(t testing.TB) conformance.Place {
	return func(t testing.TB) conformance.Place {
		s := start(t, map[string]string{"appendfsync": sync})
		return conformance.Place{Name: s.URL() + " " + quiet().Prefix, Server: s}
	}
}
