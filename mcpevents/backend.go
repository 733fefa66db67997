package mcpevents

import (
	"context"
	"time"
)

// A Backend is where the events of a type come from: a log that can be read
// behind a cursor. [Log] is one in memory. Its methods may be called from many
// goroutines at once, and must return soon after ctx ends; a stream gives a Read as
// long as its heartbeat.
//
// An error of the kind Forbidden, NotFound or Unsupported (an *[Error]) ends what
// asked; any other is a hiccup: a poll is answered with it, a stream tells of it
// and tries again.
type Backend interface {
	// Head returns the position behind the newest event there is, never empty.
	Head(ctx context.Context, sub Subscription) (Cursor, error)

	// Read returns what lies behind q.After, oldest first, of what sub's
	// arguments mean. It does not wait. A cursor that it cannot read from, for
	// whatever reason, is no error: see Page.Truncated.
	Read(ctx context.Context, sub Subscription, q Query) (Page, error)

	// Wait returns nil once there may be something behind after, at once where
	// it cannot know that position, and ctx's error when ctx ends before.
	Wait(ctx context.Context, sub Subscription, after Cursor) error
}

// A Query asks for a page of events.
type Query struct {
	// After is the position to read on behind, never empty and at most 4 KiB. A
	// client's cursor that is empty or longer is a single NUL here, which is not
	// to be readable.
	After Cursor
	// NotBefore leaves out what happened before it; zero is no bound.
	NotBefore time.Time
	// Limit is the most events that the page may have, at least 1.
	Limit int
}

// A Page is a run of events.
type Page struct {
	// Events are the page's, oldest first, each with its Cursor: the position
	// behind it. Their data is shared and must not be changed.
	Events []Event
	// Cursor is the position behind all that was looked at, with what the
	// arguments left out; never empty.
	Cursor Cursor
	// More tells that there is another event for the subscription behind Cursor.
	More bool
	// Truncated tells that something before the page may have been missed: After
	// is not held any more, or is unreadable, of another log or ahead of the
	// head, or NotBefore left out an event. The page begins at the oldest event
	// that is held and wanted; at the head, where After was ahead of it.
	Truncated bool
	// Start is the position that a truncated page begins behind: whoever goes on
	// from there misses nothing of the page. Empty is the query's After.
	Start Cursor
}
