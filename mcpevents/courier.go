package mcpevents

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A courier delivers the events of one subscription, for as long as this server
// holds it. It runs in one goroutine; each request is in one of its own and
// reports back.
type courier struct {
	h    *webhooks
	id   string
	life string
	sub  Subscription

	lease atomic.Int64 // until then the subscription is ours, Unix milliseconds

	mu      sync.Mutex
	results []result
	poked   bool               // the record or the type changed
	gone    bool               // the type was withdrawn
	cancel  context.CancelFunc // ends a rest

	// The rest is of the courier's goroutine alone.
	rec     stored[webhookRecord] // as it was read last, with what is to be written
	seen    time.Time             // when that was
	dirty   bool
	missed  bool // to be written as well: a gap that refreshes are to tell
	renewAt time.Time
	storeAt time.Time // the store is left alone until then: it failed

	win     *window
	offer   *offer    // nil before the permission was checked
	silent  bool      // the type has no cursors, and so no gaps
	checked time.Time // and when
	more    bool      // there may be something behind what was read
	readAt  time.Time // the backend is left alone until then
	woken   bool      // by the backend
	hiccups int

	flying   int
	envelope bool    // one is flying
	held     *parcel // the gap is told once the watermark passed it
	flights  sync.WaitGroup
	fatal    error
}

// errLost ends a courier: somebody else has the subscription, or nobody.
var errLost = errors.New("mcpevents: the subscription is not this server's")

const (
	maxRecordAge = 5 * time.Second // before a request: an older one may lack a secret
	callTimeout  = 10 * time.Second
	maxHiccup    = 30 * time.Second
	storePause   = time.Second
	quietPause   = 50 * time.Millisecond // after a call for nothing
)

// newCourier returns a courier for a subscription that was just taken.
func (h *webhooks) newCourier(id string, rec stored[webhookRecord]) *courier {
	c := &courier{h: h, id: id, life: rec.value.Life, sub: rec.value.subscription(), win: newWindow(rec.value), more: true}
	c.hold(rec)
	return c
}

// hold takes a record that was written, with its lease.
func (c *courier) hold(rec stored[webhookRecord]) {
	c.rec, c.seen = rec, time.Now()
	c.lease.Store(rec.value.Lease)
	half := c.h.c.Lease / 2
	c.renewAt = moment(rec.value.Lease).Add(-half - rand.N(half/4+1))
}

// run delivers until ctx ends, which lets requests that are under way end by
// themselves, or until there is nothing to deliver here any more.
func (c *courier) run(ctx context.Context) {
	requests, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	err := c.loop(ctx, requests)
	lost := errors.Is(err, errLost)
	if lost {
		stop()
	}
	c.flights.Wait()
	if lost {
		return
	}
	c.collect(time.Now())
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*ledgerTimeout)
	defer cancel()
	if err := c.save(last, true); err != nil && !errors.Is(err, errLost) {
		c.h.log.Warn("mcpevents: a subscription was not given back; its lease ends by itself", "subscription", c.id, "error", err)
	}
}

func (c *courier) loop(ctx, requests context.Context) error {
	for ctx.Err() == nil {
		now := time.Now()
		c.collect(now)
		if c.fatal != nil {
			return c.fatal
		}
		if c.rec.value.Suspended != 0 {
			c.h.log.Warn("mcpevents: a webhook is suspended", "subscription", c.id, "error", c.rec.value.LastError)
			return nil
		}
		if err := c.patient(ctx, c.renew(ctx, now)); err != nil {
			return err
		}
		if err := c.judge(ctx, now); err != nil {
			return err
		}
		if c.delivers() {
			c.fill(ctx, now)
		}
		if err := c.patient(ctx, c.refresh(ctx)); err != nil {
			return err
		}
		c.launch(ctx, requests, time.Now())
		c.rest(ctx)
	}
	return nil
}

// patient leaves a store that failed alone for a while; only a subscription that
// is lost is an error.
func (c *courier) patient(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errLost) {
		return err
	}
	if ctx.Err() == nil {
		c.h.log.Warn("mcpevents: the subscription store failed", "subscription", c.id, "error", err)
	}
	c.storeAt = time.Now().Add(storePause)
	return nil
}

// delivers reports whether events are delivered: not before the permission was
// checked, nor when it is over.
func (c *courier) delivers() bool {
	return c.offer != nil && c.rec.value.Ended == nil && c.fatal == nil
}

// edit changes what is to be written. The record itself is shared with nobody,
// but a write under way may still look at it.
func (c *courier) edit(f func(r *webhookRecord)) {
	r := *c.rec.value
	f(&r)
	c.rec.value, c.dirty = &r, true
}

