package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSuspendedWithoutEndIsAbandoned(t *testing.T) {
	for _, none := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.w.NoExpiry, w.w.Abandon, w.w.NoEnvelopes = true, 48*time.Hour, none })
			id := w.subscribe(map[string]any{"ttlMs": nil}).ID
			w.e.set(status(500))
			for i := range 200 {
				w.add(fmt.Sprint("e", i))
				after(20 * time.Second)
			}
			w.e.clear()
			after(47 * time.Hour)
			if rec, _ := w.store.Load(t.Context(), id); rec.Version == 0 || len(w.e.all("*")) != 0 {
				t.Errorf("it was forgotten too early, or something was sent")
			}
			w.e.set(nil)
			after(2 * time.Hour)
			if rec, _ := w.store.Load(t.Context(), id); rec.Version != 0 {
				t.Errorf("it is still kept")
			}
			over := w.e.all("*")
			if none && len(over) != 0 || !none && (len(over) != 1 || over[0].body.Type != "terminated" ||
				over[0].body.Error.Code != -32027 || !strings.Contains(string(over[0].body.Error.Data), failServer)) {
				t.Errorf("NoEnvelopes %v: %d requests, want the terminated alone, with the endpoint's failure, or none", none, len(over))
			}
			if a, err := load(t.Context(), &w.s.webhooks.ledger, accounts, accountKey("ann")); err != nil || a.version != 0 {
				t.Errorf("the account still has it: %v, %v", a.value, err)
			}
		})
	}
}

// An endpoint that puts everything off until it is given up is suspended, too.
func TestAnEndpointThatPutsOffForEverIsSuspended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.NoExpiry = true })
		w.subscribe(map[string]any{"ttlMs": nil})
		w.e.set(status(503, "Retry-After", "1"))
		for i := range 300 {
			w.add(fmt.Sprint("e", i))
		}
		after(3 * time.Hour)
		w.e.clear()
		after(time.Hour)
		if n := len(w.e.all("*")); n != 0 {
			t.Errorf("%d requests in the fourth hour, want none", n)
		}
		if s := w.subscribe(map[string]any{"ttlMs": nil}).Status; s == nil || s.Active {
			t.Errorf("status %+v, want suspended", s)
		}
	})
}

// A type that changed so that a subscription cannot be had any more ends it.
func TestTypesThatDoNotFitAnyMoreEnd(t *testing.T) {
	other := json.RawMessage(`{"type":"object","properties":{"n":{"type":"string"}}}`)
	var hidden atomic.Bool
	for _, c := range []struct {
		name   string
		change func(s *Server, typ Type) error
		code   int64
		data   string
	}{
		{"without the mode", func(s *Server, typ Type) error {
			typ.Modes = []Mode{Poll}
			return s.Replace(typ, BreaksNothing)
		}, -32026, `{"feature":"deliveryMode","value":"webhook"}`},
		{"hidden", func(*Server, Type) error { hidden.Store(true); return nil }, -32023, `{"kind":"event"}`},
		{"withdrawn, and another offered", func(s *Server, typ Type) error {
			s.Withdraw("tick")
			typ.Payload = other
			return s.Offer(typ)
		}, -32023, `{"kind":"event"}`},
		{"broken", func(s *Server, typ Type) error {
			typ.Payload = other
			return s.Replace(typ, BreaksPayload)
		}, -32026, `{"feature":"payloadSchema","reason":"schema_changed"}`},
		{"with other arguments", func(s *Server, typ Type) error {
			typ.Input = json.RawMessage(`{"type":"object","required":["a"]}`)
			return s.Replace(typ, BreaksNothing)
		}, -32026, `{"feature":"inputSchema","reason":"schema_changed"}`},
	} {
		bubble(t, func(t *testing.T) {
			hidden.Store(false)
			w := newWorld(t, func(w *world) {
				w.c.Types[0].Visible = func(context.Context, string) bool { return !hidden.Load() }
			})
			w.subscribe(nil)
			settle()
			if err := c.change(w.s, w.c.Types[0]); err != nil {
				t.Fatal(err)
			}
			after(61 * time.Second)
			if err := w.log.Append(Event{ID: "e1", Data: json.RawMessage(`{"n":"x"}`)}); err != nil {
				t.Fatal(err)
			}
			settle()
			over := w.e.all("terminated")
			if len(over) != 1 || over[0].body.Error.Code != c.code || string(over[0].body.Error.Data) != c.data {
				t.Errorf("%s: terminated %+v, want one, %d %s", c.name, over, c.code, c.data)
			}
			if got := eventIDs(w.e.all("")); got != "" {
				t.Errorf("%s: %q is delivered, want nothing", c.name, got)
			}
		})
	}
}

