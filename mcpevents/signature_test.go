package mcpevents

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

const vectorBody = `{"eventId":"dec-0042","name":"attention.decision","timestamp":"2026-11-03T09:15:02Z","data":{"decisionId":"dec-0042","verdict":"interrupt"},"cursor":"j1:41"}`

// vectors are the published ones of Standard Webhooks (the first) and those of
// the Events extension's reference.
var vectors = []struct {
	secret, id, timestamp, body, signature string
}{
	{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	{testSecret, "dec-0042", "1793697305", vectorBody, "v1,nWv+KxHxutVFUPqFic7XOd+aAuMM33koGs0CQZ4UYrU="},
	{nextSecret, "dec-0042", "1793697305", vectorBody, "v1,AcqNa81aajD1/Sza/7VCtxuD0yQ9Qdt8M5vKAz4ionQ="},
	{testSecret, "msg_verification_5b1f9a", "1793697300", `{"type":"verification","challenge":"n0nce-7c1d2e"}`, "v1,xeXBAHuwL0DA1U0hRKQiZrBfDSdNoLmHjbhxh3X36t0="},
}

func mustSecret(t testing.TB, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	if err != nil {
		t.Fatalf("ParseSecret: %v", err)
	}
	return s
}

func TestSignatureVectors(t *testing.T) {
	for i, v := range vectors {
		s := mustSecret(t, v.secret)
		seconds, err := strconv.ParseInt(v.timestamp, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := Sign(v.id, time.Unix(seconds, 999), []byte(v.body), s); got != v.signature {
			t.Errorf("vector %d: Sign = %s, want %s", i+1, got, v.signature)
		}
		if !Verify(v.id, v.timestamp, v.signature, []byte(v.body), s) {
			t.Errorf("vector %d: Verify = false, want true", i+1)
		}
	}
}

func TestCE57AnyEntryThatVerifies(t *testing.T) {
	v, other := vectors[1], vectors[2]
	a, b := mustSecret(t, v.secret), mustSecret(t, other.secret)
	sign := strings.TrimPrefix(v.signature, "v1,")
	for _, c := range []struct {
		name, header string
		secrets      []Secret
		want         bool
	}{
		{"alone", v.signature, []Secret{a}, true},
		{"second of two", other.signature + " " + v.signature, []Secret{a}, true},
		{"first of two", v.signature + " " + other.signature, []Secret{a}, true},
		{"second secret", v.signature, []Secret{b, a}, true},
		{"other schemes and broken entries", "v1a,AAAA v2," + sign + " v1, v1 , v1,!! v1," + sign[:20] + "  " + v.signature, []Secret{a}, true},
		{"other secret", v.signature, []Secret{b}, false},
		{"no secret", v.signature, nil, false},
		{"zero secret", v.signature, []Secret{{}}, false},
		{"other scheme", "v2," + sign, []Secret{a}, false},
		{"capital scheme", "V1," + sign, []Secret{a}, false},
		{"no scheme", sign, []Secret{a}, false},
		{"empty", "", []Secret{a}, false},
		{"unpadded", "v1," + strings.TrimRight(sign, "="), []Secret{a}, false},
		{"comma between", other.signature + "," + v.signature, []Secret{a}, false},
		{"newline inside", "v1," + sign[:10] + "\n" + sign[10:], []Secret{a}, false},
		{"too many entries", strings.Repeat("v1,x ", maxSignatures) + v.signature, []Secret{a}, false},
	} {
		if got := Verify(v.id, v.timestamp, c.header, []byte(v.body), c.secrets...); got != c.want {
			t.Errorf("%s: Verify = %v, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct{ name, id, timestamp, body string }{
		{"id", v.id + "x", v.timestamp, v.body},
		{"timestamp", v.id, "1793697306", v.body},
		{"body", v.id, v.timestamp, v.body + " "},
		{"shifted dot", v.id + "." + v.timestamp, v.body[:1], v.body[1:]},
	} {
		if Verify(c.id, c.timestamp, v.signature, []byte(c.body), a) {
			t.Errorf("another %s: Verify = true, want false", c.name)
		}
	}
}

func TestSignWithTwoSecrets(t *testing.T) {
	v, other := vectors[1], vectors[2]
	got := Sign(v.id, time.Unix(1793697305, 0), []byte(v.body), mustSecret(t, other.secret), mustSecret(t, v.secret), Secret{})
	if want := other.signature + " " + v.signature; got != want {
		t.Errorf("Sign = %s, want %s", got, want)
	}
}

func ExampleSign() {
	s, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), s))
	// Output: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
}

func FuzzVerify(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.id, v.timestamp, v.signature, []byte(v.body))
	}
	f.Add("a", "1", "v1, v1,= v1,AA== v1a,x", []byte(nil))
	s, err := ParseSecret(testSecret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		right := "v1," + encodeSum(s, id, timestamp, body)
		contains := false
		for i, entry := range strings.Fields(signature) {
			contains = contains || i < maxSignatures && entry == right
		}
		if got := Verify(id, timestamp, signature, body, s); got && !strings.Contains(signature, right) || !got && contains && !strings.ContainsAny(signature, "\t\n\v\f\r\u0085\u00a0") {
			t.Errorf("Verify(%q, %q, %q, %q) = %v", id, timestamp, signature, body, got)
		}
	})
}
