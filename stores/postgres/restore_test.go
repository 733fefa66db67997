package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// program finds one of PostgreSQL's own.
func program(t testing.TB, name string) string {
	t.Helper()
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("%s is not installed", name)
	}
	return slices.Max(found)
}

// dump copies the tables of a prefix from one server to another.
func dump(t testing.TB, from, to string, c postgres.Config, args ...string) {
	t.Helper()
	args = append([]string{"--dbname=" + from, "--table=" + c.Prefix + "*", "--no-owner"}, args...)
	var text, trouble bytes.Buffer
	out := exec.Command(program(t, "pg_dump"), args...)
	out.Stdout, out.Stderr = &text, &trouble
	if err := out.Run(); err != nil {
		t.Fatalf("pg_dump: %v: %s", err, trouble.String())
	}
	in := exec.Command(program(t, "psql"), "--dbname="+to, "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1")
	in.Stdin, in.Stderr = &text, &trouble
	if err := in.Run(); err != nil {
		t.Fatalf("psql: %v: %s", err, trouble.String())
	}
}

// A restored dump is another life of the log. A reader that comes with a cursor
// of the first one is told so, whatever it had read, and nothing is stuck: not
// because the new server has seen fewer transactions, nor because its sequences
// are behind.
func TestDumpAndRestore(t *testing.T) {
	old := newDatabase(t, "")
	fresh := ownServer(t, nil)
	for _, c := range []struct {
		name   string
		server string
		change string // on the restored tables
	}{
		{"into a new cluster", fresh.URL(), ""},
		{"into another database", newDatabase(t, ""), ""},
		{"with sequences that begin again", newDatabase(t, ""), "ALTER TABLE {rows} ALTER seq RESTART; ALTER TABLE {events} ALTER seq RESTART; UPDATE {turns} SET lineage = 'another/1' WHERE lineage IS NOT NULL"},
	} {
		t.Run(c.name, func(t *testing.T) { testRestore(t, old, c.server, c.change) })
	}
}

func testRestore(t *testing.T, from, to, change string) {
	ctx := t.Context()
	oldPool, newPool := newPool(t, from), newPool(t, to)
	c := migrated(t, oldPool, postgres.Config{})
	// The old server's transactions are many, so that their numbers are higher
	// than any of the new one's.
	for range 200 {
		if _, err := oldPool.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
			t.Fatal(err)
		}
	}
	s, l := storeOn(t, oldPool, c), logOn(t, oldPool, c)
	addRows(t, s, 1, 20)
	addEvents(t, l, 1, 20)
	version := put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{{1}}, Due: noon})

	dump(t, from, to, c)
	t.Cleanup(func() { dropTables(t, newPool, c.Prefix) })
	if change != "" {
		if _, err := newPool.Exec(ctx, postgres.Named(c, change)); err != nil {
			t.Fatal(err)
		}
	}
	// The old one lives on for a while, and a reader follows it.
	addRows(t, s, 21, 30)
	addEvents(t, l, 21, 30)
	_, before := ids(t, s.Log(), attend.Query{})
	_, eventsBefore, _ := eventIDs(t, l, "ops", "")

	restored, events := storeOn(t, newPool, c), logOn(t, newPool, c)
	if rec, err := restored.Load(ctx, "ops"); err != nil || rec.Version != version {
		t.Fatalf("Load of a restored scope = version %d, %v, want %d", rec.Version, err, version)
	}
	for round := range 2 { // before and after the new one has gone on
		for err := range errorsOf(restored.Log(), attend.Query{After: before}) {
			if !errors.Is(err, attend.ErrTruncated) {
				t.Errorf("round %d: Read behind a cursor of before: %v, want an error that is ErrTruncated", round, err)
			}
		}
		if err := restored.Log().(attend.Waiter).Wait(ctx, attend.Query{After: before}); err != nil {
			t.Errorf("round %d: Wait behind a cursor of before: %v, want nil at once", round, err)
		}
		if _, _, gap := eventIDs(t, events, "ops", eventsBefore); !gap {
			t.Errorf("round %d: Batches behind a cursor of before has no gap", round)
		}
		addRows(t, restored, 101, 120)
		addEvents(t, events, 101, 120)
	}
	got, after := ids(t, restored.Log(), attend.Query{})
	if want := numbers("d", 1, 20, 101, 120, 101, 120); !slices.Equal(got, want) {
		t.Errorf("the restored log has %v, want %v", got, want)
	}
	if more, _ := ids(t, restored.Log(), attend.Query{After: after}); len(more) > 0 {
		t.Errorf("behind the newest there is %v", more)
	}
	evs, _, _ := eventIDs(t, events, "ops", "")
	if want := numbers("e", 1, 20, 101, 120); fmt.Sprint(evs) != fmt.Sprint(want) {
		t.Errorf("the restored event log has %v, want %v", evs, want)
	}
	// The tables can still be migrated, and the epoch stays.
	if err := postgres.Migrate(ctx, newPool, c); err != nil {
		t.Fatal(err)
	}
	if more, _ := ids(t, restored.Log(), attend.Query{After: after}); len(more) > 0 {
		t.Errorf("behind the newest, after Migrate, there is %v", more)
	}
}

func numbers(letter string, bounds ...int) (ids []attend.DecisionID) {
	for i := 0; i < len(bounds); i += 2 {
		for n := bounds[i]; n <= bounds[i+1]; n++ {
			ids = append(ids, attend.DecisionID(fmt.Sprint(letter, n)))
		}
	}
	return ids
}

