package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"
)

// overLog runs a test against one log, over both transports.
func overLog(t *testing.T, c ServerConfig, lc LogConfig, test func(t *testing.T, l *Log, call rawCaller)) {
	var l *Log
	overBoth(t, c, func() []Type {
		l = rawLog(lc)
		return []Type{rawType(l)}
	}, func(t *testing.T, _ *Server, call rawCaller) { test(t, l, call) })
}

func pollAt(t *testing.T, call rawCaller, id any, cursor Cursor, more string) pollResult {
	t.Helper()
	return rawPoll(t, call(id, methodPoll, fmt.Sprintf(`"name":"alert","cursor":%q,%s`, cursor, more)))
}

func TestSE15AbsentCursorIsNull(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		rawAppend(t, l, 0, 3)
		a := rawPoll(t, call(1, methodPoll, `"name":"alert",`))
		b := rawPoll(t, call(2, methodPoll, `"name":"alert","cursor":null,`))
		if a.Cursor != b.Cursor || len(a.Events)+len(b.Events) != 0 || a.Truncated || b.Truncated {
			t.Errorf("absent: %+v, null: %+v, want the same", a, b)
		}
	})
}

func TestSE16NullCursorIsFromNowOn(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		rawAppend(t, l, 0, 3)
		r := rawPoll(t, call(1, methodPoll, `"name":"alert","cursor":null,"maxAgeMs":600000,`))
		if len(r.Events) != 0 || r.Cursor == "" || r.Truncated || r.More {
			t.Errorf("poll = %+v, want no events and a fresh cursor", r)
		}
	})
}

func TestSE17NoHoleAtTheStart(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		first := rawPoll(t, call(1, methodPoll, `"name":"alert",`))
		rawAppend(t, l, 0, 1)
		if r := pollAt(t, call, 2, first.Cursor, ""); ids(r.Events) != "e0" || r.Truncated {
			t.Errorf("next poll = %+v, want e0", r)
		}
	})
}

func TestSE18StrictlyWhatFollows(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call("a", methodPoll, `"name":"alert",`)).Cursor
		var got []string
		for i := range 20 {
			rawAppend(t, l, 3*i, 3*i+i%4)
			r := pollAt(t, call, i, at, `"maxEvents":2,`)
			for _, v := range r.Events {
				got = append(got, v.ID)
			}
			at = r.Cursor
		}
		for i := 0; ; i++ {
			r := pollAt(t, call, 100+i, at, "")
			for _, v := range r.Events {
				got = append(got, v.ID)
			}
			if at = r.Cursor; !r.More {
				break
			}
		}
		var all []string
		for i := range 20 {
			for j := range i % 4 {
				all = append(all, fmt.Sprint("e", 3*i+j))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("polls gave %v, want %v", got, all)
		}
	})
}

func TestSE19AllMembersAreThere(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		for i, params := range []string{`"name":"alert",`, `"name":"alert","cursor":"nonsense",`} {
			m := call(i, methodPoll, params)
			var r map[string]json.RawMessage
			_ = json.Unmarshal(m.Result, &r)
			for _, name := range []string{"events", "cursor", "truncated", "hasMore", "nextPollMs"} {
				if _, ok := r[name]; !ok {
					t.Errorf("%s is missing in %s", name, m.Text)
				}
			}
			if string(r["events"]) != "[]" || string(r["nextPollMs"]) != "5000" {
				t.Errorf("events %s and nextPollMs %s, want [] and 5000", r["events"], r["nextPollMs"])
			}
		}
	})
}

