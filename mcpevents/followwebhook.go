package mcpevents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The times of the refreshes of a webhook's subscription.
const (
	refreshEvery = time.Hour // of one without end
	refreshRetry = 5 * time.Second
	refreshLeast = time.Second
)

// maxEnvelopes is how many envelopes are remembered, to know those that come twice.
const maxEnvelopes = 1000

// A mailman follows one subscription by webhook: it takes what the receiver got,
// while a refresher beside it keeps the subscription alive.
type mailman struct {
	*follower
	r         *Receiver
	box       *inbox
	envelopes *Seen

	mu    sync.Mutex
	kept  Cursor // the last that the consumer has taken
	taken int    // how many batches of deliveries it was
}

// A renewal is what a refresh brought: a grant, or the error that ends it all.
type renewal struct {
	grant *Grant
	since int // batches that had been taken when it was asked for
	err   error
}

// webhook follows the subscription with r until the session or the server ends
// that. What follows over several sessions calls r.leave at the end of the last.
func (f *follower) webhook(ctx context.Context, r *Receiver) error {
	m := &mailman{follower: f, r: r, box: r.boxOf(f), envelopes: NewSeen(maxEnvelopes, 0), kept: f.cursor}
	ctx, cancel := context.WithCancel(ctx)
	renewals := make(chan renewal)
	var wg sync.WaitGroup
	wg.Go(func() { m.refresh(ctx, renewals) })
	defer wg.Wait()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-renewals:
			if r.err != nil {
				return r.err
			}
			m.works()
			cursor := r.grant.Cursor
			if r.since != m.taken { // what came meanwhile is further
				cursor = m.cursor
			}
			if err := m.hand(nil, cursor, r.grant.Truncated); err != nil {
				return err
			}
		case <-m.box.ready:
			if err := m.take(); err != nil {
				return err
			}
		}
	}
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
		m.envelopes.Add(h.id)
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
	if m.envelopes.Has(h.id) {
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
func (m *mailman) refresh(ctx context.Context, renewals chan<- renewal) {
	tell := func(r renewal) bool {
		select {
		case renewals <- r:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var end time.Time // of the grant; zero: none yet, or it has no end
	first := true
	for {
		m.mu.Lock()
		since := m.taken
		m.mu.Unlock()
		g, err := m.subscribe(ctx)
		wait := refreshRetry
		if errors.Is(err, ErrResourceExhausted) {
			wait = minExhausted
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			m.r.bind(m.box, g.ID)
			wait, end = untilRefresh(g.Refresh), g.Refresh
			if first = false; !tell(renewal{grant: g, since: since}) {
				return
			}
		case first, Permanent(err) && !errors.Is(err, ErrCallbackEndpoint), errors.Is(err, ErrClosed), !end.IsZero() && !time.Now().Before(end):
			tell(renewal{err: err})
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.s.Done():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// untilRefresh is how long a grant is left alone: 60 % of its life, an hour where
// it has no end.
func untilRefresh(end time.Time) time.Duration {
	wait := refreshEvery
	if !end.IsZero() {
		wait = time.Until(end) * 6 / 10
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
