package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// deadlocks is how many the server has resolved in the pool's database.
func deadlocks(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	time.Sleep(1100 * time.Millisecond) // sessions report once a second
	if err := pool.QueryRow(context.Background(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Groups of scopes in any order, that make, write, forget and remove the same
// few scopes through several handles: nobody waits in a circle, which the store
// would hide by trying again, and what landed is what versions and rows say.
func TestContendingGroups(t *testing.T) {
	pool := newPool(t, newDatabase(t, ""))
	c := migrated(t, pool, postgres.Config{})
	const handles, scopes, group, rounds = 4, 60, 30, 60
	var landed, lost, rows atomic.Int64
	var all sync.WaitGroup
	for h := range handles {
		s := storeOn(t, newPool(t, pool.Config().ConnString()), c)
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(h), 1))
			for n := range rounds {
				var writes []attend.Write
				for _, i := range r.Perm(scopes)[:group] {
					scope := attend.Scope(fmt.Sprintf("s%03d", i))
					rec, err := s.Load(context.Background(), scope)
					if err != nil {
						t.Error(err)
						return
					}
					w := attend.Write{Scope: scope, Expect: rec.Version, Inputs: [][]byte{[]byte("x")}}
					switch r.IntN(6) {
					case 0:
						w.Forget, w.Inputs = true, nil
					case 1:
						w.Inputs, w.Snapshot = nil, []byte("state")
					case 2:
						w.Due = noon.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
					}
					if r.IntN(3) == 0 {
						w.Rows = []attend.Row{decisionRow(scope, fmt.Sprintf("%d-%d-%d", h, n, i))}
					}
					writes = append(writes, w)
				}
				out, err := s.Commit(context.Background(), writes)
				if err != nil {
					t.Error(err)
					return
				}
				for i, o := range out {
					if o.Conflict() {
						lost.Add(1)
						continue
					}
					landed.Add(1)
					rows.Add(int64(len(writes[i].Rows)))
				}
				if r.IntN(4) == 0 {
					if err := s.Remove(context.Background(), writes[0].Scope); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	s := storeOn(t, pool, c)
	got, _ := ids(t, s.Log(), attend.Query{})
	if len(got) != int(rows.Load()) {
		t.Errorf("the log has %d rows, and writes with %d of them landed", len(got), rows.Load())
	}
	if landed.Load() == 0 || lost.Load() == 0 {
		t.Errorf("%d writes landed and %d lost their race: there was no race", landed.Load(), lost.Load())
	}
	if n := deadlocks(t, pool); n > 0 {
		t.Errorf("the server had to resolve %d deadlocks, want none", n)
	}
}

// The order of locks is what keeps deadlocks away: with time between two locks,
// the same load has some without it, and none with it.
func TestOrderOfLocks(t *testing.T) {
	const lock, each = "ORDER BY scope FOR NO KEY UPDATE", "SELECT count(*) AS n"
	for _, ordered := range []bool{false, true} {
		pool := newPool(t, newDatabase(t, ""))
		if _, err := pool.Exec(t.Context(), "ALTER DATABASE "+pool.Config().ConnConfig.Database+" SET deadlock_timeout = '50ms'"); err != nil {
			t.Fatal(err)
		}
		pool.Reset()
		s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
		const scopes = 40
		var writes []attend.Write
		for i := range scopes {
			writes = append(writes, attend.Write{Scope: attend.Scope(fmt.Sprintf("s%03d", i)), Inputs: [][]byte{{1}}})
		}
		if _, err := s.Commit(t.Context(), writes); err != nil {
			t.Fatal(err)
		}
		// Without an order it is a matter of luck, which is given some rounds.
		for round := 0; round == 0 || !ordered && round < 20 && deadlocks(t, pool) == 0; round++ {
			var all sync.WaitGroup
			for h := range 3 {
				all.Go(func() {
					r := rand.New(rand.NewPCG(uint64(h), uint64(round)))
					for range 5 {
						var group []attend.Write
						for _, i := range r.Perm(scopes)[:scopes/2] {
							rec, err := s.Load(context.Background(), writes[i].Scope)
							if err != nil {
								t.Error(err)
							}
							group = append(group, attend.Write{Scope: writes[i].Scope, Expect: rec.Version, KeepDue: true})
						}
						sql, args := postgres.CommitStatement(s, group)
						if strings.Count(sql, lock) != 1 || strings.Count(sql, each) != 1 {
							t.Errorf("the statement locks otherwise than this test knows:\n%s", sql)
							return
						}
						sql = strings.Replace(sql, each, "SELECT count(pg_sleep(0.001)) AS n", 1)
						if !ordered {
							sql = strings.Replace(sql, lock, "ORDER BY md5(scope || pg_backend_pid()) FOR NO KEY UPDATE", 1)
						}
						if _, err := pool.Exec(context.Background(), sql, args...); err != nil && postgres.Code(err) != "40P01" {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		}
		if n := deadlocks(t, pool); (n == 0) != ordered {
			t.Errorf("with locks in order %v the server had to resolve %d deadlocks", ordered, n)
		}
	}
}

// A scope that one group makes while another forgets it, both with others in
// the opposite order.
func TestMakersAndForgetters(t *testing.T) {
	pool := newPool(t, newDatabase(t, ""))
	c := migrated(t, pool, postgres.Config{})
	var all sync.WaitGroup
	for h := range 4 {
		s := storeOn(t, newPool(t, pool.Config().ConnString()), c)
		all.Go(func() {
			for n := range 150 {
				names := []attend.Scope{"a", "b", "c", "d", "e", "f"}
				if (h+n)%2 == 0 {
					slices.Reverse(names)
				}
				var writes []attend.Write
				for i, name := range names {
					rec, err := s.Load(context.Background(), name)
					if err != nil {
						t.Error(err)
						return
					}
					// Some believe that it is not there, though it is, and the
					// other way round.
					w := attend.Write{Scope: name, Expect: rec.Version}
					switch {
					case (h+n+i)%3 == 0:
						w.Expect = 0
					case (h+n+i)%3 == 1:
						w.Forget = true
					default:
						w.Snapshot = []byte("state")
					}
					writes = append(writes, w)
				}
				if _, err := s.Commit(context.Background(), writes); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	// And some that are removed while their snapshot is written.
	for h := range 4 {
		s := storeOn(t, newPool(t, pool.Config().ConnString()), c)
		all.Go(func() {
			for n := range 300 {
				var err error
				if h%2 == 0 {
					err = s.Remove(context.Background(), "removed")
				} else {
					var rec attend.Record
					if rec, err = s.Load(context.Background(), "removed"); err == nil {
						_, err = s.Commit(context.Background(), []attend.Write{{Scope: "removed", Expect: rec.Version, Snapshot: []byte{byte(n)}}})
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := deadlocks(t, pool); n > 0 {
		t.Errorf("the server had to resolve %d deadlocks, want none", n)
	}
}

// Whatever isolation level the database gives by default, callers see none of
// its errors.
func TestStricterIsolation(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			u := newDatabase(t, "")
			admin := newPool(t, u)
			if _, err := admin.Exec(t.Context(), "ALTER DATABASE "+admin.Config().ConnConfig.Database+" SET default_transaction_isolation = '"+level+"'"); err != nil {
				t.Fatal(err)
			}
			f := newFactory(t, u, postgres.Config{})
			conformance.Scope(t, f.store())
			conformance.Concurrent(t, f.store())
			conformance.EventLog(t, f.events())
			strict := 0
			for s := range f.of {
				if s, ok := s.(*postgres.Store); ok && postgres.Strict(s) {
					strict++
				}
			}
			if strict == 0 {
				t.Error("no store ever met a serialization failure: this was no test")
			}
		})
	}
}

// What is answered is on disk, also where the database would have it otherwise.
func TestDurableWhereTheDatabaseIsNot(t *testing.T) {
	server := ownServer(t, map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"})
	pool, c := newPool(t, server.URL()), postgres.Config{}
	if err := postgres.Migrate(t.Context(), pool, c); err != nil {
		t.Fatal(err)
	}
	// An ordinary commit of this database is lost, or this is no test.
	if _, err := pool.Exec(t.Context(), "CREATE TABLE plain (n int); CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	version := put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{{1}}})
	version = put(t, s, attend.Write{Scope: "ops", Expect: version, Snapshot: []byte("kept"), Rows: []attend.Row{decisionRow("ops", "d")}})
	if err := l.Append(t.Context(), "ops", []attend.Event{{ID: "e", Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "removed", Snapshot: []byte("secret")})
	if err := s.Remove(t.Context(), "removed"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "INSERT INTO plain VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool = newPool(t, server.URL())
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM plain").Scan(&n); err != nil || n > 0 {
		t.Errorf("a plain commit was kept by a server that was killed (%d, %v): this is no test", n, err)
	}
	s, l = storeOn(t, pool, c), logOn(t, pool, c)
	if rec, err := s.Load(t.Context(), "ops"); err != nil || rec.Version != version || string(rec.Snapshot) != "kept" {
		t.Errorf("after the server was killed, Load = version %d, %q, %v, want %d and kept", rec.Version, rec.Snapshot, err, version)
	}
	if rec, err := s.Load(t.Context(), "removed"); err != nil || rec.Version != 0 {
		t.Errorf("after the server was killed, Load of a removed scope = version %d, %v, want 0", rec.Version, err)
	}
	if got, _ := ids(t, s.Log(), attend.Query{}); len(got) != 1 {
		t.Errorf("after the server was killed, the log has %v", got)
	}
	for b, err := range l.Batches(t.Context(), "ops", "") {
		if n = len(b.Events); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("after the server was killed, the event log has %d events, want 1", n)
	}
}

func TestNamesThatPostgresCannotHold(t *testing.T) {
	pool := newPool(t, serverURL(t))
	s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
	good := attend.Write{Scope: "good", Inputs: [][]byte{{1}}}
	for name, w := range map[string]attend.Write{
		"a scope with NUL":      {Scope: "a\x00b"},
		"a scope of odd bytes":  {Scope: "a\xff"},
		"a scope of 513 bytes":  {Scope: attend.Scope(strings.Repeat("x", 513))},
		"no scope":              {},
		"a row's id with NUL":   {Scope: "a", Rows: []attend.Row{{Scope: "a", ID: "\x00", Type: attend.RowDecision}}},
		"a row's long id":       {Scope: "a", Rows: []attend.Row{{Scope: "a", ID: attend.DecisionID(strings.Repeat("x", 1025)), Type: attend.RowDecision}}},
		"a row's scope":         {Scope: "a", Rows: []attend.Row{{Scope: "\xff", ID: "d", Type: attend.RowDecision}}},
		"a row of another type": {Scope: "a", Rows: []attend.Row{{Scope: "a", ID: "d", Type: "other"}}},
	} {
		if _, err := s.Commit(t.Context(), []attend.Write{good, w}); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("Commit of %s: %v, want an error that is ErrInvalid", name, err)
		}
	}
	if rec, err := s.Load(t.Context(), "good"); err != nil || rec.Version != 0 {
		t.Errorf("a write beside refused ones landed: version %d, %v", rec.Version, err)
	}
	for _, id := range []attend.DecisionID{"\x00", "\xff", attend.DecisionID(strings.Repeat("x", 1<<20))} {
		if _, err := s.Log().Find(t.Context(), id, ""); !errors.Is(err, attend.ErrNotFound) {
			t.Errorf("Find of an id that no row has: %v, want an error that is ErrNotFound", err)
		}
	}
}

// More than one statement carries.
func TestLargeCommit(t *testing.T) {
	pool := newPool(t, serverURL(t))
	s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
	const n = 10_000
	writes := make([]attend.Write, n)
	for i := range writes {
		writes[i] = attend.Write{Scope: attend.Scope(fmt.Sprint("s", i)), Inputs: [][]byte{{byte(i)}}}
	}
	writes[5000].Expect = 7 // which is a conflict
	out, err := s.Commit(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if o.Conflict() != (i == 5000) {
			t.Fatalf("outcome %d of %d is a conflict: %v", i, n, o.Conflict())
		}
	}
	big := make([]attend.Write, 3)
	for i := range big {
		big[i] = attend.Write{Scope: attend.Scope(fmt.Sprint("big", i)), Snapshot: make([]byte, 30<<20)}
	}
	if out, err = s.Commit(t.Context(), big); err != nil || slices.ContainsFunc(out, attend.Outcome.Conflict) {
		t.Fatalf("Commit of three snapshots of 30 MiB = %v, %v", out, err)
	}
	if rec, err := s.Load(t.Context(), "big2"); err != nil || len(rec.Snapshot) != 30<<20 {
		t.Errorf("a snapshot of 30 MiB comes back with %d bytes, %v", len(rec.Snapshot), err)
	}
}

// A version that no scope can have is a conflict, not an error.
func TestVersionsOutOfRange(t *testing.T) {
	pool := newPool(t, serverURL(t))
	s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
	put(t, s, attend.Write{Scope: "a", Inputs: [][]byte{{1}}})
	for _, v := range []uint64{1<<63 - 1, 1 << 63, 1<<64 - 1} {
		for _, w := range []attend.Write{{Scope: "a", Expect: v}, {Scope: "a", Expect: v, Forget: true}, {Scope: "new", Expect: v, Snapshot: []byte{1}}} {
			out, err := s.Commit(t.Context(), []attend.Write{w})
			if err != nil || !out[0].Conflict() {
				t.Errorf("Commit at version %d = %+v, %v, want a conflict", v, out, err)
			}
		}
	}
}
