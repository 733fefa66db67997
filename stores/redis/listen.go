package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// How long a hub waits before it subscribes again: after a loss, and after the
// server refused, which it may do for good.
const (
	listenAgain   = 250 * time.Millisecond
	listenRefused = time.Minute
)

// listenIdle is for how long a hub listens when nobody waits. Those who read a
// log wait again and again; for one that is gone the connection is not held.
const listenIdle = 30 * time.Second

var errIdle = errors.New("redis: nobody waits")

// idle reports whether nobody has waited for long enough, and if not, when to
// ask again.
func (h *hub) idle() (idle bool, again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) > 0 {
		return false, h.rest
	}
	if again = h.rest - time.Since(h.left); again > 0 {
		return false, again
	}
	select {
	case <-h.came: // and went
	default:
	}
	return true, 0
}

// listen keeps the subscription up while anybody waits, and somewhat longer.
func (h *hub) listen() {
	said := false
	for {
		err := h.subscribe()
		// A connection that was asked for is taken first, to be given back.
		if idle, _ := h.idle(); idle && h.taken == nil {
			select {
			case <-h.ctx.Done():
				return
			case <-h.came:
				continue
			}
		}
		pause := listenAgain
		_, refused := rueidis.IsRedisErr(err)
		if refused {
			pause = listenRefused
		}
		if refused || errors.Is(err, errNoConnection) && h.ctx.Err() == nil {
			if !said {
				said = true
				h.l.log.Warn("redis: can't subscribe; waiting polls instead", "log", h.l.head, "error", err)
			}
		}
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// A dedicated is a connection that is nobody else's until it is released.
type dedicated struct {
	rueidis.DedicatedClient
	release func()
}

var errNoConnection = errors.New("the client has no connection left: its BlockingPoolSize is used up")

// dedicate takes a connection. The client waits for one without end, when the
// app uses all that it may have; so we let it wait, and ask again later.
func (h *hub) dedicate(ctx context.Context) (dedicated, error) {
	if h.taken == nil {
		taken := make(chan dedicated)
		go func() { // until the client has one, or is closed
			c, release := h.l.c.Dedicate()
			select {
			case taken <- dedicated{c, release}:
			case <-h.ctx.Done():
				release()
			}
		}()
		h.taken = taken
	}
	select {
	case c := <-h.taken:
		h.taken = nil
		return c, nil
	case <-ctx.Done():
		return dedicated{}, errNoConnection
	}
}

// begin notes how far the log goes once the subscription is up, for what comes
// to be told from what was missed.
func (h *hub) begin(ctx context.Context, deaf chan struct{}) {
	p, err := h.l.page(ctx, span{})
	if err != nil {
		return // the next message wakes everyone
	}
	h.mu.Lock()
	if h.ear.deaf == deaf {
		h.ear.heard = max(h.ear.heard, p.newest)
	}
	h.mu.Unlock()
	h.wakeAll()
}

// subscribe listens on a connection of its own until that is lost, and returns
// why.
func (h *hub) subscribe() error {
	ctx, end := context.WithTimeout(h.ctx, h.l.timeout)
	defer end()
	c, err := h.dedicate(ctx)
	if err != nil {
		return err
	}
	defer c.release()
	defer c.Close() // before it is given back, so that nobody gets it
	// On a cluster the first command's key picks the server. Commands need not be
	// pinned here: they go over this connection or none.
	if err := c.Do(ctx, c.B().Hget().Key(h.l.head).Field("schema").Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	deaf := make(chan struct{})
	lost := c.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind != "subscribe" {
				return
			}
			h.mu.Lock()
			h.ear = ear{open: true, deaf: deaf}
			h.mu.Unlock()
			h.wakeAll() // what was told before is lost
		},
		OnMessage: func(m rueidis.PubSubMessage) { h.message(m.Message) },
	})
	err = c.Do(ctx, c.B().Subscribe().Channel(h.l.head).Build()).Error()
	if err == nil {
		h.begin(ctx, deaf)
		err = h.hear(lost, deaf)
	}
	h.mu.Lock()
	if h.ear.deaf == deaf {
		h.ear = ear{}
	}
	h.mu.Unlock()
	return err
}

// hear returns why a subscription is to end.
func (h *hub) hear(lost <-chan error, deaf <-chan struct{}) error {
	look := time.NewTimer(h.rest)
	defer look.Stop()
	for {
		select {
		case err := <-lost:
			return err
		case <-deaf:
			return errors.New("redis: the subscription hears nothing")
		case <-h.ctx.Done():
			return h.ctx.Err()
		case <-look.C:
			idle, again := h.idle()
			if idle {
				return errIdle
			}
			look.Reset(again)
		}
	}
}
