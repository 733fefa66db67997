package mcpevents

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxWebhookArguments is the most that the arguments of a webhook's subscription
// may have: they are written with its record at each delivery.
const maxWebhookArguments = 16 << 10

type subscribeResult struct {
	mcp.ResultBase
	ResultType    string          `json:"resultType"`
	ID            string          `json:"id"`
	RefreshBefore *string         `json:"refreshBefore"` // null: no end
	Cursor        Cursor          `json:"cursor"`
	Truncated     bool            `json:"truncated"`
	Status        *deliveryStatus `json:"deliveryStatus,omitempty"` // of a refresh
}

type unsubscribeResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// A wish is what a client asks for in events/subscribe.
type wish struct {
	*request
	callback string
	url      *url.URL
	secret   Secret
	ttl      time.Duration // negative: it names none
	endless  bool          // it asks for no end
}

// subscribe answers one events/subscribe. Checks come in the order that errors take
// precedence in: principal, name, mode, arguments, URL, secret, permission,
// quota, consent.
func (h *webhooks) subscribe(ctx context.Context, p *pollParams) (*subscribeResult, error) {
	w, err := h.wish(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := h.s.permit(ctx, w.offer, w.sub); err != nil {
		return nil, err
	}
	now, id := time.Now(), webhookKey(w.sub, w.callback)
	have, err := load(ctx, &h.ledger, h.records, id)
	if err != nil {
		return nil, err
	}
	if have.value != nil && !have.value.is(w.sub, w.callback) {
		return nil, &Error{Kind: Internal} // a collision
	}
	if have.value != nil && have.value.live(now) {
		if res, err := h.refresh(ctx, w, id, have.value.Life, now); err != nil || res != nil {
			return res, err
		}
	}
	return h.create(ctx, w, id, now)
}

// expiry is the end of a life that begins now; zero is none.
func (h *webhooks) expiry(w *wish, now time.Time) int64 {
	ttl := h.c.TTL
	switch {
	case w.endless && h.c.NoExpiry:
		return 0
	case w.endless:
		ttl = h.c.MaxTTL
	case w.ttl >= 0:
		ttl = min(max(w.ttl, h.c.MinTTL), h.c.MaxTTL)
	}
	return now.Add(ttl).UnixMilli()
}

// create makes a subscription. The position is fixed before the challenge, so
// that nothing that happens meanwhile is lost.
func (h *webhooks) create(ctx context.Context, w *wish, id string, now time.Time) (*subscribeResult, error) {
	if err := h.room(ctx, w.sub.Principal, now); err != nil {
		return nil, err
	}
	era, err := h.era(ctx, w.offer)
	if err != nil {
		return nil, err
	}
	at, truncated, err := h.start(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := h.consent(ctx, w.sub.Principal, id, w.url, w.callback, w.secret); err != nil {
		return nil, err
	}
	now = time.Now()
	expires := h.expiry(w, now)
	entry := accountEntry{id, randomHex(8), callbackDigest(w.callback), expires}
	if err := h.enter(ctx, w.sub.Principal, entry, now); err != nil {
		return nil, err
	}
	made, err := change(ctx, &h.ledger, h.records, id, nil, func(r *webhookRecord) (*webhookRecord, verdict, error) {
		if r != nil && r.live(now) {
			// The same call in parallel was first: the later one's secret counts.
			r.rotate(w.secret, now, h.c.Rotation)
			r.Expires = expires
			return r, put, nil
		}
		r = &webhookRecord{
			Life: entry.Life, Principal: w.sub.Principal, Name: w.sub.Name, Arguments: w.sub.Arguments, URL: w.callback,
			Era: era.Name, Expires: expires, Position: at,
		}
		if truncated { // should this answer be lost
			r.Missed = &missed{N: 1, From: w.cursor, Answered: at}
		}
		r.rotate(w.secret, now, h.c.Rotation)
		return r, put, nil
	})
	if err != nil {
		return nil, err
	}
	if first := made.value.Life; first != entry.Life {
		entry.Life = first
		if err := h.enter(ctx, w.sub.Principal, entry, now); err != nil {
			return nil, err
		}
	}
	h.poke(id)
	res := &subscribeResult{ResultType: complete, ID: id, RefreshBefore: timestamp(expires), Cursor: made.value.Position, Truncated: truncated}
	if w.offer.NoReplay {
		res.Cursor, res.Truncated = "", false
	}
	return res, nil
}

// start is the position that a new subscription begins behind.
func (h *webhooks) start(ctx context.Context, w *wish) (at Cursor, truncated bool, err error) {
	if w.cursor == "" || w.offer.NoReplay {
		at, err = h.s.head(ctx, w.offer, w.sub)
		return at, false, err
	}
	page, err := h.s.read(ctx, w.offer, w.sub, Query{After: w.cursor, NotBefore: h.s.notBefore(w.maxAge), Limit: 1})
	switch {
	case err != nil:
		return "", false, err
	case page.truncated:
		return page.start, true, nil
	}
	return w.cursor, false, nil
}

// refresh renews a live subscription; nil: there is none any more. The client's
// cursor does not matter: ours is ahead, or it is of deliveries that we made.
func (h *webhooks) refresh(ctx context.Context, w *wish, id, life string, now time.Time) (*subscribeResult, error) {
	expires := h.expiry(w, now)
	if err := h.enter(ctx, w.sub.Principal, accountEntry{id, life, callbackDigest(w.callback), expires}, now); err != nil {
		return nil, err
	}
	var res *subscribeResult
	_, err := change(ctx, &h.ledger, h.records, id, nil, func(r *webhookRecord) (*webhookRecord, verdict, error) {
		if res = nil; r == nil || r.Life != life || !r.live(now) {
			return nil, leave, nil
		}
		res = &subscribeResult{
			ResultType: complete, ID: id, RefreshBefore: timestamp(expires),
			Cursor: r.Position, Truncated: r.tell(w.cursor), Status: r.status(now),
		}
		if w.offer.NoReplay {
			res.Cursor, res.Truncated = "", false
		}
		r.Expires = expires
		r.rotate(w.secret, now, h.c.Rotation)
		r.resume(now)
		return r, put, nil
	})
	if err != nil || res == nil {
		return nil, err
	}
	h.poke(id)
	return res, nil
}

// unsubscribe answers one events/unsubscribe. A type that is not offered any more
// can still be unsubscribed from.
func (h *webhooks) unsubscribe(ctx context.Context, p *pollParams) (*unsubscribeResult, error) {
	if p == nil {
		p = &pollParams{}
	}
	principal, err := h.principal(ctx)
	if err != nil {
		return nil, err
	}
	sub := Subscription{Principal: principal}
	var ok bool
	if sub.Name, ok = stringOf(p.Name); !ok {
		return nil, invalid("/name", "must be a string")
	}
	if sub.Arguments, err = Canonical(p.Arguments); err != nil {
		return nil, invalid("/arguments", "must be a JSON object that is not too large")
	}
	d, err := parseDelivery(p.Delivery)
	if err != nil {
		return nil, err
	}
	callback, ok := stringOf(d.URL)
	if !ok {
		return nil, invalid("/delivery/url", "must be a string")
	}
	id := webhookKey(sub, callback)
	have, err := load(ctx, &h.ledger, h.records, id)
	if err != nil {
		return nil, err
	}
	if r := have.value; r == nil || !r.is(sub, callback) || !r.live(time.Now()) {
		return nil, refuse(NotFound, "kind", "subscription")
	}
	if err := h.remove(ctx, id, have.value.Life, nil); err != nil {
		return nil, err
	}
	h.poke(id)
	return &unsubscribeResult{ResultType: complete}, nil
}

// principal is who asks: somebody. A name that is no UTF-8 would be another's in
// the store.
func (h *webhooks) principal(ctx context.Context) (string, error) {
	principal, err := h.s.principal(ctx)
	if err == nil && (principal == "" || !utf8.ValidString(principal)) {
		err = &Error{Kind: Forbidden}
	}
	return principal, err
}

// wish checks what a client asks for, up to the secret.
func (h *webhooks) wish(ctx context.Context, p *pollParams) (*wish, error) {
	if p == nil {
		p = &pollParams{}
	}
	if _, err := h.principal(ctx); err != nil {
		return nil, err
	}
	d, err := parseDelivery(p.Delivery)
	if err != nil {
		return nil, err
	}
	mode := Webhook
	if len(d.Mode) > 0 {
		text, ok := stringOf(d.Mode)
		if !ok {
			return nil, invalid("/delivery/mode", "must be a string")
		}
		mode = Mode(text)
	}
	w := &wish{ttl: -1}
	if w.request, err = h.s.request(ctx, p, mode); err != nil {
		return nil, err
	}
	if mode != Webhook {
		return nil, refuse(Unsupported, "feature", "deliveryMode", "value", string(mode))
	}
	if len(w.sub.Arguments) > maxWebhookArguments {
		return nil, invalid("/arguments", "must have at most "+strconv.Itoa(maxWebhookArguments)+" bytes")
	}
	if len(p.TTL) > 0 {
		if w.endless = absent(p.TTL); !w.endless {
			ms, ok := wholeOf(p.TTL)
			if !ok || ms < 0 {
				return nil, invalid("/ttlMs", "must be an integer of at least 0, or null")
			}
			w.ttl = time.Duration(min(ms, h.c.MaxTTL.Milliseconds())) * time.Millisecond
		}
	}
	var ok bool
	if w.callback, ok = stringOf(d.URL); !ok {
		return nil, invalid("/delivery/url", "must be a string")
	}
	if w.url, err = parseCallback(w.callback); err != nil {
		return nil, invalid("/delivery/url", "must be an absolute https URL without user and fragment")
	}
	secret, _ := stringOf(d.Secret)
	if w.secret, err = ParseSecret(secret); err != nil {
		return nil, invalid("/delivery/secret", "must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return w, nil
}

type wireDelivery struct {
	Mode   json.RawMessage `json:"mode"`
	URL    json.RawMessage `json:"url"`
	Secret json.RawMessage `json:"secret"`
}

func parseDelivery(raw json.RawMessage) (d wireDelivery, err error) {
	if !isObject(raw) || json.Unmarshal(raw, &d) != nil {
		return d, invalid("/delivery", "must be an object")
	}
	return d, nil
}
