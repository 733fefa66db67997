package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// verdict is a verdict row.
func verdict(id string) attend.Row {
	r := decisionRow("ops", id)
	r.Type = attend.RowVerdict
	return r
}

// Several processes keep one log; verdict rows push no decision out, and what is
// left has no holes.
func TestRetainInTheBackground(t *testing.T) {
	pool := newPool(t, serverURL(t)+"&pool_max_conns=12")
	log, told := quietLog()
	c := migrated(t, pool, postgres.Config{Retain: attend.Retain{Count: 40, Verdicts: 20}, Logger: log})
	var all sync.WaitGroup
	for h := range 3 {
		s := storeOn(t, pool, c)
		all.Go(func() {
			for i := range 200 {
				id := fmt.Sprintf("%d-%d", h, i)
				w := attend.Write{Scope: attend.Scope(id), Rows: []attend.Row{decisionRow("ops", id), verdict(id), verdict(id)}}
				if _, err := s.Commit(context.Background(), []attend.Write{w}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	s := storeOn(t, pool, c)
	verdicts := attend.Query{Types: []attend.RowType{attend.RowVerdict}}
	// A few more rows bring each process's keeper to its step.
	n := 0
	eventually(t, "the log holds little more than it is to keep", func() bool {
		n++
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint("more-", n)), Rows: []attend.Row{decisionRow("ops", fmt.Sprint("more-", n)), verdict("v")}})
		d, _ := ids(t, s.Log(), attend.Query{})
		v, _ := ids(t, s.Log(), verdicts)
		return len(d) < 60 && len(v) < 40
	})
	got, _ := ids(t, s.Log(), attend.Query{})
	if len(got) < 40 || got[len(got)-1] != attend.DecisionID(fmt.Sprint("more-", n)) {
		t.Errorf("%d decisions are left, the last is %q, want the newest 40 at least", len(got), got[len(got)-1])
	}
	if strings.Contains(told.String(), "trimmed") {
		t.Errorf("trimming had trouble: %s", told)
	}
}

// Ages count from the newest row, so that a log that is written with last year's
// times is kept.
func TestRetainByAgeReadsNoClock(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{Retain: attend.Retain{Age: time.Hour, Count: 1000}})
	s := storeOn(t, pool, c)
	for i := range 200 {
		r := decisionRow("ops", fmt.Sprint(i))
		r.At = time.Date(2001, 1, 1, 0, i, 0, 0, time.UTC)
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: []attend.Row{r}})
	}
	n := 200
	eventually(t, "rows that are older than the newest one by more than an hour are gone", func() bool {
		r := decisionRow("ops", fmt.Sprint(n))
		r.At = time.Date(2001, 1, 1, 0, 199, 0, 0, time.UTC)
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint(n)), Rows: []attend.Row{r}})
		n++
		got, _ := ids(t, s.Log(), attend.Query{})
		return got[0] == "139"
	})
	got, _ := ids(t, s.Log(), attend.Query{})
	if len(got) != n-139 {
		t.Errorf("%d rows are left, want those of the last hour, %d", len(got), n-139)
	}
}

// Who trims has a turn. Trim waits for it; the background leaves it to the other.
func TestOneTrimsAtATime(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{Retain: attend.Retain{Count: 16}})
	s := storeOn(t, pool, c)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), postgres.Named(c, "SELECT FROM {turns} WHERE name = 'trim' FOR UPDATE")); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: []attend.Row{decisionRow("ops", fmt.Sprint(i))}})
	}
	trimmed := make(chan error, 1)
	go func() {
		trimmed <- storeOn(t, pool, postgres.Config{Prefix: c.Prefix}).Log().Trim(context.Background(), attend.Retain{Count: 3}, noon)
	}()
	select {
	case err := <-trimmed:
		t.Fatalf("Trim did not wait for its turn: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if got, _ := ids(t, s.Log(), attend.Query{}); len(got) != 60 {
		t.Errorf("while somebody else has the turn %d of 60 rows are left", len(got))
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-trimmed; err != nil {
		t.Fatal(err)
	}
	if got, _ := ids(t, s.Log(), attend.Query{}); !slices.Equal(got, []attend.DecisionID{"57", "58", "59"}) {
		t.Errorf("after Trim to three rows the log has %v", got)
	}
}

// Many trims at once leave what one would.
func TestTrimsAtOnce(t *testing.T) {
	pool := newPool(t, serverURL(t)+"&pool_max_conns=12")
	s := storeOn(t, pool, migrated(t, pool, postgres.Config{}))
	for i := range 7 {
		rows := make([]attend.Row, 500)
		for k := range rows {
			rows[k] = decisionRow("ops", fmt.Sprint(500*i+k))
		}
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: rows})
	}
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			if err := s.Log().Trim(context.Background(), attend.Retain{Count: 5 + n}, noon); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, _ := ids(t, s.Log(), attend.Query{}); len(got) != 5 || got[0] != "3495" {
		t.Errorf("after several trims the log has %v, want the newest five", got)
	}
}