func addRows(t testing.TB, s *postgres.Store, from, to int) {
	t.Helper()
	rec, err := s.Load(context.Background(), "rows")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range numbers("d", from, to) {
		rec.Version = put(t, s, attend.Write{Scope: "rows", Expect: rec.Version, Snapshot: []byte{1}, Rows: []attend.Row{decisionRow("ops", string(id))}})
	}
}

func addEvents(t testing.TB, l *postgres.EventLog, from, to int) {
	t.Helper()
	for _, id := range numbers("e", from, to) {
		if err := l.Append(context.Background(), "ops", []attend.Event{{ID: string(id), Name: "n"}}); err != nil {
			t.Fatal(err)
		}
	}
}

func eventIDs(t testing.TB, l *postgres.EventLog, scope attend.Scope, after attend.Cursor) (ids []string, at attend.Cursor, gap bool) {
	t.Helper()
	at = after
	for b, err := range l.Batches(context.Background(), scope, after) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			ids = append(ids, e.ID)
		}
		at, gap = b.Cursor, gap || b.Gap
	}
	return ids, at, gap
}

// errorsOf yields the errors of a read, and nil once where it has none.
func errorsOf(l attend.DecisionLog, q attend.Query) func(func(error) bool) {
	return func(yield func(error) bool) {
		var last error
		for _, err := range l.Read(context.Background(), q) {
			last = err
		}
		yield(last)
	}
}

// A replica that takes over, or a base backup that is brought forward, is the
// same life of the log, with its last rows lost. Its positions jump over those
// that were given out and lost, so that a reader that has read them misses
// nothing of what comes in their place.
func TestPositionsJumpWithTheLineage(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	addRows(t, s, 1, 10)
	addEvents(t, l, 1, 10)
	_, behind := ids(t, s.Log(), attend.Query{})
	_, eventsBehind, _ := eventIDs(t, l, "ops", "")
	addRows(t, s, 11, 15)
	addEvents(t, l, 11, 15)
	_, ahead := ids(t, s.Log(), attend.Query{})
	_, eventsAhead, _ := eventIDs(t, l, "ops", "")
	lose(t, pool, c)
	for err := range errorsOf(s.Log(), attend.Query{After: ahead}) {
		if !errors.Is(err, attend.ErrTruncated) {
			t.Errorf("Read behind a row that was lost: %v, want an error that is ErrTruncated", err)
		}
	}
	addRows(t, s, 101, 110)
	addEvents(t, l, 101, 110)
	for name, at := range map[string]attend.LogCursor{"a row that is kept": behind, "a row that was lost": ahead} {
		if got, _ := ids(t, s.Log(), attend.Query{After: at}); !slices.Equal(got, numbers("d", 101, 110)) {
			t.Errorf("behind %s there is %v, want what came after", name, got)
		}
	}
	for name, at := range map[string]attend.Cursor{"an event that is kept": eventsBehind, "an event that was lost": eventsAhead} {
		got, _, gap := eventIDs(t, l, "ops", at)
		if fmt.Sprint(got) != fmt.Sprint(numbers("e", 101, 110)) || gap {
			t.Errorf("behind %s there is %v with gap %v, want what came after", name, got, gap)
		}
	}
}

// lose makes tables what they were five rows before, on a server that took over.
func lose(t testing.TB, pool *pgxpool.Pool, c postgres.Config) {
	t.Helper()
	for _, name := range []string{"rows", "events"} {
		for _, sql := range []string{
			"DELETE FROM {" + name + "} WHERE seq > 10",
			"ALTER TABLE {" + name + "} ALTER seq RESTART WITH 11",
			"UPDATE {turns} SET lineage = 'x' || lineage WHERE lineage IS NOT NULL",
		} {
			if _, err := pool.Exec(context.Background(), postgres.Named(c, sql)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Where it is not noticed that rows were put back, the statement of the package's
// documentation begins another life.
func TestAnotherLifeByHand(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	addRows(t, s, 1, 3)
	addEvents(t, l, 1, 3)
	_, at := ids(t, s.Log(), attend.Query{})
	_, eventsAt, _ := eventIDs(t, l, "ops", "")
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "UPDATE {logs} SET epoch = gen_random_uuid()")); err != nil {
		t.Fatal(err)
	}
	for err := range errorsOf(s.Log(), attend.Query{After: at}) {
		if !errors.Is(err, attend.ErrTruncated) {
			t.Errorf("Read behind a cursor of before: %v, want an error that is ErrTruncated", err)
		}
	}
	if _, after, gap := eventIDs(t, l, "ops", eventsAt); !gap {
		t.Error("Batches behind a cursor of before has no gap")
	} else if got, _, gap := eventIDs(t, l, "ops", after); gap || len(got) > 0 {
		t.Errorf("behind the newest of the new life there is %v with gap %v", got, gap)
	}
}

// Two servers that begin with one backup give out other positions.
func TestJumpsDiffer(t *testing.T) {
	pool := newPool(t, serverURL(t))
	var at [2]attend.LogCursor
	for i := range at {
		c := migrated(t, pool, postgres.Config{})
		s := storeOn(t, pool, c)
		addRows(t, s, 1, 10)
		lose(t, pool, c)
		addRows(t, s, 11, 11)
		_, at[i] = ids(t, s.Log(), attend.Query{})
	}
	if at[0].Position == at[1].Position || at[0].Position < 1<<32 {
		t.Errorf("positions after a jump are %d and %d, want two that are far ahead", at[0].Position, at[1].Position)
	}
}
