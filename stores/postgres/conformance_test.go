package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

var noon = time.UnixMilli(1_767_268_800_000)

func TestConformance(t *testing.T) {
	conformance.All(t, newFactory(t, serverURL(t), postgres.Config{}).store())
}

func TestEventLogConformance(t *testing.T) {
	conformance.EventLog(t, newFactory(t, serverURL(t), postgres.Config{}).events())
}

// A factory makes stores that suites can ask for another handle on, each handle
// with the settings of a process of its own.
type factory struct {
	pool   *pgxpool.Pool
	admin  *pgxpool.Pool // who makes tables
	config postgres.Config

	mu sync.Mutex
	of map[any]postgres.Config
}

func newFactory(t testing.TB, url string, c postgres.Config) *factory {
	pool := newPool(t, url)
	return &factory{pool: pool, admin: pool, config: c, of: make(map[any]postgres.Config)}
}

func (f *factory) keep(handle any, c postgres.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[handle] = c
}

func (f *factory) configOf(handle any) postgres.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[handle]
}

func (f *factory) store() conformance.Store {
	on := func(t testing.TB, c postgres.Config) attend.ScopeStore {
		s := storeOn(t, f.pool, c)
		f.keep(s, c)
		return s
	}
	return conformance.Store{
		New:    func(t testing.TB) attend.ScopeStore { return on(t, migrated(t, f.admin, f.config)) },
		Reopen: func(t testing.TB, s attend.ScopeStore) attend.ScopeStore { return on(t, f.configOf(s)) },
	}
}

func (f *factory) events() conformance.Events {
	on := func(t testing.TB, c postgres.Config) attend.EventLog {
		l := logOn(t, f.pool, c)
		f.keep(l, c)
		return l
	}
	return conformance.Events{
		New:    func(t testing.TB) attend.EventLog { return on(t, migrated(t, f.admin, f.config)) },
		Reopen: func(t testing.TB, l attend.EventLog) attend.EventLog { return on(t, f.configOf(l)) },
		Retain: func(t testing.TB, keep attend.Retain) attend.EventLog {
			c := f.config
			c.Retain = keep
			return on(t, migrated(t, f.admin, c))
		},
	}
}
