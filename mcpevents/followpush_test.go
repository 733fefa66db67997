package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// followScripts follows tick on a session with a peer of scripts, and returns what came
// until n batches or the end.
func followScripts(t *testing.T, f FollowConfig, n int, scripts ...func(p *fakePipe, m message)) (*fakePipe, []Batch, error) {
	t.Helper()
	p, s := (&fakeServer{list: listOf(bothType), serve: streamOf(scripts...)}).connect(t, SessionConfig{})
	got, err := collect(s.Follow(t.Context(), tick, f), n)
	return p, got, err
}

func TestCE15WhatIsNotTakenComesAgain(t *testing.T) {
	script := func(p *fakePipe, m message) {
		p.note(m, "events/active", `"cursor":"c0"`)
		p.note(m, "events/event", event("e1", "c1"))
		p.note(m, "events/event", event("e2", "c2"))
	}
	bubble(t, func(t *testing.T) {
		seen := NewSeen(0, 0)
		// The consumer leaves with the batch of e1 in its hands.
		_, got, _ := followScripts(t, FollowConfig{Seen: seen, MaxEvents: 1}, 2, script)
		if idsOf(got) != "e1" || got[0].Cursor != "c0" || got[1].Cursor != "c1" {
			t.Fatalf("%v", got)
		}
		p, got, _ := followScripts(t, FollowConfig{Seen: seen, MaxEvents: 1, Cursor: got[0].Cursor}, 2, script)
		if idsOf(got) != "e1 e2" || p.messages("events/stream")[0].param("cursor") != "c0" {
			t.Errorf("%v, want e1 once more", got)
		}
		if !seen.Has("e1") || seen.Has("e2") {
			t.Errorf("seen: e1 %v, e2 %v, want true, false", seen.Has("e1"), seen.Has("e2"))
		}
	})
}

func TestCE16ADuplicateIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) { // in one stream, across modes, and across restarts
		p, s := (&fakeServer{list: listOf(bothType), serve: func(p *fakePipe, m message) {
			switch m.Method {
			case "events/stream":
				p.note(m, "events/active", `"cursor":"c0"`)
				for _, id := range []string{"e1", "e1", "e2", "e1"} {
					p.note(m, "events/event", event(id, "c-"+id))
				}
				p.note(m, "events/event", event("e2", "c9"))
			case "events/poll":
				p.result(m, `{"events":[`+polled("e2")+`,`+polled("e3")+`,`+polled("e3")+`],"cursor":"c10"}`)
			}
		}}).connect(t, SessionConfig{})
		seen := NewSeen(0, 0)
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{Seen: seen, Idle: time.Second}), 9)
		if idsOf(got) != "e1 e2" || !errors.Is(err, ErrIdle) || got[len(got)-1].Cursor != "c9" {
			t.Errorf("%v, %v", got, err)
		}
		kept, err := json.Marshal(seen)
		if err != nil {
			t.Fatal(err)
		}
		again := NewSeen(0, 0)
		if err := json.Unmarshal(kept, again); err != nil {
			t.Fatal(err)
		}
		got, err = collect(s.Follow(t.Context(), tick, FollowConfig{Mode: Poll, Seen: again, Cursor: "c9"}), 1)
		if idsOf(got) != "e3" || got[0].Cursor != "c10" {
			t.Errorf("%v, %v, want e3 alone", got, err)
		}
		_ = p
	})
}

func TestCE17AGapIsReportedAndTheStreamGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, got, err := followScripts(t, FollowConfig{Cursor: "old"}, 4, func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0","truncated":true`)
			p.note(m, "events/event", event("e1", "c1"))
			p.note(m, "events/active", `"cursor":"c5","truncated":true`)
			p.note(m, "events/event", event("e6", "c6"))
		})
		var story []string
		for _, b := range got {
			story = append(story, fmt.Sprintf("%d %s %v", len(b.Events), b.Cursor, b.Truncated))
		}
		if s := strings.Join(story, ", "); s != "0 c0 true, 1 c1 false, 0 c5 true, 1 c6 false" || err != nil {
			t.Errorf("%s, %v", s, err)
		}
		if n := len(p.messages("events/stream")); n != 1 {
			t.Errorf("%d streams, want 1", n)
		}
	})
}

func TestCE18AGapWithoutACursorIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, got, _ := followScripts(t, FollowConfig{}, 2, func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":null,"truncated":true`)
			p.note(m, "events/event", `"eventId":"e1","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{}`)
		})
		if idsOf(got) != "e1" || got[0].Truncated || got[1].Truncated {
			t.Errorf("%v, want e1 without a gap", got)
		}
		_, s := (&fakeServer{serve: pollOf(`{"events":[],"cursor":null,"truncated":true}`)}).connect(t, SessionConfig{})
		if res, err := s.Poll(t.Context(), tick, PollQuery{Cursor: "c"}); err != nil || res.Truncated {
			t.Errorf("Poll: %v, %v", res, err)
		}
	})
}

func TestOP20EventsBeforeActiveAreTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, got, err := followScripts(t, FollowConfig{MaxEvents: 1}, 3, func(p *fakePipe, m message) {
			p.note(m, "events/event", event("e1", "c1"))
			p.note(m, "events/active", `"cursor":"c0"`)
			p.note(m, "events/event", event("e2", "c2"))
		})
		if idsOf(got) != "e1 e2" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestCE27StreamsOfOnePipeNeverMix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 20
		types := []string{}
		for i := range many {
			types = append(types, fmt.Sprintf(`{"name":"type%d","delivery":["push"]}`, i))
		}
		var mu sync.Mutex
		open := map[string]message{}
		var strays []string
		f := &fakeServer{list: listOf(types...), serve: func(p *fakePipe, m message) {
			if m.Method != "events/stream" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			open[fmt.Sprint(m.param("name"))] = m
			if len(open) < many {
				return
			}
			for n := range 10 { // every stream in turn
				for name, m := range open {
					p.note(m, "events/event", fmt.Sprintf(`"eventId":"%s-%d","name":%q,"timestamp":"2026-11-03T09:15:02Z","data":{},"cursor":"c%d"`, name, n, name, n))
				}
			}
		}}
		_, s := f.connect(t, SessionConfig{OnStray: func(method string) { strays = append(strays, method) }})
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				name := fmt.Sprintf("type%d", i)
				got, err := collect(s.Follow(t.Context(), Subscription{Name: name}, FollowConfig{Idle: time.Second}), 99)
				want := []string{}
				for n := range 10 {
					want = append(want, fmt.Sprintf("%s-%d", name, n))
				}
				if idsOf(got) != strings.Join(want, " ") {
					t.Errorf("%s: %s, %v", name, idsOf(got), err)
				}
			})
		}
		wg.Wait()
		if len(strays) != 0 {
			t.Errorf("strays: %v", strays)
		}
	})
}

func TestCE28OnlyTheIDOfTheRequestCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var strays []string
		f := &fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			for _, id := range []string{`1`, `"1"`, `null`, `true`, `{}`, `[]`, `1.5`, `"ev-999"`, `"ev-0"`, `"ev-x"`, `"EV-1"`, `""`, string(m.ID[:len(m.ID)-1]) + ` "`} {
				p.noteTo(json.RawMessage(id), "events/event", event("stray", "x"))
			}
			p.write(`{"jsonrpc":"2.0","method":"notifications/events/event","params":{` + event("stray", "x") + `}}`)
			p.write(`{"jsonrpc":"2.0","method":"notifications/events/event"}`)
			p.write(`{"jsonrpc":"2.0","method":"notifications/events/event","params":[]}`)
			p.note(m, "events/event", event("e1", "c1"))
		})}
		_, s := f.connect(t, SessionConfig{OnStray: func(m string) { strays = append(strays, m) }})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
		if idsOf(got) != "e1" || err != nil {
			t.Errorf("%v, %v, want e1 alone", got, err)
		}
		if len(strays) != 16 {
			t.Errorf("%d strays, want 16", len(strays))
		}
	})
}

func TestCE29AndCE30ASilentStreamIsIdleAfterAMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		_, got, err := followScripts(t, FollowConfig{}, 9, func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			for range 10 { // far past any timeout of requests
				time.Sleep(59 * time.Second)
				p.note(m, "events/heartbeat", `"cursor":"c0"`)
			}
		})
		if !errors.Is(err, ErrIdle) || Permanent(err) || len(got) != 1 {
			t.Errorf("%v, %v, want ErrIdle", got, err)
		}
		if d := time.Since(start); d != 10*59*time.Second+time.Minute {
			t.Errorf("after %v", d)
		}
	})
	bubble(t, func(t *testing.T) { // and one that never becomes active in 10 s
		start := time.Now()
		_, _, err := followScripts(t, FollowConfig{}, 9, func(p *fakePipe, m message) {})
		if !errors.Is(err, ErrTimeout) || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v, want ErrTimeout after 10s", err, time.Since(start))
		}
	})
	bubble(t, func(t *testing.T) { // the consumer's own time is not the server's
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(active(`"c0"`))}).connect(t, SessionConfig{})
		var err error
		start := time.Now()
		for _, err = range s.Follow(t.Context(), tick, FollowConfig{}) {
			time.Sleep(5 * time.Minute)
		}
		if d := time.Since(start); !errors.Is(err, ErrIdle) || d != 11*time.Minute {
			t.Errorf("%v after %v", err, d)
		}
		synctest.Wait()
		if n := len(p.messages("notifications/cancelled")); n != 1 {
			t.Errorf("%d cancellations, want 1", n)
		}
	})
}

func TestCE31OnlyEventsHeartbeatsAndActiveAreLife(t *testing.T) {
	for note, alive := range map[string]bool{
		"events/error": false, "events/unknown": false, "message": false, "events/list_changed": false,
		"events/active": true, "events/heartbeat": true, "events/event": true,
	} {
		bubble(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
				p.note(m, "events/active", `"cursor":"c0"`)
				for i := range 300 {
					time.Sleep(2 * time.Second)
					p.note(m, note, `"error":{"code":-32603,"message":"x"},`+event(fmt.Sprint("e", i), "c0"))
				}
			})}).connect(t, SessionConfig{})
			start := time.Now()
			_, err := collect(s.Follow(ctx, tick, FollowConfig{}), -1)
			if want := map[bool]error{true: context.DeadlineExceeded, false: ErrIdle}[alive]; !errors.Is(err, want) {
				t.Errorf("%s: %v after %v, want %v", note, err, time.Since(start), want)
			}
		})
	}
}

