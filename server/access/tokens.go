package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// The lengths of a token, in bytes.
const (
	MinTokenBytes = 16
	MaxTokenBytes = 512
)

// A Token is a bearer token and whom it stands for.
type Token struct {
	Secret    string // 16 to 512 bytes of visible ASCII
	Principal Principal
}

// Tokens knows who brings which token. It keeps digests, not the tokens. Its
// methods may be called from many goroutines at once.
type Tokens struct {
	known []known
}

type known struct {
	digest    [sha256.Size]byte
	principal *Principal
}

// NewTokens returns what knows these tokens. An error is attend.ErrInvalid and
// names the token by its place in the list, never its text: a token of the wrong
// length or with other bytes, one that is there twice, a principal with a scope
// that no scope could be in or is the server's own, or without any right.
func NewTokens(list []Token) (*Tokens, error) {
	t := new(Tokens)
	for i, x := range list {
		fail := func(field, want string) (*Tokens, error) {
			return nil, &attend.InvalidError{Field: fmt.Sprintf("token %d: %s", i+1, field), Want: want}
		}
		if n := len(x.Secret); n < MinTokenBytes || n > MaxTokenBytes || strings.IndexFunc(x.Secret, invisible) >= 0 {
			return fail("secret", fmt.Sprintf("%d to %d visible ASCII characters", MinTokenBytes, MaxTokenBytes))
		}
		p := x.Principal
		if !p.Ingest && !p.Read {
			return fail("rights", "ingest, read or both")
		}
		if len(p.Scopes) == 0 {
			return fail("scopes", "a prefix at least; the empty one is all scopes")
		}
		for _, s := range p.Scopes {
			if s != "" && attend.Scope(s).Check() != nil {
				return fail("scopes", "prefixes of up to 512 bytes without control characters")
			}
			if Reserved(string(s)) {
				return fail("scopes", "no prefix of the server's own scopes")
			}
		}
		digest := sha256.Sum256([]byte(x.Secret))
		for _, k := range t.known {
			if k.digest == digest {
				return fail("secret", "one that no other entry has")
			}
		}
		p.Scopes = append([]attend.Prefix(nil), p.Scopes...)
		t.known = append(t.known, known{digest, &p})
	}
	return t, nil
}

func invisible(r rune) bool { return r <= ' ' || r > '~' }

// Len is how many tokens are known.
func (t *Tokens) Len() int { return len(t.known) }

// Find returns whom a token stands for, nil for an unknown one. Every known token
// is looked at, so the time that it takes tells nothing.
func (t *Tokens) Find(secret string) *Principal {
	digest := sha256.Sum256([]byte(secret))
	var found *Principal
	for i := range t.known {
		if subtle.ConstantTimeCompare(digest[:], t.known[i].digest[:]) == 1 {
			found = t.known[i].principal
		}
	}
	return found
}

// Bearer returns the token that a request brings in its Authorization header (RFC
// 6750, section 2.1), and false where there is none or more than one.
func Bearer(r *http.Request) (string, bool) {
	list := r.Header.Values("Authorization")
	if len(list) != 1 {
		return "", false
	}
	scheme, secret, ok := strings.Cut(list[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > MaxTokenBytes {
		return "", false
	}
	return secret, true
}
