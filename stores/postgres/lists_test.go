package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// Whatever a prefix covers is in the list that a reader of it reads.
func TestListsHoldWhatAPrefixCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	name := func() string {
		var b strings.Builder
		for range 1 + r.IntN(9) {
			b.WriteByte("ab/:"[r.IntN(4)])
		}
		return b.String()
	}
	covered := 0
	for range 200_000 {
		scope, prefix := attend.Scope(name()), attend.Prefix(name())
		if r.IntN(2) == 0 {
			prefix = attend.Prefix(scope[:r.IntN(len(scope)+1)])
		}
		if !prefix.Covers(scope) {
			continue
		}
		covered++
		lists := postgres.Lists(attend.RowLetter, scope)
		if key, level := postgres.ListFor(attend.RowLetter, prefix); level > 0 && lists[level-1] != key {
			t.Fatalf("a reader of %q reads a list that a row of %q is not in", prefix, scope)
		}
	}
	if covered < 10_000 {
		t.Errorf("only %d pairs of a prefix and a scope that it covers: the test looks at too few", covered)
	}
}

// A million other rows cost a reader nothing: each page and each wait comes from
// an index that has just the rows asked for, in their order.
func TestNarrowReadsUseTheirIndex(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s := storeOn(t, pool, c)
	// Verdict rows of other scopes by the thousand, and of this one a few rows of
	// each type between them.
	if _, err := pool.Exec(t.Context(), postgres.Named(c, `INSERT INTO {rows} (base, type, scope, id, at, k1, k2, body)
		SELECT 0, 'verdict', 'other/' || n % 50, n::text, 0, 1, 1000 + n % 50, '' FROM generate_series(1, 30000) n`)); err != nil {
		t.Fatal(err)
	}
	var want []attend.DecisionID
	for i := range 20 {
		for _, scope := range []attend.Scope{"ops/db", "ops:x", "opsx", "a/b/c/d/e/f", "a/b/c/d/x"} {
			id := fmt.Sprint(scope, i)
			verdict := decisionRow(scope, "v"+id)
			verdict.Type = attend.RowVerdict
			put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint("w-", id)), Rows: []attend.Row{verdict, decisionRow(scope, id)}})
			if attend.Prefix("ops").Covers(scope) {
				want = append(want, attend.DecisionID(id))
			}
		}
	}
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "ANALYZE {rows}")); err != nil {
		t.Fatal(err)
	}
	all := []attend.RowType{attend.RowDecision, attend.RowVerdict, attend.RowLetter}
	for name, q := range map[string]attend.Query{
		"decisions":                       {},
		"decisions of a prefix":           {Prefix: "ops"},
		"verdict rows of a prefix":        {Prefix: "ops/", Types: all[1:2]},
		"all types of a prefix":           {Prefix: "ops", Types: all},
		"a prefix of six levels":          {Prefix: "a/b/c/d/e/f", Types: all},
		"a prefix that nothing is behind": {Prefix: "nothing", Types: all},
	} {
		for what, statement := range map[string]func(*postgres.Store, attend.Query) (string, []any){"Read": postgres.ReadStatement, "Wait": postgres.WaitStatement} {
			sql, args := statement(s, q)
			if n := buffers(t, pool, sql, args); n > 250 {
				t.Errorf("%s of %s looks at %d blocks, want few", what, name, n)
			}
		}
	}
	if got, _ := ids(t, s.Log(), attend.Query{Prefix: "ops"}); !slices.Equal(got, want) {
		t.Errorf("decisions of a prefix are %v, want %v", got, want)
	}
	if got, _ := ids(t, s.Log(), attend.Query{Prefix: "a/b/c/d/e"}); len(got) != 20 {
		t.Errorf("decisions of a prefix of five levels are %v, want 20", got)
	}
}

// buffers is how many blocks the server looks at for a statement, with a plan
// that it made without the arguments.
func buffers(t testing.TB, pool *pgxpool.Pool, sql string, args []any) (blocks int) {
	t.Helper()
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_generic_plan"); err != nil {
			return err
		}
		var plan []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&plan); err != nil {
			return err
		}
		blocks = plan[0].Plan.Hit + plan[0].Plan.Read
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}
