package mcpevents

import "time"

// Suspension follows the guide of the extension: more than 95 % of at least 100
// attempts failed in an hour.
const (
	healthSlots    = 12
	healthSlot     = 5 * time.Minute
	suspendTries   = 100
	suspendPercent = 95
)

// health counts the attempts of the last hour, in slots of five minutes.
type health struct {
	Slot   int64            `json:"slot,omitempty"` // the number of the newest one since 1970
	Tries  [healthSlots]int `json:"tries"`          // the newest first
	Failed [healthSlots]int `json:"failed"`
}

// count adds one attempt. A clock that went back counts into the newest slot.
func (h *health) count(now time.Time, failed bool) {
	slot := now.UnixMilli() / healthSlot.Milliseconds()
	if gone := slot - h.Slot; gone > 0 {
		keep := int(max(healthSlots-gone, 0))
		var tries, failures [healthSlots]int
		copy(tries[healthSlots-keep:], h.Tries[:keep])
		copy(failures[healthSlots-keep:], h.Failed[:keep])
		h.Slot, h.Tries, h.Failed = slot, tries, failures
	}
	h.Tries[0]++
	if failed {
		h.Failed[0]++
	}
}

// suspend reports whether the endpoint failed for too long.
func (h *health) suspend() bool {
	tries, failed := 0, 0
	for i := range healthSlots {
		tries += h.Tries[i]
		failed += h.Failed[i]
	}
	return tries >= suspendTries && failed*100 > tries*suspendPercent
}

// deliveryStatus is what a refresh tells of the deliveries before it.
type deliveryStatus struct {
	Active     bool    `json:"active"`
	Accepted   *string `json:"lastDeliveryAt"`
	LastError  *string `json:"lastError"`
	Failing    *string `json:"failedSince,omitempty"`
	Throttled  bool    `json:"throttled,omitempty"`
	RetryAfter *int64  `json:"retryAfterMs,omitempty"`
}

// status is the record's, as it was before the refresh that asks.
func (r *webhookRecord) status(now time.Time) *deliveryStatus {
	s := &deliveryStatus{Active: r.Suspended == 0, Accepted: timestamp(r.Accepted), Failing: timestamp(r.Failing)}
	if r.LastError != "" {
		s.LastError = &r.LastError
	}
	if wait := r.Throttled - now.UnixMilli(); wait > 0 {
		s.Throttled, s.RetryAfter = true, &wait
	}
	return s
}

// timestamp is a time on the wire, nil for none.
func timestamp(ms int64) *string {
	if ms == 0 {
		return nil
	}
	text := time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
	return &text
}
