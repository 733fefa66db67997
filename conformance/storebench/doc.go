// Package storebench measures a store beside what no durable store can beat:
// the same writes in a map, and as one checksummed record a group in a file that
// has its room already, synced. Both run in turns, within one run, since
// absolute figures move with the machine by half and more; what counts is the
// ratio of medians.
//
// A store's own benchmarks are one line each:
//
//	func BenchmarkStore(b *testing.B) { storebench.Run(b, storebench.Subject{New: newStore}) }
//
// Run them with go test -run '^$' -bench . -benchtime 5x, on a machine that does
// nothing else: -benchtime is the number of rounds. The unit is a scope-write:
// a compare-and-swap on the scope's version, an input of 200 bytes, a new due
// time for one in four, a log row of 400 bytes for one in twenty, and once the
// scope's tail holds eight inputs a snapshot of 1.6 KB in their place. 20,000
// scopes are written evenly, which is the worst case for caches and pages. Sizes
// are those of a million scopes of one input each, and of a million decisions,
// before and after retention; they are the same in each round, so one is enough.
package storebench
