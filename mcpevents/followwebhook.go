package mcpevents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The times of the refreshes of a webhook's subscription.
const (
	refreshEvery = time.Hour // of one without end
	refreshMost  = 24 * time.Hour
	refreshRetry = 5 * time.Second
	refreshLeast = time.Second
	refreshTries = 3 // that bring no answer: then another session may
)

// maxEnvelopes is how many envelopes are remembered, to know those that come twice.
const maxEnvelopes = 1000

// A mailman follows one subscription by webhook: it takes what the receiver got,
// while a refresher beside it keeps the subscription alive.
type mailman struct {
	*follower
	r     *Receiver
	box   *inbox
	mail  mail
	soon  chan struct{} // to subscribe again soon
	begun bool          // there was a grant

	mu    sync.Mutex
	kept  Cursor // the last that the consumer has taken
	taken int    // how many batches of deliveries it was
}

// A renewal is what refreshes brought.
type renewal struct {
	grant     *Grant // the last; nil: none
	since     int    // batches that had been taken when it was asked for
	truncated bool   // one of the grants told of a gap
	trouble   []error
	err       error // the one that ends it all
}

// maxTrouble is how many errors of refreshes wait to be told.
const maxTrouble = 16

// A mail holds renewals until the consumer is there to take them: the next refresh
// does not wait for that.
type mail struct {
	came chan struct{}

	mu  sync.Mutex
	all renewal
}

func (m *mail) put(r renewal) {
	m.mu.Lock()
	if r.grant != nil {
		m.all.grant, m.all.since = r.grant, r.since
		m.all.truncated = m.all.truncated || r.grant.Truncated
	}
	if len(m.all.trouble) < maxTrouble {
		m.all.trouble = append(m.all.trouble, r.trouble...)
	}
	m.all.err = r.err
	m.mu.Unlock()
	select {
	case m.came <- struct{}{}:
	default:
	}
}

func (m *mail) take() (r renewal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, m.all = m.all, renewal{}
	return r
}

// webhook follows the subscription with r until the session or the server ends
// that. What follows over several sessions calls r.leave at the end of the last.
func (f *follower) webhook(ctx, generation context.Context, r *Receiver) error {
	arguments, err := Canonical(f.sub.Arguments)
	if err != nil {
		return err
	}
	key := followed{f.s, f.sub.Name, string(arguments)}
	if !r.claim(key) {
		return fmt.Errorf("%w: the receiver follows this subscription already", ErrNoMode)
	}
	defer r.unclaim(key)
	m := &mailman{follower: f, r: r, box: r.boxOf(f), mail: mail{came: make(chan struct{}, 1)}, soon: make(chan struct{}, 1), kept: f.cursor}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { m.refresh(ctx) })
	defer wg.Wait()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.mail.came:
			if err := m.renewed(m.mail.take()); err != nil {
				return err
			}
		case <-m.box.ready:
			if err := m.take(); err != nil {
				return err
			}
		case <-generation.Done():
			generation = m.s.catalogue.generation()
			if !m.stays(ctx) {
				return errChanged
			}
		}
	}
}

// stays looks a changed catalogue up, and reports whether the webhook is still what
// would be chosen. Where nothing can be, that is left to the server to say, and it
// is asked soon.
func (m *mailman) stays(ctx context.Context) bool {
	before := m.d
	err := m.describe(ctx, false)
	if err != nil {
		m.d = before
	}
	mode := Webhook
	if err == nil {
		mode, err = m.choose()
	}
	if errors.Is(err, ErrNoMode) {
		select {
		case m.soon <- struct{}{}:
		default:
		}
	}
	return err != nil || mode == Webhook
}

// renewed tells the consumer what refreshes brought.
func (m *mailman) renewed(r renewal) error {
	for _, err := range r.trouble {
		m.f.OnTrouble(err)
	}
	if r.grant != nil {
		m.works()
		cursor := r.grant.Cursor
		m.begins = cursor == "" && !m.begun // nothing before can be had any more
		m.begun = true
		if r.since != m.taken { // what came meanwhile is further
			cursor = m.cursor
		}
		if err := m.hand(nil, cursor, r.truncated); err != nil {
			return err
		}
	}
	return r.err
}

// hand is deliver, with the cursor kept for the next refresh.
func (m *mailman) hand(events []Event, cursor Cursor, truncated bool) error {
	if err := m.deliver(events, cursor, truncated); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = cursor
	return nil
}

