package mcpface

import (
	"context"
	"encoding/json"
	"fmt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
)

// EventName is the name of the event.
const EventName = "attention.decision"

const eventDescription = "A decision about what deserves attention: what happened in a scope settled, was judged, and is to be " +
	"heard by whoever attends to it."

// Bounds of one read for a subscriber.
const (
	readRows  = 64        // decisions that the feed is asked for at a time
	readBytes = 512 << 10 // of payloads, after which a page ends
	maxReads  = 256       // of the feed, each of up to decisions.MaxLimit rows
)

// arguments are those of a subscription, which the schema has checked.
type arguments struct {
	Scope  attend.Prefix  `json:"scope"`
	Routes []attend.Route `json:"routes"`
}

func argumentsOf(sub mcpevents.Subscription) (arguments, error) {
	var a arguments
	if err := json.Unmarshal(sub.Arguments, &a); err != nil {
		return a, &mcpevents.Error{Kind: mcpevents.InvalidParams} // of a schema that changed since
	}
	return a, nil
}

// eventType is the type as it is offered.
func (f *Face) eventType(modes []mcpevents.Mode) mcpevents.Type {
	return mcpevents.Type{
		Name: EventName, Description: eventDescription, Modes: modes,
		Input: json.RawMessage(eventArguments), Payload: json.RawMessage(decisionSchema),
		Backend: backend{f}, Check: f.check,
	}
}

// reader is the principal of a subscription: whom the context of the request
// carries, and of a webhook whom its name stands for now.
func (f *Face) reader(ctx context.Context, sub mcpevents.Subscription) *access.Principal {
	p := access.From(ctx)
	if p.Name == sub.Principal {
		return p
	}
	if f.c.Named != nil {
		if p := f.c.Named(sub.Principal); p != nil {
			return p
		}
	}
	return new(access.Principal)
}

// check tells whether a subscription is allowed. A scope that is somebody else's
// is: it answers as one that does not exist.
func (f *Face) check(ctx context.Context, sub mcpevents.Subscription) error {
	if !f.reader(ctx, sub).Read {
		return &mcpevents.Error{Kind: mcpevents.Forbidden, Data: json.RawMessage(`{"reason":"no right to read"}`)}
	}
	a, err := argumentsOf(sub)
	if err != nil {
		return err
	}
	if checkPrefix(a.Scope) != nil {
		return &mcpevents.Error{
			Kind: mcpevents.InvalidParams,
			Data: json.RawMessage(`{"path":"/arguments/scope","reason":"must have at most 512 bytes and no control characters"}`),
		}
	}
	return nil
}

// checkPrefix says why p can't narrow anything to a scope, or nil.
func checkPrefix(p attend.Prefix) error {
	if p == "" {
		return nil
	}
	return attend.Scope(p).Check()
}

// A backend reads the decision log for subscriptions.
type backend struct{ f *Face }

var _ mcpevents.Backend = backend{}

// query is the feed's form of a subscription.
func (b backend) query(ctx context.Context, sub mcpevents.Subscription) (decisions.Query, error) {
	a, err := argumentsOf(sub)
	if err != nil {
		return decisions.Query{}, err
	}
	return decisions.Query{Prefixes: b.f.reader(ctx, sub).Readable(a.Scope), Routes: a.Routes}, nil
}

// Head implements [mcpevents.Backend].
func (b backend) Head(ctx context.Context, _ mcpevents.Subscription) (mcpevents.Cursor, error) {
	c, err := b.f.c.Feed.Now(ctx)
	return mcpevents.Cursor(c.String()), err
}

// Read implements [mcpevents.Backend]. A cursor that can't be read from, one ahead
// of the log too, goes on from the oldest decision kept.
func (b backend) Read(ctx context.Context, sub mcpevents.Subscription, q mcpevents.Query) (mcpevents.Page, error) {
	want, err := b.query(ctx, sub)
	if err != nil {
		return mcpevents.Page{}, err
	}
	r := reading{q: q}
	if want.After, err = attend.ParseLogCursor(string(q.After)); err != nil {
		r.page.Truncated = true
	}
	for n := 0; n < maxReads; n++ {
		want.Limit = min(q.Limit+1-len(r.page.Events), readRows)
		p, err := b.f.c.Feed.Read(ctx, want)
		if err != nil && n > 0 && ctx.Err() != nil {
			break // what was looked at is not looked at again
		}
		if err != nil {
			return mcpevents.Page{}, err
		}
		if full, err := r.take(p); err != nil || full || !p.More {
			return r.done(full), err
		}
		want.After = p.Next
	}
	return r.done(true), nil
}

// A reading is a page that is being read.
type reading struct {
	q    mcpevents.Query
	page mcpevents.Page
	size int
}

// take takes what the feed read, and reports whether there was no room for it all.
func (r *reading) take(p decisions.Page) (full bool, err error) {
	out := &r.page
	out.Truncated = out.Truncated || p.Truncated || len(p.Unreadable) > 0
	for _, it := range p.Items {
		if it.Decision.At.Before(r.q.NotBefore) {
			if out.Truncated = true; len(out.Events) == 0 {
				out.Start = mcpevents.Cursor(it.Cursor.String())
			}
			continue
		}
		if len(out.Events) == r.q.Limit || r.size >= readBytes {
			return true, nil
		}
		v, err := eventOf(it)
		if err != nil {
			return false, err
		}
		if len(out.Events) == 0 && out.Start == "" {
			before := it.Cursor
			before.Position--
			out.Start = mcpevents.Cursor(before.String())
		}
		out.Events = append(out.Events, v)
		out.Cursor = v.Cursor
		r.size += len(v.Data)
	}
	out.Cursor = mcpevents.Cursor(p.Next.String())
	return false, nil
}

// done is the page, which has an end.
func (r *reading) done(more bool) mcpevents.Page {
	r.page.More = more
	if r.page.Start == "" { // it is empty, and so nothing of it can be missed
		r.page.Start = r.page.Cursor
	}
	return r.page
}

// Wait implements [mcpevents.Backend].
func (b backend) Wait(ctx context.Context, sub mcpevents.Subscription, after mcpevents.Cursor) error {
	q, err := b.query(ctx, sub)
	if err != nil {
		return err
	}
	if q.After, err = attend.ParseLogCursor(string(after)); err != nil {
		return nil // to be read, and told of
	}
	return b.f.c.Feed.Wait(ctx, q)
}

// eventOf is a decision as an event. A decision's id is that of its events, which
// may come and be decided a second time; with the time it is one of its own, and
// the same on every path.
func eventOf(it decisions.Item) (mcpevents.Event, error) {
	data, err := payload(it)
	if err != nil {
		return mcpevents.Event{}, fmt.Errorf("mcpface: encode a decision: %w", err)
	}
	return mcpevents.Event{
		ID: eventID(it.Decision), At: it.Decision.At, Data: data, Cursor: mcpevents.Cursor(it.Cursor.String()),
	}, nil
}

func eventID(d attend.Decision) string {
	return fmt.Sprintf("%s:%d", d.ID, d.At.UnixMilli())
}
