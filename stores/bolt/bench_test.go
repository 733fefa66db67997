package bolt_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/storebench"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
	"go.etcd.io/bbolt"
)

// BenchmarkStore has as its floor one value a group, in one bucket.
func BenchmarkStore(b *testing.B) {
	files := make(map[attend.ScopeStore]string)
	storebench.Run(b, storebench.Subject{
		Warm: 700_000, // the journal is full, and scopes are folded
		New: func(tb testing.TB) attend.ScopeStore {
			file := newFile(tb)
			s := open(tb, file, bolt.Config{})
			files[s] = file
			return s
		},
		Floor: func(tb testing.TB) func([]byte) error {
			db, err := bbolt.Open(newFile(tb), 0o600, nil)
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { db.Close() })
			n := 0
			return func(record []byte) error {
				return db.Update(func(tx *bbolt.Tx) error {
					records, err := tx.CreateBucketIfNotExists([]byte("records"))
					if err != nil {
						return err
					}
					n++
					return records.Put(fmt.Append(nil, n%256), record) // a ring: the file does not grow for ever
				})
			}
		},
		Bytes: func(tb testing.TB, s attend.ScopeStore) int64 {
			st, err := os.Stat(files[s])
			if err != nil {
				tb.Fatal(err)
			}
			return st.Size()
		},
	})
}

// write commits one input more to each of n scopes, in groups of 1000.
func write(b *testing.B, s attend.ScopeStore, n int, input []byte) {
	b.Helper()
	for group := range slices.Chunk(scopesOf(n), 1000) {
		var writes []attend.Write
		for _, scope := range group {
			writes = append(writes, attend.Write{Scope: scope, Inputs: [][]byte{input}})
		}
		put(b, s, writes...)
	}
}

func scopesOf(n int) (scopes []attend.Scope) {
	for i := range n {
		scopes = append(scopes, attend.Scope(fmt.Sprintf("tenant-%02d/scope-%05d", i%50, i)))
	}
	return scopes
}

// BenchmarkLoadFolded loads scopes of which all but a few are folded, in values
// of their own.
func BenchmarkLoadFolded(b *testing.B) {
	const n = 20_000
	s := open(b, newFile(b), bolt.Config{Budget: 1 << 20})
	write(b, s, n, make([]byte, 200))
	scopes := scopesOf(n)
	for i := 0; b.Loop(); i++ {
		if rec, err := s.Load(b.Context(), scopes[i*7919%n]); err != nil || rec.Version == 0 {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadRare reads 100 decisions, alone or beside many verdict rows.
func BenchmarkReadRare(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		b.Run(fmt.Sprint("others=", others), func(b *testing.B) {
			s := open(b, newFile(b), bolt.Config{})
			addRows(b, s, attend.RowDecision, 100, 1, at("ops"))
			addRows(b, s, attend.RowVerdict, 2000, others/2000, at("ops"))
			if err := s.Log().Trim(b.Context(), attend.Retain{}, time.Now()); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if n := len(read(b, s, decisions)); n != 100 {
					b.Fatalf("%d rows", n)
				}
			}
		})
	}
}

// BenchmarkOpen reads a journal of about 32 MiB, over 20,000 scopes.
func BenchmarkOpen(b *testing.B) {
	file := newFile(b)
	s := open(b, file, bolt.Config{})
	for range 4 {
		write(b, s, 20_000, make([]byte, 400))
	}
	s.Close()
	for b.Loop() {
		s, err := bolt.Open(b.Context(), file, bolt.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

func BenchmarkAppendEvents(b *testing.B) {
	for _, n := range []int{1, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l, err := bolt.OpenEventLog(b.Context(), newFile(b), bolt.Config{Retain: attend.Retain{Count: 50_000}})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			i, text := 0, strings.Repeat("i", 200)
			for b.Loop() {
				events := make([]attend.Event, n)
				for k := range events {
					i++
					events[k] = attend.Event{ID: fmt.Sprint("event-", i), Name: "build.finished", Text: text}
				}
				if err := l.Append(b.Context(), "ops", events); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
