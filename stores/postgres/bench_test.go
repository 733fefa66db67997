package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/attend-go/attend/conformance/servers"
	"github.com/attend-go/attend/conformance/storebench"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// BenchmarkStore is on a server of its own that syncs. The peer is what people
// do who only keep the events: an INSERT of a batch into one table, by unnest. The
// floor is one row a group.
func BenchmarkStore(b *testing.B) {
	servers.Postgres(b) // which skips, or fails, where there is none
	server := ownServer(b, map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min"})
	pool := newPool(b, server.URL())
	configs := make(map[attend.ScopeStore]postgres.Config)
	storebench.Run(b, storebench.Subject{
		New: func(tb testing.TB) attend.ScopeStore {
			c := migrated(tb, pool, postgres.Config{})
			s := storeOn(tb, pool, c)
			configs[s] = c
			return s
		},
		Peer: func(tb testing.TB) func([][]byte) error {
			plain := newPrefix() + "plain"
			_, err := pool.Exec(context.Background(), "CREATE TABLE "+plain+
				" (pos bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, scope text NOT NULL, body bytea NOT NULL)")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { pool.Exec(context.Background(), "DROP TABLE "+plain) })
			wide := newPool(tb, server.URL()+"&pool_max_conns=16")
			return func(bodies [][]byte) error {
				scopes := make([]string, len(bodies))
				for i := range scopes {
					scopes[i] = fmt.Sprint("ops/db-", i)
				}
				_, err := wide.Exec(context.Background(), "INSERT INTO "+plain+" (scope, body) SELECT * FROM unnest($1::text[], $2::bytea[])", scopes, bodies)
				return err
			}
		},
		Floor: func(tb testing.TB) func([]byte) error {
			records := newPrefix() + "records"
			_, err := pool.Exec(context.Background(), "CREATE TABLE "+records+" (pos bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { pool.Exec(context.Background(), "DROP TABLE "+records) })
			return func(record []byte) error {
				_, err := pool.Exec(context.Background(), "INSERT INTO "+records+" (body) VALUES ($1)", record)
				return err
			}
		},
		Bytes: func(tb testing.TB, s attend.ScopeStore) int64 { return sizeOf(tb, pool, configs[s].Prefix) },
		Sizes: []storebench.Size{{Name: "vacuumed", Bytes: func(tb testing.TB, s attend.ScopeStore) int64 {
			if _, err := pool.Exec(context.Background(), "VACUUM"); err != nil {
				tb.Fatal(err)
			}
			return sizeOf(tb, pool, configs[s].Prefix)
		}}},
	})
}

// sizeOf is what the tables of a prefix take, with their indexes.
func sizeOf(tb testing.TB, pool *pgxpool.Pool, prefix string) (size int64) {
	const sum = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND starts_with(relname, $1)"
	if err := pool.QueryRow(context.Background(), sum, prefix).Scan(&size); err != nil {
		tb.Fatal(err)
	}
	return size
}

// A load makes groups of writes as an engine does: each an input of 200 bytes
// on a scope's last version, a snapshot of 1,600 in the place of every ninth, a
// log row of 400 with every twentieth, and a due time that moves in every
// fourth (rule E46).
type load struct {
	scopes   []attend.Scope
	versions []uint64
	order    []int
	n        int
	writes   []attend.Write
}

func newLoad(scopes, group int) *load {
	l := &load{versions: make([]uint64, scopes), writes: make([]attend.Write, group), order: rand.New(rand.NewPCG(1, 2)).Perm(scopes)}
	for i := range scopes {
		l.scopes = append(l.scopes, attend.Scope(fmt.Sprintf("ops/db-%06d", i)))
	}
	return l
}

func (l *load) next() []attend.Write {
	for i := range l.writes {
		l.n++
		s := l.order[l.n%len(l.order)]
		w := attend.Write{Scope: l.scopes[s], Expect: l.versions[s], Inputs: [][]byte{make([]byte, 200)}}
		if w.Expect != 0 && l.n%4 != 0 {
			w.KeepDue = true
		} else {
			w.Due = noon.Add(time.Duration(l.n) * time.Millisecond)
		}
		if l.n%9 == 0 {
			w.Inputs, w.Snapshot = nil, make([]byte, 1600)
		}
		if l.n%20 == 0 {
			id := attend.DecisionID(fmt.Sprintf("%040x", l.n))
			w.Rows = []attend.Row{{Scope: w.Scope, ID: id, Type: attend.RowDecision, At: noon, Body: make([]byte, 400)}}
		}
		l.writes[i] = w
	}
	return l.writes
}

func (l *load) commit(b testing.TB, s *postgres.Store) {
	writes := l.next()
	out, err := s.Commit(context.Background(), writes)
	if err != nil {
		b.Fatal(err)
	}
	for i, o := range out {
		if o.Conflict() {
			b.Fatal("conflict")
		}
		l.versions[l.order[(l.n-len(out)+1+i)%len(l.order)]] = o.Version
	}
}

func benchPool(b testing.TB) *pgxpool.Pool { return newPool(b, servers.Postgres(b).URL()) }