func TestSE20MaxEvents(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call("a", methodPoll, `"name":"alert",`)).Cursor
		rawAppend(t, l, 0, 5)
		r := pollAt(t, call, 1, at, `"maxEvents":2,`)
		if ids(r.Events) != "e0 e1" || !r.More {
			t.Fatalf("poll = %+v, want e0 e1 and more", r)
		}
		if r = pollAt(t, call, 2, r.Cursor, ""); ids(r.Events) != "e2 e3 e4" || r.More {
			t.Errorf("next = %+v, want the other three", r)
		}
		for i, bad := range []string{"0", "-1", "1.5", `"2"`, "true"} {
			wantError(t, call(10+i, methodPoll, `"name":"alert","maxEvents":`+bad+`,`), -32602, "")
			wantError(t, call(20+i, methodPoll, `"name":"alert","maxAgeMs":`+strings.Replace(bad, "0", `"0"`, 1)+`,`), -32602, "")
		}
		rawAppend(t, l, 5, 1500)
		if r = pollAt(t, call, 3, at, ""); len(r.Events) != 100 || !r.More {
			t.Errorf("a poll without a wish = %d events, want 100", len(r.Events))
		}
		if r = pollAt(t, call, 4, at, `"maxEvents":1e12,`); len(r.Events) != 1000 || !r.More {
			t.Errorf("a poll that wishes for too much = %d events, want 1000", len(r.Events))
		}
	})
}

func TestSE20LargeEventsCutTheBatch(t *testing.T) {
	l := rawLog(LogConfig{})
	s, _ := rawServer(t, ServerConfig{}, rawType(l))
	at, _ := l.Head(t.Context(), Subscription{})
	for i := range 10 {
		v := Event{ID: fmt.Sprint("e", i), Data: json.RawMessage(`{"level":1,"text":"` + strings.Repeat("x", 1<<20) + `"}`)}
		if err := l.Append(v); err != nil {
			t.Fatal(err)
		}
	}
	got := 0
	for {
		r, err := s.poll(t.Context(), &pollParams{Name: quote("alert"), Cursor: quote(string(at))})
		if err != nil || len(r.Events) == 0 || len(r.Events) > 4 {
			t.Fatalf("poll = %v and %d events of 1 MiB, want 1 to 4", err, len(r.Events))
		}
		got += len(r.Events)
		if at = r.Cursor; !r.More {
			break
		}
	}
	if got != 10 {
		t.Errorf("polls gave %d events, want 10", got)
	}
}

func TestSE21FilteredEventsMoveTheCursor(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call("a", methodPoll, `"name":"alert","arguments":{"min":7},`)).Cursor
		rawAppend(t, l, 0, 9) // 7 and 8 match
		r := pollAt(t, call, 1, at, `"arguments":{"min":7},"maxEvents":1,`)
		if ids(r.Events) != "e7" || !r.More {
			t.Fatalf("poll = %+v, want e7 and more", r)
		}
		r = pollAt(t, call, 2, r.Cursor, `"arguments":{"min":7},"maxEvents":1,`)
		if ids(r.Events) != "e8" || r.More {
			t.Fatalf("poll = %+v, want e8 and no more", r)
		}
		rawAppend(t, l, 0, 5) // none matches
		next := pollAt(t, call, 3, r.Cursor, `"arguments":{"min":7},`)
		if len(next.Events) != 0 || next.More || next.Cursor == r.Cursor {
			t.Errorf("poll = %+v, want nothing, no more, and a cursor that moved from %s", next, r.Cursor)
		}
	})
}

func TestSE22EmptyPollHasACursor(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call(1, methodPoll, `"name":"alert",`)).Cursor
		for i := range 3 {
			r := pollAt(t, call, 2+i, at, "")
			if len(r.Events) != 0 || r.Cursor == "" || r.Truncated {
				t.Fatalf("poll = %+v, want an empty one with a cursor", r)
			}
			at = r.Cursor
		}
	})
}

