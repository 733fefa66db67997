package inspect

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A Question asks what became of an event.
type Question struct {
	Scope attend.Scope
	Event string // its id
}

// Check reports why q can't be about an event, as an error that is
// attend.ErrInvalid, or nil.
func (q Question) Check() error {
	if err := q.Scope.Check(); err != nil {
		return err
	}
	if len(q.Event) == 0 || len(q.Event) > attend.MaxIDBytes || !utf8.ValidString(q.Event) || strings.IndexFunc(q.Event, unicode.IsControl) >= 0 {
		return &attend.InvalidError{Field: "event", Want: "1 to 256 bytes of UTF-8 without control characters"}
	}
	return nil
}

// A Fate is where an event is now, or how it ended.
type Fate string

const (
	FateOpen       Fate = "open"       // in the open window
	FateHeld       Fate = "held"       // in the held window: the judge said wait
	FateJudging    Fate = "judging"    // in the slot: its window is being judged, or waits for it
	FateSkipped    Fate = "skipped"    // the judge let its window go
	FateDropped    Fate = "dropped"    // it was dropped from a window, undecided
	FateDelivering Fate = "delivering" // its decision waits for the sink
	FateDelivered  Fate = "delivered"  // the sink took its decision
	FateLogged     Fate = "logged"     // its decision is in the log, which is all the delivery there is
	FateDecided    Fate = "decided"    // its decision is in the log; whether the sink took it is not known any more
	FateLetter     Fate = "letter"     // it is in a dead letter that waits for its handler
	FateTaken      Fate = "taken"      // it is in a dead letter that its handler took, or that is in the log
	FateUnknown    Fate = "unknown"    // it was seen, and what became of it since is not known any more
)

// An Explanation is what is known of an event. Two sources can have brought an
// event of one id each, so there can be several lives.
type Explanation struct {
	Question
	Lives []Life // empty: nothing is known of it
	// At is the time of the scope's last input; zero: there is no such scope now.
	At time.Time
	// Trimmed: retention has taken rows from the log, so that what is not told may
	// have been there.
	Trimmed bool
	// Limited: older rows than Since were not looked at. [Limits] says why.
	Limited bool
	Since   time.Time // of the oldest row that was looked at; zero where Limited is false, or none was
	// Unreadable is how many rows were found that can't be read. That the event is
	// named in them is likely.
	Unreadable int
}

// A Life is the story of one event. An event that was brought again after its
// scope forgot it has both stories in one.
type Life struct {
	Source string // that brought it; empty: it was pushed
	Name   string // empty: only its id is known any more
	Kind   attend.Kind
	Fate   Fate
	Steps  []Step // in the order in which they happened
}

// Explain tells the life of an event from the state of its scope and the rows of
// the log that are in h, which are oldest first. It is a pure function. The state
// must be older than the rows, or as old: else an event between them is in
// neither.
func Explain(q Question, s *machine.State, h History) Explanation {
	x := Explanation{
		Question: q, At: s.Now(),
		Trimmed: h.Trimmed, Limited: h.Limited, Since: h.Since,
	}
	f := finder{event: q.Event, quoted: quote(q.Event), lives: make(map[string]*traces)}
	f.rows(h.Rows)
	f.state(s)
	f.rest()
	for _, l := range f.order {
		x.Lives = append(x.Lives, tell(q.Event, l, s, &h))
	}
	x.Unreadable = f.unreadable
	return x
}

// Load returns a scope's state as a store has it, the zero State for an unknown
// scope.
func Load(ctx context.Context, store attend.ScopeStore, scope attend.Scope) (machine.State, error) {
	r, err := store.Load(ctx, scope)
	if err != nil {
		return machine.State{}, err
	}
	return machine.Replay(r)
}

// FromStore explains an event from a store alone.
func FromStore(ctx context.Context, store attend.ScopeStore, q Question) (Explanation, error) {
	if err := q.Check(); err != nil {
		return Explanation{}, err
	}
	load := func(ctx context.Context, scope attend.Scope) (machine.State, error) { return Load(ctx, store, scope) }
	return explain(ctx, load, store.Log(), q, Limits{})
}

// explain reads the state, then the rows. A scope that came up between them is
// read again: it would look like one that was removed.
func explain(ctx context.Context, load func(context.Context, attend.Scope) (machine.State, error), log attend.DecisionLog, q Question, l Limits) (Explanation, error) {
	s, err := load(ctx, q.Scope)
	if err != nil {
		return Explanation{}, err
	}
	h, err := Read(ctx, log, q, l)
	if err == nil && s.Scope() == "" && len(h.Rows) > 0 {
		if s, err = load(ctx, q.Scope); err == nil && s.Scope() != "" {
			h, err = Read(ctx, log, q, l)
		}
	}
	if err != nil {
		return Explanation{}, err
	}
	return Explain(q, &s, h), nil
}
