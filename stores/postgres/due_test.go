package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/stores/postgres"
)

// due collects what Due yields.
func due(t testing.TB, s attend.ScopeStore, now time.Time) (scopes []attend.Scope) {
	t.Helper()
	for scope, err := range s.Due(context.Background(), now) {
		if err != nil {
			t.Fatal(err)
		}
		scopes = append(scopes, scope)
	}
	return scopes
}

// Due times move in all directions, at random. What the index holds is a lower
// bound, and Due yields what the reference store does, in its order.
func TestDueAsTheReference(t *testing.T) {
	pool := newPool(t, serverURL(t))
	s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
	model := memory.New()
	const scopes = 600
	versions := make(map[attend.Scope][2]uint64)
	r := rand.New(rand.NewPCG(1, 4))
	for round := range 12 {
		var groups [2][]attend.Write
		for _, i := range r.Perm(scopes)[:200] {
			scope := attend.Scope(fmt.Sprintf("s%03d", i))
			w := attend.Write{Scope: scope}
			switch n := r.IntN(10); {
			case n < 2:
			case n < 4 && versions[scope][0] > 0:
				w.KeepDue = true
			case n < 5 && versions[scope][0] > 0:
				w.Forget = true
			default:
				w.Due = noon.Add(time.Duration(r.IntN(100)) * time.Millisecond)
			}
			for k := range groups {
				w.Expect = versions[scope][k]
				groups[k] = append(groups[k], w)
			}
		}
		for k, store := range []attend.ScopeStore{s, model} {
			out, err := store.Commit(t.Context(), groups[k])
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range out {
				w := groups[k][i]
				v := versions[w.Scope]
				if v[k] = o.Version; w.Forget {
					v[k] = 0
				}
				versions[w.Scope] = v
			}
		}
		for range 4 {
			now := noon.Add(time.Duration(r.IntN(110)-5) * time.Millisecond)
			if got, want := due(t, s, now), due(t, model, now); !slices.Equal(got, want) {
				t.Fatalf("round %d, at noon%+d ms: Due = %v, want %v", round, now.Sub(noon).Milliseconds(), got, want)
			}
		}
	}
}

// looks is the index of due times: how many scopes it has at all, and how many
// whose due time is another.
func looks(t testing.TB, pool *pgxpool.Pool, c postgres.Config) (all, stale int) {
	t.Helper()
	err := pool.QueryRow(context.Background(), postgres.Named(c, `SELECT count(look), count(*) FILTER (WHERE look IS NOT NULL AND look IS DISTINCT FROM due) FROM {scopes}`)).Scan(&all, &stale)
	if err != nil {
		t.Fatal(err)
	}
	return all, stale
}

// eventually waits until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 20 s still not: %s", what)
		}
	}
}

// The index changes when a due time moves before it, and when Due comes upon a
// scope that is not due; not with each commit.
func TestDueIndexIsWrittenLazily(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s := storeOn(t, pool, c)
	const n = 300
	var versions [n]uint64
	set := func(due time.Time, keep bool) {
		t.Helper()
		var writes []attend.Write
		for i := range versions {
			writes = append(writes, attend.Write{Scope: attend.Scope(fmt.Sprint("s", i)), Expect: versions[i], Due: due, KeepDue: keep})
		}
		out, err := s.Commit(t.Context(), writes)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range out {
			versions[i] = o.Version
		}
	}
	check := func(when string, all, stale int) {
		t.Helper()
		if a, b := looks(t, pool, c); a != all || b != stale {
			t.Errorf("%s the index has %d scopes, %d of them stale, want %d and %d", when, a, b, all, stale)
		}
	}
	set(noon, false)
	check("with a first due time", n, 0)
	set(noon.Add(time.Minute), false)
	check("with a due time put off", n, n)
	set(time.Time{}, true)
	check("after KeepDue", n, n)
	set(noon.Add(-time.Minute), false)
	check("with a due time moved forward", n, 0)
	set(time.Time{}, false)
	check("with no due time", n, n)

	if got := due(t, s, noon); len(got) > 0 {
		t.Errorf("Due yields %d scopes that have no due time", len(got))
	}
	eventually(t, "scopes that are never due are out of the index", func() bool {
		due(t, s, noon)
		all, _ := looks(t, pool, c)
		return all == 0
	})
	set(noon, false)
	set(noon.Add(time.Minute), false)
	eventually(t, "the index says when scopes are due", func() bool {
		due(t, s, noon)
		all, stale := looks(t, pool, c)
		return all == n && stale == 0
	})
	if got := due(t, s, noon.Add(time.Minute)); len(got) != n {
		t.Errorf("Due yields %d of %d scopes", len(got), n)
	}
}

// A group that holds a scope's row does not hold up who tidies the index, and
// tidying waits for nobody.
func TestMendingWaitsForNobody(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s := storeOn(t, pool, c)
	for _, scope := range []attend.Scope{"held", "free"} {
		v := put(t, s, attend.Write{Scope: scope, Due: noon})
		put(t, s, attend.Write{Scope: scope, Expect: v, Due: noon.Add(time.Hour)})
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), postgres.Named(c, "SELECT FROM {scopes} WHERE scope = 'held' FOR UPDATE")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "only the scope that is held is left in the index", func() bool {
		if got := due(t, s, noon); len(got) > 0 {
			t.Fatalf("Due yields %q, want nothing", got)
		}
		_, stale := looks(t, pool, c)
		return stale == 1
	})
}