// An event log goes by the server's clock.
func TestEventsAreKeptByAge(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{Retain: attend.Retain{Age: time.Hour, Count: 64}})
	l := logOn(t, pool, c)
	addEvents(t, l, 1, 30)
	_, at, _ := eventIDs(t, l, "ops", "")
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "UPDATE {events} SET taken = taken - 7200000 WHERE seq <= 20")); err != nil {
		t.Fatal(err)
	}
	n := 0
	eventually(t, "events that were taken two hours ago are gone", func() bool {
		n++
		if err := l.Append(t.Context(), "other", []attend.Event{{ID: fmt.Sprint(n), Name: "n"}}); err != nil {
			t.Fatal(err)
		}
		got, _, _ := eventIDs(t, l, "ops", "")
		return len(got) == 10
	})
	if got, _, gap := eventIDs(t, l, "ops", at); len(got) > 0 || gap {
		t.Errorf("behind what was read there is %v with gap %v, want nothing", got, gap)
	}
}

// Producers of all processes append at once, and some send again.
func TestProducersAtOnce(t *testing.T) {
	pool := newPool(t, serverURL(t)+"&pool_max_conns=12")
	c := migrated(t, pool, postgres.Config{})
	var all sync.WaitGroup
	const producers, each = 16, 25
	for p := range producers {
		l := logOn(t, pool, c)
		for range 2 {
			all.Go(func() {
				for i := range each {
					e := attend.Event{ID: fmt.Sprintf("%d-%d", p, i), Name: "n", Data: []byte(`{"a":1}`)}
					if err := l.Append(context.Background(), attend.Scope(fmt.Sprint("s", p%3)), []attend.Event{e}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	l, total := logOn(t, pool, c), 0
	for i := range 3 {
		got, _, _ := eventIDs(t, l, attend.Scope(fmt.Sprint("s", i)), "")
		total += len(got)
		place := make(map[string]int)
		for _, id := range got {
			var p, n int
			if _, err := fmt.Sscanf(id, "%d-%d", &p, &n); err != nil {
				t.Fatal(err)
			}
			if key := fmt.Sprint(p); place[key] != n {
				t.Errorf("event %s comes after %d of its producer's", id, place[key])
			} else {
				place[key]++
			}
		}
	}
	if total != producers*each {
		t.Errorf("the log has %d events, want %d", total, producers*each)
	}
}

// Looking for what is too old costs what is, however much is not.
func TestAgeReadsNoMoreThanItDeletes(t *testing.T) {
	pool := newPool(t, newDatabase(t, ""))
	c := migrated(t, pool, postgres.Config{})
	s := storeOn(t, pool, c)
	const old, young = 1500, 30_000
	if _, err := pool.Exec(t.Context(), postgres.Named(c, `INSERT INTO {rows} (base, type, scope, id, at, body)
		SELECT 0, 'decision', 'ops', n, CASE WHEN n <= $1 AND n <> 5 THEN 0 ELSE $2::bigint END, '{}' FROM generate_series(1, $3::int) n`),
		old, noon.UnixMilli(), old+young); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "VACUUM ANALYZE {rows}")); err != nil {
		t.Fatal(err)
	}
	read := func() (n int) {
		pool.Reset() // a session tells what it has read when it ends
		// Up to PostgreSQL 14 it tells a process that others hear of half a second
		// later.
		for last := -1; n != last; {
			last = n
			time.Sleep(600 * time.Millisecond)
			if err := pool.QueryRow(t.Context(), `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)
				+ (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)`).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	trim := func() {
		if err := s.Log().Trim(t.Context(), attend.Retain{Age: time.Hour}, noon); err != nil {
			t.Fatal(err)
		}
	}
	trim()
	if got, _ := ids(t, s.Log(), attend.Query{}); len(got) != young || got[0] != attend.DecisionID(fmt.Sprint(old+1)) {
		t.Errorf("%d rows are left, from %s on, want %d, from %d on", len(got), got[0], young, old+1)
	}
	before := read()
	trim()
	if n := read() - before; n > young/4 {
		t.Errorf("a Trim with nothing to delete read %d rows of %d", n, young)
	}
}

// A count that is more than one statement counts is still exact.
func TestWalk(t *testing.T) {
	for _, rows := range []int64{0, 1, 99_999, 100_000, 100_001, 250_000} {
		for _, count := range []int{1, 99_999, 100_000, 100_001, 249_999, 250_000, 1 << 62} {
			got, err := postgres.Walk(count, func(before int64, step int) (int64, error) {
				if step < 1 || step > 100_000 {
					t.Fatalf("a step of %d rows", step)
				}
				return max(min(before, rows+1)-int64(step), 0), nil
			})
			if want := max(rows-int64(count), 0); err != nil || got != want {
				t.Errorf("the newest row of %d that is too many for %d is %d, %v, want %d", rows, count, got, err, want)
			}
		}
	}
}
