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

// texts are the ids of a page.
func (p Page) texts() string {
	var s []string
	for _, v := range p.Events {
		s = append(s, v.ID)
	}
	return strings.Join(s, " ")
}

func logRead(t *testing.T, l *Log, q Query) Page {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	p, err := l.Read(t.Context(), Subscription{Arguments: json.RawMessage("{}")}, q)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return p
}

func TestLogBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		count := rawLog(LogConfig{MaxEvents: 3})
		rawAppend(t, count, 0, 10)
		if got := logRead(t, count, Query{After: "x"}).texts(); got != "e7 e8 e9" {
			t.Errorf("by count: %s", got)
		}
		size := rawLog(LogConfig{MaxBytes: 3 * (entryBytes + 20)})
		rawAppend(t, size, 0, 10)
		if got := logRead(t, size, Query{After: "x"}).texts(); got != "e7 e8 e9" {
			t.Errorf("by bytes: %s", got)
		}
		age := rawLog(LogConfig{MaxAge: time.Minute})
		rawAppend(t, age, 0, 2)
		start := logRead(t, age, Query{After: "x"}).Start
		time.Sleep(40 * time.Second)
		rawAppend(t, age, 2, 3)
		time.Sleep(30 * time.Second)
		p := logRead(t, age, Query{After: start})
		if p.texts() != "e2" || !p.Truncated {
			t.Errorf("by age: %+v, want e2 and truncated", p)
		}
		time.Sleep(time.Hour)
		if p = logRead(t, age, Query{After: p.Cursor}); p.Truncated || len(p.Events) != 0 {
			t.Errorf("all aged, nothing missed: %+v", p)
		}
		if p = logRead(t, age, Query{After: start}); !p.Truncated || p.Cursor != p.Start || p.Cursor == "" {
			t.Errorf("all aged: %+v, want truncated at the head", p)
		}
	})
}

func TestLogRefuses(t *testing.T) {
	l := NewLog(LogConfig{MaxEvents: 2, MaxBytes: 1000})
	for name, events := range map[string][]Event{
		"no id":     {{Data: json.RawMessage(`{}`)}},
		"bad id":    {{ID: "\xff", Data: json.RawMessage(`{}`)}},
		"too many":  {{ID: "1"}, {ID: "2"}, {ID: "3"}},
		"too large": {{ID: "1", Data: make([]byte, 2000)}},
	} {
		if err := l.Append(events...); err == nil {
			t.Errorf("Append took %s", name)
		}
	}
	if err := l.Append(Event{ID: "1", Data: json.RawMessage(`{}`)}, Event{ID: ""}); err == nil {
		t.Error("Append took half")
	}
	if err := l.Append(); err != nil {
		t.Errorf("Append of nothing = %v", err)
	}
	if p := logRead(t, l, Query{After: "x"}); len(p.Events) != 0 {
		t.Errorf("a refused append left %s", p.texts())
	}
}

func TestLogPagesAreWhole(t *testing.T) {
	l := rawLog(LogConfig{MaxEvents: 1000})
	at, _ := l.Head(t.Context(), Subscription{})
	rawAppend(t, l, 0, 900)
	for _, limit := range []int{1, 7, 255, 256, 257, 900, 1000} {
		var got []string
		for c := at; ; {
			p := logRead(t, l, Query{After: c, Limit: limit})
			if len(p.Events) > limit || p.Truncated {
				t.Fatalf("limit %d: a page of %d", limit, len(p.Events))
			}
			for _, v := range p.Events {
				got = append(got, v.ID)
			}
			if last := p.Events[len(p.Events)-1]; last.Cursor != p.Cursor {
				t.Fatalf("limit %d: page at %s, its last event at %s", limit, p.Cursor, last.Cursor)
			}
			if c = p.Cursor; !p.More {
				break
			}
		}
		for i, id := range got {
			if id != fmt.Sprint("e", i) {
				t.Fatalf("limit %d: event %d is %s", limit, i, id)
			}
		}
		if len(got) != 900 {
			t.Errorf("limit %d: %d events, want 900", limit, len(got))
		}
	}
}

func TestLogNotBeforeInTheMiddle(t *testing.T) {
	l := rawLog(LogConfig{})
	at, _ := l.Head(t.Context(), Subscription{})
	now := time.Now()
	for i, age := range []time.Duration{time.Hour, 0, time.Hour, 0} { // happened in another order than they came
		v := rawEvent(fmt.Sprint("e", i), 1)
		v.At = now.Add(-age)
		if err := l.Append(v); err != nil {
			t.Fatal(err)
		}
	}
	p := logRead(t, l, Query{After: at, NotBefore: now.Add(-time.Minute)})
	if p.texts() != "e1 e3" || !p.Truncated {
		t.Fatalf("page = %+v, want e1 e3 and truncated", p)
	}
	if again := logRead(t, l, Query{After: p.Start, NotBefore: now.Add(-time.Minute)}); again.texts() != "e1 e3" {
		t.Errorf("from its start on: %s, want nothing missed", again.texts())
	}
}

func TestLogWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rawLog(LogConfig{})
		head, _ := l.Head(t.Context(), Subscription{})
		if err := l.Wait(t.Context(), Subscription{}, "nonsense"); err != nil {
			t.Errorf("Wait behind what it does not know = %v, want at once", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx, Subscription{}, head); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v, want the context's error", err)
		}
		var woken sync.WaitGroup
		for range 100 {
			woken.Go(func() { _ = l.Wait(t.Context(), Subscription{}, head) })
		}
		synctest.Wait()
		rawAppend(t, l, 0, 1)
		woken.Wait()
	})
}

func TestLogTwoServers(t *testing.T) {
	l := rawLog(LogConfig{})
	_, _ = rawServer(t, ServerConfig{}, rawType(l))
	strict := rawType(l)
	strict.Payload = json.RawMessage(`{"type":"object","properties":{"level":{"type":"integer","maximum":5}},"required":["level"]}`)
	b, _ := rawServer(t, ServerConfig{}, strict)
	if err := l.Append(rawEvent("e", 6)); err == nil {
		t.Error("Append took what one of the offers refuses")
	}
	b.Withdraw("alert")
	if err := l.Append(rawEvent("e", 6)); err != nil {
		t.Errorf("Append = %v, and the strict offer is gone", err)
	}
}

func TestLogIsRaceFree(t *testing.T) {
	l := rawLog(LogConfig{MaxEvents: 50})
	s, _ := rawServer(t, ServerConfig{}, rawType(l))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			at, last := Cursor("x"), uint64(0)
			for ctx.Err() == nil {
				p, err := l.Read(ctx, Subscription{Arguments: json.RawMessage("{}")}, Query{After: at, Limit: 9})
				if err != nil {
					return
				}
				for _, v := range p.Events {
					n, _ := l.sequence(v.Cursor)
					if n <= last || v.ID != fmt.Sprint("e", n-1) {
						t.Errorf("event %s at %d behind %d", v.ID, n, last)
						return
					}
					last = n
					if _, err := s.offer("alert").form(&v); err != nil {
						t.Error(err)
					}
				}
				at = p.Cursor
				_ = l.Wait(ctx, Subscription{}, at)
			}
		})
	}
	rawAppend(t, l, 0, 3000)
	cancel()
	wg.Wait()
}
