package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// shifted writes the times of rows into a table, in minutes from those that
// they have.
func shifted(t testing.TB, pool *pgxpool.Pool, c postgres.Config, table, column string, minutes []int) {
	t.Helper()
	sql := postgres.Named(c, `UPDATE `+table+` r SET `+column+` = r.`+column+` + 60000 * m.by
		FROM (SELECT pos, row_number() OVER (ORDER BY pos) AS n FROM `+table+`) p,
			unnest($1::bigint[]) WITH ORDINALITY AS m (by, n) WHERE p.pos = r.pos AND m.n = p.n`)
	if _, err := pool.Exec(t.Context(), sql, minutes); err != nil {
		t.Fatal(err)
	}
}

// many is a number, n times.
func many(n, minutes int) []int { return slices.Repeat([]int{minutes}, n) }

// The clock of a log's writers was put right, forth or back. What an hour's
// retention deletes is always the beginning of the log, so that what is kept can
// be read and whoever stood before it is told; nothing young goes; and rows of a
// clock that was ahead don't keep what is behind them for long.
func TestAgeWhereTheClockJumped(t *testing.T) {
	const old, young, ahead, year = -100, -10, 100, 365 * 24 * 60
	for _, c := range []struct {
		name string
		at   []int // minutes from now
		gone int
	}{
		{"in order", []int{old, old, young, young}, 2},
		{"nothing old", []int{young, young}, 0},
		{"all old", []int{old, old}, 2},
		{"one ahead between old ones", []int{old, ahead, old, old, young}, 4},
		{"one ahead before all", []int{year, old, old, young}, 3},
		{"one ahead before young ones", []int{ahead, young, old, young}, 0},
		{"one ahead behind the old ones", []int{old, ahead, young}, 1},
		{"one behind, among young ones", []int{old, young, -year, young}, 1},
		{"many ahead", slices.Concat(many(2500, year), many(1200, old), many(5, young)), 3700},
		{"many ahead, and young ones", slices.Concat(many(2500, year), many(5, young)), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := newPool(t, serverURL(t))
			cfg := migrated(t, pool, postgres.Config{Retain: attend.Retain{Age: time.Hour}})
			var events []attend.Event
			var rows []attend.Row
			for i := range c.at {
				events = append(events, attend.Event{ID: fmt.Sprint(i), Name: "n"})
				rows = append(rows, decisionRow("ops", fmt.Sprint(i)))
			}

			l := logOn(t, pool, postgres.Config{Prefix: cfg.Prefix, Retain: cfg.Retain})
			if err := l.Append(t.Context(), "ops", events[:1]); err != nil {
				t.Fatal(err)
			}
			_, first, _ := eventIDs(t, l, "ops", "")
			if err := l.Append(t.Context(), "ops", events); err != nil {
				t.Fatal(err)
			}
			shifted(t, pool, cfg, "{events}", "taken", c.at)
			postgres.RetainEvents(t.Context(), l)
			kept := 0
			if err := pool.QueryRow(t.Context(), postgres.Named(cfg, "SELECT count(*) FROM {events}")).Scan(&kept); err != nil {
				t.Fatal(err)
			}
			got, _, _ := eventIDs(t, l, "ops", "")
			if want := len(c.at) - c.gone; kept != want || len(got) != want || want > 0 && got[0] != fmt.Sprint(c.gone) {
				t.Errorf("%d events are kept and %d can be read, want the last %d", kept, len(got), want)
			}
			if _, _, gap := eventIDs(t, l, "ops", first); gap != (c.gone > 1) {
				t.Errorf("behind the first event, when %d are gone, the gap is %v", c.gone, gap)
			}

			// Ages count from the newest row.
			s := storeOn(t, pool, cfg)
			put(t, s, attend.Write{Scope: "ops", Rows: append(rows, decisionRow("ops", fmt.Sprint(len(rows))))})
			shifted(t, pool, cfg, "{rows}", "at", append(c.at, 0))
			postgres.Retain(t.Context(), s)
			left, _ := ids(t, s.Log(), attend.Query{})
			if want := len(rows) + 1 - c.gone; len(left) != want || left[0] != attend.DecisionID(fmt.Sprint(c.gone)) {
				t.Errorf("%d rows are kept, from %s on, want the last %d", len(left), left[0], want)
			}
		})
	}
}
