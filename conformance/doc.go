// Package conformance checks that a store keeps the promises of package attend,
// each in a case of its own that quotes the sentence.
//
// A store in an afternoon:
//
//  1. Read store.go and log.go of package attend, then memory.go of package
//     memory, which is the same in its shortest form.
//
//  2. Write Load and Commit, and a test of one line:
//
//     func TestConformance(t *testing.T) { conformance.All(t, conformance.Store{New: newStore}) }
//
//  3. Run it. A failing case says which promise broke and how; go test -run
//     'TestConformance/scope/load-tail' runs one alone.
//
//  4. Where a second process can hold the same data, set Reopen too. What the
//     store can't do at all goes into Waive with a reason, in view of its users.
//
// An event log is checked by [EventLog] in the same way. [Kill] and [KillServer]
// are the crash suite with real crashes, for stores that are durable; package
// servers starts private PostgreSQL and Redis servers for them, and package
// storebench measures a store beside what no durable one can beat.
//
// No case depends on a clock: times are data, and a real one is read only to
// give up on a call that hangs. Each case gets a fresh, empty store. Most take
// milliseconds; set ATTEND_SOAK to 1, or to a duration, to run each case of the
// concurrent suite for ten seconds, or for that long.
//
// The output of go test -json is the report: each case carries its rule, the
// version it came with, and what became of it as attributes. The folder
// requirements freezes which cases a version demands, so that an upgrade of
// this module never fails a store that was fine: a newer case runs and is
// reported, and counts from the next version on.
//
// This package requires go-cmp, whose differences are what you read when a case
// fails. Read case.go first.
package conformance
