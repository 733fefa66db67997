package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSE72NoDeliveryBeforeConsent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			answer func(post) (int, string, error)
			reason string
		}{
			{"another nonce", func(post) (int, string, error) { return 200, `{"challenge":"x"}`, nil }, failChallenge},
			{"empty", func(post) (int, string, error) { return 200, ``, nil }, failChallenge},
			{"text", func(p post) (int, string, error) { return 200, p.body.Challenge, nil }, failChallenge},
			{"not 2xx", func(p post) (int, string, error) { return 400, `{"challenge":"` + p.body.Challenge + `"}`, nil }, failChallenge},
			{"redirect", func(p post) (int, string, error) { return 302, `{"challenge":"` + p.body.Challenge + `"}`, nil }, failChallenge},
			{"server error", func(post) (int, string, error) { return 500, ``, nil }, failChallenge},
			{"number", func(post) (int, string, error) { return 200, `{"challenge":1}`, nil }, failChallenge},
			{"large", func(p post) (int, string, error) {
				return 200, `{"x":"` + strings.Repeat("x", maxAnswer) + `","challenge":"` + p.body.Challenge + `"}`, nil
			}, failChallenge},
			{"unreachable", func(post) (int, string, error) { return 0, "", errors.New("no route") }, failRefused},
			{"slow", func(post) (int, string, error) { return 0, "", context.DeadlineExceeded }, failTimeout},
		} {
			w := newWorld(t, nil)
			w.e.challenge = c.answer
			res, err := w.s.webhooks.subscribe(as("ann"), ask(nil))
			if res != nil {
				t.Errorf("%s: subscribe = %+v, want an error", c.name, res)
			}
			refused(t, c.name, err, CallbackEndpointError, "reason", c.reason)
			w.add("e1")
			after(2 * time.Hour)
			if n := len(w.e.all("*")); n != 1 {
				t.Errorf("%s: %d requests, want one challenge", c.name, n)
			}
			_, err = w.s.webhooks.unsubscribe(as("ann"), ask(nil))
			refused(t, c.name+", unsubscribe", err, NotFound, "kind", "subscription")
			for key := range w.store.(*MemorySubscriptions).records {
				t.Errorf("%s: the store has a record %s", c.name, key)
			}
			w.end()
		}
	})
}

func TestEventsDuringTheChallengeAreDelivered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.e.challenge = func(p post) (int, string, error) {
			w.add("e1")
			return 200, `{"challenge":"` + p.body.Challenge + `"}`, nil
		}
		w.subscribe(nil)
		settle()
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("delivered %q, want e1", got)
		}
	})
}

func TestChallengesAreSingleUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(nil)
		if _, err := w.s.webhooks.unsubscribe(as("ann"), ask(nil)); err != nil {
			t.Fatal(err)
		}
		old := w.e.all("verification")[0].body.Challenge
		if len(old) < 32 {
			t.Errorf("challenge %q is short", old)
		}
		w.e.challenge = func(post) (int, string, error) { return 200, `{"challenge":"` + old + `"}`, nil }
		_, err := w.s.webhooks.subscribe(as("ann"), ask(nil))
		refused(t, "the old nonce", err, CallbackEndpointError, "reason", failChallenge)
	})
}

func TestConsentIsOfThePrincipalAndURL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		n := func() int { return len(w.e.all("verification")) }
		w.subscribe(nil)
		w.subscribe(nil)
		w.subscribe(map[string]any{"arguments": map[string]any{"a": 1}})
		w.subscribe(map[string]any{"secret": nextSecret})
		if got := n(); got != 1 {
			t.Errorf("%d challenges for one principal and URL, want 1", got)
		}
		if _, err := w.s.webhooks.subscribe(as("bob"), ask(nil)); err != nil || n() != 2 {
			t.Errorf("another principal: %v, %d challenges, want 2", err, n())
		}
		if w.subscribe(map[string]any{"url": testURL + "?x"}); n() != 3 {
			t.Errorf("another URL: %d challenges, want 3", n())
		}
		after(2 * time.Hour) // all have expired
		if w.subscribe(nil); n() != 4 {
			t.Errorf("after the subscriptions: %d challenges, want 4", n())
		}
	})
}

func TestChallengesAreLimitedPerHost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.Challenges = 3 })
		w.e.challenge = func(post) (int, string, error) { return 404, "", nil }
		try := func(who string, i int) error {
			_, err := w.s.webhooks.subscribe(as(who), ask(map[string]any{"url": fmt.Sprintf("https://Victim.example.net:%d/%d", 1000+i, i)}))
			return err
		}
		for i := range 3 {
			refused(t, "within the limit", try(fmt.Sprint("p", i), i), CallbackEndpointError, "", "")
		}
		refused(t, "over the limit", try("q", 4), ResourceExhausted, "limit", "challenges")
		if n := len(w.e.all("*")); n != 3 {
			t.Errorf("the host got %d requests, want 3", n)
		}
		after(time.Minute)
		refused(t, "a minute later", try("q", 5), CallbackEndpointError, "", "")
	})
}

