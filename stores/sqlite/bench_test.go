package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/storebench"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// BenchmarkStore has as its floor one row a group, in one table.
func BenchmarkStore(b *testing.B) {
	var files sync.Map // by store
	in := func(tb testing.TB, file string) attend.ScopeStore {
		s := openStore(tb, file, sqlite.Config{})
		files.Store(s, file)
		return s
	}
	fileOf := func(s attend.ScopeStore) string {
		file, _ := files.Load(s)
		return file.(string)
	}
	storebench.Run(b, storebench.Subject{
		Warm: 700_000, // the journal is full, and scopes are folded
		New:  func(tb testing.TB) attend.ScopeStore { return in(tb, newFile(tb)) },
		Floor: func(tb testing.TB) func([]byte) error {
			db, err := sql.Open("sqlite3", "file:"+newFile(tb)+"?_journal_mode=WAL&_synchronous=FULL")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { db.Close() })
			db.SetMaxOpenConns(1)
			runSQL(tb, db, "CREATE TABLE records (pos INTEGER PRIMARY KEY, body BLOB NOT NULL)")
			put, err := db.Prepare("INSERT OR REPLACE INTO records VALUES (?, ?)")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { put.Close() })
			n := 0
			return func(record []byte) error {
				n++
				_, err := put.Exec(n%256, record) // a ring: the file does not grow for ever
				return err
			}
		},
		Bytes: func(tb testing.TB, s attend.ScopeStore) (n int64) {
			file := fileOf(s)
			runSQL(tb, plain(tb, file), "PRAGMA wal_checkpoint(TRUNCATE)")
			for _, suffix := range []string{"", "-wal"} {
				st, err := os.Stat(file + suffix)
				if err != nil {
					tb.Fatal(err)
				}
				n += st.Size()
			}
			return n
		},
		Sizes: []storebench.Size{{Name: "used", Bytes: func(tb testing.TB, s attend.ScopeStore) (n int64) {
			row := plain(tb, fileOf(s)).QueryRow("SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size")
			if err := row.Scan(&n); err != nil {
				tb.Fatal(err)
			}
			return n
		}}},
	})
}

// A load makes groups of writes as an engine does: each an input of 200 bytes
// on a scope's last version, a snapshot of 1,600 in the place of every ninth, a
// log row of 400 with every twentieth, and a due time that moves in every
// fourth (rule E46). Scopes are picked evenly, which is the worst
// case.
type load struct {
	scopes   []attend.Scope
	versions []uint64
	order    []int
	n        int
	writes   []attend.Write
	inputs   [][]byte
	snap     []byte
	body     []byte
}

var noon = time.UnixMilli(1_767_268_800_000)

