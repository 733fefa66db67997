package mcpevents

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestSE15SubscribeTakesAnAbsentCursorForNull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, cursor := range []any{nil, missing} {
			w := newWorld(t, nil)
			w.add("e0")
			head, err := w.log.Head(t.Context(), Subscription{})
			if err != nil {
				t.Fatal(err)
			}
			res := w.subscribe(map[string]any{"cursor": cursor})
			w.add("e1")
			settle()
			if got := eventIDs(w.e.all("")); res.Cursor != head || res.Truncated || got != "e1" {
				t.Errorf("cursor %v: result %+v, delivered %q, want cursor %s and e1", cursor, res, got, head)
			}
			w.end()
		}
	})
}

func TestSE31AWebhookHasTheSameID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		odd := "ticket/47.a é" // no id on the wire, so it is replaced, always alike
		var all []string
		for range 2 { // the second time after a restart that lost everything
			w := newWorld(t, nil)
			at := w.subscribe(nil).Cursor
			w.add(odd)
			settle()
			res, err := connectTo(t, w.s).Poll(t.Context(), tick, PollQuery{Cursor: at})
			if err != nil || len(res.Events) != 1 {
				t.Fatalf("poll: %+v, %v", res, err)
			}
			all = append(all, eventIDs(w.e.all("")), res.Events[0].ID)
			w.end()
		}
		if all[0] != all[1] || all[0] != all[2] || all[0] != all[3] || !regexp.MustCompile(`^[A-Za-z0-9_:-]{1,128}$`).MatchString(all[0]) {
			t.Errorf("ids = %q by webhook and poll, twice, want one", all)
		}
	})
}

func TestOP45WebhooksAreListedWhereSomebodyCanBeKnown(t *testing.T) {
	typ := rawType(rawLog(LogConfig{}))
	typ.Modes = []Mode{Webhook, Poll}
	only := rawType(typ.Backend)
	only.Name, only.Modes = "hooked", []Mode{Webhook}
	s, m := rawServer(t, ServerConfig{Principal: whoOf, Webhooks: &WebhookConfig{Store: NewMemorySubscriptions()}}, typ, only)
	h := rawListen(t, s, m, HandlerConfig{})
	subscribe := `"name":"alert","delivery":{"mode":"webhook","url":"` + testURL + `","secret":"` + testSecret + `"},`
	for name, one := range map[string]struct {
		call rawCaller
		want string
	}{
		"pipe of nobody":   {rawDial(t, t.Context(), s, m).call, "alert [poll]"},
		"pipe of somebody": {rawDial(t, rawAs(t, "ada"), s, m).call, "alert [webhook poll] hooked [webhook]"},
		"http": {func(id any, method, params string) rawMessage {
			return rawPost(t, h.URL, rawCall(id, method, params)).answer()
		}, "alert [webhook poll] hooked [webhook]"},
	} {
		var got []string
		for _, d := range rawList(t, one.call(1, methodList, "")).Events {
			got = append(got, fmt.Sprint(d.Name, " ", d.Delivery))
		}
		if text := strings.Join(got, " "); text != one.want {
			t.Errorf("%s: list = %s, want %s", name, text, one.want)
		}
		if name != "pipe of somebody" {
			wantError(t, one.call(2, methodSubscribe, subscribe), -32024, "")
		}
	}
}
