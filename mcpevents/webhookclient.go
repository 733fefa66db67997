package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A WebhookTarget is where a server is to deliver, and from which position on.
type WebhookTarget struct {
	URL    string        // absolute, https
	Secret Secret        // signs deliveries; its holder can forge them
	Cursor Cursor        // the last one kept; empty: from now on
	MaxAge time.Duration // replay nothing older; zero: no such bound
	TTL    time.Duration // wanted lifetime; zero: the server's default; negative: without end
}

// A Grant is a webhook subscription as the server granted it.
type Grant struct {
	ID        string         // the server's handle, in X-MCP-Subscription-Id
	Refresh   time.Time      // before which to subscribe again; zero: it does not end
	Cursor    Cursor         // all up to it is delivered or given up; empty: nothing can be replayed
	Truncated bool           // events between the target's cursor and the first delivery may be missing
	Status    *GrantDelivery // at a refresh, where the server says it; else nil
}

// A GrantDelivery is how deliveries went since the last refresh.
type GrantDelivery struct {
	Active      bool          // it was being delivered; false: it was suspended, and goes on now
	LastAt      time.Time     // of the last accepted delivery; zero: none
	LastError   string        // one of the protocol's categories; empty: none
	FailedSince time.Time     // zero: it does not fail
	Throttled   bool          // delayed, not failing
	RetryAfter  time.Duration // with Throttled; zero: not said
}

// Subscribe makes or renews a webhook subscription with one request. Errors:
// [Error] where the server refuses, and those of [Session.Poll]; one that says no
// more than that WebhookTarget.Secret is not set. A [Receiver] keeps a
// subscription alive.
func (s *Session) Subscribe(ctx context.Context, sub Subscription, w WebhookTarget) (*Grant, error) {
	req, err := newWanted(sub)
	if err != nil {
		return nil, err
	}
	if w.Secret.IsZero() {
		return nil, errors.New("mcpevents: WebhookTarget.Secret is not set")
	}
	req.from(w.Cursor, w.MaxAge)
	req.Delivery = &callback{Mode: Webhook, URL: w.URL, Secret: w.Secret.Reveal()}
	switch {
	case w.TTL < 0:
		req.TTL = json.RawMessage("null")
	case w.TTL > 0:
		req.TTL, _ = json.Marshal(max(w.TTL.Milliseconds(), 1))
	}
	var answer struct {
		ID        string          `json:"id"`
		Refresh   *string         `json:"refreshBefore"`
		Cursor    json.RawMessage `json:"cursor"`
		Truncated bool            `json:"truncated"`
		Status    *struct {
			Active      bool            `json:"active"`
			LastAt      *string         `json:"lastDeliveryAt"`
			LastError   *string         `json:"lastError"`
			FailedSince *string         `json:"failedSince"`
			Throttled   bool            `json:"throttled"`
			RetryAfter  json.RawMessage `json:"retryAfterMs"`
		} `json:"deliveryStatus"`
	}
	if err := s.ask(ctx, methodSubscribe, req, &answer); err != nil {
		return nil, err
	}
	cursor, ok := parseCursor(answer.Cursor)
	if !ok || answer.ID == "" || len(answer.ID) > maxTakenID {
		return nil, fmt.Errorf("%w: a subscription has no id, or a cursor that is no string", ErrProtocol)
	}
	g := &Grant{ID: answer.ID, Cursor: cursor, Truncated: answer.Truncated && cursor != ""}
	if answer.Refresh != nil {
		if g.Refresh = parseTime(*answer.Refresh); g.Refresh.IsZero() {
			return nil, fmt.Errorf("%w: refreshBefore is no time", ErrProtocol)
		}
	}
	if st := answer.Status; st != nil {
		g.Status = &GrantDelivery{Active: st.Active, Throttled: st.Throttled, RetryAfter: milliseconds(st.RetryAfter)}
		if st.LastAt != nil {
			g.Status.LastAt = parseTime(*st.LastAt)
		}
		if st.LastError != nil {
			g.Status.LastError = label(*st.LastError)
		}
		if st.FailedSince != nil {
			g.Status.FailedSince = parseTime(*st.FailedSince)
		}
	}
	return g, nil
}

// Unsubscribe ends a webhook subscription with one request. One that the server
// does not know is ended already, and no error.
func (s *Session) Unsubscribe(ctx context.Context, sub Subscription, url string) error {
	req, err := newWanted(sub)
	if err != nil {
		return err
	}
	req.Delivery = &callback{URL: url}
	var answer struct{}
	err = s.ask(ctx, methodUnsubscribe, req, &answer)
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == NotFound {
		return nil
	}
	return err
}
