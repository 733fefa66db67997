package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestWhatWasSeenIsKeptWithItsBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
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
	for active, want := range map[string]any{`"truncated":false`: "kept", `"cursor":""`: "kept", `"cursor":null`: nil, `"cursor":"c"`: "c"} {
		bubble(t, func(t *testing.T) {
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

func TestAnEmptyCursorLosesNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{list: listOf(pollType), serve: pollOf(`{"events":[`+polled("e6")+`],"cursor":""}`,
			`{"events":[`+polled("e6")+`,`+polled("e7")+`],"cursor":"7"}`)}).connect(t, SessionConfig{})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{Cursor: "5"}), 2)
		if idsOf(got) != "e6 e7" || err != nil || got[0].Cursor != "5" || got[1].Cursor != "7" || p.messages("events/poll")[1].param("cursor") != "5" {
			t.Errorf("%v, %v, the second poll from %s", got, err, p.messages("events/poll")[1].Params["cursor"])
		}
	})
}

// A stream of a type without cursors has nothing to go on from, so that who keeps
// to it hears of each beginning.
func TestAStreamThatBeginsFromNowSaysSo(t *testing.T) {
	for active, begins := range map[string]int{`"cursor":null`: 3, ``: 3, `"cursor":"c0"`: 1} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
				p.note(m, "events/active", active)
				p.note(m, "events/heartbeat", active)
				p.result(m, `{}`)
			})}).connect(t, SessionConfig{})
			c := Client{Dial: dialOnce(s)}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			got, err := collect(c.Follow(ctx, tick, FollowConfig{}), -1)
			if len(got) != begins || idsOf(got) != "" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %d batches of three streams, %v, want %d", active, len(got), err, begins)
			}
		})
	}
}

func TestASlashMayBeEscaped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeServer{capabilities: announces, serve: func(p *fakePipe, m message) {
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications\/subscriptions\/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol\/subscriptionId":%s}}}`, m.ID))
		}}
		_, s := f.connect(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		for _, err := range s.Listen(ctx) {
			t.Errorf("%v, want an end at once: it is not granted", err)
		}
	})
}

func TestAnEmptyCursorIsNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
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
	bubble(t, func(t *testing.T) {
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
	bubble(t, func(t *testing.T) {
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
	bubble(t, func(t *testing.T) {
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
	bubble(t, func(t *testing.T) {
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

// A consumer that is as slow as the server is fast always has something before it.
func TestTheEndOfAContextIsNotWaitedFor(t *testing.T) {
	for name, follow := range map[string]func(ctx context.Context, s *Session) (int, error){
		"Follow": func(ctx context.Context, s *Session) (n int, end error) {
			for _, err := range s.Follow(ctx, tick, FollowConfig{MaxEvents: 1}) {
				time.Sleep(time.Millisecond)
				end = err
				n++
			}
			return n, end
		},
		"Stream": func(ctx context.Context, s *Session) (n int, end error) {
			for _, err := range s.Stream(ctx, tick, StreamQuery{}) {
				time.Sleep(time.Millisecond)
				end = err
				n++
			}
			return n, end
		},
	} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
				p.note(m, "events/active", `"cursor":"c0"`)
				for i := range 5000 {
					if i > 100 { // so many always wait
						time.Sleep(time.Millisecond)
					}
					p.note(m, "events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i+1)))
				}
			})}).connect(t, SessionConfig{})
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			start := time.Now()
			n, err := follow(ctx, s)
			if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d > 1100*time.Millisecond || n < 500 {
				t.Errorf("%s ends with %v after %v and %d steps, want the context's end after a second", name, err, d, n)
			}
		})
	}
}
