package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// active and quiet are peers that open a stream, and say nothing more.
func active(cursor string) func(p *fakePipe, m message) {
	return func(p *fakePipe, m message) { p.note(m, "events/active", `"truncated":false,"cursor":`+cursor) }
}

func TestCE6NoModeThatIsListedCanBeUsed(t *testing.T) {
	for _, one := range []struct {
		types string
		mode  Mode
	}{
		{`{"name":"tick","delivery":["webhook"]}`, ""},
		{`{"name":"tick","delivery":[]}`, ""},
		{`{"name":"tick"}`, ""},
		{`{"name":"tick","delivery":["carrier pigeon"]}`, ""},
		{`{"name":"tick","delivery":"push"}`, ""},
		{`{"name":"tock","delivery":["push","poll"]}`, ""},
		{pollType, Push},
		{pushType, Poll},
		{bothType, Webhook},
		{bothType, "other"},
	} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{list: listOf(one.types)}).connect(t, SessionConfig{})
			_, err := collect(s.Follow(t.Context(), tick, FollowConfig{Mode: one.mode}), 1)
			if !errors.Is(err, ErrNoMode) || !Permanent(err) {
				t.Errorf("%s, mode %q: %v, want ErrNoMode", one.types, one.mode, err)
			}
			for _, m := range p.all() {
				if m.Method != "events/list" && m.Method != "server/discover" {
					t.Errorf("%s: the client sent %s", one.types, m.Method)
				}
			}
		})
	}
}

func TestCE7AutoPrefersPushAndAForcedModeStays(t *testing.T) {
	serve := func(p *fakePipe, m message) {
		switch m.Method {
		case "events/stream":
			p.note(m, "events/event", event("pushed", "c1"))
		case "events/poll":
			p.result(m, `{"events":[`+polled("polled")+`],"cursor":"c1"}`)
		}
	}
	for _, one := range []struct {
		types string
		mode  Mode
		want  string
	}{
		{bothType, "", "pushed"}, {bothType, Push, "pushed"}, {bothType, Poll, "polled"},
		{pushType, "", "pushed"}, {pollType, "", "polled"},
		{`{"name":"tick","delivery":["poll","other","push"]}`, "", "pushed"},
	} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{list: listOf(one.types), serve: serve}).connect(t, SessionConfig{})
			got, err := collect(s.Follow(t.Context(), tick, FollowConfig{Mode: one.mode}), 1)
			if idsOf(got) != one.want {
				t.Errorf("%s, mode %q: %q (%v), want %q", one.types, one.mode, idsOf(got), err, one.want)
			}
		})
	}
	bubble(t, func(t *testing.T) { // not even where the server refuses it
		_, s := (&fakeServer{list: listOf(bothType), serve: func(p *fakePipe, m message) {
			p.refuse(m, `{"code":-32026,"message":"Unsupported","data":{"feature":"deliveryMode","value":"push"}}`)
		}}).connect(t, SessionConfig{})
		if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{Mode: Push}), 1); !errors.Is(err, ErrUnsupported) {
			t.Errorf("a forced mode that is refused: %v, want ErrUnsupported", err)
		}
	})
}

func TestCE8ARefusedStreamIsPolledFromTheSameCursor(t *testing.T) {
	for _, refusal := range []string{
		`{"code":-32026,"message":"Unsupported","data":{"feature":"deliveryMode","value":"push"}}`,
		`{"code":-32026,"message":"Unsupported"}`,
		`{"code":-32014,"message":"Unsupported"}`,
		`{"code":-32601,"message":"method not found"}`, // OP-17
	} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{list: listOf(bothType), serve: func(p *fakePipe, m message) {
				if m.Method == "events/stream" {
					p.refuse(m, refusal)
					return
				}
				p.result(m, `{"events":[`+polled("e1")+`],"cursor":"c8"}`)
			}}).connect(t, SessionConfig{})
			sub := Subscription{Name: "tick", Arguments: json.RawMessage(`{"b":1, "a":[]}`)}
			got, err := collect(s.Follow(t.Context(), sub, FollowConfig{Cursor: "c7"}), 1)
			if idsOf(got) != "e1" || err != nil {
				t.Fatalf("%s: %v, %v", refusal, got, err)
			}
			for _, m := range append(p.messages("events/stream"), p.messages("events/poll")...) {
				if m.param("cursor") != "c7" || string(m.Params["arguments"]) != `{"a":[],"b":1}` {
					t.Errorf("%s: %s with %s %s", refusal, m.Method, m.Params["cursor"], m.Params["arguments"])
				}
			}
			// The session remembers it.
			if _, err := collect(s.Follow(t.Context(), sub, FollowConfig{}), 1); err != nil || len(p.messages("events/stream")) != 1 {
				t.Errorf("%s: a second follower opened a stream again, %v", refusal, err)
			}
		})
	}
}

