package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "attend.db") }

func open(t testing.TB, file string, c bolt.Config) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(t.Context(), file, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// database is an open database for several handles.
func database(t testing.TB) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(newFile(t), 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// put commits the writes, each at the version that Load shows.
func put(t testing.TB, s attend.ScopeStore, writes ...attend.Write) {
	t.Helper()
	if err := try(s, writes...); err != nil {
		t.Fatal(err)
	}
}

func try(s attend.ScopeStore, writes ...attend.Write) error {
	for i := range writes {
		rec, err := s.Load(context.Background(), writes[i].Scope)
		if err != nil {
			return err
		}
		writes[i].Expect = rec.Version
	}
	out, err := s.Commit(context.Background(), writes)
	for _, o := range out {
		if err == nil && o.Conflict() {
			err = errors.New("a conflict")
		}
	}
	return err
}

func rowOf(scope attend.Scope, id string, t attend.RowType, at int64) attend.Row {
	return attend.Row{Scope: scope, ID: attend.DecisionID(id), Type: t, At: time.UnixMilli(at), Body: []byte(`{"id":"` + id + `"}`)}
}

func read(t testing.TB, s attend.ScopeStore, q attend.Query) (out []string) {
	t.Helper()
	for e, err := range s.Log().Read(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(e.ID))
	}
	return out
}

var (
	decisions = attend.Query{}
	verdicts  = attend.Query{Types: []attend.RowType{attend.RowVerdict}}
)

// seen is all that a store shows.
type seen struct {
	recs   map[attend.Scope]attend.Record
	due    []attend.Scope
	bounds attend.Bounds
	rows   []string
	found  attend.Entry
}

func look(t testing.TB, s *bolt.Store, scopes ...attend.Scope) (x seen) {
	t.Helper()
	x.recs = make(map[attend.Scope]attend.Record)
	for _, scope := range scopes {
		rec, err := s.Load(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		x.recs[scope] = rec
	}
	for scope, err := range s.Due(t.Context(), time.UnixMilli(1000)) {
		if err != nil {
			t.Fatal(err)
		}
		x.due = append(x.due, scope)
	}
	var err error
	if x.bounds, err = s.Log().Bounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.rows = append(read(t, s, decisions), read(t, s, verdicts)...)
	if x.found, err = s.Log().Find(t.Context(), "d3", ""); err != nil {
		t.Fatal(err)
	}
	return x
}

// fill makes a store with a bit of everything: folded and not, removed, trimmed
// and in the index and not.
func fill(t testing.TB, s *bolt.Store) (scopes []attend.Scope) {
	t.Helper()
	for i := range 60 {
		scope := attend.Scope(fmt.Sprint("ops/", i%20))
		scopes = append(scopes, scope)
		put(t, s, attend.Write{Scope: scope, Inputs: [][]byte{fmt.Appendf(nil, "input %d", i), nil}, Due: time.UnixMilli(int64(i*7%60 - 20)),
			Rows: []attend.Row{rowOf(scope, fmt.Sprint("d", i%30), attend.RowDecision, int64(i)), rowOf(scope, fmt.Sprint("v", i), attend.RowVerdict, int64(i))}})
	}
	put(t, s, attend.Write{Scope: "ops/3", Snapshot: []byte("state")}, attend.Write{Scope: "ops/4", Forget: true})
	if err := s.Remove(t.Context(), "ops/5"); err != nil {
		t.Fatal(err)
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: 40, Verdicts: 15}, time.UnixMilli(0)); err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "ops/6", Inputs: [][]byte{[]byte("last")}, Rows: []attend.Row{rowOf("ops/6", "d3", attend.RowDecision, 99)}})
	return scopes
}

