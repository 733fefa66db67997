package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// A hearer follows a subscription by webhook in a goroutine and writes down what
// it hears.
type hearer struct {
	t       *testing.T
	batches chan Batch
	next    chan bool // when slow: whether a batch is taken
	slow    bool
	done    chan error
	stop    context.CancelFunc
	r       *Receiver
}

// hear starts one. F's Receiver is the world's.
func (w *world) hear(s *Session, r *Receiver, f FollowConfig, slow bool) *hearer {
	ctx, cancel := context.WithCancel(w.t.Context())
	h := &hearer{t: w.t, batches: make(chan Batch, 1000), next: make(chan bool), slow: slow, done: make(chan error, 1), stop: cancel, r: r}
	go func() {
		fo := newFollower(Subscription{Name: "tick"}, f, func(b Batch) bool {
			h.batches <- b
			if h.slow {
				select {
				case ok := <-h.next:
					return ok
				case <-ctx.Done():
					return false
				}
			}
			return true
		})
		defer r.leave(fo)
		fo.s = s
		if err := fo.describe(ctx, false); err != nil {
			h.done <- err
			return
		}
		h.done <- fo.webhook(ctx, s.catalogue.generation(), r)
	}()
	w.t.Cleanup(cancel)
	return h
}

// heard returns the ids of the events so far, with a ! before each gap, and the
// last cursor.
func (h *hearer) heard() (string, Cursor) {
	var out []string
	var at Cursor
	for len(h.batches) > 0 {
		b := <-h.batches
		if b.Truncated {
			out = append(out, "!")
		}
		for _, v := range b.Events {
			out = append(out, v.ID)
		}
		at = b.Cursor
	}
	return strings.Join(out, " "), at
}

// boxes are those of a receiver.
func boxes(r *Receiver) []*inbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.boxes))
}

// hooked makes a world whose endpoint is a receiver.
func hooked(t *testing.T, change func(w *world)) (*world, *Receiver) {
	t.Helper()
	r := newReceiver(t, ReceiverConfig{})
	w := newWorld(t, func(w *world) {
		w.w.PerSubscription = 1
		if change != nil {
			change(w)
		}
	})
	w.e.handler = r
	return w, r
}

func TestWebhookFromEndToEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, nil)
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		settle()
		w.add("e1", "e2")
		settle()
		w.add("e3")
		settle()
		head, _ := w.log.Head(t.Context(), Subscription{})
		if got, at := h.heard(); got != "e1 e2 e3" || at != head {
			t.Errorf("heard %q up to %q, want all three up to %q", got, at, head)
		}
		if n := len(w.e.all("verification")); n != 1 {
			t.Errorf("%d challenges, want 1", n)
		}
		h.stop()
		if err := <-h.done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v, want context.Canceled", err)
		}
		settle()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.boxes)+len(r.byID)+len(r.of) != 0 {
			t.Errorf("the receiver still knows the subscription")
		}
	})
}

func TestCE54RefreshesBeforeTheGrantEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.TTL, w.w.MaxTTL = 10*time.Minute, 10*time.Minute })
		r.c.TTL = 24 * time.Hour // what it would like does not count
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		for i := range 30 {
			after(10 * time.Minute)
			w.add(fmt.Sprint("e", i))
			settle()
			if got, _ := h.heard(); got != fmt.Sprint("e", i) {
				t.Fatalf("after %d grants %q is heard, want e%d", i+1, got, i)
			}
		}
		if n := len(w.e.all("verification")); n != 1 {
			t.Errorf("%d challenges: the subscription lapsed in between", n)
		}
	})
}

func TestUntilRefresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct{ life, low, high time.Duration }{
			{10 * time.Minute, 342 * time.Second, 6 * time.Minute},
			{time.Second, time.Second, time.Second},
			{-time.Minute, time.Second, time.Second},
			{24 * time.Hour, 13 * time.Hour, 864 * time.Minute},
			{0, 57 * time.Minute, time.Hour},
			{60 * 365 * 24 * time.Hour, 22 * time.Hour, 24 * time.Hour},
			{math.MaxInt64, 22 * time.Hour, 24 * time.Hour},
		} {
			end := time.Now().Add(c.life)
			if c.life == 0 {
				end = time.Time{}
			}
			if got := untilRefresh(end); got < c.low || got > c.high {
				t.Errorf("untilRefresh(in %v) = %v, want between %v and %v", c.life, got, c.low, c.high)
			}
		}
	})
}

func TestCE13RefreshSendsTheLastCursor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.TTL, w.w.MaxTTL = 10*time.Minute, 10*time.Minute })
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		settle()
		w.add("e1")
		settle()
		// The server forgets everything, and events come before the refresh.
		w.end()
		w.store = NewMemorySubscriptions()
		w.s.webhooks.ledger.store, w.s.webhooks.c.Store = w.store, w.store
		w.stop = w.run(w.s)
		w.add("e2", "e3")
		after(10 * time.Minute)
		if got, _ := h.heard(); got != "e1 e2 e3" {
			t.Errorf("heard %q, want all three", got)
		}
	})
}

func TestCE59EnvelopesAreForwarded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.MaxBody = 400 })
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		settle()
		h.heard()
		if n := len(w.e.all("verification")); n != 1 || len(h.batches) != 0 {
			t.Errorf("%d challenges, %d batches, want one that is not forwarded", n, len(h.batches))
		}
		if err := w.log.Append(Event{ID: "large", Data: []byte(`{"x":"` + strings.Repeat("x", 400) + `"}`)}); err != nil {
			t.Fatal(err)
		}
		settle()
		head, _ := w.log.Head(t.Context(), Subscription{})
		if got, at := h.heard(); got != "!" || at != head {
			t.Errorf("heard %q at %q, want a gap at %q", got, at, head)
		}
		w.s.Withdraw("tick")
		err := <-h.done
		over, ok := errors.AsType[*TerminatedError](err)
		if !ok || !errors.Is(over, ErrNotFound) {
			t.Errorf("it ended with %v, want terminated, NotFound", err)
		}
		settle()
		for _, p := range w.e.all("terminated")[1:] {
			t.Errorf("terminated was sent again: %s", p.raw)
		}
	})
}

func TestCE60SlowConsumerIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, nil)
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, true)
		settle()
		<-h.batches // where it starts
		h.next <- true
		w.add("e1")
		after(20 * time.Second)
		status := func() *deliveryStatus {
			rec, err := load(t.Context(), &w.s.webhooks.ledger, w.s.webhooks.records, webhookKey(Subscription{Principal: "ann", Name: "tick", Arguments: []byte("{}")}, testURL))
			if err != nil || rec.value == nil {
				t.Fatal(err)
			}
			return rec.value.status(time.Now())
		}
		if s := status(); s.Accepted != nil || s.LastError == nil || *s.LastError != failServer {
			t.Errorf("while the consumer has it: %+v, want http_5xx", s)
		}
		h.next <- true // it is durable now
		after(5 * time.Minute)
		if s := status(); s.Accepted == nil || s.LastError != nil {
			t.Errorf("afterwards: %+v, want accepted", s)
		}
		if got, _ := h.heard(); got != "e1" {
			t.Errorf("heard %q, want e1 once", got)
		}
		if n := len(w.e.all("")); n < 2 {
			t.Errorf("%d deliveries, want one that was tried again", n)
		}
	})
}

func TestCE60ConsumerThatLeavesIsNotAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, nil)
		s := connectTo(t, w.s)
		h := w.hear(s, r, FollowConfig{}, true)
		settle()
		start := (<-h.batches).Cursor
		h.next <- true
		w.add("e1")
		settle()
		h.next <- false
		if err := <-h.done; !errors.Is(err, errLeft) {
			t.Errorf("it ended with %v, want errLeft", err)
		}
		h.heard()
		h = w.hear(s, r, FollowConfig{Cursor: start}, false)
		after(time.Minute)
		if got, _ := h.heard(); got != "e1" {
			t.Errorf("the next one hears %q, want e1", got)
		}
	})
}

