package mcpevents

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// judge ends what is over: expired, forbidden, withdrawn or broken.
func (c *courier) judge(ctx context.Context, now time.Time) error {
	if c.rec.value.over(now) {
		if err := c.h.remove(ctx, c.id, c.life, func(r *webhookRecord) bool { return r.over(now) }); err != nil {
			return err
		}
		if err := c.save(ctx, false); err != nil { // lost, unless it was renewed elsewhere
			return err
		}
	}
	if c.rec.value.Ended != nil {
		return nil
	}
	o := c.h.s.offer(c.sub.Name)
	if o != nil && o == c.offer && !c.withdrawn() && now.Sub(c.checked) < c.h.s.config.Recheck {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.fits(limited, o)
	if why, ok := errors.AsType[*Error](err); ok && ends(err) {
		return c.end(ctx, why)
	}
	c.checked, c.offer, c.silent = now, o, o.NoReplay
	if err != nil { // not known: deliveries pause until it is
		c.offer = nil
		c.hiccup(now)
	}
	return nil
}

// fits reports what the type as it is now has against the subscription.
func (c *courier) fits(ctx context.Context, o *offer) error {
	if o == nil || c.withdrawn() {
		return refuse(NotFound, "kind", "event")
	}
	era, err := c.h.era(ctx, o)
	switch {
	case err != nil:
		return err
	case era.Name != c.rec.value.Era:
		return schemaChanged(era.Broke)
	case o.input.check(c.sub.Arguments) != nil:
		return schemaChanged(BreaksInput)
	case !slices.Contains(o.modes, Webhook):
		return refuse(Unsupported, "feature", "deliveryMode", "value", string(Webhook))
	}
	seen, err := c.h.s.visible(ctx, o, c.sub.Principal)
	switch {
	case err != nil || ctx.Err() != nil:
		return cmp.Or(err, ctx.Err())
	case !seen:
		return refuse(NotFound, "kind", "event")
	}
	return c.h.s.permit(ctx, o, c.sub)
}

// end makes the subscription one that is over, of which the endpoint is told.
func (c *courier) end(ctx context.Context, why *Error) error {
	c.h.log.Info("mcpevents: a webhook subscription ends", "subscription", c.id, "reason", string(why.Kind))
	if c.h.c.NoEnvelopes {
		return c.bury(ctx)
	}
	c.edit(func(r *webhookRecord) { r.end(why) })
	return c.save(ctx, false)
}

// bury forgets the subscription.
func (c *courier) bury(ctx context.Context) error {
	if err := c.h.remove(ctx, c.id, c.life, nil); err != nil {
		return err
	}
	return errLost
}

// withdrawn reports whether the type was, though there may be one of its name again.
func (c *courier) withdrawn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}
