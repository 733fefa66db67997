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
		if _, refused := rueidis.IsRedisErr(err); refused {
			if pause = listenRefused; !said {
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

// subscribe listens on a connection of its own until that is lost, and returns
// why.
func (h *hub) subscribe() error {
	ctx, end := context.WithTimeout(h.ctx, h.l.timeout)
	defer end()
	c, release := h.l.c.Dedicate()
	defer release()
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
	err := c.Do(ctx, c.B().Subscribe().Channel(h.l.head).Build()).Error()
	if err == nil {
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
