package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Limits bound the work of [Read]. A zero field means its default. Each counts
// twice: for decisions and dead letters, and for verdict rows. To find where the
// limit is, up to five times as much is read besides.
type Limits struct {
	Rows  int // of the scope and of scopes below it, the newest; default 25,000
	Bytes int // of those rows; default 32 MiB
}

// A History is what the log has of an event.
type History struct {
	// Rows are those that may tell of the event, oldest first.
	Rows []attend.Entry
	// Trimmed: retention has taken rows from the log, of any scope.
	Trimmed bool
	// Limited: the scope has older rows than Since, which were not looked at.
	Limited bool
	Since   time.Time
}

// Read reads what [Explain] needs of the log: the newest rows of the scope, back
// to the first one or to a limit. A row of which it is plain that it tells
// nothing of the event is left out. The state must be loaded before.
func Read(ctx context.Context, log attend.DecisionLog, q Question, l Limits) (History, error) {
	if l.Rows <= 0 {
		l.Rows = 25_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 32 << 20
	}
	bounds, err := log.Bounds(ctx)
	if err != nil {
		return History{}, fmt.Errorf("inspect: read the log's bounds: %w", err)
	}
	h := History{Trimmed: trimmed(bounds)}
	for _, types := range [][]attend.RowType{{attend.RowDecision, attend.RowLetter}, {attend.RowVerdict}} {
		r := reading{log: log, scope: q.Scope, types: types, quoted: quote(q.Event), epoch: bounds.Epoch, left: l}
		if err := r.back(ctx, bounds); err != nil {
			return History{}, fmt.Errorf("inspect: read the log: %w", err)
		}
		h.Rows = append(h.Rows, r.kept...)
		if r.limited {
			h.Limited = true
			if r.since.After(h.Since) {
				h.Since = r.since
			}
		}
	}
	slices.SortFunc(h.Rows, func(a, b attend.Entry) int {
		if a.Cursor.Position < b.Cursor.Position {
			return -1
		}
		return 1
	})
	return h, nil
}

// quote is the id as every row has it that names it: core writes rows with
// nothing escaped that need not be.
func quote(id string) []byte {
	b, err := marshal(id)
	if err != nil {
		panic("inspect: " + err.Error()) // a string always has a JSON form
	}
	return b
}

// A reading goes through one class of rows, from the newest backwards, in spans
// of positions. Within a span a log can only be read forwards, so a span that is
// over the limit is of no use, and a smaller one is tried.
type reading struct {
	log    attend.DecisionLog
	scope  attend.Scope
	types  []attend.RowType
	quoted []byte
	epoch  string

	left    Limits
	kept    []attend.Entry
	since   time.Time // of the oldest row in the spans that were read
	limited bool
}

const firstSpan = 64 // positions

func (r *reading) back(ctx context.Context, b attend.Bounds) error {
	low := b.Low(attend.Query{Types: r.types})
	wasted := Limits{4 * r.left.Rows, 4 * r.left.Bytes} // what spans over the limit may cost, together
	for high, span := b.Newest, attend.Position(firstSpan); high > low; {
		from := max(low, high-min(span, high))
		before := r.left
		full, cost, err := r.span(ctx, from, high)
		if cut, ok := errors.AsType[*attend.TruncatedError](err); ok {
			if cut.Oldest.Epoch != r.epoch || cut.Oldest.Position <= low {
				return err
			}
			low = cut.Oldest.Position // retention is at work
			continue
		}
		switch {
		case err != nil:
			return err
		case !full:
			high = from
			if 4*(before.Rows-r.left.Rows) <= before.Rows && 4*(before.Bytes-r.left.Bytes) <= before.Bytes {
				span *= 4
			}
			continue
		}
		wasted.Rows, wasted.Bytes = wasted.Rows-cost.Rows, wasted.Bytes-cost.Bytes
		if span = min(span, high-from) / 4; span == 0 || wasted.Rows <= 0 || wasted.Bytes <= 0 {
			r.limited = true
			return nil
		}
	}
	return nil
}

// span reads the rows behind one position up to another, and what that took. Full:
// it is over the limit, and nothing of it was kept.
func (r *reading) span(ctx context.Context, from, to attend.Position) (full bool, cost Limits, err error) {
	var kept []attend.Entry
	var oldest time.Time
	q := attend.Query{After: attend.LogCursor{Epoch: r.epoch, Position: from}, Prefix: attend.Prefix(r.scope), Types: r.types}
	for e, err := range r.log.Read(ctx, q) {
		if err != nil {
			return false, cost, err
		}
		if e.Cursor.Position > to {
			break
		}
		cost.Rows++
		cost.Bytes += len(e.Body)
		if cost.Rows > r.left.Rows || cost.Bytes > r.left.Bytes {
			return true, cost, nil
		}
		if oldest.IsZero() {
			oldest = e.At
		}
		if e.Scope == r.scope && r.tells(e.Body) {
			kept = append(kept, e)
		}
	}
	r.left.Rows -= cost.Rows
	r.left.Bytes -= cost.Bytes
	r.kept = append(kept, r.kept...)
	if !oldest.IsZero() {
		r.since = oldest
	}
	return false, cost, nil
}

// Marks that name a window and no events begin like this.
var unnamed = [][]byte{[]byte(`{"step":"` + attend.StepChanged + `"`), []byte(`{"step":"` + attend.StepDelivered + `"`)}

// tells reports whether a row may tell of the event.
func (r *reading) tells(body []byte) bool {
	return bytes.Contains(body, r.quoted) ||
		slices.ContainsFunc(unnamed, func(prefix []byte) bool { return bytes.HasPrefix(body, prefix) })
}
