package mcpevents

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// webhookRecord is what the store holds of a subscription. Times are Unix
// milliseconds, zero for none. Fields are replaced, never changed in place:
// copies of a record share them.
type webhookRecord struct {
	V         int             `json:"v"`
	Life      string          `json:"life"` // drawn when it was made: tells it from an earlier one of the same key
	Principal string          `json:"principal"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	URL       string          `json:"url"`
	Era       string          `json:"era,omitempty"` // the type's, when it was made
	Secrets   []storedSecret  `json:"secrets"`       // the newest first
	Expires   int64           `json:"expires,omitempty"`

	Position Cursor      `json:"position"`          // the watermark: everything up to here is settled
	Settled  []Cursor    `json:"settled,omitempty"` // events behind it that are settled
	Tries    []storedTry `json:"tries,omitempty"`   // events behind it that were tried
	Gap      *owed       `json:"gap,omitempty"`     // a gap that the endpoint is still to hear of
	Missed   *missed     `json:"missed,omitempty"`  // one that it never heard of: refreshes tell
	Ended    *ending     `json:"ended,omitempty"`   // the subscription is over, and the endpoint is still to hear of it

	Suspended int64  `json:"suspended,omitempty"` // since then nothing is delivered
	Accepted  int64  `json:"accepted,omitempty"`  // the last delivery
	LastError string `json:"lastError,omitempty"`
	Failing   int64  `json:"failing,omitempty"`   // since then deliveries fail
	Throttled int64  `json:"throttled,omitempty"` // until then the endpoint wants no more
	Busy      int64  `json:"busy,omitempty"`      // since then it has wanted nothing
	Health    health `json:"health,omitzero"`

	Owner string `json:"owner,omitempty"` // the server that delivers
	Lease int64  `json:"lease,omitempty"` // and until when
}

const recordVersion = 1

// storedSecret is a secret in the store. Reveal it nowhere else.
type storedSecret struct {
	Key   []byte `json:"key"`
	Until int64  `json:"until,omitempty"` // zero: the one in use
}

// Format hides the secret under every verb.
func (storedSecret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// storedTry is an event that was tried and failed.
type storedTry struct {
	Cursor Cursor `json:"cursor"`
	tries
}

// tries counts the attempts of one delivery.
type tries struct {
	N     int   `json:"n,omitempty"`
	First int64 `json:"first,omitempty"` // the first attempt
	Next  int64 `json:"next,omitempty"`  // not before
}

// owed is an envelope that is to be sent, under the same id each time.
type owed struct {
	ID string `json:"id"`
	tries
}

// ending is a terminated envelope.
type ending struct {
	Kind Kind            `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
	owed
}

// A missed is a gap that answers to refreshes tell of. An answer may be lost: the
// next refresh shows that it came when it is from the cursor that was answered, and
// the one before was not. Where that is not to be seen, since deliveries move the
// cursor too, it is told again, but not for ever: a gap is a possible one.
type missed struct {
	N        int    `json:"n"`                  // how often it was told
	From     Cursor `json:"from,omitempty"`     // of the refresh that was told last
	Answered Cursor `json:"answered,omitempty"` // with that
}

const maxTold = 3

// tell reports whether the answer to a refresh from that cursor, which has the
// record's position, is to tell of a gap.
func (r *webhookRecord) tell(from Cursor) bool {
	if r.Missed == nil {
		return false
	}
	m := *r.Missed
	if heard := m.N > 0 && from == m.Answered && from != m.From; heard || m.N == maxTold {
		r.Missed = nil
		return false
	}
	r.Missed = &missed{N: m.N + 1, From: from, Answered: r.Position}
	return true
}

// webhookKey is the id of a subscription, and its key in the store: a digest of
// what makes it the one it is.
func webhookKey(sub Subscription, callback string) string {
	b, _ := json.Marshal([]string{sub.Principal, callback, sub.Name, string(sub.Arguments)})
	sum := sha256.Sum256(b)
	return "sub_" + hex.EncodeToString(sum[:16])
}

// newMessageID returns an id for an envelope of a type.
func newMessageID(kind string) string { return "msg_" + kind + "_" + randomHex(12) }

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func (r *webhookRecord) subscription() Subscription {
	return Subscription{Principal: r.Principal, Name: r.Name, Arguments: r.Arguments}
}

