package journal

import (
	"context"
	"iter"

	attend "github.com/attend-go/attend/core"
)

// A LogBackend is the database under a [Log]. It keeps the rows in the order of
// their positions, an index of entries as [RowEntries] says, and the marks.
//
// Rows come into the index some time after they were appended, many at once and
// in the index's order: each by itself would change a page for each of its
// entries in the commit that brought it, which is more than all the rest of the
// commit. Every method may be called from many goroutines at once.
type LogBackend interface {
	// View calls f with a read transaction: all that f reads is of one moment.
	// f may be called again.
	View(ctx context.Context, f func(LogReader) error) error
	// Update calls f with a write transaction, of which nothing is kept when f
	// returns an error.
	Update(ctx context.Context, f func(LogTx) error) error
	// Wait blocks until a row of one of the topics may be there. look says
	// whether there is one already, and how far the log goes.
	Wait(ctx context.Context, topics []Topic, look func(LogReader) (ready bool, newest attend.Position, err error)) error
}

// A LogReader is a transaction that reads. Its methods are called by one
// goroutine at a time, and none inside the loop of an iterator. An error is an
// iterator's last pair.
type LogReader interface {
	// Marks says how far the log goes.
	Marks() (Marks, error)
	// Page reads some rows that q wants behind after: what the index has of each
	// of Types, and then of the rows that are not in it yet. About PageRows and
	// PageBytes are enough, and it may be nothing. m is what Marks said.
	Page(q attend.Query, m Marks, after attend.Position) (Page, error)
	// Find returns the newest row of a type with an id, nil where there is none.
	Find(id attend.DecisionID, t attend.RowType) (*attend.Entry, error)
	// Oldest yields a class's rows in the index, oldest first.
	Oldest(class int) iter.Seq2[RowTime, error]
	// Newest yields a class's rows in the index before a position, newest first.
	Newest(class int, before attend.Position) iter.Seq2[RowTime, error]
}

// A LogTx is a transaction that writes. It sees its own writes.
type LogTx interface {
	LogReader
	// Index brings up to n rows into the index, the oldest of those that are not
	// in it, and tells how many.
	Index(n int) (int, error)
	// Trim deletes up to n of a class's oldest rows in the index, none behind
	// upTo, and tells how many.
	Trim(class int, upTo attend.Position, n int) (int, error)
}

// Marks say how far a log goes, and how much of it is in the index.
type Marks struct {
	Newest  attend.Position // ever appended
	Indexed attend.Position // rows up to here are in the index
	// By class: how many rows of those in the index are kept, and the newest
	// position that was trimmed.
	Kept    [2]int64
	Trimmed [2]attend.Position
}

func (m *Marks) bounds(epoch string) attend.Bounds {
	return attend.Bounds{Epoch: epoch, Newest: m.Newest, Trimmed: m.Trimmed[0], TrimmedVerdicts: m.Trimmed[1]}
}

// What a Page has at most, more or less: rows, and bytes of them.
const (
	PageRows  = 100
	PageBytes = 1 << 20
)

// A Page is what a reader gets at a time.
type Page struct {
	Entries []attend.Entry
	Next    attend.Position // where to go on
	More    bool            // there may be more
}

// A RowTime is where a row is and its time, in Unix milliseconds.
type RowTime struct {
	Pos attend.Position
	At  int64
}
