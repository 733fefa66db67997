package mcpevents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// An account is what the store holds of a principal: its subscriptions. It
// bounds their number, and tells on which callbacks it has consent: consent ends
// with the last subscription there, and is never another principal's.
//
// A subscription is entered before it is made or renewed, and leaves after it is
// over. So each that lives is there, whatever comes between; one that is there
// may be over, and who counts on it looks.
type account struct {
	V       int            `json:"v"`
	Entries []accountEntry `json:"entries"`
}

type accountEntry struct {
	ID       string `json:"id"`
	Life     string `json:"life"`     // the record's: an earlier one's end is not this one's
	Callback string `json:"callback"` // a digest of the URL
	Until    int64  `json:"until,omitempty"`
}

var accounts = codec[account]{
	decode: func(b []byte) (*account, error) {
		var a account
		if err := json.Unmarshal(b, &a); err != nil || a.V != recordVersion {
			return nil, errRecord
		}
		return &a, nil
	},
	encode: func(a *account) ([]byte, error) {
		a.V = recordVersion
		return json.Marshal(a)
	},
	due: func(*account) time.Time { return time.Time{} },
}

func accountKey(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return "acc_" + hex.EncodeToString(sum[:16])
}

func callbackDigest(callback string) string {
	sum := sha256.Sum256([]byte(callback))
	return hex.EncodeToString(sum[:16])
}

// live returns the entries that have not expired.
func (a *account) live(now time.Time) []accountEntry {
	if a == nil {
		return nil
	}
	var out []accountEntry
	for _, e := range a.Entries {
		if e.Until == 0 || e.Until > now.UnixMilli() {
			out = append(out, e)
		}
	}
	return out
}

// stands reports whether an entry's subscription is there.
func (h *webhooks) stands(ctx context.Context, e accountEntry, now time.Time) (bool, error) {
	r, err := load(ctx, &h.ledger, h.records, e.ID)
	return r.value != nil && r.value.live(now), err
}

// consented reports whether a subscription of the principal stands for consent of
// the callback.
func (h *webhooks) consented(ctx context.Context, principal, callback string) (bool, error) {
	a, err := load(ctx, &h.ledger, accounts, accountKey(principal))
	if err != nil {
		return false, err
	}
	now, digest := time.Now(), callbackDigest(callback)
	for _, e := range a.value.live(now) {
		if e.Callback != digest {
			continue
		}
		if ok, err := h.stands(ctx, e, now); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// maxLooks is how often in a minute it is looked whether a principal has as many
// subscriptions as its account says.
const maxLooks = 4

// room reports whether the principal may have one more subscription.
func (h *webhooks) room(ctx context.Context, principal string, now time.Time) error {
	a, err := load(ctx, &h.ledger, accounts, accountKey(principal))
	if err != nil {
		return err
	}
	if len(a.value.live(now)) < h.c.MaxPerPrincipal {
		return nil
	}
	if !h.looks.take(principal, 1) { // it is dear, and whoever is refused may ask all the time
		return h.full()
	}
	var gone []accountEntry
	for _, e := range a.value.live(now) {
		ok, err := h.stands(ctx, e, now)
		if err != nil {
			return err
		}
		if !ok {
			gone = append(gone, e)
		}
	}
	if len(gone) == 0 {
		return h.full()
	}
	return h.leave(ctx, principal, gone...)
}

func (h *webhooks) full() error {
	return refuse(ResourceExhausted, "limit", "subscriptions", "max", h.c.MaxPerPrincipal)
}

// enter writes a subscription into its principal's account, or how long it is
// to live now. A new one needs room.
func (h *webhooks) enter(ctx context.Context, principal string, e accountEntry, now time.Time) error {
	_, err := change(ctx, &h.ledger, accounts, accountKey(principal), nil, func(a *account) (*account, verdict, error) {
		list := slices.DeleteFunc(a.live(now), func(old accountEntry) bool { return old.ID == e.ID })
		if len(list) == len(a.live(now)) && len(list) >= h.c.MaxPerPrincipal {
			return nil, leave, h.full()
		}
		return &account{Entries: append(list, e)}, put, nil
	})
	return err
}

// leave removes subscriptions from an account, in the lives that are named.
func (h *webhooks) leave(ctx context.Context, principal string, over ...accountEntry) error {
	_, err := change(ctx, &h.ledger, accounts, accountKey(principal), nil, func(a *account) (*account, verdict, error) {
		if a == nil {
			return nil, leave, nil
		}
		list := slices.DeleteFunc(slices.Clone(a.Entries), func(e accountEntry) bool {
			return slices.ContainsFunc(over, func(o accountEntry) bool { return o.ID == e.ID && o.Life == e.Life })
		})
		switch {
		case len(list) == len(a.Entries):
			return nil, leave, nil
		case len(list) == 0:
			return nil, drop, nil
		}
		return &account{Entries: list}, put, nil
	})
	return err
}
