package mcpevents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func encodeSum(s Secret, id, timestamp string, body []byte) string {
	return base64.StdEncoding.EncodeToString(s.sum(id, timestamp, body))
}

func ExampleNewSecret() {
	s := NewSecret()
	again, err := ParseSecret(s.Reveal())
	fmt.Println(s, len(s.Reveal()), again.Equal(s), err)
	// Output: whsec_(hidden) 50 true <nil>
}

func TestCE53NewSecret(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		text := NewSecret().Reveal()
		b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(text, "whsec_"))
		if err != nil || !strings.HasPrefix(text, "whsec_") || len(b) < 24 || len(b) > 64 {
			t.Fatalf("Reveal = %q (%d bytes, %v), want whsec_ and padded base64 of 24 to 64", text, len(b), err)
		}
		if seen[text] {
			t.Fatalf("the same secret twice")
		}
		seen[text] = true
	}
}

func TestParseSecret(t *testing.T) {
	key := bytes.Repeat([]byte{0xfb, 0xff}, 16)
	want := "whsec_" + base64.StdEncoding.EncodeToString(key)
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		s, err := ParseSecret("whsec_" + enc.EncodeToString(key))
		if err != nil || s.Reveal() != want {
			t.Errorf("ParseSecret(%s) = %s, %v, want %s", enc.EncodeToString(key), s.Reveal(), err, want)
		}
	}
	for _, text := range []string{
		"", "whsec_", "WHSEC_" + want[6:], want + "=", want + "\n", want[:10] + "\n" + want[10:], "whsec_" + strings.Repeat("A", 31),
		"whsec_" + strings.Repeat("A", 87), strings.Repeat("A", 1<<20), want[:len(want)-1] + " ", " " + want, want[:20] + "=" + want[21:],
	} {
		if s, err := ParseSecret(text); err == nil {
			t.Errorf("ParseSecret(%.60q) = %s, want an error", text, s.Reveal())
		} else if strings.Contains(fmt.Sprint(err), "AAA") {
			t.Errorf("the error has the text: %v", err)
		}
	}
}

func TestSecretHidesItself(t *testing.T) {
	s := mustSecret(t, testSecret)
	type inner struct {
		Shown  Secret
		hidden Secret
		list   []Secret
		m      map[string]Secret
		ptr    *Secret
	}
	v := inner{s, s, []Secret{s}, map[string]Secret{"a": s}, &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
		fmt.Fprintf(&out, verb, s)
		fmt.Fprintf(&out, verb, &s)
		fmt.Fprintf(&out, verb, v)
		fmt.Fprintf(&out, verb, &v)
		fmt.Fprintf(&out, verb, []any{v, s})
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb, webhookRecord{Secrets: []storedSecret{{Key: s.key()}}})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s, "v", v, "p", &s)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s, "v", v, "p", &s)
	b, err := json.Marshal(v)
	if err == nil {
		t.Errorf("json.Marshal = %s, want an error", b)
	}
	out.WriteString(s.String())
	key := s.key()
	for _, shape := range []string{
		base64.StdEncoding.EncodeToString(key)[:16], fmt.Sprint(key)[:12], fmt.Sprintf("%x", key)[:12], fmt.Sprintf("%X", key)[:12],
		strings.Trim(fmt.Sprintf("%#v", key)[:30], "[]byte{}"), string(key[4:12]),
	} {
		if strings.Contains(out.String(), shape) {
			t.Errorf("the output has %q of the key", shape)
		}
	}
	if !strings.Contains(out.String(), hidden) {
		t.Errorf("nothing stands in the secret's place")
	}
	if s.IsZero() || !(Secret{}).IsZero() || (Secret{}).Reveal() != "" || s.Equal(Secret{}) || !(Secret{}).Equal(Secret{}) {
		t.Errorf("the zero secret is not told apart")
	}
}
