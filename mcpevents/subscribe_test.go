package mcpevents

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSE70NoPrincipalIsForbidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		_, err := w.s.webhooks.subscribe(context.Background(), ask(nil))
		refused(t, "subscribe", err, Forbidden, "", "")
		// It comes before everything else that is wrong.
		_, err = w.s.webhooks.subscribe(context.Background(), ask(map[string]any{"name": "nothing"}))
		refused(t, "subscribe to nothing", err, Forbidden, "", "")
		_, err = w.s.webhooks.unsubscribe(context.Background(), ask(nil))
		refused(t, "unsubscribe", err, Forbidden, "", "")
		_, err = w.s.webhooks.subscribe(as("a\xff"), ask(nil))
		refused(t, "a principal that is no UTF-8", err, Forbidden, "", "")
		if n := len(w.e.all("*")); n != 0 {
			t.Errorf("%d requests went out, want none", n)
		}
	})
}

func TestSE70NotOfferedIsMethodNotFound(t *testing.T) {
	s, err := NewServer(ServerConfig{Types: []Type{{Name: "tick", Backend: NewLog(LogConfig{})}}})
	if err != nil {
		t.Fatal(err)
	}
	session := connectTo(t, s)
	_, err = session.Subscribe(t.Context(), Subscription{Name: "tick"}, WebhookTarget{URL: testURL, Secret: NewSecret()})
	if !errors.Is(err, ErrMethodNotFound) {
		t.Errorf("Subscribe: %v, want MethodNotFound", err)
	}
	if err := session.Unsubscribe(t.Context(), Subscription{Name: "tick"}, testURL); !errors.Is(err, ErrMethodNotFound) {
		t.Errorf("Unsubscribe: %v, want MethodNotFound", err)
	}
}

func TestSE71URLAndSecret(t *testing.T) {
	of := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, c := range []struct {
			name, member string
			value        any
		}{
			{"http", "url", "http://relay.example.net/h"},
			{"relative", "url", "/h"},
			{"no host", "url", "https:///h"},
			{"opaque", "url", "https:relay"},
			{"user", "url", "https://a:b@relay.example.net/"},
			{"fragment", "url", "https://relay.example.net/#x"},
			{"empty fragment", "url", "https://relay.example.net/#"},
			{"port", "url", "https://relay.example.net:0/"},
			{"no port", "url", "https://relay.example.net:/"},
			{"big port", "url", "https://relay.example.net:70000/"},
			{"zone", "url", "https://[fe80::1%25eth0]/"},
			{"space", "url", "https://relay.example.net/a b"},
			{"newline", "url", "https://relay.example.net/a\nb"},
			{"unicode host", "url", "https://relä.example.net/"},
			{"long", "url", "https://relay.example.net/" + strings.Repeat("a", 2048)},
			{"number", "url", 7},
			{"no url", "url", missing},
			{"23 bytes", "secret", of(23)},
			{"65 bytes", "secret", of(65)},
			{"prefix", "secret", strings.TrimPrefix(of(32), "whsec_")},
			{"no base64", "secret", "whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!"},
			{"empty secret", "secret", ""},
			{"no secret", "secret", missing},
			{"null secret", "secret", nil},
		} {
			_, err := w.s.webhooks.subscribe(as("ann"), ask(map[string]any{c.member: c.value}))
			refused(t, c.name, err, InvalidParams, "path", "/delivery/"+c.member)
		}
		for _, n := range []int{24, 32, 64} {
			if _, err := w.s.webhooks.subscribe(as("ann"), ask(map[string]any{"secret": of(n)})); err != nil {
				t.Errorf("secret of %d bytes: %v, want none", n, err)
			}
		}
		for _, p := range w.e.all("*") {
			if p.url != testURL {
				t.Errorf("a request went to %s", p.url)
			}
		}
	})
}

func TestSubscribeRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.c.Types[0].Input = []byte(`{"type":"object","properties":{"repo":{"type":"string"}},"additionalProperties":false}`)
			w.c.Types[0].Check = func(_ context.Context, sub Subscription) error {
				if sub.Principal == "eve" {
					return ErrForbidden
				}
				return nil
			}
		})
		for _, c := range []struct {
			name   string
			who    string
			change map[string]any
			kind   Kind
			member string
			value  string
		}{
			{"unknown type", "ann", map[string]any{"name": "x"}, NotFound, "kind", "event"},
			{"name is no string", "ann", map[string]any{"name": 5}, InvalidParams, "path", "/name"},
			{"type without webhook", "ann", map[string]any{"name": "polled"}, Unsupported, "value", "webhook"},
			{"other mode", "ann", map[string]any{"mode": "push"}, Unsupported, "feature", "deliveryMode"},
			{"mode of the type", "ann", map[string]any{"mode": "poll"}, Unsupported, "value", "poll"},
			{"arguments", "ann", map[string]any{"arguments": map[string]any{"repo": 1}}, InvalidParams, "path", "/arguments"},
			{"arguments null", "ann", map[string]any{"arguments": nil}, InvalidParams, "path", "/arguments"},
			{"cursor", "ann", map[string]any{"cursor": 5}, InvalidParams, "path", "/cursor"},
			{"maxAgeMs", "ann", map[string]any{"maxAgeMs": -1}, InvalidParams, "path", "/maxAgeMs"},
			{"ttlMs negative", "ann", map[string]any{"ttlMs": -1}, InvalidParams, "path", "/ttlMs"},
			{"ttlMs fraction", "ann", map[string]any{"ttlMs": 1.5}, InvalidParams, "path", "/ttlMs"},
			{"ttlMs text", "ann", map[string]any{"ttlMs": "5"}, InvalidParams, "path", "/ttlMs"},
			{"no delivery", "ann", map[string]any{"delivery": missing}, InvalidParams, "path", "/delivery"},
			{"permission", "eve", nil, Forbidden, "", ""},
			{"secret before permission", "eve", map[string]any{"secret": "x"}, InvalidParams, "path", "/delivery/secret"},
		} {
			_, err := w.s.webhooks.subscribe(as(c.who), ask(c.change))
			refused(t, c.name, err, c.kind, c.member, c.value)
		}
		if n := len(w.e.all("*")); n != 0 {
			t.Errorf("%d requests went out, want none", n)
		}
	})
}

func TestModeMayBeAbsent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(map[string]any{"mode": missing})
	})
}

func TestSE73IDIsTheKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := w.subscribe(map[string]any{"arguments": map[string]any{"a": 1, "b": 2.0}})
		for _, c := range []struct {
			name   string
			change map[string]any
			same   bool
		}{
			{"again", map[string]any{"arguments": map[string]any{"b": 2, "a": 1.0}}, true},
			{"other secret", map[string]any{"arguments": map[string]any{"a": 1, "b": 2}, "secret": nextSecret}, true},
			{"other arguments", map[string]any{"arguments": map[string]any{"a": 1}}, false},
			{"other url", map[string]any{"arguments": map[string]any{"a": 1, "b": 2}, "url": testURL + "/"}, false},
		} {
			if got := w.subscribe(c.change).ID; (got == first.ID) != c.same {
				t.Errorf("%s: id = %s, first %s, want same = %v", c.name, got, first.ID, c.same)
			}
		}
		other, err := w.s.webhooks.subscribe(as("bob"), ask(map[string]any{"arguments": map[string]any{"a": 1, "b": 2}}))
		if err != nil || other.ID == first.ID {
			t.Errorf("another principal: id = %v, %v, want another", other, err)
		}
		w.end()
		w.store = NewMemorySubscriptions() // and everything is lost
		w.start()
		if got := w.subscribe(map[string]any{"arguments": map[string]any{"a": 1, "b": 2}}).ID; got != first.ID {
			t.Errorf("after a restart: id = %s, want %s", got, first.ID)
		}
	})
}

func TestSE74RefreshBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			name     string
			noExpiry bool
			ttl      any
			want     time.Duration // 0: null
		}{
			{"absent", false, missing, time.Hour},
			{"absent, without end granted", true, missing, time.Hour},
			{"given", false, 1_800_000, 30 * time.Minute},
			{"zero", false, 0, time.Minute},
			{"small", false, 5, time.Minute},
			{"large", false, 1e15, 24 * time.Hour},
			{"huge", true, 1e300, 24 * time.Hour},
			{"null refused", false, nil, 24 * time.Hour},
			{"null granted", true, nil, 0},
		} {
			w := newWorld(t, func(w *world) { w.w.NoExpiry = c.noExpiry })
			res := w.subscribe(map[string]any{"ttlMs": c.ttl})
			got := res.RefreshBefore
			wire, err := json.Marshal(res)
			if err != nil || !strings.Contains(string(wire), `"refreshBefore":`) || !strings.Contains(string(wire), `"resultType":"complete"`) {
				t.Errorf("%s: the result is %s, %v, want refreshBefore and resultType in it", c.name, wire, err)
			}
			if c.want == 0 {
				if got != nil {
					t.Errorf("%s: refreshBefore = %s, want null", c.name, *got)
				}
			} else if got == nil {
				t.Errorf("%s: refreshBefore = null, want a time", c.name)
			} else if at, err := time.Parse(time.RFC3339, *got); err != nil || !strings.HasSuffix(*got, "Z") || !at.Equal(time.Now().Add(c.want)) {
				t.Errorf("%s: refreshBefore = %s, %v, want in %v", c.name, *got, err, c.want)
			}
			w.end()
		}
	})
}

