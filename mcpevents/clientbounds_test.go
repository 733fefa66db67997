package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// listening grants subscriptions/listen, answers polls with an hour to wait, and
// plays a script beside the n-th listen.
func listening(polls *atomic.Int64, script func(p *fakePipe, m message, n int64)) func(p *fakePipe, m message) {
	var listens atomic.Int64
	return func(p *fakePipe, m message) {
		switch m.Method {
		case "subscriptions/listen":
			n := listens.Add(1)
			p.wg.Go(func() { script(p, m, n) })
		case "events/poll":
			polls.Add(1)
			p.result(m, `{"events":[],"cursor":"c","nextPollMs":3600000}`)
		}
	}
}

const granted = `"notifications":{"eventsListChanged":true}`

func TestChangesOfTheCatalogueDoNotSetThePace(t *testing.T) {
	for name, note := range map[string]func(p *fakePipe, m message){
		"listened for": func(p *fakePipe, m message) { p.note(m, "events/list_changed", ``) },
		"stray": func(p *fakePipe, _ message) {
			p.write(`{"jsonrpc":"2.0","method":"notifications/events/list_changed"}`)
		},
	} {
		bubble(t, func(t *testing.T) {
			var polls atomic.Int64
			f := &fakeServer{capabilities: announces, list: listOf(pollType), serve: listening(&polls, func(p *fakePipe, m message, _ int64) {
				p.note(m, "subscriptions/acknowledged", granted)
				for range 1000 {
					time.Sleep(10 * time.Millisecond)
					note(p, m)
				}
			})}
			p, s := f.connect(t, SessionConfig{})
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			_, _ = collect(s.Follow(ctx, tick, FollowConfig{}), -1)
			if n := polls.Load(); n != 1 {
				t.Errorf("%s: %d polls in 30 s, want 1, since the server said an hour", name, n)
			}
			if n := len(p.messages("events/list")); n < 2 || n > 14 {
				t.Errorf("%s: %d lists for 10 s of changes, want about one a second", name, n)
			}
		})
	}
}

func TestListenIsOpenedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var polls atomic.Int64
		f := &fakeServer{capabilities: announces, list: listOf(pollType), serve: listening(&polls, func(p *fakePipe, m message, _ int64) {
			p.note(m, "subscriptions/acknowledged", granted)
			time.Sleep(10 * time.Second)
			p.result(m, `{"resultType":"complete"}`)
		})}
		p, s := f.connect(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		_, _ = collect(s.Follow(ctx, tick, FollowConfig{}), -1)
		if n := len(p.messages("subscriptions/listen")); n != 3 {
			t.Errorf("%d listens in three minutes, want one after each that the server closed", n)
		}
	})
}

func TestAChangeBeforeTheAcknowledgement(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var polls atomic.Int64
		var pushes atomic.Bool
		f := &fakeServer{capabilities: announces, list: func(m message) string {
			if pushes.Load() {
				return listOf(bothType)(m)
			}
			return listOf(pollType)(m)
		}, serve: listening(&polls, func(p *fakePipe, m message, _ int64) {
			time.Sleep(time.Second)
			pushes.Store(true) // nobody listens yet
			time.Sleep(time.Second)
			p.note(m, "subscriptions/acknowledged", granted)
		})}
		p, s := f.connect(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		_, _ = collect(s.Follow(ctx, tick, FollowConfig{}), -1)
		if len(p.messages("events/stream")) == 0 {
			t.Error("a type that can be pushed is polled")
		}
	})
}

func TestADeadCatalogueIsWaitedForOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{serve: func(*fakePipe, message) {}}).connect(t, SessionConfig{})
		start := time.Now()
		gone, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = s.describe(gone, "tick", false) }) // it leaves those who wait to themselves
		synctest.Wait()
		for range 20 {
			wg.Go(func() {
				if _, _, err := s.describe(t.Context(), "tick", false); !errors.Is(err, ErrTimeout) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d, n := time.Since(start), len(p.messages("events/list")); d != time.Minute+time.Second || n != 2 {
			t.Errorf("twenty had their error after %v and %d lists, want a minute for all", d, n)
		}
	})
}

