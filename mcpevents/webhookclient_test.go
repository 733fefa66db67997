package mcpevents

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSubscribeIsOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answers := []string{
			`{"resultType":"complete","id":"sub_1","refreshBefore":"2026-11-03T10:15:00Z","cursor":"b:1","truncated":true}`,
			`{"id":"sub_1","refreshBefore":null,"cursor":null,"truncated":true,"deliveryStatus":{"active":false,"lastDeliveryAt":"2026-11-03T09:31:10Z","lastError":"http_5xx","failedSince":"2026-11-03T09:33:02Z","throttled":true,"retryAfterMs":1500}}`,
			`{"id":"sub_1","deliveryStatus":{"active":true,"lastDeliveryAt":null,"lastError":null}}`,
			`{"refreshBefore":null}`, `{"id":"x","refreshBefore":"soon"}`, `{"id":"x","cursor":{}}`, `{"id":7}`,
		}
		p, s := (&fakeServer{serve: func(p *fakePipe, m message) {
			p.result(m, answers[len(p.messages("events/subscribe"))-1])
		}}).connect(t, SessionConfig{})
		secret := NewSecret()
		sub := Subscription{Name: "tick", Arguments: json.RawMessage(`{"b":2,"a":1}`)}
		g, err := s.Subscribe(t.Context(), sub, WebhookTarget{URL: "https://h.test/x", Secret: secret, TTL: time.Hour})
		if err != nil || g.ID != "sub_1" || g.Cursor != "b:1" || !g.Truncated || g.Status != nil || !g.Refresh.Equal(time.Date(2026, 11, 3, 10, 15, 0, 0, time.UTC)) {
			t.Errorf("%+v, %v", g, err)
		}
		g, err = s.Subscribe(t.Context(), sub, WebhookTarget{URL: "https://h.test/x", Secret: secret, Cursor: "b:1", MaxAge: time.Minute, TTL: -1})
		if err != nil || !g.Refresh.IsZero() || g.Truncated || g.Status == nil || g.Status.Active || g.Status.LastError != "http_5xx" || g.Status.RetryAfter != 1500*time.Millisecond || g.Status.LastAt.IsZero() || g.Status.FailedSince.IsZero() {
			t.Errorf("%+v, %v", g, err)
		}
		if g, err = s.Subscribe(t.Context(), sub, WebhookTarget{URL: "https://h.test/x", Secret: secret}); err != nil || !g.Status.Active || !g.Status.LastAt.IsZero() {
			t.Errorf("%+v, %v", g, err)
		}
		for range 4 {
			if _, err := s.Subscribe(t.Context(), sub, WebhookTarget{URL: "https://h.test/x", Secret: secret}); !errors.Is(err, ErrProtocol) {
				t.Errorf("%v, want ErrProtocol", err)
			}
		}
		if _, err := s.Subscribe(t.Context(), sub, WebhookTarget{URL: "https://h.test/x"}); err == nil || !strings.Contains(err.Error(), "Secret") {
			t.Errorf("without a secret: %v", err)
		}
		sent := p.messages("events/subscribe")
		want := `{"mode":"webhook","url":"https://h.test/x","secret":"` + secret.Reveal() + `"}`
		for i, w := range []struct{ cursor, age, ttl string }{{"null", "", "3600000"}, {`"b:1"`, "60000", "null"}, {"null", "", ""}} {
			m := sent[i].Params
			if string(m["delivery"]) != want || string(m["cursor"]) != w.cursor || string(m["maxAgeMs"]) != w.age || string(m["ttlMs"]) != w.ttl || string(m["arguments"]) != `{"a":1,"b":2}` {
				t.Errorf("request %d: %s", i, m)
			}
		}
	})
}

func TestCE62UnsubscribedAlreadyIsDone(t *testing.T) {
	for _, one := range []struct {
		answer string
		want   error
	}{
		{`{"code":-32023,"message":"NotFound","data":{"kind":"subscription"}}`, nil},
		{`{"code":-32023,"message":"NotFound"}`, nil},
		{`{"code":-32011,"message":"NotFound"}`, nil},
		{`{"code":-32023,"message":"NotFound","data":{"kind":"event"}}`, nil},
		{`{"code":-32024,"message":"Forbidden"}`, ErrForbidden},
	} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{serve: func(p *fakePipe, m message) { p.refuse(m, one.answer) }}).connect(t, SessionConfig{})
			if err := s.Unsubscribe(t.Context(), tick, "https://h.test/x"); !errors.Is(err, one.want) {
				t.Errorf("%s: %v, want %v", one.answer, err, one.want)
			}
			if m := p.messages("events/unsubscribe")[0].Params; string(m["delivery"]) != `{"url":"https://h.test/x"}` || m["cursor"] != nil || m["id"] != nil {
				t.Errorf("request %s", m)
			}
		})
	}
}