func TestCE8OtherRefusalsAreNoReasonToPoll(t *testing.T) {
	for _, refusal := range []string{
		`{"code":-32026,"message":"Unsupported","data":{"feature":"something"}}`,
		`{"code":-32014,"message":"whatever"}`,
		`{"code":-32024,"message":"Forbidden"}`,
	} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{list: listOf(bothType), serve: func(p *fakePipe, m message) { p.refuse(m, refusal) }}).connect(t, SessionConfig{})
			_, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
			if _, ok := errors.AsType[*Error](err); !ok || len(p.messages("events/poll")) != 0 {
				t.Errorf("%s: %v, %d polls", refusal, err, len(p.messages("events/poll")))
			}
		})
	}
}

const schemaHasChanged = `{"code":-32026,"message":"Unsupported","data":{"feature":"payloadSchema","reason":"schema_changed"}}`

func TestCE9AChangedSchemaIsLookedUpAndSubscribedToAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(bothType), serve: streamOf(
			func(p *fakePipe, m message) { p.refuse(m, schemaHasChanged) },
			func(p *fakePipe, m message) { p.note(m, "events/event", event("e1", "c1")) },
		)}).connect(t, SessionConfig{})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
		if idsOf(got) != "e1" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		if lists, polls := len(p.messages("events/list")), len(p.messages("events/poll")); lists != 2 || polls != 0 {
			t.Errorf("%d lists and %d polls, want 2 and 0", lists, polls)
		}
	})
	bubble(t, func(t *testing.T) { // a server that always says so gets no storm
		p, s := (&fakeServer{list: listOf(bothType), serve: streamOf(func(p *fakePipe, m message) { p.refuse(m, schemaHasChanged) })}).connect(t, SessionConfig{})
		_, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
		if !errors.Is(err, ErrUnsupported) || len(p.messages("events/stream")) != 2 {
			t.Errorf("%v after %d streams, want ErrUnsupported after 2", err, len(p.messages("events/stream")))
		}
	})
}

func TestCE11TheFirstSubscribeHasANullCursor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(bothType), serve: func(p *fakePipe, m message) {
			switch m.Method {
			case "events/stream": // none of these has a cursor
				p.note(m, "events/active", ``)
				p.note(m, "events/event", `"eventId":"e1","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{}`)
				p.note(m, "events/heartbeat", ``)
				p.note(m, "events/event", `"eventId":"e2","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{}`)
			case "events/poll":
				p.result(m, `{"events":[`+polled("e1")+`]}`)
			}
		}}).connect(t, SessionConfig{})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{MaxEvents: 1}), 3)
		if idsOf(got) != "e1 e2" || err != nil || len(got[0].Events) != 0 || got[0].Cursor != "" || got[1].Cursor != "" || got[2].Cursor != "" {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := s.Poll(t.Context(), tick, PollQuery{}); err != nil {
			t.Error(err)
		}
		for _, m := range append(p.messages("events/stream"), p.messages("events/poll")...) {
			if c := string(m.Params["cursor"]); c != "null" && c != "" {
				t.Errorf("%s: cursor %s, want null", m.Method, c)
			}
			if m.Params["maxAgeMs"] != nil {
				t.Errorf("%s: maxAgeMs without a cursor", m.Method)
			}
		}
	})
}

func TestCE12ANullCursorStoresNothingAndStaysNull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":null`)
			p.note(m, "events/event", `"eventId":"e1","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{},"cursor":null`)
			p.note(m, "events/heartbeat", `"cursor":null`)
			p.result(m, `{}`)
		})}).connect(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		c := Client{Dial: dialOnce(s)}
		got, err := collect(c.Follow(ctx, tick, FollowConfig{Cursor: "old"}), 9)
		if idsOf(got) != "e1" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", got, err)
		}
		for _, b := range got {
			if b.Cursor != "" {
				t.Errorf("cursor %q, want none", b.Cursor)
			}
		}
		if n := len(p.messages("events/stream")); n != 3 {
			t.Fatalf("%d streams, want 3", n)
		}
		for i, m := range p.messages("events/stream") {
			if want := []string{`"old"`, `null`, `null`}[i]; string(m.Params["cursor"]) != want {
				t.Errorf("stream %d: cursor %s, want %s", i, m.Params["cursor"], want)
			}
		}
	})
}