// is reports whether the record is of that subscription. Another one under its
// key would be a collision of digests.
func (r *webhookRecord) is(sub Subscription, callback string) bool {
	return r.Principal == sub.Principal && r.Name == sub.Name && string(r.Arguments) == string(sub.Arguments) && r.URL == callback
}

// live reports whether the subscription is there for its client.
func (r *webhookRecord) live(now time.Time) bool {
	return r.Ended == nil && (r.Expires == 0 || r.Expires > now.UnixMilli())
}

// over reports whether the subscription's life is over.
func (r *webhookRecord) over(now time.Time) bool { return r.Ended == nil && !r.live(now) }

// abandoned reports whether a subscription without end was suspended for so long
// that it ends all the same.
func (r *webhookRecord) abandoned(now time.Time, abandon time.Duration) bool {
	return r.Ended == nil && r.Expires == 0 && r.Suspended != 0 && r.Suspended+abandon.Milliseconds() <= now.UnixMilli()
}

// end makes the subscription one that is over, of which the endpoint is told.
func (r *webhookRecord) end(why *Error) {
	r.Ended = &ending{Kind: why.Kind, Data: why.Data, owed: owed{ID: newMessageID("terminated")}}
	r.Gap, r.Suspended = nil, 0
}

// held reports whether a server other than owner delivers.
func (r *webhookRecord) held(now time.Time, owner string) bool {
	return r.Owner != "" && r.Owner != owner && r.Lease > now.UnixMilli()
}

// due is when somebody has to look at the record.
func (r *webhookRecord) due(now time.Time, abandon time.Duration) time.Time {
	at := now.UnixMilli()
	switch {
	case r.Owner != "":
		at = r.Lease
	case r.Suspended != 0 && r.Ended == nil:
		at = r.Suspended + abandon.Milliseconds()
		if r.Expires != 0 {
			at = r.Expires
		}
	}
	if r.Expires != 0 && r.Ended == nil {
		at = min(at, r.Expires)
	}
	return time.UnixMilli(at)
}

// rotate puts a secret in front. The one before it stays good until then, and
// any older one goes.
func (r *webhookRecord) rotate(s Secret, now time.Time, grace time.Duration) {
	if len(r.Secrets) > 0 && s.Equal(secretOf(r.Secrets[0].Key)) {
		return
	}
	list := []storedSecret{{Key: s.key()}}
	if len(r.Secrets) > 0 {
		list = append(list, storedSecret{r.Secrets[0].Key, now.Add(grace).UnixMilli()})
	}
	r.Secrets = list
}

// prune forgets the secrets that nothing is signed with any more.
func (r *webhookRecord) prune(now time.Time) {
	r.Secrets = slices.DeleteFunc(slices.Clone(r.Secrets), func(s storedSecret) bool { return s.Until != 0 && s.Until <= now.UnixMilli() })
}

// signing returns the secrets that a delivery is signed with now.
func (r *webhookRecord) signing(now time.Time) []Secret {
	var out []Secret
	for _, s := range r.Secrets {
		if s.Until == 0 || s.Until > now.UnixMilli() {
			out = append(out, secretOf(s.Key))
		}
	}
	return out
}

// resume ends a suspension: the time it took counts for no retry.
func (r *webhookRecord) resume(now time.Time) {
	if r.Suspended == 0 {
		return
	}
	pause, ms := now.UnixMilli()-r.Suspended, now.UnixMilli()
	shift := func(t tries) tries {
		if t.First != 0 {
			t.First += pause
		}
		t.Next = ms
		return t
	}
	list := make([]storedTry, 0, len(r.Tries))
	for _, t := range r.Tries {
		list = append(list, storedTry{t.Cursor, shift(t.tries)})
	}
	r.Tries = list
	if r.Gap != nil {
		g := *r.Gap
		g.tries = shift(g.tries)
		r.Gap = &g
	}
	r.Suspended, r.Throttled, r.Busy, r.Health = 0, 0, 0, health{}
}

// encodeRecord leaves what is JSON already, the arguments, as it is: json.Marshal
// would write < and others in another way, and they would not be the same any more.
func encodeRecord(r *webhookRecord) ([]byte, error) {
	r.V = recordVersion
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(r)
	return b.Bytes(), err
}

var errRecord = errors.New("mcpevents: a record of the subscription store is not readable by this version")

func decodeRecord(b []byte) (*webhookRecord, error) {
	var r webhookRecord
	if err := json.Unmarshal(b, &r); err != nil || r.V != recordVersion {
		return nil, errRecord
	}
	return &r, nil
}