// A break that was said ends a subscription after a restart, too, where nobody
// delivered it before; what is subscribed to since, or was added, is not ended.
func TestABreakIsKeptOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(map[string]any{"ttlMs": 86_400_000})
		settle()
		w.end() // and the break is said while nobody delivers
		broken := w.c.Types[0]
		broken.Payload = json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}}}`)
		if err := w.s.Replace(broken, BreaksPayload); err != nil {
			t.Fatal(err)
		}
		second := w.server() // another one that shares the store says the same
		if err := second.Replace(broken, BreaksPayload); err != nil {
			t.Fatal(err)
		}
		if _, err := second.webhooks.subscribe(as("bob"), ask(map[string]any{"ttlMs": 86_400_000})); err != nil {
			t.Fatal(err)
		}
		if err := w.s.Replace(broken, BreaksPayload); err != nil { // and so does the first, once more
			t.Fatal(err)
		}
		for i := range 3 {
			broken.Payload = json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"n":{"type":"number"},"m%d":{}}}`, i))
			w.c.Types[0] = broken // each start adds something
			w.start()
			w.add(fmt.Sprint("e", i))
			after(2 * time.Minute)
			w.end()
		}
		if over := w.e.all("terminated"); len(over) != 1 || !strings.Contains(string(over[0].raw), `"schema_changed"`) {
			t.Errorf("%d terminated, want one, schema_changed", len(over))
		}
		if got := eventIDs(w.e.all("")); got != "e0 e1 e2" {
			t.Errorf("delivered %q, want e0 to e2 to the new subscription", got)
		}
	})
}

// A break that cannot be written down is refused, and nothing has changed.
func TestABreakNeedsTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &cutStore{SubscriptionStore: NewMemorySubscriptions()}
		w := newWorld(t, func(w *world) { w.store = cut })
		w.subscribe(nil)
		settle()
		gone := errors.New("gone")
		cut.set(gone)
		if err := w.s.Replace(w.c.Types[0], BreaksPayload); !errors.Is(err, gone) {
			t.Errorf("Replace = %v, want the store's error", err)
		}
		if err := w.s.Replace(w.c.Types[1], BreaksPayload); err != nil {
			t.Errorf("Replace of what no webhook delivers: %v", err)
		}
		cut.set(nil)
		after(time.Minute)
		w.add("e1")
		settle()
		if got, over := eventIDs(w.e.all("")), len(w.e.all("terminated")); got != "e1" || over != 0 {
			t.Errorf("delivered %q, %d terminated, want e1 and none", got, over)
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

// A record that a later version wrote is left alone, and holds nobody else up.
func TestARecordThatCannotBeReadIsLeftToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		if _, err := w.store.Write(t.Context(), []SubscriptionWrite{{Key: "sub_later", Value: []byte(`{"v":2}`), Due: time.Now()}}); err != nil {
			t.Fatal(err)
		}
		w.subscribe(nil)
		after(time.Minute)
		w.add("e1")
		settle()
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("beside it %q is delivered, want e1", got)
		}
		w.stop()
		text := w.out.String()
		if n := strings.Count(text, "sub_later"); n < 2 || n > 6 || strings.Contains(text, "store failed") {
			t.Errorf("in a minute it is named %d times, want one in %v, and not as a store that failed:\n%s", n, foreignPause, text)
		}
	})
}
