package mcpevents

import (
	"errors"
	"testing"
)

const allTypes = `{"name":"tick","delivery":["poll","push","webhook"]}`

func TestCE7ARefusedWebhookFallsBack(t *testing.T) {
	for _, refusal := range []string{
		`{"code":-32026,"message":"Unsupported","data":{"feature":"deliveryMode","value":"webhook"}}`,
		`{"code":-32026,"message":"Unsupported"}`,
		`{"code":-32014,"message":"Unsupported"}`,
		`{"code":-32601,"message":"method not found"}`,
	} {
		for _, push := range []bool{true, false} {
			bubble(t, func(t *testing.T) {
				p, s := (&fakeServer{list: listOf(allTypes), serve: func(p *fakePipe, m message) {
					switch {
					case m.Method == "events/stream" && push:
						p.note(m, "events/event", event("e1", "c8"))
					case m.Method == "events/poll":
						p.result(m, `{"events":[`+polled("e1")+`],"cursor":"c8"}`)
					case m.ID != nil:
						p.refuse(m, refusal)
					}
				}}).connect(t, SessionConfig{})
				r := newReceiver(t, ReceiverConfig{})
				for round := range 2 {
					got, err := collect(s.Follow(t.Context(), tick, FollowConfig{Receiver: r, Cursor: "c7"}), 1)
					if idsOf(got) != "e1" || err != nil {
						t.Fatalf("%s, push %v, round %d: %v, %v", refusal, push, round, got, err)
					}
				}
				hooks, streams, polls := p.messages("events/subscribe"), p.messages("events/stream"), p.messages("events/poll")
				if len(hooks) != 1 { // the session remembers it
					t.Errorf("%s: %d subscribes, want 1", refusal, len(hooks))
				}
				if push && (len(streams) != 2 || len(polls) != 0) || !push && (len(streams) != 1 || len(polls) != 2) {
					t.Errorf("%s, push %v: %d streams, %d polls", refusal, push, len(streams), len(polls))
				}
				for _, m := range append(append(hooks, streams...), polls...) {
					if m.param("cursor") != "c7" {
						t.Errorf("%s: %s from cursor %v, want c7", refusal, m.Method, m.param("cursor"))
					}
				}
				if n := len(boxes(r)); n != 0 {
					t.Errorf("%s: the receiver still has %d subscriptions", refusal, n)
				}
			})
		}
	}
}

func TestCE7OtherRefusalsOfAWebhookEndIt(t *testing.T) {
	unsupported := `{"code":-32026,"message":"Unsupported","data":{"feature":"deliveryMode","value":"webhook"}}`
	for _, one := range []struct {
		types, refusal string
		mode           Mode
		want           error
	}{
		{allTypes, `{"code":-32024,"message":"Forbidden"}`, "", ErrForbidden},
		{allTypes, `{"code":-32025,"message":"ResourceExhausted","data":{"limit":"subscriptions"}}`, "", ErrResourceExhausted},
		{allTypes, `{"code":-32027,"message":"CallbackEndpointError","data":{"reason":"challenge_failed"}}`, "", ErrCallbackEndpoint},
		{allTypes, unsupported, Webhook, ErrUnsupported}, // a forced mode stays
		{`{"name":"tick","delivery":["webhook"]}`, unsupported, "", ErrUnsupported},
	} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{list: listOf(one.types), serve: func(p *fakePipe, m message) {
				if m.ID != nil {
					p.refuse(m, one.refusal)
				}
			}}).connect(t, SessionConfig{})
			_, err := collect(s.Follow(t.Context(), tick, FollowConfig{Mode: one.mode, Receiver: newReceiver(t, ReceiverConfig{})}), 1)
			if n := len(p.messages("events/stream")) + len(p.messages("events/poll")); !errors.Is(err, one.want) || n != 0 {
				t.Errorf("%s, mode %q: %v and %d streams and polls, want %v and none", one.refusal, one.mode, err, n, one.want)
			}
		})
	}
}