func TestCE61DuplicatesAreDroppedByEventID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, mode := range []WebhookID{WebhookIDEvent, WebhookIDMessage} {
			w, r := hooked(t, func(w *world) { w.w.ID = mode })
			s := connectTo(t, w.s)
			seen := NewSeen(0, 0)
			h := w.hear(s, r, FollowConfig{Seen: seen}, false)
			settle()
			w.add("e1")
			settle()
			// The same event comes under ids and cursors that differ.
			rec := webhookKey(Subscription{Principal: "ann", Name: "tick", Arguments: []byte("{}")}, testURL)
			for i := range 3 {
				b := boxes(r)[0]
				body := strings.Replace(oneEvent, "c1", fmt.Sprint("c", i), 1)
				if got := send(r, sending{id: fmt.Sprint("other", i), sub: rec, secret: b.key(), body: body}); got.Code != 200 {
					t.Errorf("%s: a duplicate got %d, want 200", mode, got.Code)
				}
			}
			h.stop()
			<-h.done
			settle()
			h2 := w.hear(s, r, FollowConfig{Seen: seen}, false) // and after a restart with what was seen
			settle()
			for _, b := range boxes(r) {
				if got := send(r, sending{id: "again", sub: rec, secret: b.key(), body: oneEvent}); got.Code != 200 {
					t.Errorf("%s: a duplicate after a restart got %d, want 200", mode, got.Code)
				}
			}
			first, _ := h.heard()
			second, _ := h2.heard()
			if first != "e1" || second != "" {
				t.Errorf("%s: heard %q, then %q, want e1 once", mode, first, second)
			}
			h2.stop()
			<-h2.done
			w.end()
		}
	})
}

func TestCE62UnsubscribeOfNothingIsDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, nil)
		s := connectTo(t, w.s)
		h := w.hear(s, r, FollowConfig{}, false)
		settle()
		for i := range 2 {
			if err := s.Unsubscribe(t.Context(), Subscription{Name: "tick"}, testURL); err != nil {
				t.Errorf("Unsubscribe, time %d: %v, want none", i+1, err)
			}
		}
		w.add("e1")
		settle()
		if got, _ := h.heard(); got != "" {
			t.Errorf("heard %q after unsubscribe, want nothing", got)
		}
	})
}

func TestReceiverRotatesSecrets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.TTL, w.w.MaxTTL = 10*time.Minute, 10*time.Minute })
		r.c.Rotate = 30 * time.Minute
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		used := map[string]bool{}
		for i := range 40 {
			after(5 * time.Minute)
			w.add(fmt.Sprint("e", i))
			settle()
			if got, _ := h.heard(); got != fmt.Sprint("e", i) {
				t.Fatalf("in step %d %q is heard", i, got)
			}
			for _, b := range boxes(r) {
				used[b.secret(0).Reveal()] = true
				if n := len(b.secrets()); n > 2 {
					t.Errorf("in step %d %d secrets are good", i, n)
				}
			}
		}
		if n := len(used); n < 5 || n > 8 {
			t.Errorf("%d secrets in 200 minutes, want one in half an hour", n)
		}
	})
}

func TestRefusedSubscribeEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) {
			w.c.Types[0].Check = func(context.Context, Subscription) error { return ErrForbidden }
		})
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		if err := <-h.done; !errors.Is(err, ErrForbidden) {
			t.Errorf("it ended with %v, want Forbidden", err)
		}
	})
}

// A server that is away at a refresh is asked again until the grant ends.
func TestRefreshIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &cutStore{SubscriptionStore: NewMemorySubscriptions()}
		w, r := hooked(t, func(w *world) {
			w.store = cut
			w.w.TTL, w.w.MaxTTL = 10*time.Minute, 10*time.Minute
		})
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, false)
		settle()
		cut.set(errors.New("gone"))
		after(8 * time.Minute)
		cut.set(nil)
		after(3 * time.Minute)
		w.add("e1")
		settle()
		if got, _ := h.heard(); got != "e1" {
			t.Errorf("heard %q after a refresh that was tried again, want e1", got)
		}
		cut.set(errors.New("gone"))
		after(20 * time.Minute)
		select {
		case err := <-h.done:
			if Permanent(err) {
				t.Errorf("it ended with %v, want an error that another try may heal", err)
			}
		default:
			t.Errorf("it still waits after the grant has ended")
		}
	})
}

