package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCE39LeavingCancelsTheStreamOnThePipe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var strays []string
		f := &fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			for i := range 5 { // also after it was cancelled
				p.note(m, "events/event", event(fmt.Sprint("e", i), "c1"))
				time.Sleep(time.Second)
			}
			p.result(m, `{"resultType":"complete"}`)
		})}
		p, s := f.connect(t, SessionConfig{OnStray: func(m string) { strays = append(strays, m) }})
		for range s.Stream(t.Context(), tick, StreamQuery{}) {
			break
		}
		time.Sleep(time.Minute)
		streams, cancels := p.messages("events/stream"), p.messages("notifications/cancelled")
		if len(streams) != 1 || len(cancels) != 1 || string(cancels[0].Params["requestId"]) != string(streams[0].ID) {
			t.Errorf("cancelled %v, want the id %s once", cancels, streams[0].ID)
		}
		if len(strays) != 0 || s.Err() != nil {
			t.Errorf("late messages: strays %v, session %v", strays, s.Err())
		}
	})
}

func TestCE39AStreamThatEndedIsNotCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: streamOf(func(p *fakePipe, m message) { p.result(m, `{}`) })}
		p, s := f.connect(t, SessionConfig{})
		for n, err := range s.Stream(t.Context(), tick, StreamQuery{}) {
			t.Errorf("%v, %v", n, err)
		}
		synctest.Wait()
		if n := len(p.messages("notifications/cancelled")); n != 0 {
			t.Errorf("%d cancellations, want 0", n)
		}
	})
}

func TestCE36AndCE37HowAStreamEnds(t *testing.T) {
	for _, one := range []struct {
		name   string
		script func(p *fakePipe, m message)
		want   error
	}{
		{"result", func(p *fakePipe, m message) { p.result(m, `{"resultType":"complete"}`) }, ErrEnded},
		{"older result", func(p *fakePipe, m message) { p.result(m, `{"_meta":{}}`) }, ErrEnded},
		{"empty result", func(p *fakePipe, m message) { p.result(m, `{}`) }, ErrEnded},
		{"null", func(p *fakePipe, m message) { p.result(m, `null`) }, ErrEnded},
		{"no result", func(p *fakePipe, m message) {}, ErrIdle},
		{"error", func(p *fakePipe, m message) { p.refuse(m, `{"code":-32603,"message":"x"}`) }, &Error{Kind: Internal}},
	} {
		bubble(t, func(t *testing.T) {
			_, got, err := followScripts(t, FollowConfig{}, 9, func(p *fakePipe, m message) {
				p.note(m, "events/active", `"cursor":"c0"`)
				p.note(m, "events/event", event("e1", "c1"))
				one.script(p, m)
			})
			if idsOf(got) != "e1" || !errors.Is(err, one.want) || Permanent(err) {
				t.Errorf("%s: %v, %v, want e1 and %v", one.name, got, err, one.want)
			}
		})
	}
}

