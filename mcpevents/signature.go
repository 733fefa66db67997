package mcpevents

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// The headers of a delivery.
const (
	headerID           = "webhook-id"
	headerTimestamp    = "webhook-timestamp"
	headerSignature    = "webhook-signature"
	headerSubscription = "X-MCP-Subscription-Id"
)

// signatureScheme is the one that is made and read: HMAC-SHA256. Others (v1a,
// ed25519) are passed over.
const signatureScheme = "v1,"

// maxSignatures is how many entries of one header are looked at: who signs sends
// two at a rotation, and each costs a comparison only.
const maxSignatures = 16

// Sign returns the webhook-signature header of a delivery by the scheme of
// Standard Webhooks, an entry for each secret in their order: HMAC-SHA256 over
// id, at in Unix seconds, and the body's bytes. The id should have no dot, which
// separates the three.
func Sign(id string, at time.Time, body []byte, secrets ...Secret) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	entries := make([]string, 0, len(secrets))
	for _, s := range secrets {
		if s.key != nil {
			entries = append(entries, signatureScheme+base64.StdEncoding.EncodeToString(s.sum(id, stamp, body)))
		}
	}
	return strings.Join(entries, " ")
}

// Verify reports whether an entry of a webhook-signature header is by one of the
// secrets over the id and the timestamp as their headers have them and the
// body's raw bytes. Entries of other schemes and broken ones are passed over.
// How old the timestamp is, the caller decides. Comparison takes constant time.
func Verify(id, timestamp, signature string, body []byte, secrets ...Secret) bool {
	given := signatures(signature)
	if len(given) == 0 {
		return false
	}
	found := false
	for _, s := range secrets {
		if s.key == nil {
			continue
		}
		want := s.sum(id, timestamp, body)
		for _, g := range given {
			if hmac.Equal(want, g) {
				found = true
			}
		}
	}
	return found
}

func (s Secret) sum(id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, s.key())
	_, _ = h.Write([]byte(id + "." + timestamp + "."))
	_, _ = h.Write(body)
	return h.Sum(nil)
}

// signatures returns the readable entries of the scheme.
func signatures(header string) [][]byte {
	var out [][]byte
	entries := 0
	for entry := range strings.SplitSeq(header, " ") {
		if entry == "" {
			continue
		}
		if entries++; entries > maxSignatures {
			break
		}
		text, ok := strings.CutPrefix(entry, signatureScheme)
		if !ok || strings.ContainsAny(text, "\r\n") { // which the decoder would pass over
			continue
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err == nil && len(b) == sha256.Size {
			out = append(out, b)
		}
	}
	return out
}
