package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

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
func BenchmarkLoad(b *testing.B) {
	const scopes = 20_000
	name := func(i int) attend.Scope { return attend.Scope(fmt.Sprintf("ops/db-%06d", i%scopes)) }
	for _, c := range []struct {
		name   string
		budget int
	}{{"journal", 0}, {"folded", 1}} {
		b.Run(c.name, func(b *testing.B) {
			s := openStore(b, newFile(b), sqlite.Config{Budget: c.budget})
			snapshot := random(1600)
			fill(b, s, scopes, func(i int) attend.Write { return attend.Write{Scope: name(i), Snapshot: snapshot} })
			fill(b, s, scopes, func(i int) attend.Write { return attend.Write{Scope: "later/" + name(i), Snapshot: snapshot} })
			for i := 0; b.Loop(); i++ {
				rec, err := s.Load(b.Context(), name(i*7919))
				if err != nil || len(rec.Snapshot) != len(snapshot) {
					b.Fatal(len(rec.Snapshot), err)
				}
			}
		})
	}
}

// A sweep costs what is due, not what is stored.
func BenchmarkDue(b *testing.B) {
	for _, stored := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("stored=%d", stored), func(b *testing.B) {
			s := openStore(b, newFile(b), sqlite.Config{Budget: 8 << 20})
			fill(b, s, stored, func(i int) attend.Write {
				due := noon.AddDate(1, 0, 0)
				if i%(stored/100) == 0 {
					due = noon.Add(-time.Second)
				}
				return attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Due: due}
			})
			for b.Loop() {
				n := 0
				for range s.Due(b.Context(), noon) {
					n++
				}
				if n != 100 {
					b.Fatalf("%d are due, want 100", n)
				}
			}
		})
		b.Run(fmt.Sprintf("all-due=%d", stored), func(b *testing.B) {
			s := openStore(b, newFile(b), sqlite.Config{Budget: 8 << 20})
			fill(b, s, stored, func(i int) attend.Write { return attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Due: noon} })
			n := 0
			for b.Loop() {
				n = 0
				for range s.Due(b.Context(), noon) {
					n++
				}
			}
			if n != stored {
				b.Fatalf("%d are due, want %d", n, stored)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "scopes/s")
		})
	}
}

// A reader of few rows pays nothing for the many others.
func BenchmarkRead(b *testing.B) {
	for _, others := range []int{0, 1_000_000} {
		s := openStore(b, newFile(b), sqlite.Config{Budget: 8 << 20})
		scopes := 0
		add := func(n int, scope attend.Scope, typ attend.RowType) {
			for n > 0 {
				w := attend.Write{Scope: attend.Scope(fmt.Sprint("w", scopes))}
				scopes++
				for ; n > 0 && len(w.Rows) < 10_000; n-- {
					id := attend.DecisionID(fmt.Sprintf("%040d", scopes*10_000+n))
					w.Rows = append(w.Rows, attend.Row{Scope: scope, ID: id, Type: typ, At: noon, Body: make([]byte, 200)})
				}
				put(b, s, w)
			}
		}
		add(50, "ops/db", attend.RowDecision)
		add(others/2, "ops/db", attend.RowVerdict)
		add(others/2, "noise", attend.RowDecision)
		add(50, "ops/db", attend.RowDecision)
		time.Sleep(time.Second) // the index is brought up to date
		read := func(b *testing.B, q attend.Query, want int) {
			for b.Loop() {
				n := 0
				for _, err := range s.Log().Read(b.Context(), q) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if n != want {
					b.Fatalf("%d rows, want %d", n, want)
				}
			}
			b.ReportMetric(float64(want)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		}
		b.Run(fmt.Sprintf("rare/others=%d", others), func(b *testing.B) { read(b, attend.Query{Prefix: "ops/"}, 100) })
		if others > 0 {
			b.Run(fmt.Sprintf("all/rows=%d", others/2), func(b *testing.B) { read(b, attend.Query{}, others/2+100) })
		}
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
	w := &way{name: "sqlite", c: s, load: l}
	for l.n < 700_000 {
		w.commit(b, 1000)
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

// What scopes and decisions take on the disk, and that what is trimmed is used
// again.
func BenchmarkSize(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		file := newFile(b)
		size := func() float64 {
			s, err := sqlite.Open(b.Context(), file, sqlite.Config{})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil { // the last one writes the log back
				b.Fatal(err)
			}
			st, err := os.Stat(file)
			if err != nil {
				b.Fatal(err)
			}
			return float64(st.Size())
		}
		with := func(f func(*sqlite.Store)) float64 {
			s, err := sqlite.Open(b.Context(), file, sqlite.Config{Budget: 1 << 20})
			if err != nil {
				b.Fatal(err)
			}
			f(s)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			return size()
		}
		snapshot, body := random(1600), random(400)
		empty := size()
		scopes := with(func(s *sqlite.Store) {
			fill(b, s, n, func(i int) attend.Write {
				return attend.Write{Scope: attend.Scope(fmt.Sprintf("ops/db-%06d", i)), Snapshot: snapshot, Due: noon}
			})
		})
		log := func(s *sqlite.Store) {
			fill(b, s, n/100, func(i int) attend.Write {
				w := attend.Write{Scope: attend.Scope(fmt.Sprintf("log-%x", time.Now().UnixNano()+int64(i)))}
				for k := range 100 {
					id := attend.DecisionID(fmt.Sprintf("%040d", i*7919+k))
					w.Rows = append(w.Rows, attend.Row{Scope: attend.Scope(fmt.Sprintf("ops/db-%06d", i*100+k)), ID: id, Type: attend.RowDecision, At: noon, Body: body})
				}
				return w
			})
			if err := s.Log().Trim(b.Context(), attend.Retain{Count: n}, noon); err != nil { // and all is in the index
				b.Fatal(err)
			}
		}
		rows := with(log)
		again := with(func(s *sqlite.Store) {
			if err := s.Log().Trim(b.Context(), attend.Retain{Count: 1}, noon); err != nil {
				b.Fatal(err)
			}
			log(s)
		})
		b.ReportMetric((scopes-empty)/n, "B/scope")
		b.ReportMetric((rows-scopes)/n, "B/decision")
		b.ReportMetric((again-scopes)/n, "B/decision-after-trim")
	}
}