func TestSE23PollsKeepNoState(t *testing.T) {
	l := rawLog(LogConfig{})
	var calls []rawCaller
	for range 2 { // two replicas of one log
		s, m := rawServer(t, ServerConfig{}, rawType(l))
		calls = append(calls, rawDial(t, t.Context(), s, m).call)
	}
	at := rawPoll(t, calls[0](1, methodPoll, `"name":"alert",`)).Cursor
	rawAppend(t, l, 0, 4)
	mid := pollAt(t, calls[1], 2, at, `"maxEvents":2,`).Cursor
	for i := range 4 { // either, in any order, and twice
		r := pollAt(t, calls[i%2], 3+i, mid, "")
		if ids(r.Events) != "e2 e3" {
			t.Errorf("poll = %+v, want e2 e3", r)
		}
	}
}

func TestSE24HistoryLost(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{MaxEvents: 3}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call(1, methodPoll, `"name":"alert",`)).Cursor
		rawAppend(t, l, 0, 5)
		r := pollAt(t, call, 2, at, "")
		if ids(r.Events) != "e2 e3 e4" || !r.Truncated || r.Cursor == "" {
			t.Fatalf("poll = %+v, want what is held, and truncated", r)
		}
		if r = pollAt(t, call, 3, r.Cursor, ""); r.Truncated || len(r.Events) != 0 {
			t.Errorf("next = %+v, want nothing and no gap", r)
		}
	})
}

func agedLog(t *testing.T, l *Log) {
	t.Helper()
	for i, age := range []time.Duration{time.Hour, time.Hour, time.Minute} {
		v := rawEvent(fmt.Sprint("e", i), 1+i)
		v.At = time.Now().Add(-age)
		if err := l.Append(v); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSE25MaxAge(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call(1, methodPoll, `"name":"alert",`)).Cursor
		agedLog(t, l)
		r := pollAt(t, call, 2, at, `"maxAgeMs":600000,`)
		if ids(r.Events) != "e2" || !r.Truncated {
			t.Errorf("poll = %+v, want e2 and truncated", r)
		}
		// nothing that matches is left out: no gap
		r = pollAt(t, call, 3, at, `"arguments":{"min":3},"maxAgeMs":600000,`)
		if ids(r.Events) != "e2" || r.Truncated {
			t.Errorf("poll = %+v, want e2 and no gap", r)
		}
		r = pollAt(t, call, 4, at, `"maxAgeMs":9223372036854775807,`)
		if ids(r.Events) != "e0 e1 e2" || r.Truncated {
			t.Errorf("poll = %+v, want all", r)
		}
	})
}

func TestSE26OwnCeiling(t *testing.T) {
	overLog(t, ServerConfig{MaxReplay: 10 * time.Minute}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call(1, methodPoll, `"name":"alert",`)).Cursor
		agedLog(t, l)
		if r := pollAt(t, call, 2, at, ""); ids(r.Events) != "e2" || !r.Truncated {
			t.Errorf("poll = %+v, want e2 and truncated", r)
		}
		if r := pollAt(t, call, 3, at, `"maxAgeMs":86400000,`); ids(r.Events) != "e2" || !r.Truncated {
			t.Errorf("poll = %+v, want e2 and truncated", r)
		}
	})
}

func TestSE27CursorsThatCannotBeServed(t *testing.T) {
	other := rawLog(LogConfig{})
	rawAppend(t, other, 0, 2)
	foreign, _ := other.Head(t.Context(), Subscription{})
	overLog(t, ServerConfig{}, LogConfig{MaxEvents: 2}, func(t *testing.T, l *Log, call rawCaller) {
		rawAppend(t, l, 0, 4)
		head, _ := l.Head(t.Context(), Subscription{})
		for i, c := range []Cursor{"nonsense", foreign, Cursor(l.epoch + ":0"), Cursor(l.epoch + ":-1"), Cursor(l.epoch + ":02"), Cursor(strings.Repeat("x", 4000)), Cursor(strings.Repeat("x", 5000)), " ", "\x00"} {
			r := pollAt(t, call, i, Cursor(strings.ReplaceAll(string(c), "\x00", "")), "")
			if ids(r.Events) != "e2 e3" || !r.Truncated || r.Cursor != head {
				t.Errorf("cursor %.20q: %+v, want what is held, truncated", c, r)
			}
		}
		ahead := Cursor(l.epoch + ":99")
		if r := pollAt(t, call, "h", ahead, ""); len(r.Events) != 0 || !r.Truncated || r.Cursor != head {
			t.Errorf("ahead: %+v, want the head, truncated", r)
		}
		for i, bad := range []string{"5", "true", "{}", "[]"} {
			wantError(t, call(100+i, methodPoll, `"name":"alert","cursor":`+bad+`,`), -32602, "")
		}
	})
}

