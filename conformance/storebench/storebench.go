package storebench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A Subject is the store that is measured.
type Subject struct {
	// New returns an empty store that is as durable as it says. It is called for
	// each benchmark. Clean up with b.Cleanup.
	New func(testing.TB) attend.ScopeStore
	// Peer returns a function that does what people do who only keep the events:
	// it appends these bodies to one table or stream, as durably, from as many
	// goroutines as call it. Nil: there is none to compare with.
	Peer func(testing.TB) func(bodies [][]byte) error
	// Floor returns a function that has the store's server keep a record, as
	// durably and through the same driver, in the one cheapest statement there is:
	// what no store on that server can beat. It is called from one goroutine. Nil:
	// there is no server, and the bound is all there is to compare with.
	Floor func(testing.TB) func(record []byte) error
	// Warm is how many scope-writes come before what is measured of commits, for
	// a store that puts work off. Zero: 80,000.
	Warm int
	// Bytes is how much of the disk s takes. Nil: it is not measured.
	Bytes func(tb testing.TB, s attend.ScopeStore) int64
	// Sizes are measured too wherever Bytes is, after it and in this order. Nil:
	// there are no others.
	Sizes []Size
	// Stored is how many scopes and how many decisions the store holds when they
	// are measured. Zero: 1,000,000.
	Stored int
}

// A Size is what a store takes of something, such as memory.
type Size struct {
	Name  string // stands before the units, such as memory
	Bytes func(tb testing.TB, s attend.ScopeStore) int64
}

// Run runs every benchmark of a subject, each as one of b's own.
func Run(b *testing.B, s Subject) {
	b.Run("commit", s.commit)
	b.Run("push", s.push)
	b.Run("load", s.load)
	b.Run("due", s.due)
	b.Run("read", s.read)
	b.Run("size", s.size)
}

// commit is scope-writes per second for groups of four sizes, beside the bound.
func (s Subject) commit(b *testing.B) {
	for _, n := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprintf("group=%d", n), func(b *testing.B) {
			store, disk := s.New(b), newBound(b)
			var floor func([]byte) error
			if s.Floor != nil {
				floor = s.Floor(b)
			}
			w := newWriter(0, scopes, 1)
			fill(b, store, w, max(s.Warm, 4*scopes))
			groups := max(100, 4096/n)
			var took, limit, least []time.Duration // of a group each
			for b.Loop() {
				for range groups {
					writes, which := w.group(n)
					begun := time.Now()
					out, err := store.Commit(b.Context(), writes)
					took = append(took, time.Since(begun))
					if err == nil {
						err = w.landed(writes, which, out)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				limit = append(limit, clock(b, w, n, groups, disk.commit)...)
				if floor != nil {
					var record []byte
					least = append(least, clock(b, w, n, groups, func(writes []attend.Write) error {
						record = appendRecord(record[:0], writes)
						return floor(record)
					})...)
				}
			}
			mine, bound := rate(took, groups, n), rate(limit, groups, n)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(mine, "writes/s")
			b.ReportMetric(mine/bound, "of-bound")
			b.ReportMetric(bound, "bound-writes/s")
			if floor != nil {
				b.ReportMetric(mine/rate(least, groups, n), "of-floor")
				b.ReportMetric(rate(least, groups, n)/bound, "floor-of-bound")
			}
			b.ReportMetric(ms(quantile(took, 0.5)), "p50-ms")
			b.ReportMetric(ms(quantile(took, 0.99)), "p99-ms")
		})
	}
}

// clock is how long commit takes for each of some groups.
func clock(b *testing.B, w *writer, n, groups int, commit func([]attend.Write) error) []time.Duration {
	b.Helper()
	took := make([]time.Duration, groups)
	for i := range took {
		writes, _ := w.group(n)
		begun := time.Now()
		if err := commit(writes); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(begun)
	}
	return took
}

// fill brings a store to where it is in the middle of things.
func fill(b *testing.B, store attend.ScopeStore, w *writer, n int) {
	b.Helper()
	for range n / 500 {
		writes, which := w.group(500)
		out, err := store.Commit(b.Context(), writes)
		if err == nil {
			err = w.landed(writes, which, out)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// rate is writes per second: the median over rounds, so that one that met a
// checkpoint does not decide.
func rate(took []time.Duration, groups, n int) float64 {
	var rates []float64
	for round := range slices.Chunk(took, groups) {
		var sum time.Duration
		for _, d := range round {
			sum += d
		}
		rates = append(rates, float64(len(round)*n)/sum.Seconds())
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

func quantile(took []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// load is one scope's Load, of scopes that were written a while ago.
func (s Subject) load(b *testing.B) {
	store := s.New(b)
	w := newWriter(0, scopes, 2)
	fill(b, store, w, 4*scopes)
	i := 0
	var took []time.Duration
	for b.Loop() {
		for range 1000 {
			i = (i + 7919) % scopes
			begun := time.Now()
			rec, err := store.Load(b.Context(), w.names[i])
			took = append(took, time.Since(begun))
			if err != nil || rec.Version != w.versions[i] {
				b.Fatalf("Load = version %d, %v, want %d", rec.Version, err, w.versions[i])
			}
		}
	}
	report(b, took)
}

// report is the median of what single calls took, and the slowest in a hundred.
func report(b *testing.B, took []time.Duration) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(1000*ms(quantile(took, 0.5)), "p50-µs")
	b.ReportMetric(1000*ms(quantile(took, 0.99)), "p99-µs")
}

// due is a listing of 100 due scopes, among 1,000,000 that are not.
func (s Subject) due(b *testing.B) {
	const stored, due = 1_000_000, 100
	store := s.New(b)
	for from := 0; from < stored; from += 1000 {
		writes := make([]attend.Write, 1000)
		for k := range writes {
			at := epoch.Add(time.Hour)
			if from == 0 && k < due {
				at = epoch
			}
			writes[k] = attend.Write{Scope: scopeName(from + k), Inputs: [][]byte{[]byte("one event")}, Due: at}
		}
		if _, err := store.Commit(b.Context(), writes); err != nil {
			b.Fatal(err)
		}
	}
	var took []time.Duration
	for b.Loop() {
		for range 100 {
			n, begun := 0, time.Now()
			for _, err := range store.Due(b.Context(), epoch) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			took = append(took, time.Since(begun))
			if n != due {
				b.Fatalf("%d due scopes, want %d", n, due)
			}
		}
	}
	report(b, took)
}

// read is a reader's way through a log of 100,000 decisions that lie among
// 100,000 verdict rows.
func (s Subject) read(b *testing.B) {
	const rows, a = 100_000, 500
	store := s.New(b)
	body := make([]byte, rowSize)
	for from := 0; from < rows; from += a {
		w := attend.Write{Scope: scopeName(from), Inputs: [][]byte{nil}}
		for k := range a {
			id := attend.DecisionID(fmt.Sprintf("%040d", from+k))
			w.Rows = append(w.Rows,
				attend.Row{Scope: w.Scope, ID: id, Type: attend.RowDecision, At: epoch, Body: body},
				attend.Row{Scope: w.Scope, ID: id, Type: attend.RowVerdict, At: epoch, Body: body[:80]})
		}
		if _, err := store.Commit(b.Context(), []attend.Write{w}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		n := 0
		for _, err := range store.Log().Read(b.Context(), attend.Query{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != rows {
			b.Fatalf("%d rows, want %d", n, rows)
		}
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
