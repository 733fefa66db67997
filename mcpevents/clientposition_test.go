package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatWasSeenIsKeptWithItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			p.note(m, "events/event", event("e1", "c1"))
		})}).connect(t, SessionConfig{})
		seen := NewSeen(0, 0)
		for b, err := range s.Follow(t.Context(), tick, FollowConfig{Seen: seen}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Events) > 0 {
				break // it is not taken
			}
		}
		if seen.Has("e1") {
			t.Error("an event that was not taken is held for taken")
		}
		var kept []byte
		for b, err := range s.Follow(t.Context(), tick, FollowConfig{Seen: seen}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Events) > 0 {
				if kept, err = json.Marshal(seen); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		again := NewSeen(0, 0)
		if err := json.Unmarshal(kept, again); err != nil || !again.Has("e1") {
			t.Errorf("%v: what was seen, kept with a batch, lacks it", err)
		}
	})
}

func TestAnActiveWithoutACursorIsNoNews(t *testing.T) {
	for active, want := range map[string]any{`"truncated":false`: "kept", `"cursor":null`: nil, `"cursor":"c"`: "c"} {
		synctest.Test(t, func(t *testing.T) {
			p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
				p.note(m, "events/active", active)
				p.result(m, `{}`)
			})}).connect(t, SessionConfig{})
			c := Client{Dial: dialOnce(s)}
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			defer stop()
			_, _ = collect(c.Follow(ctx, tick, FollowConfig{Cursor: "kept"}), -1)
			asked := p.messages("events/stream")
			if len(asked) < 2 || asked[1].param("cursor") != want {
				t.Errorf("%s: %d streams, the second from %s, want %v", active, len(asked), asked[len(asked)-1].Params["cursor"], want)
			}
		})
	}
}

func TestAnEmptyCursorIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := (&fakeServer{list: listOf(pollType), serve: pollOf(`{"events":[],"cursor":"","nextPollMs":1000}`,
			`{"events":[`+polled("e1")+`],"cursor":"1","nextPollMs":1000}`)}).connect(t, SessionConfig{})
		var trouble []error
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{OnTrouble: func(err error) { trouble = append(trouble, err) }}), 1)
		if idsOf(got) != "e1" || err != nil || len(trouble) != 1 || !errors.Is(trouble[0], ErrProtocol) {
			t.Errorf("%v, %v, trouble %v", got, err, trouble)
		}
	})
}

func TestTheTimeOfALookIsNotTheStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		f := &fakeServer{capabilities: announces, serve: func(p *fakePipe, m message) {
			switch m.Method {
			case "events/list":
				slow := lists > 0
				lists++
				p.wg.Go(func() {
					if slow {
						time.Sleep(50 * time.Second)
					}
					p.result(m, `{"events":[`+pushType+`],"ttlMs":600000}`)
				})
			case "subscriptions/listen":
				p.note(m, "subscriptions/acknowledged", granted)
				p.wg.Go(func() {
					time.Sleep(29 * time.Second)
					p.note(m, "events/list_changed", ``)
				})
			case "events/stream":
				p.note(m, "events/active", `"cursor":"c0"`)
				p.wg.Go(func() {
					for i := range 10 {
						time.Sleep(15 * time.Second)
						p.note(m, "events/heartbeat", fmt.Sprintf(`"cursor":"h%d"`, i))
					}
				})
			}
		}}
		_, s := f.connect(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), 140*time.Second)
		defer stop()
		if _, err := collect(s.Follow(ctx, tick, FollowConfig{}), -1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v although a heartbeat came every 15 s", err)
		}
	})
}

func TestAnUnknownNoteDoesNotHideLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			for i := range 20 {
				time.Sleep(15 * time.Second)
				p.note(m, "events/progress", ``)
				p.note(m, "events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i)))
			}
		})}).connect(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Second)
		defer stop()
		slow := func(error) { time.Sleep(10 * time.Millisecond) } // so that the event waits
		if _, err := collect(s.Follow(ctx, tick, FollowConfig{OnTrouble: slow}), -1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v although an event came every 15 s", err)
		}
	})
}

func TestABacklogThatOverflowsGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 20_000
		p, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			from := 0
			if c, ok := m.param("cursor").(string); ok {
				_, _ = fmt.Sscanf(c, "c%d", &from)
			}
			p.note(m, "events/active", fmt.Sprintf(`"cursor":"c%d"`, from))
			for i := from; i < min(total, from+3000); i++ {
				p.note(m, "events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i+1)))
			}
		})}).connect(t, SessionConfig{})
		c := Client{Dial: dialOnce(s)}
		start, n := time.Now(), 0
		for b, err := range c.Follow(t.Context(), tick, FollowConfig{Cursor: "c0"}) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			if n += len(b.Events); n >= total {
				break
			}
		}
		if d := time.Since(start); d > 2*time.Minute {
			t.Errorf("%d events take %v over %d streams", n, d, len(p.messages("events/stream")))
		}
	})
}

func TestADialThatPanicsLeavesTheOthersTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := (&fakeServer{list: listOf(pollType), serve: pollOf(`{"events":[` + polled("e1") + `],"cursor":"c1"}`)}).connect(t, SessionConfig{})
		n := 0
		c := Client{Dial: func(context.Context) (*Session, error) {
			if n++; n == 1 {
				panic("dial")
			}
			return s, nil
		}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is hidden")
				}
			}()
			_, _ = collect(c.Follow(t.Context(), tick, FollowConfig{}), 1)
		}()
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if got, err := collect(c.Follow(ctx, tick, FollowConfig{}), 1); idsOf(got) != "e1" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}