// Deliveries that come at once are one batch, and the cursor is the latest's.
func TestBatchOfDeliveries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.PerSubscription = 4 })
		h := w.hear(connectTo(t, w.s), r, FollowConfig{}, true)
		settle()
		<-h.batches
		h.next <- true
		w.e.set(func(p post) (int, http.Header, error) { return 200, nil, nil })
		w.add("e1", "e2", "e3", "e4")
		settle()
		var got []string
		for len(got) < 4 {
			b := <-h.batches
			for _, v := range b.Events {
				got = append(got, v.ID)
			}
			h.next <- true
			settle()
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != "e1 e2 e3 e4" {
			t.Errorf("heard %q, want all four once", s)
		}
	})
}

// again sends a post once more, byte for byte.
func again(r *Receiver, p post) int {
	req := httptest.NewRequest(http.MethodPost, "/h/7", bytes.NewReader(p.raw))
	req.Header = p.header.Clone()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w.Code
}

// An envelope whose 200 was lost comes again, perhaps to what was subscribed to
// after it.
func TestEnvelopesAreTakenOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) { w.w.MaxBody = 400 })
		var s *Session
		client := &Client{Dial: func(context.Context) (*Session, error) { s = connectTo(t, w.s); return s, nil }}
		ctx, cancel := context.WithCancel(t.Context())
		gaps, over := 0, make(chan error, 1)
		go func() {
			defer close(over)
			for b, err := range client.Follow(ctx, Subscription{Name: "tick"}, FollowConfig{Receiver: r}) {
				if err != nil {
					over <- err
				} else if b.Truncated {
					gaps++
				}
			}
		}()
		settle()
		if err := w.log.Append(Event{ID: "large", Data: []byte(`{"x":"` + strings.Repeat("x", 400) + `"}`)}); err != nil {
			t.Fatal(err)
		}
		settle()
		_ = s.Close() // another session goes on
		after(5 * time.Second)
		broken := w.c.Types[0]
		broken.Payload = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
		if err := w.s.Replace(broken, BreaksPayload); err != nil {
			t.Fatal(err)
		}
		after(10 * time.Second)
		for _, kind := range []string{"gap", "terminated"} {
			list := w.e.all(kind)
			if len(list) != 1 {
				t.Fatalf("%d envelopes %s, want 1", len(list), kind)
			}
			if code := again(r, list[0]); code != 200 {
				t.Errorf("%s, the second time: status %d, want 200", kind, code)
			}
		}
		settle()
		if len(over) != 0 {
			t.Errorf("a terminated that came twice ended what came after it: %v", <-over)
		}
		cancel()
		<-over
		if gaps != 1 {
			t.Errorf("one gap is told %d times", gaps)
		}
	})
}

// A type without cursors begins from now each time, which the consumer is told once.
func TestAWebhookWithoutCursorsTellsThatItBegins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, func(w *world) {
			w.c.Types[0].NoReplay, w.c.Types[0].Modes = true, []Mode{Webhook}
			w.w.TTL, w.w.MaxTTL = 10*time.Minute, 10*time.Minute
		})
		s := connectTo(t, w.s)
		for range 2 {
			h := w.hear(s, r, FollowConfig{}, false)
			after(time.Hour) // some refreshes
			w.add("e1")
			settle()
			if n := len(h.batches); n != 2 {
				t.Errorf("%d batches, want that of the beginning and that of e1", n)
			}
			if got, at := h.heard(); got != "e1" || at != "" {
				t.Errorf("heard %q at %q, want e1 without a cursor", got, at)
			}
			h.stop()
			<-h.done
		}
	})
}