func TestSE28NoReplayCannotBePolled(t *testing.T) {
	l := rawLog(LogConfig{})
	if _, err := NewServer(ServerConfig{Types: []Type{{Name: "a", Backend: l, NoReplay: true, Modes: []Mode{Poll, Push}}}}); err == nil {
		t.Error("NewServer took a type without replay that lists poll")
	}
	overBoth(t, ServerConfig{}, func() []Type { return []Type{{Name: "alert", Backend: l, NoReplay: true}} }, func(t *testing.T, _ *Server, call rawCaller) {
		if got := fmt.Sprint(rawList(t, call(1, methodList, "")).Events[0].Delivery); got != "[push]" {
			t.Errorf("delivery = %s, want [push]", got)
		}
		wantError(t, call(2, methodPoll, `"name":"alert",`), -32026, "")
	})
}

func TestSE29PollsDoNotWait(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call(1, methodPoll, `"name":"alert",`)).Cursor
		began := time.Now()
		pollAt(t, call, 2, at, `"waitMs":60000,"timeoutMs":60000,"unknown":{"a":[1]},`)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("poll took %v", took)
		}
	})
}

func TestSE30PollsSendNoNotifications(t *testing.T) {
	l := rawLog(LogConfig{})
	s, m := rawServer(t, ServerConfig{}, rawType(l))
	p := rawDial(t, t.Context(), s, m)
	at := rawPoll(t, p.call(1, methodPoll, `"name":"alert",`)).Cursor
	rawAppend(t, l, 0, 3)
	for i := range 3 {
		p.send(rawCall(10+i, methodPoll, fmt.Sprintf(`"name":"alert","cursor":%q,"maxEvents":1,`, at)))
		if got := p.next(); got.Method != "" || got.Result == nil {
			t.Errorf("got %s, want the answer", got.Text)
		}
	}
	p.quiet(50 * time.Millisecond)
}