func TestCE40WhatIsNotUnderstoodIsPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var dropped []error
		deep := strings.Repeat("[", 900) + strings.Repeat("]", 900)
		_, got, err := followScripts(t, FollowConfig{OnTrouble: func(err error) { dropped = append(dropped, err) }}, 3, func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0","more":[{"x":null}]`)
			p.note(m, "events/later", `"cursor":"x"`)
			p.note(m, "events/heartbeat", `"cursor":7`)
			p.note(m, "events/heartbeat", `"cursor":{}`)
			p.note(m, "events/active", `"cursor":"x","truncated":"yes"`)
			p.note(m, "events/error", `"error":"text"`)
			p.note(m, "events/error", ``)
			p.note(m, "progress", `"progressToken":1,"progress":1`)
			for _, line := range []string{"", "   ", "a debug line", `{"a":`, "[]", "{}", "null", `"x"`, "7", `{"jsonrpc":"1.0","method":"x"}`, "\x00\xff", deep, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`} {
				p.write(line)
			}
			p.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `7,"result":{}}`)
			p.write(`{"jsonrpc":"2.0","id":99,"result":{}}`)
			p.note(m, "events/event", event("e1", "c1")+`,"unknown":`+deep[450:1350])
			time.Sleep(time.Second)
			p.note(m, "events/event", event("e2", "c2"))
		})
		if idsOf(got) != "e1 e2" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		unknown, strays := 0, 0
		for _, err := range dropped {
			if d, ok := errors.AsType[*DroppedError](err); ok && d.Reason == DropUnknown {
				unknown++
			} else if _, ok := errors.AsType[*StrayError](err); ok {
				strays++
			} else {
				t.Errorf("trouble %v", err)
			}
		}
		if unknown != 7 || strays != 12 {
			t.Errorf("%d unknown and %d strays, want 7 and 12", unknown, strays)
		}
	})
}

// What is none of the extension's goes to the SDK, which would end the session at
// some of it, and the process at a notification without params.
func TestCE40WhatIsLeftToTheSDKHarmsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, got, err := followScripts(t, FollowConfig{}, 3, func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			for _, method := range []string{"progress", "message", "tools/list_changed", "cancelled", "resources/updated", "elicitation/complete", "subscriptions/acknowledged", "initialized", "x"} {
				p.write(`{"jsonrpc":"2.0","method":"notifications/` + method + `"}`)
				for _, params := range []string{`[]`, `"x"`, `7`, `null`, `{}`, `{"progressToken":{},"requestId":{},"level":7,"uri":7,"_meta":7}`} {
					p.write(`{"jsonrpc":"2.0","method":"notifications/` + method + `","params":` + params + `}`)
				}
			}
			for _, line := range []string{
				`{"jsonrpc":"2.0","id":"x","method":"ping"}`, `{"jsonrpc":"2.0","id":"x","method":"ping"}`, `{"jsonrpc":"2.0","id":7,"method":"roots/list","params":[]}`,
				`{"jsonrpc":"2.0","id":8,"method":"sampling/createMessage","params":7}`, `{"jsonrpc":"2.0","id":9,"method":"elicitation/create"}`, `{"jsonrpc":"2.0","id":10,"method":"nobody"}`,
				`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":"x"}}`,
				`{"jsonrpc":"2.0","id":{},"method":"x"}`, `{"jsonrpc":"2.0","id":3}`, `{"jsonrpc":"2.0","method":""}`,
				`{"jsonrpc":"2.0","method":"x"}{"jsonrpc":"2.0","method":"y"}`, `{"jsonrpc":"2.0","method":"x"}}`, `[{"jsonrpc":"2.0","method":"notifications/x"}]`,
			} {
				p.write(line)
			}
			p.note(m, "events/event", event("e1", "c1"))
			time.Sleep(time.Second)
			p.note(m, "events/event", event("e2", "c2"))
		})
		if idsOf(got) != "e1 e2" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestCE45TheSizeOfAnEventIsLimited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		big := func(id, cursor string, n int) string {
			return strings.Replace(event(id, cursor), `{"n":1}`, `{"n":"`+strings.Repeat("x", n)+`"}`, 1)
		}
		_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			p.note(m, "events/event", big("e1", "c1", 1<<20-8)) // a mebibyte
			p.note(m, "events/event", big("e2", "c2", 1<<20-7))
			p.note(m, "events/event", big("e3", "c3", 10<<20)) // more than a message may have here
			p.note(m, "events/event", strings.Replace(event("e4", "c4"), `{"n":1}`, strings.Repeat(`{"a":`, 65)+`1`+strings.Repeat(`}`, 65), 1))
			p.note(m, "events/event", event("e5", "c5"))
		})}).connect(t, SessionConfig{MaxMessageBytes: 2 << 20})
		var trouble []error
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{MaxEvents: 1, OnTrouble: func(err error) { trouble = append(trouble, err) }}), 5)
		dropped := 0
		for _, b := range got {
			dropped += b.Dropped
		}
		if last := got[len(got)-1]; idsOf(got) != "e1 e5" || err != nil || last.Cursor != "c5" || dropped != 3 {
			t.Errorf("%s, %v, cursor %s, %d dropped", idsOf(got), err, last.Cursor, dropped)
		}
		var drops []string
		for _, err := range trouble {
			if d, ok := errors.AsType[*DroppedError](err); ok {
				drops = append(drops, string(d.Reason)+" "+d.ID)
			}
		}
		slices.Sort(drops) // a line that is not read overtakes those that are
		if want := []string{"oversize e2", "oversize e4", "unread "}; !slices.Equal(drops, want) || len(trouble) != 3 {
			t.Errorf("trouble %v, dropped %q, want %q", trouble, drops, want)
		}
	})
}

