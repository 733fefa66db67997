package mcpevents

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

const (
	secretPrefix  = "whsec_"
	minSecretSize = 24
	maxSecretSize = 64
	newSecretSize = 32
)

// A Secret is the key that a webhook's deliveries are signed with. It hides
// itself: printing, logging and marshalling it show nothing of the key;
// [Secret.Reveal] alone tells it. The zero value is no secret. Secrets are
// compared with [Secret.Equal].
type Secret struct {
	// In a function, since package fmt prints unexported fields of structs
	// around it, and under a wrong verb what pointers point to.
	key func() []byte
}

func secretOf(key []byte) Secret { return Secret{func() []byte { return key }} }

// NewSecret returns a secret of 32 random bytes.
func NewSecret() Secret {
	b := make([]byte, newSecretSize)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return secretOf(b)
}

// errSecret has nothing of the text that was refused.
var errSecret = fmt.Errorf("mcpevents: a secret is %s and the base64 of %d to %d bytes", secretPrefix, minSecretSize, maxSecretSize)

// ParseSecret reads whsec_ and the base64 of 24 to 64 bytes, in the standard or
// the URL-safe alphabet, with or without padding. Its error tells nothing of the
// text.
func ParseSecret(text string) (Secret, error) {
	body, ok := strings.CutPrefix(text, secretPrefix)
	if !ok || len(body) > base64.StdEncoding.EncodedLen(maxSecretSize) || strings.ContainsAny(body, "\r\n") {
		return Secret{}, errSecret
	}
	if padded := strings.Contains(body, "="); padded && len(body)%4 != 0 {
		return Secret{}, errSecret
	}
	body = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(body, "="))
	b, err := base64.RawStdEncoding.DecodeString(body)
	if err != nil || len(b) < minSecretSize || len(b) > maxSecretSize {
		return Secret{}, errSecret
	}
	return secretOf(b), nil
}

// Reveal returns the secret as it goes over the wire: whsec_ and standard base64
// with padding. It is empty for the zero value. Never log it.
func (s Secret) Reveal() string {
	if s.key == nil {
		return ""
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(s.key())
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.key == nil }

// Equal reports whether both are the same key, in constant time.
func (s Secret) Equal(t Secret) bool {
	if s.key == nil || t.key == nil {
		return s.key == nil && t.key == nil
	}
	return subtle.ConstantTimeCompare(s.key(), t.key()) == 1
}

// hidden stands where a secret would be shown.
const hidden = secretPrefix + "(hidden)"

// String hides the secret.
func (s Secret) String() string { return hidden }

// Format hides the secret under every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText refuses: a secret that is written somewhere is revealed on purpose.
func (s Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("mcpevents: a secret is not marshalled; Reveal tells it")
}
