package mcpevents

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// wellKnownPath is where an origin names the paths that take deliveries.
const wellKnownPath = "/.well-known/mcp-webhook-receiver.json"

// consent finds out whether the endpoint wants deliveries, in the order of what
// it costs. Nil: it does. The error is the answer to the client.
func (h *webhooks) consent(ctx context.Context, principal, id string, u *url.URL, callback string, secret Secret) error {
	for _, entry := range h.trusted {
		if trusted(entry, u) {
			return nil
		}
	}
	if h.c.Consented != nil && h.c.Consented(ctx, principal, callback) {
		return nil
	}
	if ok, err := h.consented(ctx, principal, callback); ok || err != nil {
		return err
	}
	// What follows makes requests to a host that a stranger named.
	if !h.challenges.take("principal "+principal, 4) || !h.challenges.take("host "+callbackHost(u), 1) {
		return refuse(ResourceExhausted, "limit", "challenges", "max", h.c.Challenges)
	}
	leave := h.places.enter(principal, ctx.Done())
	if leave == nil {
		return ctx.Err()
	}
	defer leave()
	if h.c.WellKnown && h.wellKnown(ctx, u) {
		return nil
	}
	return h.challenge(ctx, id, callback, secret)
}

// wellKnown asks the callback's origin.
func (h *webhooks) wellKnown(ctx context.Context, u *url.URL) bool {
	ctx, cancel := context.WithTimeout(ctx, h.c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, origin(u)+wellKnownPath, nil)
	if err != nil {
		return false
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mcpevents")
	o := h.send(req)
	if o.status != http.StatusOK {
		return false
	}
	var doc struct {
		Receivers []string `json:"receivers"`
	}
	if json.Unmarshal(o.body, &doc) != nil {
		return false
	}
	for _, prefix := range doc.Receivers {
		if covers(prefix, u) {
			return true
		}
	}
	return false
}

// challenge sends a nonce that only who can answer for the endpoint sends back.
// There is one attempt.
func (h *webhooks) challenge(ctx context.Context, id, callback string, secret Secret) error {
	nonce := randomHex(24)
	body, _ := json.Marshal(verificationEnvelope{"verification", nonce}) // two strings
	o := h.post(ctx, letter{callback: callback, subscription: id, id: newMessageID("verification"), body: body, secrets: []Secret{secret}})
	if err := ctx.Err(); err != nil {
		return err
	}
	reason := failChallenge
	switch {
	case o.fault == "":
		var answer struct {
			Challenge string `json:"challenge"`
		}
		if json.Unmarshal(o.body, &answer) == nil && subtle.ConstantTimeCompare([]byte(answer.Challenge), []byte(nonce)) == 1 {
			return nil
		}
	case o.status == 0:
		reason = o.fault
	}
	return refuse(CallbackEndpointError, "reason", reason)
}

// rates counts what happens for a name in a minute.
type rates struct {
	max int

	mu     sync.Mutex
	names  map[string]*rate
	pruned time.Time
}

type rate struct {
	since time.Time
	n     int
}

const (
	ratePeriod   = time.Minute
	maxRateNames = 4096
)

// take counts one for name, whose maximum is times that of the others, and
// reports whether it was still allowed.
func (r *rates) take(name string, times int) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.names[name]
	if e == nil || now.Sub(e.since) >= ratePeriod {
		if e == nil && len(r.names) >= maxRateNames && !r.prune(now) {
			return false
		}
		if r.names == nil {
			r.names = make(map[string]*rate)
		}
		e = &rate{since: now}
		r.names[name] = e
	}
	if e.n >= r.max*times {
		return false
	}
	e.n++
	return true
}

// prune makes room, once a second, and reports whether there is some.
func (r *rates) prune(now time.Time) bool {
	if now.Sub(r.pruned) < time.Second {
		return false
	}
	r.pruned = now
	for name, e := range r.names {
		if now.Sub(e.since) >= ratePeriod {
			delete(r.names, name)
		}
	}
	return len(r.names) < maxRateNames
}
