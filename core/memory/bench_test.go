package memory_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

// A load makes groups of writes as an engine does: each an input of 200 bytes
// on a scope's last version, a snapshot of 1,600 in the place of every ninth, a
// log row of 400 with every twentieth, and a due time that moves in every
// fourth (rule E46).
type load struct {
	scopes   []attend.Scope
	versions []uint64
	order    []int
	n        int
	writes   []attend.Write
	inputs   [][]byte
	snap     []byte
	rows     []attend.Row
}

func newLoad(scopes, group int) *load {
	l := &load{
		versions: make([]uint64, scopes), writes: make([]attend.Write, group),
		inputs: [][]byte{make([]byte, 200)}, snap: make([]byte, 1600),
		rows:  []attend.Row{{Type: attend.RowDecision, Body: make([]byte, 400)}},
		order: rand.New(rand.NewPCG(1, 2)).Perm(scopes),
	}
	for i := range scopes {
		l.scopes = append(l.scopes, attend.Scope(fmt.Sprintf("ops/db-%06d", i)))
	}
	return l
}

func (l *load) group() []attend.Write {
	for i := range l.writes {
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
			w.Rows = l.rows
			l.rows[0].Scope, l.rows[0].ID, l.rows[0].At = w.Scope, "0123456789012345678901234567890123456789", noon
		}
		l.writes[i] = w
	}
	return l.writes
}

// landed keeps the new versions.
func (l *load) landed(b *testing.B, out []attend.Outcome) {
	for i, o := range out {
		if o.Conflict() {
			b.Fatal("conflict")
		}
		l.versions[l.order[(l.n-len(out)+1+i)%len(l.order)]] = o.Version
	}
}

// bare is the limit: a map under a lock that checks versions and copies the
// same bytes, with no due index, no log and no retention.
type bare struct {
	mu sync.Mutex
	m  map[attend.Scope]*bareScope
}

type bareScope struct {
	version uint64
	due     time.Time
	kept    []byte
}

func (s *bare) Commit(writes []attend.Write) []attend.Outcome {
	out := make([]attend.Outcome, len(writes))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range writes {
		w := &writes[i]
		r := s.m[w.Scope]
		if r == nil {
			r = new(bareScope)
			s.m[w.Scope] = r
		}
		if r.version != w.Expect {
			continue
		}
		r.version++
		if !w.KeepDue {
			r.due = w.Due
		}
		if w.Snapshot != nil {
			r.kept = append(r.kept[:0], w.Snapshot...)
		}
		for _, in := range w.Inputs {
			r.kept = append(r.kept, in...)
		}
		out[i].Version = r.version
	}
	return out
}

// Beside each figure stands the bare one of the same run.
func BenchmarkCommit(b *testing.B) {
	const scopes = 10_000
	for _, group := range []int{1, 16, 256} {
		ways := []struct {
			name   string
			commit func([]attend.Write) []attend.Outcome
			l      *load
		}{
			{"bare", (&bare{m: make(map[attend.Scope]*bareScope)}).Commit, newLoad(scopes, group)},
			{"memory", commitTo(b, memory.NewWith(memory.Options{Retain: attend.Retain{Count: 10_000}})), newLoad(scopes, group)},
		}
		for _, w := range ways {
			for w.l.n < 10*scopes { // tails and snapshots as they are in the long run
				w.l.landed(b, w.commit(w.l.group()))
			}
			b.Run(fmt.Sprintf("group=%d/%s", group, w.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w.l.landed(b, w.commit(w.l.group()))
				}
				b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "writes/s")
			})
		}
	}
}

func commitTo(b *testing.B, s *memory.Store) func([]attend.Write) []attend.Outcome {
	return func(w []attend.Write) []attend.Outcome {
		out, err := s.Commit(b.Context(), w)
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
}

// A sweep costs what is due, not what is stored.
func BenchmarkDue(b *testing.B) {
	for _, stored := range []int{1_000, 1_000_000} {
		s := memory.New()
		for i := range stored {
			due := noon.AddDate(1, 0, 0)
			if i%(stored/100) == 0 {
				due = noon.Add(-time.Second)
			}
			_, err := s.Commit(b.Context(), []attend.Write{{Scope: attend.Scope(fmt.Sprint(i)), Due: due}})
			if err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("stored=%d", stored), func(b *testing.B) {
			b.ReportAllocs()
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
	}
}

// A reader of few rows pays nothing for the many others.
func BenchmarkRead(b *testing.B) {
	for _, others := range []int{0, 1_000_000} {
		s, scopes := memory.New(), 0
		add := func(n int, scope attend.Scope, typ attend.RowType) {
			for range n {
				scopes++
				w := attend.Write{Scope: attend.Scope(fmt.Sprint(scopes)), Rows: []attend.Row{{Scope: scope, ID: "d", Type: typ, At: noon}}}
				if _, err := s.Commit(b.Context(), []attend.Write{w}); err != nil {
					b.Fatal(err)
				}
			}
		}
		add(50, "ops/db", attend.RowDecision)
		add(others/2, "ops/db", attend.RowVerdict)
		add(others/2, "noise", attend.RowDecision)
		add(50, "ops/db", attend.RowDecision)
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			for b.Loop() {
				n := 0
				for range s.Log().Read(b.Context(), attend.Query{Prefix: "ops/"}) {
					n++
				}
				if n != 100 {
					b.Fatalf("%d rows, want 100", n)
				}
			}
		})
	}
}