func TestOP7PollsOfATypeWithoutCursorsAreGivenUp(t *testing.T) {
	for _, result := range []string{`{"events":[]}`, `{"events":[],"cursor":null,"hasMore":true}`} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{list: listOf(pollType), serve: pollOf(result)}).connect(t, SessionConfig{})
			if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); !errors.Is(err, ErrNoReplay) || !Permanent(err) {
				t.Errorf("%s: %v, want ErrNoReplay", result, err)
			}
		})
	}
}

func TestOP11ARefusedCursorIsGivenUpWithAGap(t *testing.T) {
	for _, types := range []string{pushType, pollType} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{list: listOf(types), serve: func(p *fakePipe, m message) {
				switch {
				case string(m.Params["cursor"]) != "null":
					p.refuse(m, `{"code":-32602,"message":"what a cursor"}`)
				case m.Method == "events/stream":
					p.note(m, "events/active", `"cursor":"new"`)
				default:
					p.result(m, `{"events":[],"cursor":"new"}`)
				}
			}}).connect(t, SessionConfig{})
			got, err := collect(s.Follow(t.Context(), tick, FollowConfig{Cursor: "old"}), 1)
			if err != nil || len(got) != 1 || !got[0].Truncated || got[0].Cursor != "new" {
				t.Errorf("%s: %v, %v, want a gap and the cursor new", types, got, err)
			}
			if n := len(p.messages("events/stream")) + len(p.messages("events/poll")); n != 2 {
				t.Errorf("%s: %d requests, want 2", types, n)
			}
		})
		bubble(t, func(t *testing.T) { // and once
			p, s := (&fakeServer{list: listOf(types), serve: func(p *fakePipe, m message) {
				p.refuse(m, `{"code":-32602,"message":"what arguments"}`)
			}}).connect(t, SessionConfig{})
			_, err := collect(s.Follow(t.Context(), tick, FollowConfig{Cursor: "old"}), 1)
			if n := len(p.messages("events/stream")) + len(p.messages("events/poll")); !errors.Is(err, ErrInvalidParams) || n != 2 {
				t.Errorf("%s: %v after %d requests, want ErrInvalidParams after 2", types, err, n)
			}
		})
	}
}

func TestCE14CursorsAreOpaque(t *testing.T) {
	odd := []string{" ", "0", "null", `"`, `\`, "a\nb\x00\x7f", "<&>\u2028", "é\U0001f600", strings.Repeat("x", 60<<10)}
	for _, cursor := range odd {
		bubble(t, func(t *testing.T) {
			quoted, _ := json.Marshal(cursor)
			p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(active(string(quoted)))}).connect(t, SessionConfig{})
			got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
			if err != nil || string(got[0].Cursor) != cursor {
				t.Fatalf("%.20q: %v", cursor, err)
			}
			if _, err = collect(s.Follow(t.Context(), tick, FollowConfig{Cursor: got[0].Cursor, Idle: time.Second}), 1); !errors.Is(err, ErrIdle) {
				t.Errorf("%.20q: %v", cursor, err)
			}
			if sent := p.messages("events/stream")[1].param("cursor"); sent != any(cursor) {
				t.Errorf("cursor %.20q came back as %.20q", cursor, sent)
			}
		})
	}
}

func TestCE23EachSubscriptionPollsForItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(pollType, `{"name":"tock","delivery":["poll"]}`), serve: func(p *fakePipe, m message) {
			name := fmt.Sprint(m.param("name"))
			p.result(m, `{"events":[{"eventId":"e1","name":"`+name+`","timestamp":"2026-11-03T09:15:02Z","data":{}}],"cursor":"`+name+`"}`)
		}}).connect(t, SessionConfig{})
		for _, name := range []string{"tick", "tock"} {
			got, err := collect(s.Follow(t.Context(), Subscription{Name: name}, FollowConfig{}), 1)
			if err != nil || got[0].Cursor != Cursor(name) || got[0].Events[0].Name != name {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		for _, m := range p.messages("events/poll") {
			if m.Params["subscriptions"] != nil || m.Params["name"] == nil {
				t.Errorf("poll with %v", m.Params)
			}
		}
	})
}
