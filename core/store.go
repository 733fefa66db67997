package attend

import (
	"context"
	"iter"
	"time"
)

// A ScopeStore holds each scope's latest snapshot, the inputs committed since
// it, when it is due, and the decision log. It is what a store author
// implements; package memory is the contract in its shortest form, and the
// conformance module checks every sentence of it.
//
// Every method may be called from many goroutines at once. A store keeps bytes
// as they are and knows nothing of what is in them. It copies what it keeps,
// and returns no memory that a later call writes over: callers and store own
// their slices. No method reads a clock. A store limits how long a call may take:
// an engine's contexts may have no end. A closed store answers every call with
// an error that is [ErrClosed]. One that can be closed is an io.Closer.
type ScopeStore interface {
	// Load returns the scope's snapshot and every input committed after it,
	// oldest first. For an unknown scope it returns the zero Record and no
	// error.
	Load(ctx context.Context, scope Scope) (Record, error)

	// Commit applies each write whose Expect is the scope's stored version (0:
	// there is no such scope). What one write brings lands together or not at
	// all, and of any number of concurrent writes at one version exactly one is
	// applied. The answer has one Outcome a write, in the same order. No two
	// writes of a call name one scope. An error means that the outcome of the
	// whole call is unknown.
	Commit(ctx context.Context, writes []Write) ([]Outcome, error)

	// Due yields the scopes whose due time is at or before now, oldest first.
	// It reads and claims nothing, and holds no lock, row or transaction while
	// it yields: any method may be called inside the loop. An error is its last
	// pair. Scopes that become due meanwhile may be left out.
	Due(ctx context.Context, now time.Time) iter.Seq2[Scope, error]

	// Remove forgets the scope, work not yet done included. Its log rows stay.
	// An unknown scope is no error.
	Remove(ctx context.Context, scope Scope) error

	// Log returns the store's decision log, the same one each time.
	Log() DecisionLog
}

// A Record is what a store holds of one scope.
type Record struct {
	// Version changes with each write and is never used again, not after the
	// scope was removed either: a scope that comes back starts at a random one.
	// It is below 1<<63. 0: the scope is unknown.
	Version  uint64
	Snapshot []byte   // nil before the first one
	Tail     [][]byte // the inputs since Snapshot, oldest first
}

// A Write is one scope's part of a commit.
type Write struct {
	Scope  Scope
	Expect uint64   // the version that the write was made from; 0: no such scope
	Inputs [][]byte // appended to the tail; empty when Snapshot is set
	// Snapshot replaces snapshot and tail. Nil: there is none in this write.
	Snapshot []byte
	// Due is when the scope wants to be looked at, in whole milliseconds. Zero:
	// never.
	Due time.Time
	// KeepDue leaves the stored due time as it is; Due means nothing then, and
	// the store must not touch its index. Never set when Expect is 0.
	KeepDue bool
	// Forget removes the scope, at this version and with these Rows; nothing
	// else of the write means anything then.
	Forget bool
	Rows   []Row // appended to the log, in order
}

// An Outcome is what became of one write.
type Outcome struct {
	// Version is the scope's new version. 0: a conflict, nothing of the write
	// was applied. After Forget it is any number but 0.
	Version uint64
}

// Conflict reports whether somebody else's write came first.
func (o Outcome) Conflict() bool { return o.Version == 0 }
