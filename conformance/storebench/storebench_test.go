package storebench_test

import (
	"flag"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/storebench"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

var subject = storebench.Subject{
	New: func(testing.TB) attend.ScopeStore { return memory.New() },
	Peer: func(testing.TB) func([][]byte) error {
		return func([][]byte) error { return nil }
	},
	Floor: func(testing.TB) func([]byte) error {
		return func([]byte) error { return nil }
	},
	Bytes:  func(testing.TB, attend.ScopeStore) int64 { return 1 },
	Stored: 5000,
}

// BenchmarkStore is the memory store, which keeps nothing when its process ends.
func BenchmarkStore(b *testing.B) {
	storebench.Run(b, storebench.Subject{New: subject.New})
}

// Every benchmark runs to its end on a store that keeps its promises.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of benchmarks")
	}
	was := flag.Lookup("test.benchtime").Value.String()
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("test.benchtime", was)
	failed := true
	testing.Benchmark(func(b *testing.B) {
		storebench.Run(b, subject)
		failed = b.Failed()
	})
	if failed {
		t.Error("a benchmark failed")
	}
}

// What is stored is counted as seven bytes a scope and three a decision, and
// twice that by another name.
func TestSize(t *testing.T) {
	const stored = 3000
	count := func(tb testing.TB, s attend.ScopeStore) (n int64) {
		for _, err := range s.Due(tb.Context(), time.UnixMilli(1<<50)) {
			if err != nil {
				tb.Fatal(err)
			}
			n += 7
		}
		for _, err := range s.Log().Read(tb.Context(), attend.Query{}) {
			if err != nil {
				tb.Fatal(err)
			}
			n += 3
		}
		return n
	}
	counted := subject
	counted.Stored, counted.Bytes = stored, count
	counted.Sizes = []storebench.Size{{Name: "twice", Bytes: func(tb testing.TB, s attend.ScopeStore) int64 { return 2 * count(tb, s) }}}
	was := flag.Lookup("test.benchtime").Value.String()
	if err := flag.Set("test.benchtime", "2x"); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("test.benchtime", was)
	got := testing.Benchmark(func(b *testing.B) { storebench.MeasureSize(b, counted) }).Extra
	for unit, want := range map[string]float64{
		"B/scope": 7, "B/decision": 3,
		"MiB-full":    stored * 10. / (1 << 20),
		"MiB-trimmed": stored * 7.3 / (1 << 20),
		"MiB-again":   stored * 10. / (1 << 20),
	} {
		if got[unit] != want || got["twice-"+unit] != 2*want {
			t.Errorf("%s = %v, and twice that %v, want %v", unit, got[unit], got["twice-"+unit], want)
		}
	}
}
