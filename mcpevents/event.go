package mcpevents

import (
	"encoding/json"
	"time"
)

// A Cursor is a position in the events of one subscription: opaque, made by the
// server, and sent back byte by byte. The empty one is the protocol's null: in a
// request, from now on; in an answer, that nothing can be replayed.
type Cursor string

// MarshalJSON writes the empty cursor as null.
func (c Cursor) MarshalJSON() ([]byte, error) {
	if c == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(c))
}

// UnmarshalJSON takes a string or null.
func (c *Cursor) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*c = ""
	if s != nil {
		*c = Cursor(*s)
	}
	return nil
}

// An Event is one occurrence, the same in every mode of delivery. Its slices and
// maps belong to whom they are given to.
type Event struct {
	// ID is the server's, the same for the same happening on every path and
	// every retry. A server's is 1 to 128 of A-Z a-z 0-9 _ : -; a client takes
	// any that is not empty.
	ID string
	// Name is the event's type.
	Name string
	// At is when it happened. On a client it is read from Timestamp, in the forms of
	// ISO 8601 that servers write, UTC where they give no zone; zero: it could not be
	// read.
	At time.Time
	// Timestamp is At as the server wrote it. A server leaves it empty.
	Timestamp string
	// Data is a JSON object that conforms to the type's payload schema.
	Data json.RawMessage
	// Cursor is the position behind this event; empty in polls, and where
	// nothing can be replayed.
	Cursor Cursor
	// Meta is metadata of the protocol, outside the payload schema. A client takes
	// 16 KiB of it at most, as it came; nil: there is none, or more.
	Meta map[string]any
	// Mismatch is set by a client on data that does not conform to the payload
	// schema; such an event is delivered all the same.
	Mismatch bool

	form *form // of a [Log]'s: its form on the wire, made once for all who read it
}

// A Subscription is who wants to hear what. Principal, Name and Arguments
// together are its identity, and the space that its cursors belong to.
type Subscription struct {
	// Principal is whom the server's authentication found; empty for nobody.
	// A client leaves it empty.
	Principal string
	// Name is the type of event.
	Name string
	// Arguments is a JSON object; a server gets it in canonical form (RFC
	// 8785), never empty. A client may leave it nil, which is {}.
	Arguments json.RawMessage
}
