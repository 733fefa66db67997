package attend

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"iter"
	"strings"
	"time"
)

// A RowType says what a row of the decision log holds.
type RowType string

const (
	RowDecision RowType = "decision" // Body is a Decision
	RowLetter   RowType = "letter"   // Body is a DeadLetter
	RowVerdict  RowType = "verdict"  // Body is a Mark; counted apart by retention
)

// A Row is what a store keeps of one decision, dead letter or mark: the columns
// to find it by, and bytes.
type Row struct {
	Scope Scope
	ID    DecisionID // not unique
	Type  RowType
	At    time.Time // in whole milliseconds
	Body  []byte    // JSON, opaque to a store
}

// A Position is a row's place in the log, from 1. Rows have rising positions
// with gaps allowed.
type Position uint64

// A LogCursor is a place in one life of a log. The zero LogCursor stands before
// the oldest row kept, whatever the epoch.
type LogCursor struct {
	Epoch    string // of the log that Position belongs to
	Position Position
}

// String returns c as text that [ParseLogCursor] reads: letters, digits, dash
// and underscore, empty for the zero LogCursor.
func (c LogCursor) String() string {
	if c == (LogCursor{}) {
		return ""
	}
	b := binary.AppendUvarint(nil, uint64(c.Position))
	return base64.RawURLEncoding.EncodeToString(append(b, c.Epoch...))
}

// ParseLogCursor reads what [LogCursor.String] wrote of a cursor whose epoch has
// 1 to 246 bytes. A cursor has one spelling; any other is an error, as is every
// text that is no cursor. The error is [ErrInvalid].
func ParseLogCursor(s string) (LogCursor, error) {
	if s == "" {
		return LogCursor{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	p, n := binary.Uvarint(b)
	if err == nil && n > 0 && len(b) > n && len(b) <= 256 {
		c := LogCursor{Epoch: string(b[n:]), Position: Position(p)}
		if c.String() == s { // base64 reads over line breaks, Uvarint over leading zeros
			return c, nil
		}
	}
	return LogCursor{}, &InvalidError{Field: "cursor", Want: "a cursor that this log gave out"}
}

// A Prefix narrows a reader to scopes. One that ends in / or : covers the
// scopes that begin with it; any other covers itself and what follows it
// behind a / or a :, so ops covers ops, ops/db and ops:x, but not opsx. The
// empty one covers all.
type Prefix string

// Covers reports whether s is within p.
func (p Prefix) Covers(s Scope) bool {
	rest, ok := strings.CutPrefix(string(s), string(p))
	if !ok || p == "" || rest == "" {
		return ok
	}
	return border(p[len(p)-1]) || border(rest[0])
}

func border(c byte) bool { return c == '/' || c == ':' }

// A DecisionLog is every decision in one order, read by position.
//
// A reader that has read up to position p never later finds a row at or before
// p. Every method may be called from many goroutines at once.
type DecisionLog interface {
	// Bounds returns the log's epoch and how far it goes.
	Bounds(ctx context.Context) (Bounds, error)

	// Read yields the rows that q asks for, oldest first, and ends behind the
	// newest that was there when it came to it. When q.After is of another
	// epoch, ahead of the log, or rows that q asks for were trimmed behind it,
	// the only pair is a [*TruncatedError]. It holds no lock, row or
	// transaction while it yields. Where rows are trimmed that it had still to
	// yield, it yields them all the same, or its last pair is a
	// [*TruncatedError]. An error is its last pair.
	Read(ctx context.Context, q Query) iter.Seq2[Entry, error]

	// Find returns the newest row of type t with this id, or an error that is
	// [ErrNotFound]. The empty t is RowDecision.
	Find(ctx context.Context, id DecisionID, t RowType) (Entry, error)

	// Trim deletes the rows that keep does not keep, reckoned from now. A row
	// is trimmed with all older rows of its class: decisions and dead letters
	// are one class, verdict rows the other.
	Trim(ctx context.Context, keep Retain, now time.Time) error
}

// A Waiter is a [DecisionLog] that can block until it grows. The others are
// polled.
type Waiter interface {
	// Wait returns nil once there may be a row for q, at once where there is
	// one already or q.After is truncated, and ctx's error when ctx ends. A
	// closed log answers with an error that is [ErrClosed]. A wake-up for nothing
	// is allowed, a missed one only costs time.
	Wait(ctx context.Context, q Query) error
}

// Bounds says how far a log goes.
type Bounds struct {
	Epoch string // made at random with the store
	// Newest is the position of the newest row ever appended, 0 before the
	// first. A reader may start behind it: what is committed after Bounds was
	// called lies there.
	Newest Position
	// Trimmed is the newest position at which a decision or a dead letter was
	// trimmed, and TrimmedVerdicts at which a verdict row was. 0: none yet. A
	// cursor before it is truncated for readers of that class.
	Trimmed, TrimmedVerdicts Position
}

// Check returns nil where a reader that asks for q misses nothing, else the
// [*TruncatedError] that Read answers with, and at which Wait returns at once.
func (b Bounds) Check(q Query) error {
	if q.After == (LogCursor{}) {
		return nil
	}
	low := b.Low(q)
	if q.After.Epoch == b.Epoch && q.After.Position >= low && q.After.Position <= b.Newest {
		return nil
	}
	return &TruncatedError{Oldest: LogCursor{Epoch: b.Epoch, Position: low}}
}

// Low is the newest trimmed position of the classes that q asks for.
func (b Bounds) Low(q Query) Position {
	var low Position
	if q.Wants(RowDecision) || q.Wants(RowLetter) {
		low = b.Trimmed
	}
	if q.Wants(RowVerdict) {
		low = max(low, b.TrimmedVerdicts)
	}
	return low
}

// A Query says which rows a reader wants.
type Query struct {
	After  LogCursor // the zero one: from the oldest row kept
	Prefix Prefix    // of the scope
	Types  []RowType // empty: decisions alone
}

// Wants reports whether q asks for rows of type t.
func (q Query) Wants(t RowType) bool {
	if len(q.Types) == 0 {
		return t == RowDecision
	}
	for _, w := range q.Types {
		if w == t {
			return true
		}
	}
	return false
}

// An Entry is a row in its place.
type Entry struct {
	Cursor LogCursor // to read on behind it
	Row
}

// Retain says how much of a log is kept. A zero field sets no limit.
type Retain struct {
	Count    int           // newest decisions and dead letters, together
	Verdicts int           // newest verdict rows
	Age      time.Duration // of any row, by its At
}
