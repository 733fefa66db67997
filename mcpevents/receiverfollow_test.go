package mcpevents

import (
	"context"
	"errors"
	"testing"
	"time"
)

// follow reads a subscription's ids until ctx ends.
func (w *world) follow(ctx context.Context, c *Client, f FollowConfig) (<-chan string, <-chan error) {
	ids, over := make(chan string, 100), make(chan error, 1)
	go func() {
		for b, err := range c.Follow(ctx, Subscription{Name: "tick"}, f) {
			if err != nil {
				over <- err
				return
			}
			for _, v := range b.Events {
				ids <- v.ID
			}
		}
	}()
	return ids, over
}

func TestCE7WebhookFirstWhereThereIsAReceiver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			name    string
			mode    Mode
			r, hook bool
		}{
			{"with a receiver", "", true, true},
			{"without", "", false, false},
			{"another mode is asked for", Poll, true, false},
			{"the webhook is asked for", Webhook, true, true},
		} {
			w, r := hooked(t, nil)
			f := FollowConfig{Mode: c.mode}
			if c.r {
				f.Receiver = r
			}
			s := connectTo(t, w.s)
			ctx, cancel := context.WithCancel(t.Context())
			client := &Client{Dial: func(context.Context) (*Session, error) { return s, nil }}
			ids, over := w.follow(ctx, client, f)
			settle()
			w.add("e1")
			after(10 * time.Second)
			if len(ids) != 1 || <-ids != "e1" {
				t.Errorf("%s: e1 is not heard once", c.name)
			}
			if got := len(w.e.all("")) == 1; got != c.hook {
				t.Errorf("%s: it came by webhook: %v, want %v", c.name, got, c.hook)
			}
			cancel()
			if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: it ended with %v", c.name, err)
			}
			settle()
			if n := len(boxes(r)); n != 0 {
				t.Errorf("%s: the receiver still has %d subscriptions", c.name, n)
			}
			w.end()
		}
	})
}

// Deliveries go on while a session breaks and another is made: the receiver
// keeps the subscription.
func TestWebhookOutlivesSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, r := hooked(t, nil)
		sessions := make(chan *Session, 10)
		client := &Client{Dial: func(context.Context) (*Session, error) {
			s := connectTo(t, w.s)
			sessions <- s
			return s, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ids, over := w.follow(ctx, client, FollowConfig{Receiver: r})
		settle()
		for _, id := range []string{"e1", "e2", "e3"} {
			if err := (<-sessions).Close(); err != nil {
				t.Fatal(err)
			}
			settle()
			w.add(id)
			after(time.Minute)
			if len(ids) != 1 || <-ids != id {
				t.Errorf("%s is not heard once after a session broke", id)
			}
		}
		if n := len(w.e.all("verification")); n != 1 {
			t.Errorf("%d challenges, want the first alone", n)
		}
		cancel()
		<-over
	})
}
