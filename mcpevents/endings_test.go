package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSuspendedWithoutEndIsAbandoned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.NoExpiry, w.w.Abandon = true, 48*time.Hour })
		id := w.subscribe(map[string]any{"ttlMs": nil}).ID
		w.e.set(status(500))
		for i := range 200 {
			w.add(fmt.Sprint("e", i))
			after(20 * time.Second)
		}
		after(47 * time.Hour)
		if rec, _ := w.store.Load(t.Context(), id); rec.Version == 0 {
			t.Errorf("it was forgotten too early")
		}
		after(2 * time.Hour)
		if rec, _ := w.store.Load(t.Context(), id); rec.Version != 0 {
			t.Errorf("it is still kept")
		}
	})
}

func TestPermissionIsCheckedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var answer error
		checks := 0
		set := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			answer = err
		}
		w := newWorld(t, func(w *world) {
			w.c.Types[0].Check = func(_ context.Context, sub Subscription) error {
				mu.Lock()
				defer mu.Unlock()
				if checks++; sub.Principal != "ann" {
					t.Errorf("checked for %q", sub.Principal)
				}
				return answer
			}
		})
		w.subscribe(nil)
		after(5 * time.Minute)
		mu.Lock()
		n := checks
		mu.Unlock()
		if n < 5 || n > 8 {
			t.Errorf("%d checks in five minutes, want one a minute", n)
		}
		set(errors.New("the directory is down"))
		after(time.Minute)
		w.add("e1")
		after(time.Minute)
		if n := len(w.e.all("terminated")); n != 0 {
			t.Fatalf("a hiccup terminated the subscription")
		}
		set(nil)
		after(time.Minute)
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("after the hiccup %q is delivered, want e1", got)
		}
		set(ErrForbidden)
		after(61 * time.Second)
		w.add("e2")
		after(time.Hour)
		over := w.e.all("terminated")
		if len(over) != 1 || over[0].body.Error == nil || over[0].body.Error.Code != -32024 || !signed(t, over[0], testSecret) {
			t.Errorf("terminated envelopes: %+v, want one, Forbidden, signed", over)
		}
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("delivered %q, want nothing after the loss", got)
		}
		_, err := w.s.webhooks.subscribe(as("ann"), ask(nil))
		refused(t, "a new subscribe", err, Forbidden, "", "")
		_, err = w.s.webhooks.unsubscribe(as("ann"), ask(nil))
		refused(t, "unsubscribe", err, NotFound, "kind", "subscription")
	})
}

func TestTerminatedIsRetriedAndThenForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		id := w.subscribe(nil).ID
		w.e.set(status(503))
		w.s.Withdraw("tick")
		after(10 * time.Second)
		w.end()
		w.start() // also by a process that does not offer the type
		w.s.Withdraw("tick")
		after(time.Hour)
		posts := w.e.all("terminated")
		if len(posts) != 5 {
			t.Fatalf("%d attempts, want 5", len(posts))
		}
		for _, p := range posts {
			if p.header.Get(headerID) != posts[0].header.Get(headerID) || p.body.Error.Code != -32023 {
				t.Errorf("attempt %s %+v differs", p.header.Get(headerID), p.body.Error)
			}
		}
		if rec, _ := w.store.Load(t.Context(), id); rec.Version != 0 {
			t.Errorf("the record is still kept")
		}
	})
}

func TestReplacedType(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(map[string]any{"arguments": map[string]any{"a": 1}})
		typ := w.c.Types[0]
		typ.Input = []byte(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}`)
		if err := w.s.Replace(typ, BreaksNothing); err != nil {
			t.Fatal(err)
		}
		w.add("e1")
		settle()
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("after an additive change %q is delivered, want e1", got)
		}
		if err := w.s.Replace(typ, BreaksPayload); err != nil {
			t.Fatal(err)
		}
		settle()
		over := w.e.all("terminated")
		if len(over) != 1 || over[0].body.Error.Code != -32026 || !strings.Contains(string(over[0].raw), `"schema_changed"`) {
			t.Errorf("terminated: %v, want Unsupported, schema_changed", over)
		}
	})
}

func TestNoReplayTypesHaveNullCursors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.c.Types[0].NoReplay, w.c.Types[0].Modes = true, []Mode{Webhook} })
		res := w.subscribe(map[string]any{"cursor": "x"})
		w.add("e1")
		settle()
		posts := w.e.all("")
		if res.Cursor != "" || res.Truncated || len(posts) != 1 || posts[0].body.Cursor != nil || !strings.Contains(string(posts[0].raw), `"cursor":null`) {
			t.Errorf("result %+v, deliveries %v, want null cursors", res, posts)
		}
		w.log = NewLog(LogConfig{})
		w.c.Types[0].Backend = w.log
		w.end()
		w.start()
		settle()
		w.add("e2")
		settle()
		if got, gaps := eventIDs(w.e.all("")), len(w.e.all("gap")); got != "e1 e2" || gaps != 0 {
			t.Errorf("after a restart: %q, %d gaps, want e1 e2 and none", got, gaps)
		}
	})
}