func TestSubscriptionExpires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.PerSubscription = 1 })
		first := w.subscribe(map[string]any{"ttlMs": 60_000})
		w.add("e1")
		after(59 * time.Second)
		w.add("e2")
		after(2 * time.Second)
		w.add("e3")
		after(time.Minute)
		if got := eventIDs(w.e.all("")); got != "e1 e2" {
			t.Errorf("delivered %q, want e1 e2", got)
		}
		if rec, _ := w.store.Load(t.Context(), first.ID); rec.Version != 0 {
			t.Errorf("the record is still there")
		}
		if rec, _ := w.store.Load(t.Context(), accountKey("ann")); rec.Version != 0 {
			t.Errorf("the account is still there")
		}
		// The client comes back with its cursor: that is where it goes on.
		w.e.clear()
		res := w.subscribe(map[string]any{"cursor": string(first.Cursor)})
		settle()
		if got := eventIDs(w.e.all("")); got != "e1 e2 e3" || res.Truncated || res.Cursor != first.Cursor {
			t.Errorf("delivered %q, cursor %q, truncated %v, want all three from %q", got, res.Cursor, res.Truncated, first.Cursor)
		}
	})
}

func TestSE82UnsubscribeByKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		res := w.subscribe(nil)
		w.add("e1")
		settle()
		_, err := w.s.webhooks.unsubscribe(as("bob"), ask(nil))
		refused(t, "another principal", err, NotFound, "kind", "subscription")
		_, err = w.s.webhooks.unsubscribe(as("ann"), ask(map[string]any{"arguments": map[string]any{"a": 1}}))
		refused(t, "other arguments", err, NotFound, "kind", "subscription")
		_, err = w.s.webhooks.unsubscribe(as("ann"), ask(map[string]any{"name": res.ID}))
		refused(t, "by id", err, NotFound, "kind", "subscription")
		_, err = w.s.webhooks.unsubscribe(as("ann"), ask(map[string]any{"url": missing}))
		refused(t, "without url", err, InvalidParams, "path", "/delivery/url")
		if got, err := w.s.webhooks.unsubscribe(as("ann"), ask(map[string]any{"secret": missing, "mode": missing})); err != nil || got.ResultType != complete {
			t.Errorf("unsubscribe = %v, %v, want an empty result", got, err)
		}
		w.add("e2")
		after(time.Hour)
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("delivered %q, want e1 alone", got)
		}
		if n := len(w.e.all("terminated")); n != 0 {
			t.Errorf("%d terminated envelopes after unsubscribe, want none", n)
		}
		_, err = w.s.webhooks.unsubscribe(as("ann"), ask(nil))
		refused(t, "again", err, NotFound, "kind", "subscription")
	})
}

func TestQuotaOfSubscriptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.MaxPerPrincipal = 2 })
		n := func(i int) map[string]any { return map[string]any{"arguments": map[string]any{"n": i}} }
		w.subscribe(n(1))
		w.subscribe(n(2))
		before := len(w.e.all("*"))
		_, err := w.s.webhooks.subscribe(as("ann"), ask(map[string]any{"arguments": map[string]any{"n": 3}, "url": "https://other.example.net/"}))
		refused(t, "the third", err, ResourceExhausted, "limit", "subscriptions")
		if got := len(w.e.all("*")); got != before {
			t.Errorf("a refused subscribe made %d requests, want none", got-before)
		}
		w.subscribe(n(2)) // a refresh
		if _, err := w.s.webhooks.subscribe(as("bob"), ask(n(3))); err != nil {
			t.Errorf("another principal: %v, want none", err)
		}
		if _, err := w.s.webhooks.unsubscribe(as("ann"), ask(n(1))); err != nil {
			t.Fatal(err)
		}
		w.subscribe(n(3))
		// What a crash between two writes leaves behind does not count for ever.
		id := w.subscribe(n(2)).ID
		rec, err := w.store.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := w.store.Write(t.Context(), []SubscriptionWrite{{Key: id, Expect: rec.Version}}); err != nil || v[0] == 0 {
			t.Fatal(v, err)
		}
		w.subscribe(n(4))
	})
}

func TestSecretsAreNotLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.w.Attempts = 1
			w.c.Types[0].Check = func(context.Context, Subscription) error { return nil }
		})
		w.e.set(func(post) (int, http.Header, error) { return 0, nil, errors.New("dial " + testURL + " " + testSecret) })
		w.subscribe(map[string]any{"arguments": map[string]any{"token": "hush"}})
		w.add("e1")
		after(time.Minute)
		w.s.Withdraw("tick")
		after(time.Minute)
		w.end()
		for _, secret := range []string{"AAECAwQFBgcI", "relay.example.net", "hush", `"n":1`} {
			if strings.Contains(w.out.String(), secret) {
				t.Errorf("the log has %q:\n%s", secret, w.out.String())
			}
		}
		if !strings.Contains(w.out.String(), "given up") {
			t.Errorf("nothing was logged of an event that was given up:\n%s", w.out.String())
		}
	})
}