func TestAPollThatIsTooLargeIsAskedForInHalves(t *testing.T) {
	data := strings.Repeat("x", 10<<10)
	for kind, answer := range map[string]func(w http.ResponseWriter, m message, result string){
		"JSON":   answerJSON,
		"frames": func(w http.ResponseWriter, m message, result string) { openSSE(w, m).result(result) },
	} {
		var asked []int
		f := &fakeWeb{list: listOf(pollType), serve: func(w http.ResponseWriter, _ *http.Request, m message) {
			n, _ := m.param("maxEvents").(float64)
			asked = append(asked, int(n))
			events := make([]string, int(n))
			for i := range events {
				events[i] = fmt.Sprintf(`{"eventId":"e%d-%d","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{"x":%q}}`, len(asked), i, data)
			}
			answer(w, m, fmt.Sprintf(`{"events":[%s],"cursor":"c%d","hasMore":%v}`, strings.Join(events, ","), len(asked), len(asked) < 4))
		}}
		s := f.start(t, SessionConfig{MaxMessageBytes: 300 << 10})
		c := Client{Dial: dialOnce(s)}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		var trouble []error
		got, err := collect(c.Follow(ctx, tick, FollowConfig{Cursor: "c0", PollFloor: time.Millisecond, PollInterval: time.Millisecond, OnTrouble: func(err error) { trouble = append(trouble, err) }}), 2)
		if len(got) != 2 || err != nil || fmt.Sprint(asked) != "[100 50 25 25]" || len(trouble) != 2 || !errors.Is(trouble[0], ErrTooLarge) {
			t.Errorf("%s: %d batches, %v, asked for %v, trouble %v", kind, len(got), err, asked, trouble)
		}
		stop()
	}
}

// On a pipe nobody can tell whose answer a line is that is too long to be read.
func TestALineThatIsTooLongIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		_, s := (&fakeServer{list: listOf(pollType), serve: func(p *fakePipe, m message) {
			n, _ := m.param("maxEvents").(float64)
			p.result(m, fmt.Sprintf(`{"events":[%s],"cursor":"c1","x":%q}`, polled("e1"), strings.Repeat("x", int(n)<<10)))
		}}).connect(t, SessionConfig{MaxMessageBytes: 60 << 10})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
		if d := time.Since(start); idsOf(got) != "e1" || err != nil || d != time.Second {
			t.Errorf("%v, %v after %v, want e1 after the one pause of a second", got, err, d)
		}
	})
}

func TestWhatAServerSendsIsCounted(t *testing.T) {
	long := strings.Repeat("x", 4<<20)
	n := 0
	_, s := (&fakeServer{list: func(message) string {
		n++
		return fmt.Sprintf(`{"events":[],"nextCursor":"%d%s"}`, n, long)
	}}).connect(t, SessionConfig{})
	var err error
	for _, err = range s.List(t.Context()) {
	}
	if !errors.Is(err, ErrTooLarge) || n > 5 {
		t.Errorf("%v after %d pages with cursors of 4 MiB, want ErrTooLarge", err, n)
	}
	text := func(members string) json.RawMessage {
		return json.RawMessage(`{"eventId":"e","name":"tick","data":{},` + members + `}`)
	}
	if o := parseOccurrence(text(`"timestamp":"`+long+`"`), "tick", 1<<20); o.drop != DropMalformed {
		t.Errorf("a timestamp of 4 MiB: %q", o.drop)
	}
	if o := parseOccurrence(text(`"timestamp":"2026-11-03T09:15:02Z","_meta":{"a":[`+strings.Repeat("0,", 10_000)+`0]}`), "tick", 1<<20); o.drop != "" || o.event.Meta != nil {
		t.Errorf("_meta of 20 KB: %q, kept %v", o.drop, o.event.Meta != nil)
	}
}

func TestABatchOfAStreamIsBoundedByAllItsBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		meta := `,"x":"` + strings.Repeat("x", 1<<20) + `"`
		_, s := (&fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			for i := range 10 {
				p.note(m, "events/event", event(fmt.Sprint("e", i), fmt.Sprint("c", i+1))+meta)
			}
		})}).connect(t, SessionConfig{})
		for b, err := range s.Follow(t.Context(), tick, FollowConfig{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Events) > 4 {
				t.Errorf("%d events of 1 MiB each, want 4", len(b.Events))
			}
			if len(b.Events) > 0 {
				break
			}
			time.Sleep(time.Second) // so that all wait
		}
	})
}

func TestInvalidParamsOfAnotherParameterLeaveTheCursor(t *testing.T) {
	for path, given := range map[string]bool{"/arguments/min": false, "/cursor": true, "cursor": true, "params.cursor": true, "": true} {
		bubble(t, func(t *testing.T) {
			data, err := json.Marshal(map[string]string{"path": path})
			if err != nil {
				t.Fatal(err)
			}
			p, s := (&fakeServer{list: listOf(pollType), serve: pollOf(
				`error{"code":-32602,"message":"InvalidParams","data":`+string(data)+`}`,
				`{"events":[],"cursor":"later"}`)}).connect(t, SessionConfig{})
			got, err := collect(s.Follow(t.Context(), tick, FollowConfig{Cursor: "kept"}), 1)
			if n := len(p.messages("events/poll")); given != (err == nil && n == 2 && len(got) == 1 && got[0].Truncated) || !given && !errors.Is(err, ErrInvalidParams) {
				t.Errorf("%q: %+v, %v after %d polls, want the cursor given up = %v", path, got, err, n, given)
			}
		})
	}
}