// A principal over its own limit takes nothing from that of a host, nor the room
// for names.
func TestChallengesAreLimitedPerPrincipalFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for i := range maxRateNames {
			_, _ = w.s.webhooks.subscribe(as("mallory"), ask(map[string]any{"url": fmt.Sprintf("https://h%d.example.org/", i)}))
		}
		for range 20 {
			_, err := w.s.webhooks.subscribe(as("mallory"), ask(nil))
			refused(t, "over the principal's limit", err, ResourceExhausted, "limit", "challenges")
		}
		if _, err := w.s.webhooks.subscribe(as("ann"), ask(nil)); err != nil {
			t.Errorf("another principal: %v, want no error", err)
		}
	})
}

func TestTrustedCallbacksNeedNoChallenge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.w.Trusted = []string{"https://relay.example.net/h", "https://dir.example.net/a/", "https://whole.example.net"}
			w.w.Consented = func(_ context.Context, principal, callback string) bool {
				return principal == "ann" && callback == "https://asked.example.net/x"
			}
		})
		for _, c := range []struct {
			url     string
			without bool
		}{
			{"https://relay.example.net/h", true},
			{"https://relay.example.net:443/h/7", true},
			{"https://RELAY.example.net./h?x=1", true},
			{"https://relay.example.net/hx", false},
			{"https://relay.example.net/h/../x", false},
			{"https://relay.example.net/h/%2e%2E/x", false},
			{"https://relay.example.net/h/..%2fx", false},
			{"https://relay.example.net/h%2Fx", false},
			{"https://relay.example.net:8443/h", false},
			{"https://relay.example.net.evil.net/h", false},
			{"https://dir.example.net/a/b", true},
			{"https://dir.example.net/a", false},
			{"https://whole.example.net/any", true},
			{"https://asked.example.net/x", true},
			{"https://asked.example.net/y", false},
		} {
			w.e.clear()
			w.subscribe(map[string]any{"url": c.url})
			if got := len(w.e.all("verification")) == 0; got != c.without {
				t.Errorf("%s: without a challenge = %v, want %v", c.url, got, c.without)
			}
		}
	})
}

func TestWellKnownConsent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			name, doc string
			without   bool
		}{
			{"covered", `{"receivers":["/x","/h/"]}`, true},
			{"whole", `{"receivers":["/"]}`, true},
			{"not covered", `{"receivers":["/hooks/"]}`, false},
			{"relative", `{"receivers":["h/"]}`, false},
			{"empty", `{"receivers":[""]}`, false},
			{"no JSON", `<html>`, false},
			{"absent", ``, false},
			{"too large", `{"x":"` + strings.Repeat("x", maxAnswer) + `","receivers":["/"]}`, false},
		} {
			w := newWorld(t, func(w *world) { w.w.WellKnown = true })
			w.e.wellKnown = c.doc
			w.subscribe(nil)
			if got := len(w.e.all("verification")) == 0; got != c.without {
				t.Errorf("%s: without a challenge = %v, want %v", c.name, got, c.without)
			}
			w.end()
		}
	})
}

func TestRatesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := rates{max: 1}
		for i := range 2 * maxRateNames {
			r.take(fmt.Sprint(i), 1)
		}
		if n := len(r.names); n > maxRateNames {
			t.Errorf("%d names are kept, at most %d are allowed", n, maxRateNames)
		}
		if r.take("new", 1) {
			t.Errorf("a full table let a new name through")
		}
		time.Sleep(ratePeriod)
		if !r.take("new", 1) {
			t.Errorf("after the period a new name is refused")
		}
	})
}

func TestWebhookConfig(t *testing.T) {
	store := NewMemorySubscriptions()
	for _, c := range []struct {
		field string
		c     WebhookConfig
	}{
		{"Store", WebhookConfig{}},
		{"TTL", WebhookConfig{Store: store, TTL: -1}},
		{"TTL", WebhookConfig{Store: store, TTL: 48 * time.Hour}},
		{"TTL", WebhookConfig{Store: store, MinTTL: 3 * time.Hour}},
		{"Attempts", WebhookConfig{Store: store, Attempts: -1}},
		{"MaxPerPrincipal", WebhookConfig{Store: store, MaxPerPrincipal: 501}},
		{"ID", WebhookConfig{Store: store, ID: "x"}},
		{"Trusted[1]", WebhookConfig{Store: store, Trusted: []string{"https://a.example.net", "http://a.example.net"}}},
		{"Trusted[0]", WebhookConfig{Store: store, Trusted: []string{"https://a.example.net/?x"}}},
	} {
		_, err := NewServer(ServerConfig{Webhooks: &c.c})
		if err == nil || !strings.Contains(err.Error(), "WebhookConfig."+c.field) {
			t.Errorf("NewServer: %v, want an error that names WebhookConfig.%s", err, c.field)
		}
	}
	if _, err := NewServer(ServerConfig{Webhooks: &WebhookConfig{Store: store}}); err != nil {
		t.Errorf("NewServer: %v, want none", err)
	}
	var _ http.RoundTripper = &endpoint{}
}
