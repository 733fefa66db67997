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
type account struct {
	V       int            `json:"v"`
	Entries []accountEntry `json:"entries"`
}

type accountEntry struct {
	ID       string `json:"id"`
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

// consented reports whether a live subscription stands for consent of the callback.
func (a *account) consented(callback string, now time.Time) bool {
	digest := callbackDigest(callback)
	return slices.ContainsFunc(a.live(now), func(e accountEntry) bool { return e.Callback == digest })
}

// room reports whether the principal may have one more subscription. Entries
// that a crash left behind count only until it looks like there is none.
func (h *webhooks) room(ctx context.Context, principal string, now time.Time) error {
	a, err := load(ctx, &h.ledger, accounts, accountKey(principal))
	if err != nil {
		return err
	}
	if len(a.value.live(now)) < h.c.MaxPerPrincipal {
		return nil
	}
	var gone []string
	for _, e := range a.value.live(now) {
		r, err := load(ctx, &h.ledger, h.records, e.ID)
		if err != nil {
			return err
		}
		if r.value == nil || !r.value.live(now) {
			gone = append(gone, e.ID)
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
func (h *webhooks) enter(ctx context.Context, principal, id, callback string, until int64, now time.Time) error {
	_, err := change(ctx, &h.ledger, accounts, accountKey(principal), nil, func(a *account) (*account, verdict, error) {
		list := slices.DeleteFunc(a.live(now), func(e accountEntry) bool { return e.ID == id })
		if len(list) == len(a.live(now)) && len(list) >= h.c.MaxPerPrincipal {
			return nil, leave, h.full()
		}
		return &account{Entries: append(list, accountEntry{id, callbackDigest(callback), until})}, put, nil
	})
	return err
}

// leave removes subscriptions from an account.
func (h *webhooks) leave(ctx context.Context, principal string, ids ...string) error {
	_, err := change(ctx, &h.ledger, accounts, accountKey(principal), nil, func(a *account) (*account, verdict, error) {
		if a == nil {
			return nil, leave, nil
		}
		list := slices.DeleteFunc(slices.Clone(a.Entries), func(e accountEntry) bool { return slices.Contains(ids, e.ID) })
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