var badEvents = []struct {
	params string
	want   Drop
}{
	{`"name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{}`, DropMalformed},
	{`"eventId":"","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{}`, DropMalformed},
	{`"eventId":7,"name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{}`, DropMalformed},
	{`"eventId":"` + strings.Repeat("x", 5000) + `","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{}`, DropMalformed},
	{`"eventId":"e","timestamp":"2026-11-03T09:15:02Z","data":{}`, DropMalformed},
	{`"eventId":"e","name":"tick","data":{}`, DropMalformed},
	{`"eventId":"e","name":"tick","timestamp":"","data":{}`, DropMalformed},
	{`"eventId":"e","name":"tick","timestamp":1793697305,"data":{}`, DropMalformed},
	{`"eventId":"e","name":"tick","timestamp":"2026-11-03T09:15:02Z"`, DropMalformed},
	{`"eventId":"e","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":null`, DropMalformed},
	{`"eventId":"e","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":[{}]`, DropMalformed},
	{`"eventId":"e","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":"{}"`, DropMalformed},
	{`"eventId":"e","name":"tock","timestamp":"2026-11-03T09:15:02Z","data":{}`, DropForeign},
	{`"eventId":"e","name":"Tick","timestamp":"2026-11-03T09:15:02Z","data":{}`, DropForeign},
}

func TestCE49AndCE50BadEventsAreCountedAndTheCursorMoves(t *testing.T) {
	for i, one := range badEvents {
		bubble(t, func(t *testing.T) {
			var trouble []error
			_, got, err := followScripts(t, FollowConfig{OnTrouble: func(err error) { trouble = append(trouble, err) }}, 2, func(p *fakePipe, m message) {
				p.note(m, "events/active", `"cursor":"c0"`)
				p.note(m, "events/event", one.params+`,"cursor":"c1"`)
			})
			if err != nil || len(got) != 2 || got[1].Cursor != "c1" || got[1].Dropped != 1 || len(got[1].Events) != 0 {
				t.Fatalf("%d: %v, %v", i, got, err)
			}
			if d, ok := errors.AsType[*DroppedError](trouble[0]); !ok || d.Reason != one.want || strings.Contains(d.Error(), "e ") {
				t.Errorf("%d: trouble %v, want %s", i, trouble, one.want)
			}
		})
		bubble(t, func(t *testing.T) { // the same in a poll
			_, s := (&fakeServer{list: listOf(pollType), serve: pollOf(`{"events":[{` + one.params + `},7,` + polled("good") + `],"cursor":"c1"}`)}).connect(t, SessionConfig{})
			got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
			if idsOf(got) != "good" || got[0].Dropped != 2 || got[0].Cursor != "c1" || err != nil {
				t.Errorf("%d: %v, %v", i, got, err)
			}
		})
	}
}

