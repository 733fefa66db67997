package mcpevents

import (
	"cmp"
	"time"
)

// A Batch is what a consumer takes at once. Asking for the next one says that
// this one's events and its cursor are kept durably, together or in that order.
type Batch struct {
	// Events are those that were not delivered before, the oldest first; there
	// may be none, where only the cursor moved, and where a stream or a webhook
	// begins whose type has no cursors. They belong to the consumer.
	Events []Event
	// Cursor is where to go on after this batch. Empty: there is nothing to keep,
	// and a later call starts from now.
	Cursor Cursor
	// Truncated: events between the batch before and this one may be missing.
	Truncated bool
	// Dropped counts what came since the batch before and nobody gets;
	// [FollowConfig.OnTrouble] heard of each.
	Dropped int
}

// A FollowConfig says how a subscription is followed. The zero value starts from
// now, in the best mode that the server offers.
type FollowConfig struct {
	// Mode is the one to use, and no other. Empty: a webhook where there is a
	// receiver, else push, else poll, of those that the server offers.
	Mode Mode
	// Receiver takes the deliveries of webhooks; nil: there are none.
	Receiver *Receiver
	// Cursor is where to go on: the last one that was kept. Empty: from now on.
	Cursor Cursor
	// MaxAge has nothing older replayed; zero: there is no such bound.
	MaxAge time.Duration
	// MaxEvents is the most events of a batch that a stream fills from what waits
	// already, and what a poll asks for; zero is 100. A poll's batch has what the
	// server sent. After an answer that was too large, or did not come in time, polls
	// ask for half as many, until one has caught up.
	MaxEvents int
	// PollFloor is the least time between two polls that are not draining; zero
	// is a second.
	PollFloor time.Duration
	// PollInterval is the time between them where the server does not say; zero
	// is 10 s.
	PollInterval time.Duration
	// Open is how long a stream may take to become active; zero is 10 s.
	Open time.Duration
	// Idle is how long a stream may be without an event or a heartbeat; zero is a
	// minute, twice what servers are allowed between heartbeats.
	Idle time.Duration
	// Seen remembers the events that were taken. Kept by the caller, beside the
	// cursor, it drops duplicates across restarts too. Nil: one that lives as
	// long as the call. Several calls must not share one at the same time.
	Seen *Seen
	// MaxBuffered is how many notifications of a stream may wait; zero is what
	// [SessionConfig.MaxBuffered] says.
	MaxBuffered int
	// OnTrouble hears of what does not end the subscription: [DroppedError],
	// [MismatchError], [FailureError], [StrayError], and in [Client.Follow] what
	// ended an attempt. It is called between batches and must not block for long. Nil:
	// nobody does.
	OnTrouble func(error)
}

func (f FollowConfig) withDefaults() FollowConfig {
	f.MaxAge, f.MaxBuffered = max(f.MaxAge, 0), max(f.MaxBuffered, 0)
	f.MaxEvents = cmp.Or(max(f.MaxEvents, 0), 100)
	f.PollFloor = cmp.Or(max(f.PollFloor, 0), time.Second)
	f.PollInterval = cmp.Or(max(f.PollInterval, 0), 10*time.Second)
	f.Open = cmp.Or(max(f.Open, 0), 10*time.Second)
	f.Idle = cmp.Or(max(f.Idle, 0), time.Minute)
	if f.Seen == nil {
		f.Seen = NewSeen(0, 0)
	}
	if f.OnTrouble == nil {
		f.OnTrouble = func(error) {}
	}
	return f
}
