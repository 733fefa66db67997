package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// Three writers take groups of 128 out of the same 400 scopes, with locks in the
// order of names, and in the order in which a plan finds them. Deadlocks cost a
// second each.
func BenchmarkContending(b *testing.B) {
	const lock = "ORDER BY scope FOR NO KEY UPDATE"
	for _, way := range []struct{ name, lock string }{{"ordered", lock}, {"plan-order", ""}} {
		b.Run(way.name, func(b *testing.B) {
			pool := benchPool(b)
			c := migrated(b, pool, postgres.Config{})
			s := storeOn(b, pool, c)
			const scopes, group, writers = 400, 128, 3
			l := newLoad(scopes, scopes)
			l.commit(b, s)
			var left, landed, deadlocks atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			b.ResetTimer()
			for w := range writers {
				all.Go(func() {
					r := rand.New(rand.NewPCG(uint64(w), 9))
					for left.Add(-1) >= 0 {
						names := make([]string, 0, group)
						for _, i := range r.Perm(scopes)[:group] {
							names = append(names, string(l.scopes[i]))
						}
						writes, err := current(pool, c, names)
						if err != nil {
							b.Error(err)
							return
						}
						sql, args := postgres.CommitStatement(s, writes)
						var won []int64
						err = pool.QueryRow(context.Background(), strings.Replace(sql, lock, way.lock, 1), args...).Scan(&won, nil)
						switch {
						case postgres.Code(err) == "40P01":
							deadlocks.Add(1)
						case err != nil:
							b.Error(err)
						default:
							landed.Add(int64(len(won)))
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(landed.Load())/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(float64(deadlocks.Load()), "deadlocks")
		})
	}
}

// current are writes of the scopes at the versions that they have.
func current(pool *pgxpool.Pool, c postgres.Config, names []string) (writes []attend.Write, err error) {
	rows, err := pool.Query(context.Background(), postgres.Named(c, "SELECT scope, version FROM {scopes} WHERE scope = ANY ($1)"), names)
	if err != nil {
		return nil, err
	}
	var scope string
	var version uint64
	_, err = pgx.ForEachRow(rows, []any{&scope, &version}, func() error {
		writes = append(writes, attend.Write{Scope: attend.Scope(scope), Expect: version, KeepDue: true, Snapshot: []byte{1}})
		return nil
	})
	rand.Shuffle(len(writes), func(i, j int) { writes[i], writes[j] = writes[j], writes[i] })
	return writes, err
}

// What the turn costs: four writers of groups of 16, each write with a row, that
// take it, and the same without it, whose log is in no order.
func BenchmarkTurn(b *testing.B) {
	for _, turns := range []bool{true, false} {
		b.Run(fmt.Sprint("turn=", turns), func(b *testing.B) {
			pool := benchPool(b)
			s := storeOn(b, pool, migrated(b, pool, postgres.Config{}))
			var n atomic.Int64
			var all sync.WaitGroup
			b.ResetTimer()
			for range 4 {
				all.Go(func() {
					for {
						first := n.Add(1)
						if first > int64(b.N) {
							return
						}
						var writes []attend.Write
						for i := range 16 {
							scope := attend.Scope(fmt.Sprint("s", first, "-", i))
							writes = append(writes, attend.Write{Scope: scope, Inputs: [][]byte{make([]byte, 200)}, Rows: []attend.Row{decisionRow(scope, string(scope))}})
						}
						sql, args := postgres.CommitStatement(s, writes)
						if _, err := pool.Exec(context.Background(), turnless(b, sql, turns), args...); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(16*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// dueScopes is 100,000, or what ATTEND_BENCH_SCOPES says, such as a million.
func dueScopes() int {
	if n, err := strconv.Atoi(os.Getenv("ATTEND_BENCH_SCOPES")); err == nil {
		return n
	}
	return 100_000
}

// All scopes are due: the first page, and all of them.
func BenchmarkDue(b *testing.B) {
	pool := benchPool(b)
	c := migrated(b, pool, postgres.Config{})
	s := storeOn(b, pool, c)
	n := dueScopes()
	if _, err := pool.Exec(context.Background(), postgres.Named(c, `INSERT INTO {scopes} (scope, version, due, look, tail)
		SELECT 'ops/db-' || n, 1, n, n, '' FROM generate_series(1, $1::int) n`), n); err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(context.Background(), postgres.Named(c, "VACUUM ANALYZE {scopes}")); err != nil {
		b.Fatal(err)
	}
	b.Run("first=100", func(b *testing.B) {
		for range b.N {
			k := 0
			for _, err := range s.Due(context.Background(), noon) {
				if err != nil {
					b.Fatal(err)
				}
				if k++; k == 100 {
					break
				}
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for range b.N {
			if got := due(b, s, noon); len(got) != n {
				b.Fatalf("%d are due, want %d", len(got), n)
			}
		}
		b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "scopes/s")
	})
}

// A reader of decisions, and one of a prefix, among ten times as many verdict
// rows.
func BenchmarkRead(b *testing.B) {
	pool := benchPool(b)
	c := migrated(b, pool, postgres.Config{})
	s := storeOn(b, pool, c)
	const rows = 20_000
	for from := 0; from < rows; from += 1000 {
		w := attend.Write{Scope: attend.Scope(fmt.Sprint("w", from))}
		for i := from; i < from+1000; i++ {
			r := decisionRow(attend.Scope(fmt.Sprintf("ops/db-%d", i%100)), fmt.Sprintf("%040x", i))
			r.Body = make([]byte, 400)
			if i%10 > 0 {
				r.Type = attend.RowVerdict
			}
			w.Rows = append(w.Rows, r)
		}
		put(b, s, w)
	}
	for name, q := range map[string]attend.Query{"decisions": {}, "prefix": {Prefix: "ops/db-10"}, "all": {Types: []attend.RowType{attend.RowDecision, attend.RowVerdict}}} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for range b.N {
				got, _ := ids(b, s.Log(), q)
				n += len(got)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// Producers of single events, and of batches, each waiting for its answer.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ producers, batch int }{{1, 1}, {64, 1}, {8, 256}} {
		b.Run(fmt.Sprintf("producers=%d,batch=%d", c.producers, c.batch), func(b *testing.B) {
			pool := benchPool(b)
			l := logOn(b, pool, migrated(b, pool, postgres.Config{}))
			var n atomic.Int64
			var all sync.WaitGroup
			b.ResetTimer()
			for range c.producers {
				all.Go(func() {
					for {
						first := n.Add(int64(c.batch)) - int64(c.batch)
						if first >= int64(b.N) {
							return
						}
						events := make([]attend.Event, c.batch)
						for i := range events {
							events[i] = attend.Event{ID: strconv.FormatInt(first+int64(i), 10), At: noon, Name: "build.finished", Text: strings.Repeat("x", 100)}
						}
						if err := l.Append(context.Background(), "repo", events); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// From a commit in one process to a row in the hands of a reader in another.
func BenchmarkNotification(b *testing.B) {
	pool := benchPool(b)
	c := migrated(b, pool, postgres.Config{})
	writer := storeOn(b, pool, c)
	c.Listen, c.Poll = pool.Config().ConnString(), time.Hour
	reader := storeOn(b, pool, c)
	at, err := reader.Log().Bounds(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	q := attend.Query{After: attend.LogCursor{Epoch: at.Epoch}}
	var waits times
	next := func(id string) {
		for {
			for e, err := range reader.Log().Read(context.Background(), q) {
				if err != nil {
					b.Fatal(err)
				}
				q.After = e.Cursor
				if string(e.ID) == id {
					return
				}
			}
			if err := reader.Log().(attend.Waiter).Wait(context.Background(), q); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range b.N {
		id := fmt.Sprint(i)
		began := make(chan time.Time, 1)
		go func() {
			time.Sleep(2 * time.Millisecond) // the reader waits by then
			now := time.Now()
			_, err := writer.Commit(context.Background(), []attend.Write{{Scope: attend.Scope("s" + id), Rows: []attend.Row{decisionRow("s", id)}}})
			if err != nil {
				b.Error(err)
			}
			began <- now
		}()
		next(id)
		waits = append(waits, time.Since(<-began))
	}
	b.ReportMetric(float64(waits.at(50).Microseconds()), "p50-us")
	b.ReportMetric(float64(waits.at(99).Microseconds()), "p99-us")
}

// times are how long the rounds of one way took.
type times []time.Duration

func (t times) at(percent int) time.Duration {
	s := slices.Sorted(slices.Values(t))
	return s[min(len(s)*percent/100, len(s)-1)]
}
