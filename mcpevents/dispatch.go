package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A result is what became of an attempt.
type result struct {
	outcome
	parcel   *parcel // nil: an envelope
	envelope string  // its id
	began    time.Time
	lost     bool // there was none after all
}

// fill reads one page of events, if there is room. Others follow in the next turns,
// since the lease is to be renewed meanwhile.
func (c *courier) fill(ctx context.Context, now time.Time) {
	room := c.win.room()
	if !c.more || room == 0 || now.Before(c.readAt) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	page, err := c.h.s.read(limited, c.offer, c.sub, Query{After: c.win.read, Limit: room})
	cancel()
	if err != nil {
		c.backendFailed(ctx, err)
		return
	}
	c.hiccups = 0
	if quiet := len(page.events) == 0 && page.next == c.win.read; quiet && (c.woken || page.more) {
		c.readAt = now.Add(quietPause)
	}
	c.woken = false
	c.take(page)
	if c.more = page.more; !c.more {
		c.win.forget() // all that is there was read
	}
}

// take puts a page into the window.
func (c *courier) take(page readPage) {
	if page.truncated {
		c.win.forget()
		var after *parcel
		if page.start != c.win.read {
			after = c.win.mark(page.start)
		}
		c.owe(after)
	}
	for _, v := range page.events {
		d := c.win.add(v.cursor, v.formed)
		if !d.done && len(v.formed.body(v.cursor)) > c.h.c.MaxBody {
			c.h.log.Warn("mcpevents: an event is too large for a webhook", "subscription", c.id, "event", v.formed.id)
			d.done = true
			c.owe(d)
		}
	}
	if page.next != c.win.read {
		c.win.mark(page.next)
	}
	c.advance()
}

// backendFailed tries again later, unless the error says that it is over.
func (c *courier) backendFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if why, ok := errors.AsType[*Error](err); ok && ends(err) {
		if c.fatal = c.end(ctx, why); c.fatal == nil {
			c.poke(false) // to tell the endpoint at once
		}
		return
	}
	c.h.log.Warn("mcpevents: a backend failed", "type", c.sub.Name, "error", err)
	c.hiccup(time.Now())
}

func (c *courier) hiccup(now time.Time) {
	c.hiccups++
	c.more = true
	c.readAt = now.Add(min(time.Second<<min(c.hiccups-1, 5), maxHiccup))
}

// advance moves the watermark. Where that is all, it is written with the next
// lease.
func (c *courier) advance() {
	c.win.advance(func(passed *parcel) {
		if passed == c.held {
			c.held = nil
		}
	})
}

// owe notes that events behind a place, or nil for the watermark, were skipped.
// Several gaps that the endpoint has not heard of are told as one.
func (c *courier) owe(after *parcel) {
	switch {
	case c.silent:
		return
	case c.h.c.NoEnvelopes:
		c.missed, c.dirty = true, true
		return
	}
	c.edit(func(r *webhookRecord) {
		if r.Gap == nil || r.Gap.N > 0 || c.envelope {
			r.Gap = &owed{ID: newMessageID("gap")}
		}
	})
	c.held = after
}

// limit is how many requests for events may fly now.
func (c *courier) limit(now time.Time) int {
	r := c.rec.value
	switch {
	case !c.delivers(), !c.ours(now), c.throttled(now).After(now):
		return 0
	case r.Failing != 0, r.Throttled != 0:
		return 1 // to find out whether it works again
	}
	return c.h.c.PerSubscription
}

// throttled is until when the endpoint wants no more.
func (c *courier) throttled(now time.Time) time.Time { return c.due(c.rec.value.Throttled, now) }

// due is a time to wait for. None is further than RetryWindow: a later one is of
// a clock that was set back since.
func (c *courier) due(ms int64, now time.Time) time.Time {
	if at := moment(ms); !at.After(now.Add(c.h.c.RetryWindow)) {
		return at
	}
	return now
}

// ours reports whether a request that starts now ends within the lease.
func (c *courier) ours(now time.Time) bool {
	return c.lease.Load() > now.Add(c.h.c.Timeout).UnixMilli()
}

// owed is the envelope that is to be sent, or nil.
func (c *courier) owed() *owed {
	switch r := c.rec.value; {
	case c.envelope:
	case r.Ended != nil:
		return &r.Ended.owed
	case r.Gap != nil && c.held == nil && c.delivers():
		return r.Gap
	}
	return nil
}

