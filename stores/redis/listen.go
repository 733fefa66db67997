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

// listen keeps the subscription up.
func (h *hub) listen() {
	said := false
	for {
		err := h.subscribe()
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
	// On a cluster the first command's key picks the server.
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
		select {
		case err = <-lost:
		case <-deaf:
			err = errors.New("redis: the subscription hears nothing")
		case <-h.ctx.Done():
			err = h.ctx.Err()
		}
	}
	h.mu.Lock()
	if h.ear.deaf == deaf {
		h.ear = ear{}
	}
	h.mu.Unlock()
	return err
}
