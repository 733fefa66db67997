package redis_test

import (
	"sync"
	"testing"

	"github.com/attend-go/attend/conformance"
	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

func TestConformance(t *testing.T) {
	conformance.All(t, suite(servers.Redis(t).URL()))
}

// suite makes stores on one server, each under a prefix of its own.
func suite(url string) conformance.Store {
	var under sync.Map // the options of each store
	with := func(t testing.TB, o *redis.Config) attend.ScopeStore {
		s := open(t, url, o)
		under.Store(s, o)
		t.Cleanup(func() { under.Delete(s) })
		return s
	}
	return conformance.Store{
		New: func(t testing.TB) attend.ScopeStore { return with(t, quiet()) },
		Reopen: func(t testing.TB, s attend.ScopeStore) attend.ScopeStore {
			o, _ := under.Load(s)
			return with(t, o.(*redis.Config))
		},
	}
}

func TestEventLog(t *testing.T) {
	conformance.EventLog(t, eventSuite(servers.Redis(t).URL()))
}

func eventSuite(url string) conformance.Events {
	var under sync.Map
	with := func(t testing.TB, o *redis.Config) attend.EventLog {
		l := openEvents(t, url, o)
		under.Store(l, o)
		t.Cleanup(func() { under.Delete(l) })
		return l
	}
	return conformance.Events{
		New: func(t testing.TB) attend.EventLog { return with(t, quiet()) },
		Reopen: func(t testing.TB, l attend.EventLog) attend.EventLog {
			o, _ := under.Load(l)
			return with(t, o.(*redis.Config))
		},
		Retain: func(t testing.TB, keep attend.Retain) attend.EventLog {
			o := quiet()
			o.Retain = keep
			return with(t, o)
		},
	}
}