func TestOP27TimestampsAreReadLeniently(t *testing.T) {
	want := time.Date(2026, 11, 3, 9, 15, 2, 0, time.UTC)
	for _, text := range []string{
		"2026-11-03T09:15:02Z", "2026-11-03T09:15:02.000000000Z", "2026-11-03T10:15:02+01:00", "2026-11-03T10:15:02+0100",
		"2026-11-03t09:15:02z", "2026-11-03 09:15:02Z", "2026-11-03T09:15:02",
		"2026-11-03 10:15:02.000+01", "2026-11-03T10:15:02,0+01", "2026-11-03 09:15:02", "20261103T091502Z", "20261103T101502+0100",
	} {
		if got := parseTime(text); !got.Equal(want) {
			t.Errorf("parseTime(%q) = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"yesterday", "1793697305", "", " ", "2026-11-03 T09:15:02Z", strings.Repeat("2", 100), "2026-13-03T09:15:02Z"} {
		if got := parseTime(text); !got.IsZero() {
			t.Errorf("parseTime(%q) = %v, want zero", text, got)
		}
	}
	o := parseOccurrence(json.RawMessage(`{"eventId":"e","name":"tick","timestamp":"one day","data":{},"_meta":{"io.modelcontextprotocol/subscriptionId":"x","k":1}}`), "tick", 100)
	if o.drop != "" || o.event.Timestamp != "one day" || !o.event.At.IsZero() || len(o.event.Meta) != 1 {
		t.Errorf("%+v", o)
	}
}

func TestAFloodEndsTheStreamAndLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const flood = 500
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			from := 0
			if c, ok := m.param("cursor").(string); ok {
				fmt.Sscanf(c, "c%d", &from)
			}
			p.note(m, "events/active", fmt.Sprintf(`"cursor":"c%d"`, from))
			for i := from + 1; i <= flood; i++ {
				p.note(m, "events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i)))
			}
		})}).connect(t, SessionConfig{})
		c := Client{Dial: dialOnce(s)}
		var troubles, taken int
		for b, err := range c.Follow(t.Context(), tick, FollowConfig{MaxBuffered: 120, OnTrouble: func(err error) {
			if !errors.Is(err, ErrOverflow) {
				t.Errorf("trouble %v, want ErrOverflow", err)
			}
			troubles++
		}}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range b.Events {
				if taken++; v.ID != fmt.Sprint("e", taken) {
					t.Fatalf("event %s, want e%d", v.ID, taken)
				}
			}
			if len(b.Events) > 100 {
				t.Errorf("a batch of %d", len(b.Events))
			}
			if taken == flood {
				break
			}
			time.Sleep(time.Second) // a slow store
		}
		if troubles == 0 {
			t.Error("no overflow: the test shows nothing")
		}
		if n := len(p.messages("notifications/cancelled")); n < troubles {
			t.Errorf("%d overflows, %d cancellations", troubles, n)
		}
	})
}

func TestWaitingEventsAreOneBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			for i := range 10 {
				p.note(m, "events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i)))
			}
			p.note(m, "events/heartbeat", `"cursor":"c10"`)
			p.note(m, "events/active", `"cursor":"c20","truncated":true`)
			p.note(m, "events/event", event("e21", "c21"))
			p.note(m, "events/terminated", `"error":{"code":-32024,"message":"Forbidden"}`)
		})}).connect(t, SessionConfig{})
		var story []string
		for b, err := range s.Follow(t.Context(), tick, FollowConfig{MaxEvents: 6}) {
			synctest.Wait() // the store is slow enough for all to wait
			story = append(story, fmt.Sprintf("%d %s %v", len(b.Events), b.Cursor, b.Truncated))
			if err != nil {
				if !errors.Is(err, ErrForbidden) {
					t.Error(err)
				}
				break
			}
		}
		if got, want := strings.Join(story, ", "), "0 c0 false, 6 c5 false, 4 c10 false, 0 c20 true, 1 c21 false, 0  false"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		_ = p
	})
}
