package mcpevents

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func names(t *testing.T, s *Session) (string, error) {
	t.Helper()
	var out []string
	for d, err := range s.List(t.Context()) {
		if err != nil {
			return strings.Join(out, " "), err
		}
		out = append(out, d.Name)
	}
	return strings.Join(out, " "), nil
}

func TestCE4TheCatalogueIsReadToItsEnd(t *testing.T) {
	pages := map[any][2]string{nil: {"a", "2"}, "2": {"b", "3"}, "3": {"c", ""}}
	for _, end := range []string{``, `,"nextCursor":""`, `,"nextCursor":null`, `,"nextCursor":"2"`, `,"nextCursor":"3"`} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{list: func(m message) string {
				page := pages[m.param("cursor")]
				next := end
				if page[1] != "" {
					next = `,"nextCursor":"` + page[1] + `"`
				}
				return `{"events":[{"name":"` + page[0] + `","delivery":["poll"]}]` + next + `}`
			}}).connect(t, SessionConfig{})
			got, err := names(t, s)
			if got != "a b c" || err != nil || len(p.messages("events/list")) != 3 {
				t.Errorf("last page with %q: %s, %v, %d requests", end, got, err, len(p.messages("events/list")))
			}
		})
	}
}

func TestCE4ACatalogueWithoutEndIsTooLarge(t *testing.T) {
	for name, events := range map[string]string{"empty pages": ``, "pages": `{"name":"x"}`, "bytes": `{"name":"x","description":"` + strings.Repeat("x", 100_000) + `"}`} {
		bubble(t, func(t *testing.T) {
			n := 0
			_, s := (&fakeServer{list: func(m message) string {
				n++
				return fmt.Sprintf(`{"events":[%s],"nextCursor":"%d"}`, events, n)
			}}).connect(t, SessionConfig{MaxMessageBytes: 1 << 20})
			if _, err := names(t, s); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v after %d pages, want ErrTooLarge", name, err, n)
			}
			if name != "bytes" {
				return
			}
			if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: Follow: %v, want ErrTooLarge", name, err)
			}
		})
	}
	bubble(t, func(t *testing.T) {
		types := strings.Repeat(`{"name":"x"},`, 100)
		_, s := (&fakeServer{list: listOf(types + `{"name":"y"}`)}).connect(t, SessionConfig{MaxTypes: 100})
		if _, err := names(t, s); !errors.Is(err, ErrTooLarge) {
			t.Errorf("101 types: %v, want ErrTooLarge", err)
		}
	})
}

func TestCE5UnknownMembersAndModesAreIgnored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s := (&fakeServer{list: listOf(
			`{"name":"a","delivery":["carrier","push",7,null,"poll","Push"],"title":"T","icons":[{}],"version":{"x":[1]},"_meta":{"k":"v"}}`,
			`{"name":"b","delivery":{},"description":7,"inputSchema":"none","payloadSchema":true,"_meta":[]}`,
			`{"delivery":["poll"]}`, `{"name":""}`, `{"name":7}`, `null`, `7`, `"c"`, `[]`,
		)}).connect(t, SessionConfig{})
		var got []Descriptor
		for d, err := range s.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d)
		}
		if len(got) != 2 || fmt.Sprint(got[0].Delivery) != "[push poll]" || got[0].Meta["k"] != "v" {
			t.Fatalf("%+v", got)
		}
		if b := got[1]; b.Name != "b" || len(b.Delivery) != 0 || b.Description != "" || b.Input != nil || b.Payload != nil {
			t.Errorf("%+v", b)
		}
	})
}

func TestCE43TheCatalogueIsReadAgainWhenItChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var pushes atomic.Bool
		f := &fakeServer{capabilities: announces, list: func(m message) string {
			if pushes.Load() {
				return listOf(bothType)(m)
			}
			return listOf(pollType)(m)
		}, serve: func(p *fakePipe, m message) {
			switch m.Method {
			case "subscriptions/listen":
				p.note(m, "subscriptions/acknowledged", `"notifications":{"eventsListChanged":true}`)
				p.wg.Go(func() {
					time.Sleep(10 * time.Second)
					pushes.Store(true)
					p.note(m, "events/list_changed", ``)
				})
			case "events/poll":
				p.result(m, `{"events":[`+polled("polled")+`],"cursor":"c1","nextPollMs":3600000}`)
			case "events/stream":
				p.note(m, "events/event", event("pushed", "c2"))
			}
		}}
		p, s := f.connect(t, SessionConfig{})
		start := time.Now()
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 2)
		if idsOf(got) != "polled pushed" || err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("%v, %v after %v: a type that can be pushed now is still polled", got, err, time.Since(start))
		}
		if n := len(p.messages("events/list")); n != 2 {
			t.Errorf("%d lists, want 2", n)
		}
		if filter := string(p.messages("subscriptions/listen")[0].Params["notifications"]); filter != `{"eventsListChanged":true}` {
			t.Errorf("listen asked for %s", filter)
		}
	})
}

