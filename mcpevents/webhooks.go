package mcpevents

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/attend-go/attend/mcpevents/internal/egress"
)

// webhooks is the webhook side of a [Server]: what it answers to events/subscribe
// and events/unsubscribe, and, while Run runs, the deliveries.
type webhooks struct {
	s       *Server
	c       WebhookConfig
	trusted []*url.URL
	log     *slog.Logger
	owner   string // of the leases that this server holds
	ledger  ledger
	records codec[webhookRecord]
	tripper http.RoundTripper
	close   func() // idle connections

	challenges rates
	looks      rates         // of the subscriptions of who has as many as may be
	places     *places       // of the requests under way
	wake       chan struct{} // a subscription is there that nobody holds

	mu        sync.Mutex
	running   bool
	couriers  map[string]*courier // by the subscription's id
	withdrawn map[string]bool     // types that this process offered once
}

// newWebhooks returns the webhook side of s.
func newWebhooks(s *Server, c WebhookConfig) (*webhooks, error) {
	c, list, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &webhooks{
		s: s, c: c, trusted: list, log: c.Logger, owner: randomHex(8), ledger: ledger{store: c.Store},
		tripper: c.tripper, close: func() {},
		challenges: rates{max: c.Challenges}, looks: rates{max: maxLooks}, places: newPlaces(c.Parallel), wake: make(chan struct{}, 1),
		couriers: make(map[string]*courier), withdrawn: make(map[string]bool),
	}
	if h.log == nil {
		h.log = s.log
	}
	if h.tripper == nil {
		t := egress.New(egress.Config{
			Resolver: c.Resolver, AllowLoopback: c.AllowLoopback, TLS: c.TLS,
			IdleTimeout: 30 * time.Second, DialTimeout: c.Timeout,
		})
		h.tripper, h.close = t, t.CloseIdleConnections
	}
	h.records = codec[webhookRecord]{
		decode: decodeRecord, encode: func(r *webhookRecord) ([]byte, error) { r.prune(time.Now()); return encodeRecord(r) },
		due: func(r *webhookRecord) time.Time { return r.due(time.Now(), c.Abandon) },
	}
	return h, nil
}

// changed tells the deliveries of a type that it came, was replaced, or is gone.
func (h *webhooks) changed(name string, gone bool) {
	offered := h.s.offer(name) != nil
	h.mu.Lock()
	if offered {
		delete(h.withdrawn, name)
	} else {
		h.withdrawn[name] = true // no more names than were ever offered
	}
	var list []*courier
	for _, c := range h.couriers {
		if c.sub.Name == name {
			list = append(list, c)
		}
	}
	h.mu.Unlock()
	for _, c := range list {
		c.poke(gone)
	}
	h.look()
}

// look has the scan look for subscriptions now.
func (h *webhooks) look() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// poke tells the courier of a subscription, if it is here, that the record
// changed, and else the scan that there may be one to take.
func (h *webhooks) poke(id string) {
	h.mu.Lock()
	c := h.couriers[id]
	h.mu.Unlock()
	if c != nil {
		c.poke(false)
		return
	}
	h.look()
}

// remove forgets a subscription, if it is over then: it may have been renewed. A
// nil over: whatever it is.
func (h *webhooks) remove(ctx context.Context, id, life string, over func(r *webhookRecord) bool) error {
	var principal string
	_, err := change(ctx, &h.ledger, h.records, id, nil, func(r *webhookRecord) (*webhookRecord, verdict, error) {
		if r == nil || r.Life != life || over != nil && !over(r) {
			return nil, leave, nil
		}
		principal = r.Principal
		return nil, drop, nil
	})
	if err == nil && principal != "" {
		err = h.leave(ctx, principal, accountEntry{ID: id, Life: life})
	}
	return err
}