func TestReopen(t *testing.T) {
	for _, budget := range []int{0, 1, 2000} {
		file := newFile(t)
		s := open(t, file, bolt.Config{Budget: budget})
		scopes := fill(t, s)
		want := look(t, s, scopes...)
		if len(want.due) == 0 || len(want.rows) != 41+15 || want.bounds.Trimmed == 0 || string(want.recs["ops/3"].Snapshot) != "state" {
			t.Fatalf("before it is closed: %+v", want)
		}
		for range 3 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, file, bolt.Config{Budget: budget})
			if got := look(t, s, scopes...); !reflect.DeepEqual(got, want) {
				t.Errorf("budget %d, opened again: %+v\nwant %+v", budget, got, want)
			}
		}
	}
}

// What the file holds at any moment is a store, also when its process is gone
// without a word: the copy is what it leaves behind.
func TestCopyAtAnyTime(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "attend.db")
	s := open(t, file, bolt.Config{Budget: 3000})
	for i := range 40 {
		put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{make([]byte, 50)}, Rows: []attend.Row{rowOf("ops", fmt.Sprint(i), attend.RowDecision, 1)}},
			attend.Write{Scope: attend.Scope(fmt.Sprint("s-", i%7)), Snapshot: make([]byte, 100*i), Due: time.UnixMilli(1)})
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(again, b, 0o600); err != nil {
			t.Fatal(err)
		}
		c := open(t, again, bolt.Config{})
		rec, err := c.Load(t.Context(), "ops")
		if err != nil || len(rec.Tail) != i+1 {
			t.Fatalf("after commit %d its copy has %d inputs (%v), want %d", i, len(rec.Tail), err, i+1)
		}
		if rows := read(t, c, decisions); len(rows) != i+1 {
			t.Fatalf("after commit %d its copy has %d rows, want %d", i, len(rows), i+1)
		}
		c.Close()
		os.Remove(again)
	}
}