// renew writes what is to be written, or reads the record again where it is known
// to have changed.
func (c *courier) renew(ctx context.Context, now time.Time) (err error) {
	if now.Before(c.storeAt) {
		return nil
	}
	c.mu.Lock()
	poked := c.poked
	c.poked = false
	c.mu.Unlock()
	defer func() {
		if poked && err != nil && !errors.Is(err, errLost) { // to be looked at once the store works
			c.mu.Lock()
			c.poked = true
			c.mu.Unlock()
		}
	}()
	if c.dirty || !now.Before(c.renewAt) {
		return c.save(ctx, false)
	}
	if poked {
		return c.reload(ctx)
	}
	return nil
}

// refresh reads a record that grew old before something is sent: another server
// may have answered to a new secret, or to the end of the subscription. While the
// store fails, what is known has to do.
func (c *courier) refresh(ctx context.Context) error {
	now := time.Now()
	at := c.nextLaunch(now)
	if at.IsZero() || at.After(now) || now.Sub(c.seen) <= maxRecordAge || now.Before(c.storeAt) {
		return nil
	}
	if c.dirty {
		return c.save(ctx, false)
	}
	return c.reload(ctx)
}

// reload reads the record.
func (c *courier) reload(ctx context.Context) error {
	rec, err := load(ctx, &c.h.ledger, c.h.records, c.id)
	if err != nil {
		return err
	}
	if rec.value == nil || rec.value.Life != c.life || rec.value.Owner != c.h.owner {
		return errLost
	}
	c.hold(rec)
	return nil
}

// save writes where the courier stands, and takes the subscription for another
// lease, or gives it back.
func (c *courier) save(ctx context.Context, release bool) error {
	mine := *c.rec.value
	until := time.Now().Add(c.h.c.Lease).UnixMilli()
	settled, tried := c.win.state()
	known := c.rec
	saved, err := change(ctx, &c.h.ledger, c.h.records, c.id, &known, func(r *webhookRecord) (*webhookRecord, verdict, error) {
		if r == nil || r.Life != c.life || r.Owner != c.h.owner {
			return nil, leave, errLost
		}
		r.Position, r.Settled, r.Tries = c.win.position, settled, tried
		r.Gap, r.Suspended, r.Accepted, r.LastError, r.Failing = mine.Gap, mine.Suspended, mine.Accepted, mine.LastError, mine.Failing
		r.Throttled, r.Busy, r.Health, r.Ended = mine.Throttled, mine.Busy, mine.Health, mine.Ended
		if c.missed {
			r.Missed = &missed{}
		}
		if r.Lease = until; release {
			r.Owner, r.Lease = "", 0
		}
		return r, put, nil
	})
	if err != nil {
		return err
	}
	c.dirty, c.missed = false, false
	c.hold(saved)
	return nil
}

// rest waits for what comes next: a result, a word from elsewhere, a time, or
// more events.
func (c *courier) rest(ctx context.Context) {
	now := time.Now()
	reads := c.delivers() && c.win.room() > 0
	paused := now.Before(c.readAt)
	if reads && c.more && !paused {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	poked, came := c.rouse(cancel) // what comes from here on ends the rest
	defer c.rouse(nil)
	if came {
		return
	}
	ctx, stop := context.WithDeadline(ctx, c.next(now, poked))
	defer stop()
	if reads && !paused {
		_, err := guarded(c.h.s, "Backend.Wait", func() (struct{}, error) {
			return struct{}{}, c.offer.Backend.Wait(ctx, c.sub, c.win.read)
		})
		c.woken = err == nil
		if c.more = c.more || c.woken; err != nil && ctx.Err() == nil {
			c.backendFailed(ctx, err)
		}
	} else {
		<-ctx.Done()
	}
}

// rouse sets what ends the rest, and tells what came before.
func (c *courier) rouse(cancel context.CancelFunc) (poked, came bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return c.poked, len(c.results) > 0
}

// next is when the courier has something to do by itself.
func (c *courier) next(now time.Time, poked bool) time.Time {
	at := c.renewAt
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if c.dirty || poked {
		at = now
	}
	if r := c.rec.value; r.Ended == nil {
		sooner(moment(r.Expires))
		sooner(c.checked.Add(c.h.s.config.Recheck))
	}
	if at.Before(c.storeAt) {
		at = c.storeAt
	}
	if now.Before(c.readAt) {
		sooner(c.readAt)
	}
	sooner(c.nextLaunch(now))
	return at
}

// poke tells the courier that the record or its type changed, or that the type is
// gone.
func (c *courier) poke(gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.poked = true
	c.gone = c.gone || gone
	if c.cancel != nil {
		c.cancel()
	}
}

// report hands a result over.
func (c *courier) report(r result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, r)
	if c.cancel != nil {
		c.cancel()
	}
}
