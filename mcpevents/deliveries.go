package mcpevents

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// maxTakers is how many subscriptions are taken at the same time.
const maxTakers = 16

// Run delivers events to webhooks until ctx ends, then lets requests that are
// under way finish, gives the subscriptions back, and returns nil. It is needed
// beside the serving where [ServerConfig].Webhooks is set: subscriptions made
// without it wait. Without webhooks it only waits for ctx. It runs once at a
// time; a second call returns an error at once.
func (s *Server) Run(ctx context.Context) error {
	if s.webhooks == nil {
		<-ctx.Done()
		return nil
	}
	return s.webhooks.run(ctx)
}

func (h *webhooks) run(ctx context.Context) error {
	h.mu.Lock()
	if h.running {
		h.mu.Unlock()
		return errors.New("mcpevents: Run runs already")
	}
	h.running = true
	h.mu.Unlock()
	var couriers sync.WaitGroup
	defer func() {
		couriers.Wait()
		h.close()
		h.mu.Lock()
		h.running = false
		h.mu.Unlock()
	}()
	foreign := make(map[string]time.Time) // of types that are not offered here, and when to look again
	tick := time.NewTicker(h.c.Scan)
	defer tick.Stop()
	for {
		if err := h.scan(ctx, &couriers, foreign); err != nil && ctx.Err() == nil {
			h.log.Warn("mcpevents: the subscription store failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
		case <-tick.C:
		}
	}
}

// foreignPause is how long a subscription to a type that is not offered here is
// left alone.
const foreignPause = 15 * time.Second

// scan takes the subscriptions that nobody holds.
func (h *webhooks) scan(ctx context.Context, couriers *sync.WaitGroup, foreign map[string]time.Time) error {
	now := time.Now()
	for id, until := range foreign {
		if !now.Before(until) {
			delete(foreign, id)
		}
	}
	var takers sync.WaitGroup
	var mu sync.Mutex // of failed and foreign
	var failed error
	slots := make(chan struct{}, maxTakers)
	for id, err := range h.c.Store.Due(ctx, now) {
		if err != nil {
			failed = err
			break
		}
		mu.Lock()
		_, skip := foreign[id]
		mu.Unlock()
		h.mu.Lock()
		skip = skip || h.couriers[id] != nil
		h.mu.Unlock()
		if skip {
			continue
		}
		slots <- struct{}{}
		takers.Go(func() {
			defer func() { <-slots }()
			c, known, err := h.take(context.WithoutCancel(ctx), id) // or nobody would know that it is held
			unreadable := errors.Is(err, errRecord)
			if unreadable {
				h.log.Warn("mcpevents: a subscription is left to others", "subscription", id, "error", err)
			}
			switch {
			case !known, unreadable:
				mu.Lock()
				foreign[id] = now.Add(foreignPause)
				mu.Unlock()
			case err != nil:
				mu.Lock()
				failed = err
				mu.Unlock()
			case c != nil:
				couriers.Go(func() {
					defer func() {
						h.mu.Lock()
						delete(h.couriers, id)
						h.mu.Unlock()
						h.poke(id) // it may be there to be taken again
					}()
					c.run(ctx)
				})
			}
		})
	}
	takers.Wait()
	return failed
}

// take takes a subscription for this server, if nobody holds it and there is
// something to do for it; a nil courier: there is not. It also removes what is
// over. Not known is one whose type is not offered here.
func (h *webhooks) take(ctx context.Context, id string) (c *courier, known bool, err error) {
	now := time.Now()
	known = true
	var mine bool
	var principal, life string
	rec, err := change(ctx, &h.ledger, h.records, id, nil, func(r *webhookRecord) (*webhookRecord, verdict, error) {
		mine, known, principal = false, true, ""
		switch {
		case r == nil, r.held(now, h.owner):
			return nil, leave, nil
		case r.over(now), r.abandoned(now, h.c.Abandon) && h.c.NoEnvelopes:
			principal, life = r.Principal, r.Life
			return nil, drop, nil
		case r.abandoned(now, h.c.Abandon):
			r.end(refuse(CallbackEndpointError, "reason", cmp.Or(r.LastError, failRefused)))
		case r.Suspended != 0 && r.Ended == nil:
			return nil, leave, nil
		case r.Ended == nil && h.s.offer(r.Name) == nil && !h.wasOffered(r.Name):
			known = false
			return nil, leave, nil
		}
		mine = true
		r.Owner, r.Lease = h.owner, now.Add(h.c.Lease).UnixMilli()
		return r, put, nil
	})
	switch {
	case err != nil:
		return nil, known, err
	case principal != "":
		return nil, known, h.leave(ctx, principal, accountEntry{ID: id, Life: life})
	case !mine:
		return nil, known, nil
	case rec.value.Ended != nil:
		h.log.Info("mcpevents: a webhook subscription is over, and its endpoint is told", "subscription", id, "reason", string(rec.value.Ended.Kind))
	}
	c = h.newCourier(id, rec)
	h.mu.Lock()
	h.couriers[id] = c
	h.mu.Unlock()
	return c, known, nil
}

// wasOffered reports whether a type was withdrawn here, rather than being one of
// another server or one that is yet to come.
func (h *webhooks) wasOffered(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.withdrawn[name]
}