// take hands over what waits, in one batch, and answers it.
func (m *mailman) take() error {
	list := m.box.take(m.f.MaxEvents)
	if len(list) == 0 {
		return nil
	}
	// The later an attempt was made, the further its cursor; all are safe.
	slices.SortStableFunc(list, func(a, b *handover) int { return cmp.Compare(a.at, b.at) })
	var events []Event
	var over *Error
	cursor, gap := m.cursor, false
	for _, h := range list {
		at, end, skipped := m.open(h, &events)
		if at != "" {
			cursor = at
		}
		gap = gap || skipped
		if end != nil {
			over = end
		}
	}
	if err := m.hand(events, cursor, gap); err != nil {
		settleAll(list, false)
		return err
	}
	for _, h := range list {
		m.box.envelopes.Add(h.id)
	}
	m.mu.Lock()
	m.taken++
	m.mu.Unlock()
	settleAll(list, true)
	if over != nil {
		return &TerminatedError{over}
	}
	return nil
}

// open looks into one delivery: an event is added to events; an envelope tells of
// a gap or of the end.
func (m *mailman) open(h *handover, events *[]Event) (cursor Cursor, end *Error, gap bool) {
	var e struct {
		Type   *string         `json:"type"`
		Cursor json.RawMessage `json:"cursor"`
		Error  *wireError      `json:"error"`
	}
	if json.Unmarshal(h.body, &e) != nil {
		m.drop(&DroppedError{Reason: DropMalformed})
		return "", nil, false
	}
	if e.Type == nil {
		o := parseOccurrence(h.body, m.sub.Name, m.s.cfg.MaxEventBytes)
		if o.drop != "" {
			m.drop(&DroppedError{Reason: o.drop, ID: o.event.ID})
			return o.cursor, nil, false
		}
		*events = append(*events, o.event)
		return o.cursor, nil, false
	}
	if m.box.envelopes.Has(h.id) {
		return "", nil, false
	}
	switch *e.Type {
	case "gap":
		cursor, _ = parseCursor(e.Cursor)
		return cursor, nil, true
	case "terminated":
		if e.Error == nil {
			e.Error = &wireError{}
		}
		return "", newAnswer(e.Error.Code, e.Error.Message, e.Error.Data), false
	}
	m.drop(&DroppedError{Reason: DropUnknown})
	return "", nil, false
}

// refresh subscribes, and again before the grant ends, until ctx does or it is of
// no use.
func (m *mailman) refresh(ctx context.Context) {
	var end time.Time // of the grant; zero: none yet, or it has no end
	first, silent := true, 0
	for {
		m.mu.Lock()
		since := m.taken
		m.mu.Unlock()
		g, err := m.subscribe(ctx)
		if e, ok := errors.AsType[*Error](err); ok && e.Kind == CallbackEndpointError && e.member("reason") == failChallenge && m.box.bound() {
			// The server may have another id for it now, whose challenge is for
			// nobody here.
			old := m.r.loosen(m.box)
			if g, err = m.subscribe(ctx); err != nil {
				m.r.bind(m.box, old)
			}
		}
		wait := refreshRetry
		if errors.Is(err, ErrResourceExhausted) {
			wait = minExhausted
		}
		if _, answered := errors.AsType[*Error](err); err == nil || answered {
			silent = 0
		} else {
			silent++
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			m.r.bind(m.box, g.ID)
			wait, end, first = untilRefresh(g.Refresh), g.Refresh, false
			m.mail.put(renewal{grant: g, since: since})
		case first, Permanent(err) && !errors.Is(err, ErrCallbackEndpoint), errors.Is(err, ErrClosed), silent >= refreshTries,
			!end.IsZero() && !time.Now().Before(end):
			m.mail.put(renewal{err: err})
			return
		default:
			m.mail.put(renewal{trouble: []error{err}})
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.soon:
			sleep(ctx, refreshRetry) // until when it may have told
		case <-m.s.Done():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// untilRefresh is how long a grant is left alone: 60 % of its life, a day at most,
// an hour where it has no end.
func untilRefresh(end time.Time) time.Duration {
	wait := refreshEvery
	if !end.IsZero() {
		wait = min(time.Until(end)/10*6, refreshMost)
	}
	wait -= rand.N(max(wait/20, 1))
	return max(wait, refreshLeast)
}

// subscribe makes one request.
func (m *mailman) subscribe(ctx context.Context) (*Grant, error) {
	c := m.r.c
	secret := m.box.secret(c.Rotate)
	m.mu.Lock()
	cursor := m.kept
	m.mu.Unlock()
	g, err := m.s.Subscribe(ctx, m.sub, WebhookTarget{URL: c.URL, Secret: secret, Cursor: cursor, MaxAge: m.f.MaxAge, TTL: c.TTL})
	if err == nil {
		m.box.confirm(secret)
	}
	return g, err
}
