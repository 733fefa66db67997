package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
)

// A delivered is a batch, which its follower holds until it is taken.
type delivered struct {
	mcpevents.Batch
	taken chan struct{}
}

// Our receiver proves itself to a server of mcp-handler, takes what
// standardwebhooks signed, and answers once the consumer has it.
func TestReceiverOfMCPHandler(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			f := newFront(t)
			r, err := mcpevents.NewReceiver(mcpevents.ReceiverConfig{URL: f.URL + "/h/7", TTL: time.Hour, Take: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			f.serve(r)
			s, session := newMCPHandler(t, f.Server, revision)

			batches, last := make(chan delivered), make(chan error, 1)
			go func() {
				sub := mcpevents.Subscription{Name: "build.finished", Arguments: json.RawMessage(`{"repo":"acme/api"}`)}
				for b, err := range session.Follow(ctx, sub, mcpevents.FollowConfig{Receiver: r, Cursor: "w-3"}) {
					if err != nil {
						last <- err
						return
					}
					d := delivered{b, make(chan struct{})}
					batches <- d
					<-d.taken
				}
			}()
			id := subscribed(t, s)
			from := &sender{t, s, id}

			// Each is answered once its batch was taken, and what comes twice is not taken twice.
			one := from.begin("b-1", event("b-1", "w-4"))
			d := next(ctx, t, batches, last)
			if len(d.Events) != 1 || d.Events[0].ID != "b-1" || d.Cursor != "w-4" || d.Truncated {
				t.Errorf("batch = %+v, want b-1 and w-4", d.Batch)
			}
			close(d.taken)
			from.answered(one, http.StatusOK)
			from.answered(from.begin("b-1", event("b-1", "w-4")), http.StatusOK)

			// What nobody takes is to be tried again.
			two := from.begin("b-2", event("b-2", "w-5"))
			d = next(ctx, t, batches, last)
			from.answered(two, http.StatusServiceUnavailable)
			if close(d.taken); len(d.Events) != 1 || d.Events[0].ID != "b-2" {
				t.Errorf("batch = %+v, want b-2", d.Batch)
			}
			from.answered(from.begin("b-2", event("b-2", "w-5")), http.StatusOK)

			from.answered(from.send(map[string]any{"name": "b-3", "body": event("b-3", "w-6"), "forged": mcpevents.NewSecret().Reveal()}), http.StatusUnauthorized)
			from.answered(from.send(map[string]any{"name": "b-3", "body": event("b-3", "w-6"), "ago": 600}), http.StatusBadRequest)

			gap := from.begin("msg_gap_1", map[string]any{"type": "gap", "cursor": "w-9"})
			if d = next(ctx, t, batches, last); len(d.Events) != 0 || !d.Truncated || d.Cursor != "w-9" {
				t.Errorf("batch = %+v, want a gap up to w-9", d.Batch)
			}
			close(d.taken)
			from.answered(gap, http.StatusOK)

			over := from.begin("msg_terminated_1", map[string]any{
				"type": "terminated", "error": map[string]any{"code": -32012, "message": "Forbidden", "data": map[string]any{"reason": "grant withdrawn"}},
			})
			from.answered(over, http.StatusOK)
			select {
			case err = <-last:
			case d := <-batches:
				t.Fatalf("batch = %+v, want the end", d.Batch)
			}
			if _, ok := errors.AsType[*mcpevents.TerminatedError](err); !ok || !errors.Is(err, mcpevents.ErrForbidden) {
				t.Errorf("Follow ended with %v, want terminated, Forbidden", err)
			}
		})
	}
}

// subscribed waits for the subscription, of which the server has a challenge
// answered, and returns its id.
func subscribed(t *testing.T, s *script) string {
	t.Helper()
	var sub struct {
		ID, URL, Name, Cursor string
	}
	l := s.await("subscription", func(l line) bool { return l.Upserted != nil })
	decode(t, l.Upserted, &sub)
	if sub.Name != "build.finished" || sub.Cursor != "w-3" {
		t.Errorf("subscribed %+v, want build.finished from w-3", sub)
	}
	return sub.ID
}

// A sender delivers to one subscription.
type sender struct {
	t  *testing.T
	s  *script
	to string
}

func (s *sender) begin(name string, body any) int {
	s.t.Helper()
	return s.send(map[string]any{"name": name, "body": body})
}

func (s *sender) send(args map[string]any) int {
	s.t.Helper()
	args["to"] = s.to
	return s.s.begin("deliver", args)
}

func (s *sender) answered(delivery, status int) {
	s.t.Helper()
	l := s.s.answer(delivery)
	var have struct{ Status int }
	if l.Error == nil {
		decode(s.t, l.Result, &have)
	}
	if have.Status != status {
		s.t.Errorf("a delivery was answered with %s, want %d", l.text, status)
	}
}

// next returns the next batch that says something new.
func next(ctx context.Context, t *testing.T, batches chan delivered, last chan error) delivered {
	t.Helper()
	for {
		select {
		case d := <-batches:
			if len(d.Events) == 0 && !d.Truncated {
				close(d.taken) // the cursor alone
				continue
			}
			return d
		case err := <-last:
			t.Fatalf("Follow ended with %v", err)
		case <-ctx.Done():
			t.Fatal("no batch came")
		}
	}
}
