package mcpevents

import (
	"fmt"
	"testing"
	"time"
)

// A server on a pipe ends a listen with a result, a cancellation, or both. A stream
// is not ended by one.
func TestOP51TheEndOfAListenIsHeard(t *testing.T) {
	torn := func(p *fakePipe, m message) {
		p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, m.ID))
	}
	for name, end := range map[string]func(p *fakePipe, m message){
		"cancelled":                  torn,
		"with its id as metadata":    func(p *fakePipe, m message) { p.note(m, "cancelled", fmt.Sprintf(`"requestId":%s`, m.ID)) },
		"a result, cancelled behind": func(p *fakePipe, m message) { p.result(m, `{"resultType":"complete"}`); torn(p, m) },
	} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{capabilities: announces, list: listOf(pushType), serve: func(p *fakePipe, m message) {
				switch m.Method {
				case "subscriptions/listen":
					p.note(m, "subscriptions/acknowledged", `"notifications":{"eventsListChanged":true}`)
					p.note(m, "events/list_changed", "")
					end(p, m)
				case "events/stream":
					p.note(m, "events/active", `"cursor":"c0","truncated":false`)
					torn(p, m)
					p.note(m, "events/event", event("e1", "c1"))
				}
			}}).connect(t, SessionConfig{})
			changes := 0
			time.AfterFunc(time.Hour, func() { _ = s.Close() })
			for _, err := range s.Listen(t.Context()) {
				if changes++; err != nil {
					t.Fatalf("%s: Listen yields %v", name, err)
				}
			}
			if changes != 1 {
				t.Errorf("%s: %d changes, want 1", name, changes)
			}
			if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 2); err != nil || len(got) != 2 || len(got[1].Events) != 1 {
				t.Errorf("%s: Follow = %v, %v, want the event behind the cancellation", name, got, err)
			}
		})
	}
}
