package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// following follows at a server whose endpoint is a receiver until ctx ends, and
// writes down what comes and how it ends.
type following struct {
	mu  sync.Mutex
	ids []string
	err error
}

func (w *world) followHere(ctx context.Context, s *Session, f FollowConfig) *following {
	var out following
	go func() {
		for b, err := range s.Follow(ctx, Subscription{Name: "tick"}, f) {
			out.mu.Lock()
			for _, v := range b.Events {
				out.ids = append(out.ids, v.ID)
			}
			out.err = err
			out.mu.Unlock()
		}
	}()
	return &out
}

func (f *following) state() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ids), f.err
}

// A webhook whose mode goes is followed by another one, also where the server
// tells of it by the list alone; when the mode comes back, so does the webhook.
func TestAFollowerLeavesAWebhookThatIsNotOfferedAnyMore(t *testing.T) {
	for _, silent := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			w, r := hooked(t, func(w *world) { w.w.NoEnvelopes = silent })
			f := w.followHere(t.Context(), connectTo(t, w.s), FollowConfig{Receiver: r})
			settle()
			w.add("e1")
			settle()
			typ := w.c.Types[0]
			typ.Modes = []Mode{Poll}
			if err := w.s.Replace(typ, BreaksNothing); err != nil {
				t.Fatal(err)
			}
			after(2 * time.Second)
			w.add("e2")
			after(time.Minute)
			if ids, err := f.state(); !slices.Equal(ids, []string{"e1", "e2"}) || err != nil {
				t.Fatalf("no envelopes %v: heard %v, %v, want e1 and e2", silent, ids, err)
			}
			if n := len(boxes(r)); n != 0 {
				t.Errorf("no envelopes %v: the receiver still has %d subscriptions", silent, n)
			}
			if err := w.s.Replace(w.c.Types[0], BreaksNothing); err != nil {
				t.Fatal(err)
			}
			after(2 * time.Minute)
			w.e.clear()
			w.add("e3")
			settle()
			if ids, err := f.state(); !slices.Equal(ids, []string{"e1", "e2", "e3"}) || err != nil || len(w.e.all("")) != 1 {
				t.Errorf("no envelopes %v: heard %v, %v, by %d deliveries, want e3 by one", silent, ids, err, len(w.e.all("")))
			}
		})
	}
}

// A webhook whose type goes ends within seconds, also where the server does not
// tell the receiver.
func TestAFollowerLeavesAWebhookWhoseTypeIsGone(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, mode := range []Mode{"", Webhook} {
			bubble(t, func(t *testing.T) {
				w, r := hooked(t, func(w *world) { w.w.NoEnvelopes = silent })
				f := w.followHere(t.Context(), connectTo(t, w.s), FollowConfig{Receiver: r, Mode: mode})
				settle()
				w.s.Withdraw("tick")
				after(10 * time.Second)
				_, err := f.state()
				if _, told := errors.AsType[*TerminatedError](err); !errors.Is(err, ErrNotFound) || told == silent || !Permanent(err) {
					t.Errorf("mode %q, no envelopes %v: it ended with %v, want NotFound, as terminated where it is told", mode, silent, err)
				}
			})
		}
	}
}

// A change of the list that does not concern the type is no reason to subscribe again.
func TestAWebhookOutlivesChangesOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, nil)
		f := w.followHere(t.Context(), connectTo(t, w.s), FollowConfig{Receiver: r})
		settle()
		id := webhookKey(Subscription{Principal: "ann", Name: "tick", Arguments: json.RawMessage("{}")}, testURL)
		rec, err := load(t.Context(), &w.s.webhooks.ledger, w.s.webhooks.records, id)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w.s.Withdraw("polled")
			after(3 * time.Second)
			if err := w.s.Offer(w.c.Types[1]); err != nil {
				t.Fatal(err)
			}
			after(3 * time.Second)
		}
		now, err := load(t.Context(), &w.s.webhooks.ledger, w.s.webhooks.records, id)
		if err != nil || now.value.Expires != rec.value.Expires {
			t.Errorf("it was subscribed to again: %v", err)
		}
		w.add("e1")
		settle()
		if ids, err := f.state(); !slices.Equal(ids, []string{"e1"}) || err != nil {
			t.Errorf("heard %v, %v, want e1", ids, err)
		}
	})
}

// So it is with a stream: what a server terminates for its mode goes on in another one,
// whether the list told of it before or not, and with a mode that is asked for ends.
func TestAFollowerLeavesAStreamThatIsNotOfferedAnyMore(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		for _, mode := range []Mode{"", Push} {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, func(w *world) {
					w.c.NoListChanged, w.c.Types[0].Modes = quiet, []Mode{Push, Poll}
				})
				f := w.followHere(t.Context(), connectTo(t, w.s), FollowConfig{Mode: mode})
				settle()
				w.add("e1")
				settle()
				typ := w.c.Types[0]
				typ.Modes = []Mode{Poll}
				if err := w.s.Replace(typ, BreaksNothing); err != nil {
					t.Fatal(err)
				}
				after(2 * time.Second)
				w.add("e2")
				after(time.Minute)
				want := []string{"e1", "e2"}
				if mode == Push {
					want = want[:1]
				}
				if ids, err := f.state(); !slices.Equal(ids, want) || errors.Is(err, ErrUnsupported) != (mode == Push) {
					t.Errorf("mode %q, list quiet %v: heard %v, %v, want %v", mode, quiet, ids, err, want)
				}
			})
		}
	}
}
