package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A PollQuery says from where a poll goes on. The zero value is from now on.
type PollQuery struct {
	Cursor    Cursor        // the last one kept; empty: from now on
	MaxAge    time.Duration // replay nothing older; zero: no such bound
	MaxEvents int           // most events wanted; zero: as many as the server likes
}

// A PollResult is one batch.
type PollResult struct {
	Events    []Event         // the oldest first; none is the usual case
	Cursor    Cursor          // behind them; empty: nothing can be replayed
	Truncated bool            // events between the query's cursor and these may be missing
	More      bool            // there is more already
	NextPoll  time.Duration   // how long to wait before the next poll; negative: the server did not say
	Dropped   []*DroppedError // what came and is not among Events; Cursor is behind that too

	empty bool // the cursor is an empty string, which is taken for null
}

// wanted are the params of a call that names a subscription. What is absent
// here is not sent; the cursor is null then.
type wanted struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Cursor    *Cursor         `json:"cursor,omitempty"`
	MaxAge    *int64          `json:"maxAgeMs,omitempty"`
	MaxEvents int             `json:"maxEvents,omitempty"`
	Delivery  *callback       `json:"delivery,omitempty"`
	TTL       json.RawMessage `json:"ttlMs,omitempty"`
}

type callback struct {
	Mode   Mode   `json:"mode,omitempty"`
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"`
}

// newWanted names a subscription, its arguments always in the one form.
func newWanted(sub Subscription) (*wanted, error) {
	args, err := Canonical(sub.Arguments)
	if err != nil {
		return nil, err
	}
	return &wanted{Name: sub.Name, Arguments: args}, nil
}

func (w *wanted) from(cursor Cursor, age time.Duration) {
	w.Cursor = &cursor
	if age > 0 && cursor != "" {
		ms := max(age.Milliseconds(), 1)
		w.MaxAge = &ms
	}
}

// Poll asks once for what lies behind a cursor. Errors: [Error] where the server
// refuses, [StatusError] where HTTP does, [ErrTimeout], [ErrTooLarge] where fewer
// MaxEvents may help, [ErrProtocol], [ErrLost], [ErrClosed], [ErrNotOffered], that
// of [Canonical] for the arguments, and that of ctx.
func (s *Session) Poll(ctx context.Context, sub Subscription, q PollQuery) (*PollResult, error) {
	req, err := newWanted(sub)
	if err != nil {
		return nil, err
	}
	req.from(q.Cursor, q.MaxAge)
	req.MaxEvents = max(q.MaxEvents, 0)
	var answer struct {
		Events    []json.RawMessage `json:"events"`
		Cursor    json.RawMessage   `json:"cursor"`
		Truncated bool              `json:"truncated"`
		More      bool              `json:"hasMore"`
		NextPoll  json.RawMessage   `json:"nextPollMs"`
	}
	if err := s.ask(ctx, methodPoll, req, &answer); err != nil {
		return nil, err
	}
	cursor, ok := parseCursor(answer.Cursor)
	if !ok {
		return nil, fmt.Errorf("%w: a cursor is no string, or too long", ErrProtocol)
	}
	res := &PollResult{Cursor: cursor, Truncated: answer.Truncated && cursor != "", More: answer.More, NextPoll: -1}
	res.empty = string(answer.Cursor) == `""`
	if len(answer.NextPoll) > 0 && string(answer.NextPoll) != "null" {
		res.NextPoll = milliseconds(answer.NextPoll)
	}
	for _, raw := range answer.Events {
		o := parseOccurrence(raw, sub.Name, s.cfg.MaxEventBytes)
		if o.drop != "" {
			res.Dropped = append(res.Dropped, &DroppedError{o.drop, o.event.ID})
			continue
		}
		o.event.Cursor = ""
		res.Events = append(res.Events, o.event)
	}
	return res, nil
}
