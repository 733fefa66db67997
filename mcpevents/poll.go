package mcpevents

import (
	"context"
	"time"
	"unicode/utf8"
)

// maxEmptyReads bounds how often a poll reads on where a backend returns pages
// without events that say there are more.
const maxEmptyReads = 16

// poll answers one events/poll. It keeps nothing for the next.
func (s *Server) poll(ctx context.Context, p *pollParams) (*pollResult, error) {
	r, err := s.request(ctx, p, Poll)
	if err != nil {
		return nil, err
	}
	if err := s.permit(ctx, r.offer, r.sub); err != nil {
		return nil, err
	}
	if r.sub.Principal != "" && !s.polls.take(r.sub.Principal) {
		return nil, refuse(ResourceExhausted, "limit", "pollRate", "max", s.config.MaxPolls)
	}
	next := s.config.NextPoll.Milliseconds()
	out := &pollResult{ResultType: complete, Events: []wireEvent{}, NextPoll: &next}
	if r.cursor == "" {
		out.Cursor, err = s.head(ctx, r.offer, r.sub)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	page := readPage{next: r.cursor}
	for range maxEmptyReads {
		page, err = s.read(ctx, r.offer, r.sub, Query{After: page.next, NotBefore: s.notBefore(r.maxAge), Limit: r.limit})
		if err != nil {
			return nil, err
		}
		out.Truncated = out.Truncated || page.truncated
		if len(page.events) > 0 || !page.more {
			break
		}
	}
	for _, v := range page.events {
		out.Events = append(out.Events, v.formed.wire(r.sub.Name, v.meta))
	}
	out.Cursor, out.More = page.next, page.more
	return out, nil
}

// head is the backend's position now.
func (s *Server) head(ctx context.Context, o *offer, sub Subscription) (Cursor, error) {
	c, err := guarded(s, "Backend.Head", func() (Cursor, error) { return o.Backend.Head(ctx, sub) })
	if err == nil && !travels(c) {
		err = errNoCursor
	}
	return c, err
}

// travels reports whether a cursor of a backend comes back as it was.
func travels(c Cursor) bool {
	return c != "" && len(c) <= maxCursorBytes && utf8.ValidString(string(c))
}

// A readPage is a page that was checked: what can be sent of it.
type readPage struct {
	events    []readEvent
	next      Cursor // behind all of it
	more      bool
	truncated bool
	start     Cursor // that a truncated page begins behind
}

type readEvent struct {
	*formed
	cursor Cursor
	meta   map[string]any
}

// read reads a page and checks it. An event that must not leave the server is
// logged and left out; the cursor moves past it.
func (s *Server) read(ctx context.Context, o *offer, sub Subscription, q Query) (readPage, error) {
	return s.readInto(ctx, o, sub, q, maxBatchBytes, nil)
}

// readInto is read that has a place for the events.
func (s *Server) readInto(ctx context.Context, o *offer, sub Subscription, q Query, most int, spare []readEvent) (readPage, error) {
	return guarded(s, "Backend.Read", func() (out readPage, err error) {
		c := collector{s: s, o: o, limit: q.Limit, most: most, events: spare}
		var p Page
		if l, ok := o.Backend.(*Log); ok { // spares a copy of each event
			p, err = l.scan(ctx, sub, q, c.take)
		} else if p, err = o.Backend.Read(ctx, sub, q); err == nil {
			before := q.After
			for i := range p.Events {
				v := &p.Events[i]
				if !travels(v.Cursor) {
					return out, errNoCursor
				}
				if !c.take(v) {
					p.Cursor, p.More = before, true
					break
				}
				before = v.Cursor
			}
		}
		if err == nil && !travels(p.Cursor) {
			err = errNoCursor
		}
		if p.Start == "" {
			p.Start = q.After
		}
		return readPage{events: c.events, next: p.Cursor, more: p.More, truncated: p.Truncated, start: p.Start}, err
	})
}

// A collector checks the events of a page, up to what one answer may hold.
type collector struct {
	s      *Server
	o      *offer
	limit  int
	size   int
	most   int // bytes
	events []readEvent
}

// take takes an event, and reports whether there was room for it.
func (c *collector) take(v *Event) bool {
	f, err := c.o.form(v)
	if err != nil {
		c.s.log.Error("mcpevents: event left out", "type", c.o.Name, "event", cleanID(c.o.Name, v.ID), "error", err)
		return true
	}
	if len(c.events) > 0 && (c.size+len(f.data)+len(f.meta) > c.most || len(c.events) >= c.limit) {
		return false
	}
	c.size += len(f.data) + len(f.meta)
	c.events = append(c.events, readEvent{f, v.Cursor, v.Meta})
	return true
}

// pause waits, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
