package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

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

// fill commits each scope once.
func (l *load) fill(b testing.TB, s *postgres.Store) {
	big := &load{scopes: l.scopes, versions: l.versions, order: l.order, writes: make([]attend.Write, 1000)}
	for big.n < len(l.scopes) {
		big.commit(b, s)
	}
}

// A bound is the least that a durable store can do: a checksummed record a
// group, written to a file that has its size already, and synced.
type bound struct {
	f   *os.File
	at  int64
	buf []byte
}

const boundSize = 64 << 20

func newBound(b testing.TB) *bound {
	f, err := os.Create(filepath.Join(b.TempDir(), "bound"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if _, err := f.Write(make([]byte, boundSize)); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &bound{f: f}
}

func (x *bound) commit(b testing.TB, writes []attend.Write) {
	x.buf = x.buf[:0]
	for i := range writes {
		w := &writes[i]
		x.buf = append(x.buf, w.Scope...)
		x.buf = binary.BigEndian.AppendUint64(x.buf, w.Expect)
		for _, in := range w.Inputs {
			x.buf = append(x.buf, in...)
		}
		x.buf = append(x.buf, w.Snapshot...)
		for i := range w.Rows {
			x.buf = append(x.buf, w.Rows[i].Body...)
		}
	}
	x.buf = binary.BigEndian.AppendUint32(x.buf, crc32.Checksum(x.buf, crc32.MakeTable(crc32.Castagnoli)))
	if x.at+int64(len(x.buf)) > boundSize {
		x.at = 0
	}
	if _, err := x.f.WriteAt(x.buf, x.at); err != nil {
		b.Fatal(err)
	}
	x.at += int64(len(x.buf))
	if err := syscall.Fdatasync(int(x.f.Fd())); err != nil {
		b.Fatal(err)
	}
}

// times are how long the rounds of one way took.
type times []time.Duration

func (t *times) run(f func()) {
	began := time.Now()
	f()
	*t = append(*t, time.Since(began))
}

func (t times) at(percent int) time.Duration {
	s := slices.Sorted(slices.Values(t))
	return s[min(len(s)*percent/100, len(s)-1)]
}

func benchPool(b testing.TB) *pgxpool.Pool { return newPool(b, servers.Postgres(b).URL()) }

// Both ways take turns, so that what disturbs one disturbs the other. x-bound is
// the ratio of their medians.
func BenchmarkCommit(b *testing.B) {
	for _, group := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprint("group=", group), func(b *testing.B) {
			pool := benchPool(b)
			s := storeOn(b, pool, migrated(b, pool, postgres.Config{}))
			l, x := newLoad(20_000, group), newBound(b)
			l.fill(b, s)
			var store, least times
			b.ResetTimer()
			for range b.N {
				store.run(func() { l.commit(b, s) })
				least.run(func() { x.commit(b, l.writes) })
			}
			b.ReportMetric(float64(group)/store.at(50).Seconds(), "writes/s")
			b.ReportMetric(float64(least.at(50))/float64(store.at(50)), "x-bound")
			b.ReportMetric(float64(store.at(50).Microseconds()), "p50-us")
			b.ReportMetric(float64(store.at(99).Microseconds()), "p99-us")
		})
	}
}

// The same events go into one table by unnest. 8 producers of 256 events each,
// as one group of an engine's, against 8 inserts at once.
func BenchmarkCommitBesideInsert(b *testing.B) {
	const producers, batch = 8, 256
	pool := benchPool(b)
	ctx := context.Background()
	s := storeOn(b, pool, migrated(b, pool, postgres.Config{}))
	l := newLoad(20_000, 1024)
	l.fill(b, s)
	plain := newPrefix() + "plain"
	if _, err := pool.Exec(ctx, "CREATE TABLE "+plain+" (pos bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, scope text NOT NULL, body bytea NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { pool.Exec(ctx, "DROP TABLE "+plain) })
	scopes, bodies := make([]string, batch), make([][]byte, batch)
	for i := range scopes {
		scopes[i], bodies[i] = string(l.scopes[i]), make([]byte, 200)
	}
	var store, insert times
	b.ResetTimer()
	for range b.N {
		store.run(func() {
			for range producers * batch / len(l.writes) {
				l.commit(b, s)
			}
		})
		insert.run(func() {
			var all sync.WaitGroup
			for range producers {
				all.Go(func() {
					if _, err := pool.Exec(ctx, "INSERT INTO "+plain+" (scope, body) SELECT * FROM unnest($1::text[], $2::bytea[])", scopes, bodies); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
	b.ReportMetric(producers*batch/store.at(50).Seconds(), "writes/s")
	b.ReportMetric(producers*batch/insert.at(50).Seconds(), "inserts/s")
	b.ReportMetric(float64(insert.at(50))/float64(store.at(50)), "x-insert")
}