// Nothing is held while something is yielded, so bbolt can grow and free.
func TestHoldsNothing(t *testing.T) {
	db := database(t)
	s, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := bolt.NewEventLog(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s)
	if err := l.Append(t.Context(), "ops", []attend.Event{{ID: "e", Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	free := func(what string) {
		t.Helper()
		n := db.Stats().OpenTxN
		for end := time.Now().Add(time.Second); n != 0 && time.Now().Before(end); n = db.Stats().OpenTxN {
			time.Sleep(time.Millisecond) // the log's keeper looks at it now and then
		}
		if n != 0 {
			t.Errorf("%s holds %d read transactions while it yields", what, n)
		}
		put(t, s, attend.Write{Scope: "other", Snapshot: []byte("x")})
	}
	n := 0
	for range s.Due(t.Context(), time.UnixMilli(1000)) {
		free("Due")
		n++
	}
	for range s.Log().Read(t.Context(), verdicts) {
		free("Read")
		n++
	}
	for range l.Batches(t.Context(), "ops", "") {
		free("Batches")
		n++
	}
	if n < 20 {
		t.Errorf("only %d were yielded", n)
	}
	s.Close()
	l.Close()
	if err := db.View(func(*bbolt.Tx) error { return nil }); err != nil {
		t.Errorf("Close closed the database of somebody else: %v", err)
	}
}

// An app that closes its database closes the store.
func TestDatabaseClosed(t *testing.T) {
	db := database(t)
	s, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	b, err := s.Log().Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		waited <- s.Log().(attend.Waiter).Wait(context.Background(), attend.Query{After: attend.LogCursor{Epoch: b.Epoch}})
	}()
	db.Close()
	_, load := s.Load(t.Context(), "ops")
	_, commit := s.Commit(t.Context(), []attend.Write{{Scope: "ops"}})
	_, find := s.Log().Find(t.Context(), "d", "")
	for _, err := range []error{load, commit, find, <-waited} {
		if !errors.Is(err, attend.ErrClosed) {
			t.Errorf("on a closed database: %v, want ErrClosed", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := bolt.New(t.Context(), db, bolt.Config{}); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("New on a closed database: %v, want ErrClosed", err)
	}
}

func TestSharedWithAnApp(t *testing.T) {
	db := database(t)
	mine := []byte("mine")
	err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(mine)
		if err != nil {
			return err
		}
		return b.Put([]byte("k"), []byte("v"))
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for i := range 10 {
		put(t, a, attend.Write{Scope: "ops", Inputs: [][]byte{[]byte("x")}})
		err := db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(mine).Put([]byte("k"), []byte{byte(i)}) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if rec, err := a.Load(t.Context(), "ops"); err != nil || len(rec.Tail) != 10 {
		t.Errorf("Load = %d inputs, %v, want 10", len(rec.Tail), err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if v := tx.Bucket(mine).Get([]byte("k")); len(v) != 1 || v[0] != 9 {
			t.Errorf("the app's own value is %v", v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A record is written once, whatever its length, and not again with those that
// come behind it.
func TestRecordPages(t *testing.T) {
	for _, size := range []int{100, 2000, 3000, 5000, 40_000, 300_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			db := database(t)
			s, err := bolt.New(t.Context(), db, bolt.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			const commits = 50
			was := db.Stats()
			for i := range commits {
				put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint("s-", i%7)), Inputs: [][]byte{make([]byte, size)}})
			}
			now := db.Stats()
			stats := now.TxStats.Sub(&was.TxStats)
			// Besides it: the rest of its last page, the page of its key, and that of
			// the buckets; with short ones some before it on the same page.
			if each := int(stats.GetPageAlloc()) / commits; each > size+5*os.Getpagesize() {
				t.Errorf("a record of %d bytes takes %d bytes of pages, want at most five pages more than it has", size, each)
			}
		})
	}
}

// Records of every length are there after the file is opened again, and go once
// they are folded.
func TestRecordLengths(t *testing.T) {
	file := newFile(t)
	sizes := []int{0, 1, 900, 1100, 1900, 2000, 2010, 2020, 2040, 2100, 4096, 9000, 70_000}
	want := make(map[attend.Scope]int)
	write := func(s *bolt.Store) {
		for i, size := range sizes {
			scope := attend.Scope(fmt.Sprint("s-", i))
			put(t, s, attend.Write{Scope: scope, Inputs: [][]byte{make([]byte, size)}})
			want[scope]++
		}
	}
	check := func(s *bolt.Store) {
		t.Helper()
		for scope, n := range want {
			rec, err := s.Load(t.Context(), scope)
			if err != nil || len(rec.Tail) != n {
				t.Fatalf("Load(%s) = %d inputs, %v, want %d", scope, len(rec.Tail), err, n)
			}
		}
	}
	s := open(t, file, bolt.Config{})
	write(s)
	write(s)
	check(s)
	s.Close()
	s = open(t, file, bolt.Config{Budget: 1}) // all is folded
	check(s)
	for range 3 {
		write(s)
	}
	check(s)
	records := 0
	err := bolt.View(t.Context(), s, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("attend/journal")).ForEach(func(_, _ []byte) error { records++; return nil })
	})
	if err != nil || records > len(sizes) {
		t.Errorf("%d records are left (%v), want those of the last commits alone", records, err)
	}
	s.Close()
	check(open(t, file, bolt.Config{}))
}

// What lies beside a scope are some folded ones before and behind it by name.
func TestBeside(t *testing.T) {
	s := open(t, newFile(t), bolt.Config{Budget: 1})
	beside := func(scope attend.Scope) []attend.Scope {
		t.Helper()
		found, err := bolt.Beside(s, scope)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := beside("s-050"); len(got) > 0 {
		t.Errorf("in an empty store %q lie beside a scope", got)
	}
	for i := range 100 {
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprintf("s-%03d", i)), Inputs: [][]byte{make([]byte, 4000)}})
	}
	put(t, s, attend.Write{Scope: "a", Inputs: [][]byte{nil}}) // and all the others are folded
	for scope, want := range map[attend.Scope]string{
		"s-050": "[s-049 s-048 s-047 s-046 s-045 s-051 s-052 s-053 s-054 s-055]",
		"s-000": "[s-001 s-002 s-003 s-004 s-005]",
		"z":     "[s-099 s-098 s-097 s-096 s-095]",
	} {
		if got := fmt.Sprint(beside(scope)); got != want {
			t.Errorf("beside %s lie %v, want %v", scope, got, want)
		}
	}
}