func TestCE32AHeartbeatMovesTheCursorBehindWhatWasTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			p.note(m, "events/event", event("e1", "c1"))
			p.note(m, "events/heartbeat", `"cursor":"c2"`)
			p.note(m, "events/event", event("e3", "c3"))
			p.note(m, "events/heartbeat", `"cursor":"c4"`)
			p.note(m, "events/heartbeat", `"cursor":"c4"`)
			p.note(m, "events/heartbeat", ``)
		})}).connect(t, SessionConfig{})
		taken := ""
		var cursors []string
		for b, err := range s.Follow(t.Context(), tick, FollowConfig{MaxEvents: 1, Idle: time.Second}) {
			if err != nil {
				if !errors.Is(err, ErrIdle) {
					t.Error(err)
				}
				break
			}
			cursors = append(cursors, string(b.Cursor))
			if b.Cursor >= "c1" && taken == "" && len(b.Events) == 0 {
				t.Errorf("cursor %s before its event", b.Cursor)
			}
			taken += idsOf([]Batch{b})
		}
		if got := strings.Join(cursors, " "); got != "c0 c1 c2 c3 c4" || taken != "e1e3" {
			t.Errorf("cursors %s, events %s", got, taken)
		}
		_ = p
	})
}

func TestCE33AnErrorLeavesTheStreamOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var troubles []error
		_, got, err := followScripts(t, FollowConfig{OnTrouble: func(err error) { troubles = append(troubles, err) }}, 2, func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			p.note(m, "events/error", `"error":{"code":-32603,"message":"InternalError","data":{"reason":"busy"}}`)
			p.note(m, "events/event", event("e1", "c1"))
		})
		if idsOf(got) != "e1" || err != nil || len(troubles) != 1 {
			t.Fatalf("%v, %v, %v", got, err, troubles)
		}
		if f, ok := errors.AsType[*FailureError](troubles[0]); !ok || f.Cause.Kind != Internal || f.Cause.member("reason") != "busy" {
			t.Errorf("trouble %v", troubles[0])
		}
	})
}

func TestCE34TerminatedEndsTheSubscription(t *testing.T) {
	for _, e := range []string{
		`"error":{"code":-32024,"message":"Forbidden","data":{"reason":"grant withdrawn"}}`,
		`"error":{"code":-32012,"message":"Forbidden"}`,
		`"error":{"code":1,"message":"whatever"}`, ``, `"error":"text"`,
	} {
		bubble(t, func(t *testing.T) {
			p, got, err := followScripts(t, FollowConfig{}, 9, func(p *fakePipe, m message) {
				p.note(m, "events/active", `"cursor":"c0"`)
				p.note(m, "events/terminated", e)
				p.note(m, "events/event", event("late", "x"))
			})
			ended, ok := errors.AsType[*TerminatedError](err)
			if !ok || !Permanent(err) || idsOf(got) != "" {
				t.Fatalf("%s: %v, %v", e, got, err)
			}
			if strings.Contains(e, "Forbidden") != errors.Is(err, ErrForbidden) || ended.Cause == nil {
				t.Errorf("%s: %v", e, err)
			}
			time.Sleep(time.Hour)
			if n := len(p.messages("events/stream")); n != 1 {
				t.Errorf("%s: %d streams, want 1", e, n)
			}
		})
	}
}

func TestCE35AfterTerminatedForTheTypeItIsLookedUp(t *testing.T) {
	for _, e := range []string{`{"code":-32023,"message":"NotFound","data":{"kind":"event"}}`, schemaHasChanged} {
		for _, offered := range []bool{true, false} {
			bubble(t, func(t *testing.T) {
				lists := 0
				f := &fakeServer{serve: streamOf(
					func(p *fakePipe, m message) {
						p.note(m, "events/active", `"cursor":"c0"`)
						p.note(m, "events/terminated", `"error":`+e)
					},
					func(p *fakePipe, m message) { p.note(m, "events/event", event("e1", "c1")) },
				), list: func(m message) string {
					if lists++; lists > 1 && !offered {
						return listOf()(m)
					}
					return listOf(pushType)(m)
				}}
				p, s := f.connect(t, SessionConfig{})
				got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 2)
				if lists != 2 {
					t.Errorf("%s, offered %v: %d lists, want 2", e, offered, lists)
				}
				streams := p.messages("events/stream")
				if _, ended := errors.AsType[*TerminatedError](err); offered && (idsOf(got) != "e1" || streams[1].param("cursor") != "c0") || !offered && (!ended || len(streams) != 1) {
					t.Errorf("%s, offered %v: %v, %v, %d streams", e, offered, got, err, len(streams))
				}
			})
		}
	}
}
