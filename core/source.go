package attend

import (
	"context"
	"iter"
)

// A Source hands over batches of events of one scope.
//
// Key names the source in its scope: 1 to 1024 bytes, the same for ever, since
// the cursor is kept under it. Batches yields what comes after the given
// cursor; each batch is committed, with its cursor, before the next is asked
// for. An error ends the iteration and is its last pair: a plain one is tried
// again from the committed cursor, a [*PermanentError] ends the attachment. An
// iterator that ends without an error ends it too. It must return soon after
// ctx ends, and hold nothing once the loop is left.
type Source interface {
	Key() string
	Batches(ctx context.Context, after Cursor) iter.Seq2[Batch, error]
}

// A Batch is some events of a source, and where the source is behind them.
type Batch struct {
	Events []Event
	Cursor Cursor // behind the last of Events; empty for a source that can't resume
	Gap    bool   // the source lost events before these
}