func TestSE31SameIDOnEveryPath(t *testing.T) {
	odd := "ticket/47.a é" // no id on the wire, so it is replaced, always alike
	read := func() (poll, push string) {
		l := rawLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{}, rawType(l))
		p := rawDial(t, t.Context(), s, m)
		at := rawPoll(t, p.call(1, methodPoll, `"name":"alert",`)).Cursor
		if err := l.Append(Event{ID: odd, Data: json.RawMessage(`{"level":1}`)}); err != nil {
			t.Fatal(err)
		}
		poll = ids(pollAt(t, p.call, 2, at, "").Events)
		p.send(rawCall(3, methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, at)))
		want(t, p, noteActive)
		return poll, want(t, p, noteEvent).Params.ID
	}
	poll, push := read()
	again, _ := read() // after a restart
	if poll != push || poll != again || poll == odd {
		t.Errorf("ids = %q by poll, %q by push, %q after a restart, want one", poll, push, again)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9_:-]{1,128}$`).MatchString(poll) {
		t.Errorf("id %q is not in the alphabet", poll)
	}
}

// A canned backend returns pages as they are.
type canned struct {
	page Page
	err  error
}

func (c canned) Head(context.Context, Subscription) (Cursor, error)      { return "h", c.err }
func (c canned) Read(context.Context, Subscription, Query) (Page, error) { return c.page, c.err }
func (c canned) Wait(ctx context.Context, _ Subscription, _ Cursor) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestSE32DataConforms(t *testing.T) {
	l := rawLog(LogConfig{})
	var logged bytes.Buffer
	s, m := rawServer(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, rawType(l))
	secret := json.RawMessage(`{"level":"secret"}`)
	if err := l.Append(Event{ID: "bad", Data: secret}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Append = %v, want a refusal that quotes nothing", err)
	}
	now := time.Now()
	good := json.RawMessage("{\n \"level\": 9007199254740993 }")
	bad := rawType(canned{page: Page{Cursor: "5", Events: []Event{
		{ID: "1", At: now, Cursor: "1", Data: secret},
		{ID: "2", At: now, Cursor: "2", Data: json.RawMessage(`[1]`)},
		{ID: "3", At: now, Cursor: "3", Name: "other", Data: good},
		{ID: "4", Cursor: "4", Data: good}, // no time
		{ID: "5", At: now, Cursor: "5", Data: good},
	}}})
	bad.Name = "alert2"
	if err := s.Offer(bad); err != nil {
		t.Fatal(err)
	}
	p := rawDial(t, t.Context(), s, m)
	r := rawPoll(t, p.call(1, methodPoll, `"name":"alert2","cursor":"0",`))
	if ids(r.Events) != "5" || r.Cursor != "5" || string(r.Events[0].Data) != `{"level":9007199254740993}` {
		t.Errorf("poll = %+v, want the one that conforms, whole", r)
	}
	if strings.Contains(logged.String(), "secret") || !strings.Contains(logged.String(), "left out") {
		t.Errorf("log = %s, want the refusals without data", logged.String())
	}
}

func TestSE33TimestampsAndIDs(t *testing.T) {
	overLog(t, ServerConfig{}, LogConfig{}, func(t *testing.T, l *Log, call rawCaller) {
		at := rawPoll(t, call(1, methodPoll, `"name":"alert",`)).Cursor
		zone := time.FixedZone("", -7*3600)
		v := rawEvent(strings.Repeat("x", 129), 1)
		v.At = time.Date(2026, 11, 3, 2, 14, 11, 5e8, zone)
		if err := l.Append(v); err != nil {
			t.Fatal(err)
		}
		got := pollAt(t, call, 2, at, "").Events[0]
		if got.Timestamp != "2026-11-03T09:14:11.5Z" {
			t.Errorf("timestamp = %q, want UTC with Z", got.Timestamp)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9_:-]{1,128}$`).MatchString(got.ID) {
			t.Errorf("eventId = %q", got.ID)
		}
		for _, id := range []string{"a", "A-z_0:9", strings.Repeat("x", 128)} {
			if cleanID("n", id) != id {
				t.Errorf("cleanID(%q) = %q, want it unchanged", id, cleanID("n", id))
			}
		}
		if cleanID("n", "a b") == cleanID("m", "a b") || cleanID("n", "a b") == cleanID("n", "a c") {
			t.Error("cleanID makes two into one")
		}
	})
}

func TestPollBackendFails(t *testing.T) {
	for name, b := range map[string]Backend{
		"error":  canned{err: errors.New("disk secret")},
		"cursor": canned{page: Page{}},
		"panic":  panicking{},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, ServerConfig{}, func() []Type { return []Type{rawType(b)} }, func(t *testing.T, _ *Server, call rawCaller) {
				m := call(1, methodPoll, `"name":"alert","cursor":"0",`)
				wantError(t, m, -32603, "")
				if strings.Contains(m.Text, "secret") {
					t.Errorf("answer = %s, want nothing of the backend's text", m.Text)
				}
			})
		})
	}
}

// A panicking backend does.
type panicking struct{}

func (panicking) Head(context.Context, Subscription) (Cursor, error)      { panic("head") }
func (panicking) Read(context.Context, Subscription, Query) (Page, error) { panic("read") }
func (panicking) Wait(context.Context, Subscription, Cursor) error        { panic("wait") }