func TestCE43AStreamStaysWhereTheCatalogueStillHasIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeServer{capabilities: announces, list: listOf(pushType), serve: func(p *fakePipe, m message) {
			switch m.Method {
			case "subscriptions/listen":
				p.note(m, "subscriptions/acknowledged", `"notifications":{"eventsListChanged":true}`)
				p.wg.Go(func() {
					for range 50 { // a flood of changes is looked up once a second
						time.Sleep(100 * time.Millisecond)
						p.note(m, "events/list_changed", ``)
					}
				})
			case "events/stream":
				p.note(m, "events/active", `"cursor":"c0"`)
				p.wg.Go(func() {
					time.Sleep(20 * time.Second)
					p.note(m, "events/event", event("e1", "c1"))
				})
			}
		}}
		p, s := f.connect(t, SessionConfig{})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 2)
		if idsOf(got) != "e1" || err != nil || len(p.messages("events/stream")) != 1 {
			t.Errorf("%v, %v, %d streams", got, err, len(p.messages("events/stream")))
		}
		if n := len(p.messages("events/list")); n < 2 || n > 8 {
			t.Errorf("%d lists, want one a second for 5 s", n)
		}
	})
}

func TestCE44ListenToleratesWhatIsNotGranted(t *testing.T) {
	for name, script := range map[string]func(p *fakePipe, m message){
		"not in the acknowledgement": func(p *fakePipe, m message) {
			p.note(m, "subscriptions/acknowledged", `"notifications":{}`)
		},
		"closed":  func(p *fakePipe, m message) { p.result(m, `{"resultType":"complete"}`) },
		"refused": func(p *fakePipe, m message) { p.refuse(m, `{"code":-32601,"message":"no"}`) },
	} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{capabilities: announces, list: listOf(pollType), serve: func(p *fakePipe, m message) {
				if m.Method == "subscriptions/listen" {
					script(p, m)
					return
				}
				p.result(m, `{"events":[],"cursor":"c1"}`)
			}}).connect(t, SessionConfig{})
			for range 2 {
				if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); err != nil || len(got) != 1 {
					t.Errorf("%s: %v, %v", name, got, err)
				}
			}
			for _, err := range s.Listen(t.Context()) {
				if name != "refused" || !errors.Is(err, ErrMethodNotFound) {
					t.Errorf("%s: Listen yields %v", name, err)
				}
			}
			time.Sleep(time.Hour)
		})
	}
	bubble(t, func(t *testing.T) { // nobody listens where it is not announced
		p, s := (&fakeServer{list: listOf(pollType), serve: pollOf(`{"events":[],"cursor":"c1"}`)}).connect(t, SessionConfig{})
		_, _ = collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
		synctest.Wait()
		if n := len(p.messages("subscriptions/listen")); n != 0 {
			t.Errorf("%d listens, want 0", n)
		}
	})
}

func TestOP17ARefusalIsForgottenWhenTheTypeIsListedAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lists := 0
		p, s := (&fakeServer{list: func(message) string { // nothing of it is good for long
			if lists++; lists > 2 {
				return `{"events":[{"name":"tick","delivery":["push","poll"]}]}`
			}
			return `{"events":[` + bothType + `]}`
		}, serve: func(p *fakePipe, m message) {
			switch m.Method {
			case "events/stream":
				p.refuse(m, `{"code":-32026,"message":"Unsupported"}`)
			case "events/poll":
				p.result(m, `{"events":[`+polled("e1")+`],"cursor":"c1"}`)
			}
		}}).connect(t, SessionConfig{})
		for i, want := range []int{1, 1, 2, 2} { // the third sees it listed otherwise
			_, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
			if n := len(p.messages("events/stream")); err != nil || n != want {
				t.Errorf("follower %d: %d streams, %v, want %d", i, n, err, want)
			}
			time.Sleep(time.Second)
		}
	})
}
