package interop_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
)

// The reference library verifies what Sign makes, also of two secrets while one
// replaces the other, and Verify takes what the library signs.
func TestStandardWebhooksLibrary(t *testing.T) {
	t.Parallel()
	lib := runScript(t, nil, "standardwebhooks.mjs")
	lib.ready(nil)
	for name, body := range map[string]string{
		"event": `{"eventId":"dec-0042","name":"attention.decision","timestamp":"2026-11-03T09:15:02Z","data":{"verdict":"interrupt"},"cursor":"j1:41"}`,
		"wide":  `{"name":"Grüße \u0000 \ud83d\ude00 ` + "\U0001f600" + `"}`,
		"long":  `{"text":"` + strings.Repeat("x", 256<<10) + `"}`,
		"empty": `{}`,
	} {
		now := time.Now()
		stamp := strconv.FormatInt(now.Unix(), 10)
		old, next, other := mcpevents.NewSecret(), mcpevents.NewSecret(), mcpevents.NewSecret()
		headers := func(signature string) map[string]string {
			return map[string]string{"webhook-id": "dec-0042", "webhook-timestamp": stamp, "webhook-signature": signature}
		}
		verify := func(secret mcpevents.Secret, signature, body string) map[string]any {
			return map[string]any{"secret": secret.Reveal(), "headers": headers(signature), "body": body}
		}

		both := mcpevents.Sign("dec-0042", now, []byte(body), old, next)
		for _, s := range []mcpevents.Secret{old, next} {
			lib.do("verify", verify(s, both, body), nil)
		}
		if l := lib.answer(lib.begin("verify", verify(other, both, body))); l.Error == nil {
			t.Errorf("%s: the library verified a signature by a secret that did not sign", name)
		}
		if l := lib.answer(lib.begin("verify", verify(old, both, body+" "))); l.Error == nil {
			t.Errorf("%s: the library verified a body that was not signed", name)
		}

		var signed struct{ Signature string }
		lib.do("sign", map[string]any{"secret": old.Reveal(), "name": "dec-0042", "at": now.Unix(), "body": body}, &signed)
		if !mcpevents.Verify("dec-0042", stamp, signed.Signature, []byte(body), next, old) {
			t.Errorf("%s: Verify(%q) = false, want true for what the library signed", name, signed.Signature)
		}
		if mcpevents.Verify("dec-0042", stamp, signed.Signature, []byte(body), other) {
			t.Errorf("%s: Verify = true for a secret that did not sign, want false", name)
		}
		if own := mcpevents.Sign("dec-0042", now, []byte(body), old); own != signed.Signature {
			t.Errorf("%s: Sign = %q, want the library's %q", name, own, signed.Signature)
		}
	}
}
