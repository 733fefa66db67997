package mcpevents_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The Go library of Standard Webhooks verifies what Sign makes, and Verify takes
// what the library signs.
func TestStandardWebhooksLibrary(t *testing.T) {
	now := time.Now()
	stamp := strconv.FormatInt(now.Unix(), 10)
	for _, body := range []string{`{"eventId":"e1","data":{}}`, `{}`, "", "\x00\xff", strings.Repeat("x", 256<<10)} {
		old, next, other := mcpevents.NewSecret(), mcpevents.NewSecret(), mcpevents.NewSecret()
		both := mcpevents.Sign("e1", now, []byte(body), next, old)
		header := http.Header{}
		header.Set("webhook-id", "e1")
		header.Set("webhook-timestamp", stamp)
		header.Set("webhook-signature", both)
		for _, c := range []struct {
			name   string
			secret mcpevents.Secret
			want   bool
		}{{"new", next, true}, {"old", old, true}, {"other", other, false}} {
			lib, err := standardwebhooks.NewWebhook(c.secret.Reveal())
			if err != nil {
				t.Fatalf("NewWebhook takes no secret of ours: %v", err)
			}
			if err := lib.Verify([]byte(body), header); (err == nil) != c.want {
				t.Errorf("body of %d bytes, %s secret: the library says %v, want valid = %v", len(body), c.name, err, c.want)
			}
			signed, err := lib.Sign("e1", now, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if got := mcpevents.Verify("e1", stamp, signed, []byte(body), old, next); got != c.want {
				t.Errorf("body of %d bytes, %s secret: Verify of the library's signature = %v, want %v", len(body), c.name, got, c.want)
			}
			if own := mcpevents.Sign("e1", now, []byte(body), c.secret); own != signed {
				t.Errorf("body of %d bytes, %s secret: Sign = %s, the library's %s", len(body), c.name, own, signed)
			}
		}
	}
}
