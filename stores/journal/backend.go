package journal

import (
	"context"
	"iter"
	"math"

	attend "github.com/attend-go/attend/core"
)

// A Backend is the database under a [Journal]. It keeps four things: the
// journal, which is a sequence of records; one folded state a scope, with an
// index of those that have a due time; and the rows of the decision log, which
// a Journal only appends to.
//
// Several Journals may work on one Backend's data at once, also from several
// processes. Every method may be called from many goroutines at once.
type Backend interface {
	// Update calls f with the one write transaction there is, among all
	// processes. What f did is durable and seen by every later transaction when
	// Update returns nil. When f returns an error nothing of it is kept, and
	// Update returns an error that is f's. Any other error means that the
	// outcome is unknown. f may be called again after it was rolled back; it
	// keeps nothing of the Tx. How long a call waits for its turn is for Update
	// to say: a Journal has no queue of its own. When the transaction is over,
	// it returns without waiting for another one.
	Update(ctx context.Context, f func(Tx) error) error
	// View calls f with a read transaction: all that f reads is of one moment,
	// which is no older than the newest Update that had returned before. It
	// returns an error that is f's, if there is one. f keeps nothing of the
	// Reader.
	View(ctx context.Context, f func(Reader) error) error
}

// A Reader is a transaction that reads. Its methods are called by one goroutine
// at a time. Bytes that it returns are valid until its next call, and are not
// written to; what an iterator yields is valid until it goes on.
type Reader interface {
	// Bounds says which records the journal has.
	Bounds() (Bounds, error)
	// Records yields the journal's records behind seq, oldest first. An error
	// is its last pair. No other method is called inside the loop.
	Records(seq uint64) iter.Seq2[Record, error]
	// Head returns the folded state of a scope without its body, and the zero
	// Head where there is none.
	Head(scope attend.Scope) (Head, error)
	// State returns the folded state of a scope, and the zero State where there
	// is none.
	State(scope attend.Scope) (State, error)
	// Beside returns scopes whose folded states lie on the same pages as that
	// scope's, or next to it, so that to write these too costs little. Some that
	// are not there, or have no state, do no harm. A database whose states share
	// nothing returns none.
	Beside(scope attend.Scope) ([]attend.Scope, error)
	// Due appends to page, up to its capacity, the folded scopes behind after
	// whose due time is at or before upTo, in the order of DueKey. It costs what
	// it finds, however many scopes there are.
	Due(after DueKey, upTo int64, page []DueKey) ([]DueKey, error)
}

// A Tx is a transaction that writes. It sees its own writes, and keeps none of
// the slices that it is handed once a method has returned.
type Tx interface {
	Reader
	// Append adds a record behind the newest one and returns its seq, which is
	// the newest plus one.
	Append(tag uint64, body []byte) (seq uint64, err error)
	// Drop deletes the records before seq. There may be a thousand.
	Drop(seq uint64) error
	// Put keeps a scope's folded state in place of what there was, and its Due
	// in the index unless it is Never.
	Put(scope attend.Scope, s State) error
	// Delete drops a scope's folded state, and its place in the index. An
	// unknown scope is no error.
	Delete(scope attend.Scope) error
	// AppendRows adds rows to the decision log, in order.
	AppendRows(rows []attend.Row) error
}

// Bounds says which records a journal has: all from Oldest to Newest, or none
// where Oldest is Newest+1. Newest is 0 before the first record ever, and stays
// what it is when records are dropped.
type Bounds struct {
	Oldest, Newest uint64
	Tag            uint64 // of the newest record, 0 where there is none
}

// A Record is one record of the journal: what one commit changed.
type Record struct {
	Seq  uint64 // from 1, without gaps
	Tag  uint64 // drawn at random, so that no other record has the same
	Body []byte // opaque to a Backend
}

// A Head is what a folded state says of its scope.
type Head struct {
	Version uint64 // below 1<<63; 0: there is no such state
	Seq     uint64 // the newest record that is in the state
	Due     int64  // in Unix milliseconds, or Never
}

// Never is the Due of a scope that is not in the index. It is no time that a
// scope can have.
const Never = math.MaxInt64

// A State is a scope as it was when it was folded.
type State struct {
	Head
	Body []byte // opaque to a Backend
}

// A DueKey is a folded scope's place in the index: by time, then by the bytes
// of its name. A scope may be any bytes.
type DueKey struct {
	At    int64 // in Unix milliseconds
	Scope attend.Scope
}
