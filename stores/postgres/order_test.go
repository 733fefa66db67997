package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
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

// slowly runs f in a transaction of its own that ends some time after it has its
// positions, and is given up now and then.
func slowly(pool *pgxpool.Pool, r *rand.Rand, f func(tx pgx.Tx) error) (landed bool, err error) {
	ctx := context.Background()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx)
	if err := f(tx); err != nil {
		return false, err
	}
	time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
	if r.IntN(5) == 0 {
		return false, nil
	}
	return true, tx.Commit(ctx)
}

// tailed runs slow writers beside readers that follow the log, and returns what
// the readers missed of what is there in the end.
func tailed(t *testing.T, writers int, write func(r *rand.Rand, id string) (bool, error), read func(after string) (ids []string, at string, err error)) (missed []string) {
	t.Helper()
	var landed atomic.Int64
	var done atomic.Bool
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for n := range 25 {
				ok, err := write(r, fmt.Sprintf("%d-%d", w, n))
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					landed.Add(1)
				}
			}
		})
	}
	seen := make([][]string, 2)
	for i := range seen {
		reading.Go(func() {
			at := ""
			for last := false; !last; {
				last = done.Load()
				got, behind, err := read(at)
				if err != nil {
					t.Error(err)
					return
				}
				at, seen[i] = behind, append(seen[i], got...)
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	all, _, err := read("")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != int(landed.Load()) {
		t.Errorf("%d rows landed, and the log has %d", landed.Load(), len(all))
	}
	for _, got := range seen {
		for _, id := range all {
			if !slices.Contains(got, id) {
				missed = append(missed, id)
			}
		}
		if len(missed) == 0 && !slices.Equal(got, all) {
			t.Errorf("a reader saw %v, want %v", got, all)
		}
	}
	return missed
}

// A position that is taken early and committed late is never passed by. Without
// the turn it would be, and this test sees it.
func TestSlowWritersOfTheLog(t *testing.T) {
	for _, turns := range []bool{true, false} {
		pool := newPool(t, serverURL(t)+"&pool_max_conns=12")
		s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
		write := func(r *rand.Rand, id string) (bool, error) {
			sql, args := postgres.CommitStatement(s, []attend.Write{{Scope: attend.Scope("s/" + id), Rows: []attend.Row{decisionRow("s", id)}}})
			return slowly(pool, r, func(tx pgx.Tx) error {
				_, err := tx.Exec(context.Background(), turnless(t, sql, turns), args...)
				return err
			})
		}
		read := func(after string) (found []string, at string, err error) {
			c, err := attend.ParseLogCursor(after)
			at = after
			for e, err := range s.Log().Read(context.Background(), attend.Query{After: c}) {
				if err != nil {
					return nil, "", err
				}
				found, at = append(found, string(e.ID)), e.Cursor.String()
			}
			return found, at, err
		}
		if missed := tailed(t, 8, write, read); (len(missed) == 0) != turns {
			t.Errorf("with turns %v, readers miss %d rows", turns, len(missed))
		}
	}
}

// turnless takes the turn out of a statement, unless it is to stay.
func turnless(t testing.TB, sql string, stays bool) string {
	const lock = "FOR NO KEY UPDATE"
	i := strings.LastIndex(sql, lock)
	if i < 0 {
		t.Error("the statement takes no turn")
	}
	if stays || i < 0 {
		return sql
	}
	return sql[:i] + sql[i+len(lock):]
}

func TestSlowWritersOfTheEventLog(t *testing.T) {
	for _, turns := range []bool{true, false} {
		pool := newPool(t, serverURL(t)+"&pool_max_conns=12")
		l := logOn(t, pool, migrated(t, pool, postgres.Config{}))
		write := func(r *rand.Rand, id string) (bool, error) {
			body, err := json.Marshal(attend.Event{ID: id, Name: "n"})
			if err != nil {
				return false, err
			}
			return slowly(pool, r, func(tx pgx.Tx) error {
				sql, args := postgres.AppendStatement(l, "ops", id, body)
				_, err := tx.Exec(context.Background(), turnless(t, sql, turns), args...)
				return err
			})
		}
		read := func(after string) (found []string, at string, err error) {
			at = after
			for b, err := range l.Batches(context.Background(), "ops", attend.Cursor(after)) {
				if err != nil || b.Gap {
					return nil, "", fmt.Errorf("gap %v: %w", b.Gap, err)
				}
				for _, e := range b.Events {
					found = append(found, e.ID)
				}
				at = string(b.Cursor)
			}
			return found, at, nil
		}
		if missed := tailed(t, 8, write, read); (len(missed) == 0) != turns {
			t.Errorf("with turns %v, readers miss %d events", turns, len(missed))
		}
	}
}

// A commit with rows waits for one that has its positions; one without rows
// waits for nobody.
func TestTurnIsForRowsAlone(t *testing.T) {
	pool := newPool(t, serverURL(t))
	s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
	sql, args := postgres.CommitStatement(s, []attend.Write{{Scope: "slow", Rows: []attend.Row{decisionRow("slow", "first")}}})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "other", Inputs: [][]byte{{1}}})
	second := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), []attend.Write{{Scope: "fast", Rows: []attend.Row{decisionRow("fast", "second")}}})
		second <- err
	}()
	select {
	case err := <-second:
		t.Errorf("a commit with rows did not wait for one under way: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if got, _ := ids(t, s.Log(), attend.Query{}); !slices.Equal(got, []attend.DecisionID{"first", "second"}) {
		t.Errorf("the log has %v, want first and second", got)
	}
}
