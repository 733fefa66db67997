package storebench_test

import (
	"flag"
	"testing"

	"github.com/attend-go/attend/conformance/storebench"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

var subject = storebench.Subject{
	New: func(testing.TB) attend.ScopeStore { return memory.New() },
	Peer: func(testing.TB) func([][]byte) error {
		return func([][]byte) error { return nil }
	},
	Bytes: func(testing.TB, attend.ScopeStore) int64 { return 1 },
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