func newLoad(scopes int) *load {
	l := &load{
		versions: make([]uint64, scopes),
		inputs:   [][]byte{random(200)}, snap: random(1600), body: random(400),
		order: rand.New(rand.NewPCG(1, 2)).Perm(scopes),
	}
	for i := range scopes {
		l.scopes = append(l.scopes, attend.Scope(fmt.Sprintf("ops/db-%06d", i)))
	}
	return l
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (l *load) group(size int) []attend.Write {
	l.writes = l.writes[:0]
	for range size {
		l.n++
		s := l.order[l.n%len(l.order)]
		w := attend.Write{Scope: l.scopes[s], Expect: l.versions[s], Inputs: l.inputs}
		if w.Expect != 0 && l.n%4 != 0 {
			w.KeepDue = true
		} else {
			w.Due = noon.Add(time.Duration(l.n) * time.Millisecond)
		}
		if l.n%9 == 0 {
			w.Inputs, w.Snapshot = nil, l.snap
		}
		if l.n%20 == 0 {
			id := attend.DecisionID(fmt.Sprintf("%040d", l.n*7919))
			w.Rows = []attend.Row{{Scope: w.Scope, ID: id, Type: attend.RowDecision, At: noon, Body: l.body}}
		}
		l.writes = append(l.writes, w)
	}
	return l.writes
}

// landed keeps the new versions.
func (l *load) landed(b testing.TB, out []attend.Outcome) {
	for i, o := range out {
		if o.Conflict() {
			b.Fatal("conflict")
		}
		l.versions[l.order[(l.n-len(out)+1+i)%len(l.order)]] = o.Version
	}
}

// A committer is a store, or what stands beside one.
type committer interface {
	Commit(context.Context, []attend.Write) ([]attend.Outcome, error)
}

// commit commits a group, and returns how long the call took.
func (l *load) commit(b testing.TB, c committer, group int) time.Duration {
	writes := l.group(group)
	start := time.Now()
	out, err := c.Commit(b.Context(), writes)
	took := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	l.landed(b, out)
	return took
}

// warm is how many writes it takes until states are folded as they are in the
// long run.
const warm = 700_000

// BenchmarkRowTables writes groups to a store and to plain row tables, in turns.
// Its figures are scope-writes a second, medians over the rounds, and their
// ratio. A round is one iteration: take -benchtime=20x or so.
func BenchmarkRowTables(b *testing.B) {
	const scopes = 20_000
	type way struct {
		c     committer
		load  *load
		rates []float64
	}
	store := &way{c: openStore(b, newFile(b), sqlite.Config{Retain: attend.Retain{Count: 100_000}}), load: newLoad(scopes)}
	rows := &way{c: newRowTables(b, newFile(b)), load: newLoad(scopes)}
	for store.load.n < warm {
		store.load.commit(b, store.c, 1000)
	}
	for rows.load.n < 9*scopes {
		rows.load.commit(b, rows.c, 1000)
	}
	for _, group := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprintf("group=%d", group), func(b *testing.B) {
			store.rates, rows.rates = nil, nil
			for b.Loop() {
				for _, w := range []*way{store, rows} {
					n, took := 0, time.Duration(0)
					for ; took < 100*time.Millisecond; n += group {
						took += w.load.commit(b, w.c, group)
					}
					w.rates = append(w.rates, float64(n)/took.Seconds())
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(store.rates), "writes/s")
			b.ReportMetric(median(rows.rates), "rows-writes/s")
			b.ReportMetric(median(store.rates)/median(rows.rates), "of-rows")
		})
	}
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// fill commits n scopes in large groups.
func fill(b testing.TB, s attend.ScopeStore, n int, write func(i int) attend.Write) {
	b.Helper()
	for at := 0; at < n; {
		var group []attend.Write
		for ; at < n && len(group) < 5000; at++ {
			group = append(group, write(at))
		}
		put(b, s, group...)
	}
}

// Scopes that are folded are in rows of their own, the others in memory.
func BenchmarkLoadFolded(b *testing.B) {
	const scopes = 20_000
	name := func(i int) attend.Scope { return attend.Scope(fmt.Sprintf("ops/db-%06d", i%scopes)) }
	s := openStore(b, newFile(b), sqlite.Config{Budget: 1})
	snapshot := random(1600)
	fill(b, s, scopes, func(i int) attend.Write { return attend.Write{Scope: name(i), Snapshot: snapshot} })
	fill(b, s, scopes, func(i int) attend.Write { return attend.Write{Scope: "later/" + name(i), Snapshot: snapshot} })
	for i := 0; b.Loop(); i++ {
		rec, err := s.Load(b.Context(), name(i*7919))
		if err != nil || len(rec.Snapshot) != len(snapshot) {
			b.Fatal(len(rec.Snapshot), err)
		}
	}
}

// A reader of few rows pays nothing for the many others.
func BenchmarkReadRare(b *testing.B) {
	for _, others := range []int{0, 1_000_000} {
		s := openStore(b, newFile(b), sqlite.Config{Budget: 8 << 20})
		add := func(n int, scope attend.Scope, typ attend.RowType) {
			fill(b, s, n/1000+1, func(i int) attend.Write {
				w := attend.Write{Scope: attend.Scope(fmt.Sprint("w-", scope, typ, i, time.Now().UnixNano()))}
				for k := range min(1000, n-i*1000) {
					id := attend.DecisionID(fmt.Sprintf("%040d", i*1000+k))
					w.Rows = append(w.Rows, attend.Row{Scope: scope, ID: id, Type: typ, At: noon, Body: make([]byte, 200)})
				}
				return w
			})
		}
		add(50, "ops/db", attend.RowDecision)
		add(others/2, "ops/db", attend.RowVerdict)
		add(others/2, "noise", attend.RowDecision)
		add(50, "ops/db", attend.RowDecision)
		if err := s.Log().Trim(b.Context(), attend.Retain{}, noon); err != nil { // and all is in the index
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("read/others=%d", others), func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range s.Log().Read(b.Context(), attend.Query{Prefix: "ops/"}) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if n != 100 {
					b.Fatalf("%d rows, want 100", n)
				}
			}
		})
		b.Run(fmt.Sprintf("find/others=%d", others), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Log().Find(b.Context(), "none", ""); !errors.Is(err, attend.ErrNotFound) {
					b.Fatal(err)
				}
			}
		})
	}
}

// What opening takes when a process was killed with the journal full: the log
// of SQLite and the journal are read.
func BenchmarkRecovery(b *testing.B) {
	dir := b.TempDir()
	file := filepath.Join(dir, "attend.db")
	s, err := sqlite.Open(b.Context(), file, sqlite.Config{})
	if err != nil {
		b.Fatal(err)
	}
	l := newLoad(20_000)
	for l.n < warm {
		l.commit(b, s, 1000)
	}
	// A copy of the files is what a kill leaves.
	type copied struct{ name, from string }
	var parts []copied
	sizes := make(map[string]float64)
	for _, suffix := range []string{"", "-wal"} {
		bytes, err := os.ReadFile(file + suffix)
		if err != nil {
			b.Fatal(err)
		}
		kept := filepath.Join(dir, "kept"+suffix)
		if err := os.WriteFile(kept, bytes, 0o600); err != nil {
			b.Fatal(err)
		}
		sizes[suffix] = float64(len(bytes)) / (1 << 20)
		parts = append(parts, copied{suffix, kept})
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		again := filepath.Join(dir, fmt.Sprint("again", n))
		for _, p := range parts {
			bytes, err := os.ReadFile(p.from)
			if err == nil {
				err = os.WriteFile(again+p.name, bytes, 0o600)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		s, err := sqlite.Open(b.Context(), again, sqlite.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			os.Remove(again + suffix)
		}
		b.StartTimer()
	}
	for suffix, size := range sizes {
		b.ReportMetric(size, "MiB"+suffix)
	}
}

// Producers that append single events share a transaction.
func BenchmarkAppend(b *testing.B) {
	for _, producers := range []int{1, 64} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			l := openEvents(b, newFile(b), sqlite.Config{})
			var wg sync.WaitGroup
			each := b.N/producers + 1
			b.ResetTimer()
			for p := range producers {
				wg.Go(func() {
					for i := range each {
						e := attend.Event{ID: fmt.Sprint(p, "-", i), Name: "test", Data: []byte(`{"n":1}`)}
						if err := l.Append(context.Background(), "ops", []attend.Event{e}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(each*producers)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
