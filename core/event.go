package attend

import (
	"encoding/json"
	"time"
)

// The limits of an event (rule E1) and of what comes with it.
const (
	MaxScopeBytes  = 512     // a scope's name, in bytes
	MaxSourceBytes = 1024    // a source's key, in bytes
	MaxIDBytes     = 256     // an event's id, in bytes
	MaxNameBytes   = 256     // an event's name, in bytes
	MaxEventBytes  = 1 << 20 // a whole event, as Size counts it
	MaxDataDepth   = 1000    // objects and lists inside each other in an event's data
	MaxCursorBytes = 4096    // a source's cursor, in bytes
)

// A Scope names what one agent attends to: a conversation, a repository, a
// device. It is 1 to 512 bytes of UTF-8 without control characters.
type Scope string

// Check reports why s is no scope, as an error that is [ErrInvalid], or nil.
func (s Scope) Check() error { return checkName("scope", string(s), MaxScopeBytes) }

// A Cursor says where a source is. It is opaque to attend, at most 4096 bytes;
// the empty one stands before everything.
type Cursor string

// An Event is one thing that happened in a scope.
type Event struct {
	// ID is 1 to 256 bytes of UTF-8 without control characters. Together with
	// scope and Source it is the event's identity: a repeat is dropped.
	ID string
	// At is the producer's own clock, carried along in milliseconds. No
	// deadline counts from it. Zero, or Unix time 0: the moment it was taken in.
	At time.Time
	// Name is what happened, such as "build.finished": 1 to 256 bytes of UTF-8
	// without control characters.
	Name string
	// Data is any JSON value of at most 1000 levels: decoders stop at some
	// depth, and what is wrapped around an event must not reach it. Nil stands
	// for {}. attend keeps it without space between tokens and with <, >, &,
	// U+2028 and U+2029 unescaped.
	Data json.RawMessage
	// Text is one line for people. It may be empty.
	Text string
	// Source is the key of the source that brought the event, empty for one
	// that was pushed. attend sets it.
	Source string
	// Kind is the event's settle role. attend sets it when the event is taken
	// in; what a producer puts there is ignored.
	Kind Kind
}

// overhead is what an event's wire form adds to its fields (names, quotes and
// a time in milliseconds), and the 32 bytes that a rendering adds to that.
const overhead = len(`{"id":"","at":1767225600000,"name":"","data":,"text":"","source":"","kind":""}`) + 32

// Size is the event's share of a window's byte budget: its wire JSON, escapes
// not counted, and 32 bytes.
func (e *Event) Size() int {
	return len(e.ID) + len(e.Name) + max(len(e.Data), 2) + len(e.Text) + len(e.Source) + len(e.Kind) + overhead
}

// Clean returns e as attend takes it in: its id and name checked, its text and
// data made valid (rule E43), its time in whole milliseconds. The result shares
// no memory with e.Data. An error is [ErrInvalid] or, for an event over 1 MiB,
// [ErrTooLarge]; its text names the field and quotes nothing of the event.
func (e Event) Clean() (Event, error) {
	if err := checkName("id", e.ID, MaxIDBytes); err != nil {
		return Event{}, err
	}
	if err := checkName("name", e.Name, MaxNameBytes); err != nil {
		return Event{}, err
	}
	if e.Source != "" {
		if err := checkName("source", e.Source, MaxSourceBytes); err != nil {
			return Event{}, err
		}
	}
	if !e.At.IsZero() {
		if y := e.At.UTC().Year(); y < 1 || y > 9999 {
			return Event{}, &InvalidError{Field: "at", Want: "a year from 1 to 9999"}
		}
		e.At = moment(e.At.UnixMilli())
	}
	if e.Size() > 2*MaxEventBytes { // before any work on it; escapes may still shrink
		return Event{}, &TooLargeError{Field: "event", Limit: MaxEventBytes}
	}
	e.Text = validText(e.Text)
	data, err := validJSON(e.Data)
	if err != nil {
		return Event{}, err
	}
	e.Data = data
	if e.Size() > MaxEventBytes {
		return Event{}, &TooLargeError{Field: "event", Limit: MaxEventBytes}
	}
	return e, nil
}