// nextLaunch is when a request may start that does not fly yet; zero: none.
func (c *courier) nextLaunch(now time.Time) (at time.Time) {
	if e := c.owed(); e != nil && c.ours(now) {
		at = maxTime(maxTime(c.due(e.Next, now), c.throttled(now)), now)
	}
	if next := c.win.next(now, c.due); !next.IsZero() {
		if throttled := c.throttled(now); c.delivers() && c.ours(now) && throttled.After(now) {
			next = maxTime(next, throttled)
		} else if c.flying >= c.limit(now) {
			return at
		}
		if at.IsZero() || next.Before(at) {
			at = next
		}
	}
	return at
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// launch starts the requests whose time has come.
func (c *courier) launch(ctx, requests context.Context, now time.Time) {
	r := c.rec.value
	secrets := r.signing(now)
	if e := c.owed(); e != nil && !c.due(e.Next, now).After(now) && !c.throttled(now).After(now) && c.ours(now) {
		c.envelope = true
		c.fly(ctx, requests, letter{callback: r.URL, subscription: c.id, id: e.ID, body: c.envelopeBody(), secrets: secrets}, result{envelope: e.ID})
	}
	limit := c.limit(now)
	for _, d := range c.win.list {
		if c.flying >= limit {
			return
		}
		if d.done || d.flying || c.due(d.Next, now).After(now) {
			continue
		}
		d.flying = true
		c.flying++
		cursor := c.win.safe(d)
		if c.silent {
			cursor = ""
		}
		event := d.event
		m := letter{callback: r.URL, subscription: c.id, id: c.h.eventMessageID(c.id, event), write: func() []byte { return event.body(cursor) }, secrets: secrets}
		c.fly(ctx, requests, m, result{parcel: d})
	}
}

// envelopeBody is the body of the envelope that is owed now.
func (c *courier) envelopeBody() []byte {
	var v any = gapEnvelope{"gap", c.win.position}
	if e := c.rec.value.Ended; e != nil {
		v = terminatedEnvelope{"terminated", c.h.s.wireErrorOf(&Error{Kind: e.Kind, Data: e.Data})}
	}
	b, _ := json.Marshal(v) // strings, a number, and JSON that was checked
	return b
}

// fly makes one attempt in a goroutine of its own, once there is a slot for it.
func (c *courier) fly(ctx, requests context.Context, m letter, r result) {
	c.flights.Go(func() {
		r.lost = true
		defer func() { c.report(r) }()
		wait, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(requests, stop)()
		leave := c.h.places.enter(c.sub.Principal, wait.Done())
		if leave == nil {
			return
		}
		defer leave()
		r.began = time.Now()
		if !c.ours(r.began) {
			return
		}
		r.outcome = c.h.post(requests, m)
		r.lost = r.fault != "" && requests.Err() != nil
	})
}

// collect takes in what came back.
func (c *courier) collect(now time.Time) {
	c.mu.Lock()
	list := c.results
	c.results = nil
	c.mu.Unlock()
	for _, r := range list {
		if r.parcel == nil {
			c.envelope = false
		} else {
			c.flying--
			r.parcel.flying = false
		}
		if r.lost {
			continue
		}
		c.note(r, now)
		if r.parcel == nil {
			c.settleEnvelope(r, now)
		} else {
			c.settle(r, now)
		}
	}
	c.advance()
	if len(list) > 0 && c.rec.value.Ended == nil && c.rec.value.Health.suspend() {
		c.edit(func(rec *webhookRecord) { rec.Suspended = now.UnixMilli() })
	}
}

// note keeps what a refresh tells of the deliveries.
func (c *courier) note(r result, now time.Time) {
	c.edit(func(rec *webhookRecord) {
		failed := r.fault != "" && !r.refused()
		switch {
		case !r.busy():
			rec.Busy = 0
		case rec.Busy == 0:
			rec.Busy = r.began.UnixMilli()
		}
		// To be busy says nothing of the endpoint's health, for as long as it is tried.
		if rec.Busy == 0 || now.Sub(moment(rec.Busy)) > c.h.c.RetryWindow {
			rec.Health.count(now, failed)
		}
		switch {
		case r.fault == "":
			rec.Accepted, rec.LastError, rec.Failing, rec.Throttled = now.UnixMilli(), "", 0, 0
		case !failed:
			rec.LastError, rec.Failing, rec.Throttled = r.fault, 0, 0
		default:
			rec.LastError = r.fault
			if r.busy() {
				rec.Throttled = now.Add(min(max(r.after, time.Second), c.h.c.RetryWindow)).UnixMilli()
			} else if rec.Failing == 0 {
				rec.Failing = r.began.UnixMilli()
			}
		}
	})
}

// settle ends a delivery, or lets it be tried again.
func (c *courier) settle(r result, now time.Time) {
	d := r.parcel
	if r.fault != "" && !r.refused() {
		if c.h.c.retry(&d.tries, r.began, r.outcome, now) {
			return
		}
		c.h.log.Warn("mcpevents: an event was given up", "subscription", c.id, "event", d.event.id, "error", r.fault)
		c.owe(d)
	}
	d.done = true
}

// settleEnvelope does the same with the envelope that was owed, if it still is.
func (c *courier) settleEnvelope(r result, now time.Time) {
	rec := c.rec.value
	over := r.fault == "" || r.refused()
	switch {
	case rec.Ended != nil && rec.Ended.ID == r.envelope:
		e := *rec.Ended
		if over || !c.h.c.retry(&e.tries, r.began, r.outcome, now) {
			c.fatal = c.bury(context.Background()) // its calls have limits of their own
			return
		}
		c.edit(func(rec *webhookRecord) { rec.Ended = &e })
	case rec.Gap != nil && rec.Gap.ID == r.envelope:
		g := *rec.Gap
		if over {
			c.edit(func(rec *webhookRecord) { rec.Gap = nil })
		} else if c.h.c.retry(&g.tries, r.began, r.outcome, now) {
			c.edit(func(rec *webhookRecord) { rec.Gap = &g })
		} else {
			c.edit(func(rec *webhookRecord) { rec.Gap = nil })
			c.missed = true
		}
	}
}
