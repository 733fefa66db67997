package mcpevents

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/attend-go/attend/mcpevents/internal/egress"
)

// A WebhookID is what the header webhook-id of an event's deliveries holds.
type WebhookID string

// The two that are in use. Every retry of an event has the same id in both.
const (
	WebhookIDEvent   WebhookID = "event"   // the event's id, as the draft of SEP-3415 has it and deployed receivers check it
	WebhookIDMessage WebhookID = "message" // one of its own, as newer text is said to have it
)

// A Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver = egress.Resolver

// WebhookConfig is how a server delivers by webhook. Only Store is required.
type WebhookConfig struct {
	// Store keeps the subscriptions. Required.
	Store SubscriptionStore

	// TTL is the life of a subscription whose client asks for none: 1 h for
	// zero. MinTTL (1 min) and MaxTTL (24 h) bound what clients ask for.
	TTL, MinTTL, MaxTTL time.Duration
	// NoExpiry grants a life without end to who asks for it; others get MaxTTL.
	NoExpiry bool
	// Abandon is how long a suspended subscription without end is kept for a
	// refresh: 7 days for zero. Then it is terminated.
	Abandon time.Duration

	// Timeout is for one request to a callback, all of it: 5 s for zero.
	Timeout time.Duration
	// Attempts is how often an event is tried: 5 for zero. RetryWindow is how
	// long it is tried: 15 min for zero. Between attempts pass Backoff (2 s for
	// zero), then six times as long each time, or what Retry-After asks for;
	// time in suspension does not count. A 429 or 503 with Retry-After takes
	// none of the attempts. Then the event is given up.
	Attempts    int
	RetryWindow time.Duration
	Backoff     time.Duration
	// MaxBody is the largest body that is sent: 256 KiB for zero. A larger event
	// is skipped, which the endpoint is told as a gap; it can still be polled.
	MaxBody int
	// ID is what webhook-id holds: the event's id for the zero value.
	ID WebhookID
	// NoEnvelopes sends neither gap nor terminated, for hosts that take none. A
	// gap is then told by truncated in the answer to the next refresh.
	NoEnvelopes bool

	// Parallel is how many requests are under way in all: 256 for zero. A
	// principal has a quarter of them at most.
	// PerSubscription is how many of one subscription: 4 for zero, and one
	// while its endpoint fails. With 1 events arrive in order while none fails.
	Parallel, PerSubscription int
	// MaxPerPrincipal is how many subscriptions a principal may have: 100 for
	// zero, at most 500.
	MaxPerPrincipal int

	// Trusted are callbacks that need no consent: https URLs, each standing for
	// what is at or below its path.
	Trusted []string
	// Consented reports whether the operator knows from elsewhere that the
	// endpoint wants deliveries for this principal. May be nil.
	Consented func(ctx context.Context, principal, callback string) bool
	// WellKnown takes the callback's origin naming it in
	// /.well-known/mcp-webhook-receiver.json as consent, before a challenge.
	WellKnown bool
	// Challenges is how many challenges a host gets in a minute: 10 for zero.
	Challenges int

	// Rotation is how long deliveries are signed with the old secret too after
	// a new one: 15 min for zero.
	Rotation time.Duration
	// Lease is how long a server holds a subscription without a sign of life
	// before another server may take it: 60 s for zero. It is at least four
	// times Timeout, else it is raised to that. After a server that was killed,
	// nothing is delivered for that long.
	Lease time.Duration
	// Scan is how often a server looks for subscriptions that nobody holds: 1 s
	// for zero.
	Scan time.Duration

	// Resolver finds the addresses of callbacks: nil is the system's.
	Resolver Resolver
	// AllowLoopback lets deliveries go to this machine's loopback addresses, for
	// tests. Never set it on a server that others use: it opens everything that
	// listens here and trusts its neighbours. No setting opens other addresses
	// that are not public.
	AllowLoopback bool
	// TLS is for connections to callbacks, nil for the defaults: a test's root
	// certificates. It is copied.
	TLS *tls.Config
	// Logger gets what happens to subscriptions; never a URL, a secret or an
	// event. Nil is the server's.
	Logger *slog.Logger

	// tripper stands for the network in tests inside a bubble.
	tripper http.RoundTripper
}

// maxPerPrincipal keeps a principal's record small.
const maxPerPrincipal = 500

// withDefaults checks the settings and fills in what zero means.
func (c WebhookConfig) withDefaults() (WebhookConfig, []*url.URL, error) {
	if c.Store == nil {
		return c, nil, errors.New("mcpevents: WebhookConfig.Store is missing")
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"TTL", &c.TTL, time.Hour}, {"MinTTL", &c.MinTTL, time.Minute}, {"MaxTTL", &c.MaxTTL, 24 * time.Hour},
		{"Abandon", &c.Abandon, 7 * 24 * time.Hour}, {"Timeout", &c.Timeout, 5 * time.Second},
		{"RetryWindow", &c.RetryWindow, 15 * time.Minute}, {"Backoff", &c.Backoff, 2 * time.Second},
		{"Rotation", &c.Rotation, 15 * time.Minute}, {"Lease", &c.Lease, time.Minute}, {"Scan", &c.Scan, time.Second},
	} {
		if *d.value < 0 {
			return c, nil, fmt.Errorf("mcpevents: WebhookConfig.%s is negative", d.name)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"Attempts", &c.Attempts, 5}, {"MaxBody", &c.MaxBody, 256 << 10}, {"Parallel", &c.Parallel, 256},
		{"PerSubscription", &c.PerSubscription, 4}, {"MaxPerPrincipal", &c.MaxPerPrincipal, 100}, {"Challenges", &c.Challenges, 10},
	} {
		if *n.value < 0 {
			return c, nil, fmt.Errorf("mcpevents: WebhookConfig.%s is negative", n.name)
		}
		if *n.value == 0 {
			*n.value = n.zero
		}
	}
	if c.MinTTL > c.MaxTTL || c.TTL < c.MinTTL || c.TTL > c.MaxTTL {
		return c, nil, errors.New("mcpevents: WebhookConfig.TTL is not between MinTTL and MaxTTL")
	}
	if c.MaxPerPrincipal > maxPerPrincipal {
		return c, nil, fmt.Errorf("mcpevents: WebhookConfig.MaxPerPrincipal is over %d", maxPerPrincipal)
	}
	switch c.ID {
	case "":
		c.ID = WebhookIDEvent
	case WebhookIDEvent, WebhookIDMessage:
	default:
		return c, nil, errors.New("mcpevents: WebhookConfig.ID is neither event nor message")
	}
	c.Lease = max(c.Lease, 4*c.Timeout)
	list := make([]*url.URL, 0, len(c.Trusted))
	for i, text := range c.Trusted {
		u, err := parseCallback(text)
		if err != nil || u.RawQuery != "" {
			return c, nil, fmt.Errorf("mcpevents: WebhookConfig.Trusted[%d] is no https URL without query", i)
		}
		list = append(list, u)
	}
	return c, list, nil
}
