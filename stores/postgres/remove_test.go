package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// hold keeps a turn, so that a commit with rows waits with all its locks, until
// release is called.
func hold(t testing.TB, pool *pgxpool.Pool, c postgres.Config, turn string) (release func()) {
	t.Helper()
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // an error says that it was released
	if _, err := tx.Exec(t.Context(), postgres.Named(c, "SELECT FROM {turns} WHERE name = $1 FOR UPDATE"), turn); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Commit(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func snapshots(t testing.TB, pool *pgxpool.Pool, c postgres.Config) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), postgres.Named(c, "SELECT count(*) FROM {snapshots}")).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// beside runs f while a commit of w is under way, and returns the version that
// the commit gave.
func beside(t testing.TB, pool *pgxpool.Pool, c postgres.Config, w attend.Write, f func(*postgres.Store) error) uint64 {
	t.Helper()
	s := storeOn(t, pool, c)
	release := hold(t, pool, c, "decisions")
	w.Rows = []attend.Row{decisionRow(w.Scope, "d")}
	committed, ended := make(chan error, 1), make(chan error, 1)
	var out []attend.Outcome
	go func() {
		var err error
		out, err = s.Commit(context.Background(), []attend.Write{w})
		committed <- err
	}()
	time.Sleep(100 * time.Millisecond)
	go func() { ended <- f(s) }()
	time.Sleep(200 * time.Millisecond)
	release()
	for _, done := range []chan error{committed, ended} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	return out[0].Version
}

// What a commit under way brings goes with the scope that Remove waits for.
func TestRemoveTakesTheSnapshotOfACommitUnderWay(t *testing.T) {
	pool := newPool(t, serverURL(t)+"&pool_max_conns=6")
	c := migrated(t, pool, postgres.Config{})
	version := put(t, storeOn(t, pool, c), attend.Write{Scope: "ops", Inputs: [][]byte{{1}}})
	w := attend.Write{Scope: "ops", Expect: version, Snapshot: []byte("secret")}
	beside(t, pool, c, w, func(s *postgres.Store) error { return s.Remove(context.Background(), "ops") })
	if n := snapshots(t, pool, c); n != 0 {
		t.Errorf("after Remove %d snapshots are left, want none", n)
	}
}

// A scope that is being made is not there yet, whatever is left of an earlier one.
func TestRemoveLeavesAScopeThatIsBeingMade(t *testing.T) {
	pool := newPool(t, serverURL(t)+"&pool_max_conns=6")
	c := migrated(t, pool, postgres.Config{})
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "INSERT INTO {snapshots} VALUES ('ops', 7, '\\x00')")); err != nil {
		t.Fatal(err)
	}
	version := beside(t, pool, c, attend.Write{Scope: "ops", Snapshot: []byte("new")}, func(s *postgres.Store) error {
		return s.Remove(context.Background(), "ops")
	})
	rec, err := storeOn(t, pool, c).Load(t.Context(), "ops")
	if err != nil || rec.Version != version || string(rec.Snapshot) != "new" {
		t.Errorf("Load = version %d, %q, %v, want %d and what was acknowledged", rec.Version, rec.Snapshot, err, version)
	}
}

// A Forget is of one version, which it knows from who committed it.
func TestForgetTakesItsSnapshot(t *testing.T) {
	pool := newPool(t, serverURL(t)+"&pool_max_conns=6")
	c := migrated(t, pool, postgres.Config{})
	version := put(t, storeOn(t, pool, c), attend.Write{Scope: "ops", Inputs: [][]byte{{1}}})
	var lost attend.Outcome
	w := attend.Write{Scope: "ops", Expect: version, Snapshot: []byte("secret")}
	next := beside(t, pool, c, w, func(s *postgres.Store) error {
		out, err := s.Commit(context.Background(), []attend.Write{{Scope: "ops", Expect: version, Forget: true}})
		if err == nil {
			lost = out[0]
		}
		return err
	})
	if rec, err := storeOn(t, pool, c).Load(t.Context(), "ops"); err != nil || string(rec.Snapshot) != "secret" || !lost.Conflict() {
		t.Errorf("a Forget that lost its race: outcome %+v, Load = %q, %v", lost, rec.Snapshot, err)
	}
	put(t, storeOn(t, pool, c), attend.Write{Scope: "ops", Expect: next, Forget: true})
	if n := snapshots(t, pool, c); n != 0 {
		t.Errorf("after Forget %d snapshots are left, want none", n)
	}
}

func TestSnapshotThatIsMissing(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s := storeOn(t, pool, c)
	put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("state")})
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "DELETE FROM {snapshots}")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), "ops"); !errors.Is(err, attend.ErrCorrupt) {
		t.Errorf("Load without its snapshot: %v, want an error that is ErrCorrupt", err)
	}
}

// A failover may lose a version that somebody has seen. What another writes in
// its place is another version.
func TestVersionsAreNotUsedAgain(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s := storeOn(t, pool, c)
	first := put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{{1}}})
	lost := put(t, s, attend.Write{Scope: "ops", Expect: first, Inputs: [][]byte{{2}}})
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "UPDATE {scopes} SET version = $1"), int64(first)); err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "ops", Expect: first, Inputs: [][]byte{{3}}})
	out, err := s.Commit(t.Context(), []attend.Write{{Scope: "ops", Expect: lost, Inputs: [][]byte{{4}}}})
	if err != nil || !out[0].Conflict() {
		t.Errorf("Commit at a version that was lost = %+v, %v, want a conflict", out, err)
	}
}
