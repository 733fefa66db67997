package attend

import (
	"context"
	"iter"
)

// An EventLog is a durable shared log in front of attend, for producers in
// other processes. Every method may be called from many goroutines at once. A
// closed one answers with an error that is [ErrClosed].
type EventLog interface {
	// Append adds the events to the scope's log, all of them or none, in
	// order, and returns once they are as durable as the log makes them. An
	// event whose id is kept there already is left out. Events are kept as
	// [Event.Clean] returns them; its error names the event's place.
	Append(ctx context.Context, scope Scope, events []Event) error

	// Batches yields what the scope's log holds behind after, oldest first, in
	// batches of at most 1,000 events and about 1 MiB, and ends behind the
	// newest that was there when it came to it. When rows behind after are
	// gone, or after is none of this log's cursors, the first batch has Gap set
	// and the log goes on from the oldest kept; it may then have no events.
	// The empty cursor stands before the oldest kept and is no gap. Nothing is
	// held while it yields. An error is its last pair.
	Batches(ctx context.Context, scope Scope, after Cursor) iter.Seq2[Batch, error]
}

// An EventWaiter is an [EventLog] that can block until it grows. The others
// are polled, each second.
type EventWaiter interface {
	// WaitEvents returns nil once the scope's log may hold something behind
	// after, at once where it does, and ctx's error when ctx ends.
	WaitEvents(ctx context.Context, scope Scope, after Cursor) error
}
