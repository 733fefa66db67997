package mcpevents

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// late appends an event that happened long before.
func late(t *testing.T, l *Log, id string) {
	t.Helper()
	v := rawEvent(id, 1)
	v.At = time.Now().Add(-time.Hour)
	if err := l.Append(v); err != nil {
		t.Fatal(err)
	}
}

// An event that comes to the log past MaxReplay is not replayed, and that is told
// as a gap, once. Who is at the head when it comes gets it: that is no replay.
// Nothing beside it is lost or doubled.
func TestLateEventsPastMaxReplay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{MaxReplay: 10 * time.Minute}, rawType(l))
		p := rawDial(t, t.Context(), s, m)
		open := func(id string, at Cursor, gap bool) {
			t.Helper()
			p.send(rawCall(id, methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, at)))
			if m := want(t, p, noteActive); *m.Params.Truncated != gap {
				t.Errorf("stream %s: %s, want truncated: %v", id, m.Text, gap)
			}
		}
		hear := func(events ...string) (at Cursor) {
			t.Helper()
			for _, id := range events {
				m := want(t, p, noteEvent)
				if m.Params.ID != id {
					t.Fatalf("got %s, want %s", m.Text, id)
				}
				_ = json.Unmarshal(m.Params.Cursor, &at)
			}
			return at
		}
		leave := func(id string) {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, id))
			synctest.Wait()
		}

		start := l.cursor(0)
		open("live", start, false)
		rawAppend(t, l, 0, 1)
		late(t, l, "late1")
		rawAppend(t, l, 1, 2)
		hear("e0", "late1", "e1") // at the head
		leave("live")

		open("back", start, true)
		at := hear("e0", "e1")
		leave("back")
		late(t, l, "late2") // while nobody listens
		open("again", at, true)
		rawAppend(t, l, 2, 3)
		at = hear("e2")
		leave("again")
		open("there", at, false)
		leave("there")

		for i, want := range []struct {
			after  Cursor
			events string
			gap    bool
		}{{start, "e0 e1 e2", true}, {l.cursor(2), "e1 e2", true}, {l.cursor(4), "e2", false}, {at, "", false}} {
			r := pollAt(t, p.call, i, want.after, "")
			if ids(r.Events) != want.events || r.Truncated != want.gap || r.Cursor != at {
				t.Errorf("poll %d = %+v, want %v", i, r, want)
			}
		}
	})
}

// A stream that has not caught up yet is replaying still: what comes late meanwhile
// is a gap, and all else comes once.
func TestLateEventsWhileAStreamCatchesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{MaxReplay: 10 * time.Minute}, rawType(l))
		rawAppend(t, l, 0, 600)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, l.cursor(0))))
		want(t, p, noteActive)
		late(t, l, "late")
		rawAppend(t, l, 600, 700)
		gaps := 0
		for i := 0; i < 700; {
			switch m := p.next(); m.Method {
			case noteActive:
				gaps++
			case noteEvent:
				if m.Params.ID != fmt.Sprint("e", i) {
					t.Fatalf("got %s, want e%d", m.Text, i)
				}
				i++
			}
		}
		if gaps != 1 {
			t.Errorf("%d gaps were told, want the late event's", gaps)
		}
		late(t, l, "live")
		if m := want(t, p, noteEvent); m.Params.ID != "live" {
			t.Errorf("got %s, want what comes late to who is at the head", m.Text)
		}
	})
}
