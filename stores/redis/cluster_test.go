package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/attend-go/attend/conformance"
	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

const slots = 16384

// cluster starts three masters that share the slots.
func cluster(t *testing.T) []*servers.Server {
	t.Helper()
	if text, err := connect(t, servers.Redis(t).URL()).do("INFO", "server").ToString(); err != nil || strings.Contains(text, "redis_version:6") {
		t.Skipf("a node's bus has a fixed port before Redis 7, which may be taken (%v)", err)
	}
	var nodes []*servers.Server
	var clients []raw
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		bus := l.Addr().(*net.TCPAddr).Port
		l.Close()
		s := start(t, map[string]string{"cluster-enabled": "yes", "cluster-port": strconv.Itoa(bus), "cluster-node-timeout": "15000", "user": "team on >pw ~* &* +@all"})
		nodes, clients = append(nodes, s), append(clients, single(t, user(t, s.URL(), "team")))
		from, to := (len(nodes)-1)*slots/3, len(nodes)*slots/3
		args := []string{"CLUSTER", "ADDSLOTS"}
		for slot := from; slot < to; slot++ {
			args = append(args, strconv.Itoa(slot))
		}
		clients[len(clients)-1].do(args...)
		u, err := url.Parse(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		clients[0].do("CLUSTER", "MEET", u.Hostname(), u.Port(), strconv.Itoa(bus))
	}
	for _, c := range clients {
		eventually(t, "the cluster is complete", func() bool {
			text, err := c.do("CLUSTER", "INFO").ToString()
			return err == nil && strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_known_nodes:3")
		})
	}
	return nodes
}

// On a cluster of three every key of a store is in one slot, and a client that
// knows one of them finds it.
func TestCluster(t *testing.T) {
	nodes := cluster(t)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, user(t, n.URL(), "team")) // each has its own default user
	}
	t.Run("store", func(t *testing.T) {
		conformance.Scope(t, suite(urls[0]))
		conformance.Log(t, suite(urls[1]))
	})
	t.Run("events", func(t *testing.T) { conformance.EventLog(t, eventSuite(urls[2])) })
	t.Run("concurrent", func(t *testing.T) { conformance.Concurrent(t, suite(urls[0])) })
	t.Run("slots", func(t *testing.T) {
		var used []int
		for tag := range 8 {
			o := quiet()
			o.Prefix = fmt.Sprintf("test:{slots%d}:", tag)
			s, l := open(t, urls[0], o), openEvents(t, urls[1], o)
			everyKey(t, s, l)
			in := make(map[string]bool)
			for i := range nodes {
				c := single(t, urls[i])
				for _, key := range c.keys(o.Prefix) {
					slot, err := c.do("CLUSTER", "KEYSLOT", key).AsInt64()
					if err != nil {
						t.Fatal(err)
					}
					in[strconv.FormatInt(slot, 10)] = true
					used = append(used, i)
				}
			}
			if len(in) != 1 {
				t.Errorf("the keys of prefix %s are in %d slots", o.Prefix, len(in))
			}
		}
		slices.Sort(used)
		if nodes := slices.Compact(used); len(nodes) < 2 {
			t.Errorf("eight stores are all on node %v of three", nodes)
		}
	})
	t.Run("rights", func(t *testing.T) {
		for _, u := range urls {
			single(t, u).do(append(append([]string{"ACL", "SETUSER", "least"}, rights(t, "test:{")...), "+cluster")...)
		}
		conformance.Scope(t, suite(user(t, urls[0], "least")))
	})
	t.Run("restart", func(t *testing.T) {
		o := quiet()
		o.Prefix = "test:{restart}:"
		s := open(t, urls[0], o)
		decide(t, s, "d1")
		at := newest(t, s)
		for _, n := range nodes {
			again(t, n)
		}
		eventually(t, "the cluster is back", func() bool { _, err := s.Log().Bounds(t.Context()); return err == nil })
		if got := newest(t, s); got != at {
			t.Errorf("after its nodes were killed the log goes to %v, want %v", got, at)
		}
	})
	t.Run("no tag", func(t *testing.T) {
		o := &redis.Config{Prefix: "test:", Logger: slog.New(slog.DiscardHandler)}
		if _, err := redis.Open(context.Background(), urls[0], *o); err == nil || !strings.Contains(err.Error(), "hash tag") {
			t.Errorf("Open without a hash tag: %v, want an error that says so", err)
		}
	})
}

// single is a client of one node of a cluster.
func single(t testing.TB, url string) raw {
	t.Helper()
	return connectOption(t, url, func(o *option) { o.ForceSingleClient = true })
}

// everyKey makes a store and a log use each kind of key that they have.
func everyKey(t testing.TB, s *redis.Store, l *redis.EventLog) {
	t.Helper()
	var rows []attend.Row
	for _, typ := range []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict} {
		for _, scope := range []attend.Scope{"a", "a/b:c", "{x}/y", "}{"} {
			r := row(scope, "d")
			r.Type = typ
			rows = append(rows, r)
		}
	}
	put(t, s,
		attend.Write{Scope: "a/b:c", Inputs: [][]byte{[]byte("x")}, Due: noon, Rows: rows},
		attend.Write{Scope: "{other}", Snapshot: []byte("x"), Due: noon},
		attend.Write{Scope: "}{", Inputs: [][]byte{[]byte("x")}},
	)
	push(t, l, "e1", "e2")
}
