package mcpevents

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"
)

// An endpoint that takes one delivery in ten seconds, and says so, gets all of
// them and is not failing.
func TestEndpointThatSaysWhenLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, code := range []int{429, 503} {
			w := newWorld(t, nil)
			var mu sync.Mutex
			var last time.Time
			took := 0
			w.e.set(func(p post) (int, http.Header, error) {
				mu.Lock()
				defer mu.Unlock()
				if wait := 10*time.Second - time.Since(last); wait > 0 {
					return code, http.Header{"Retry-After": {fmt.Sprint(int(wait/time.Second) + 1)}}, nil
				}
				last = time.Now()
				took++
				return 200, nil, nil
			})
			w.subscribe(map[string]any{"ttlMs": 86_400_000})
			settle()
			for i := range 30 {
				w.add(fmt.Sprint("e", i))
			}
			after(10 * time.Minute)
			w.end() // what was put off is remembered
			w.start()
			after(time.Minute)
			if took != 30 || len(w.e.all("gap")) != 0 {
				t.Errorf("%d: %d of 30 were taken, %d gaps", code, took, len(w.e.all("gap")))
			}
			w.e.set(status(code, "Retry-After", "1"))
			for i := range 200 {
				w.add(fmt.Sprint("f", i))
				after(2 * time.Second)
			}
			if s := w.subscribe(map[string]any{"ttlMs": 86_400_000}).Status; s == nil || !s.Active || s.Failing != nil {
				t.Errorf("%d: status %+v, want active and not failing", code, s)
			}
			w.end()
		}
	})
}

// What was put off by a clock that was set back since does not wait for it.
func TestTimesOfAClockThatWasSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		id := w.subscribe(map[string]any{"ttlMs": 86_400_000}).ID
		w.e.set(status(500))
		w.add("e1")
		settle()
		w.stop()
		far := time.Now().Add(2 * time.Hour).UnixMilli()
		if _, err := change(context.Background(), &w.s.webhooks.ledger, w.s.webhooks.records, id, nil, func(r *webhookRecord) (*webhookRecord, verdict, error) {
			r.Throttled = far
			r.Tries = []storedTry{{r.Tries[0].Cursor, tries{N: 1, First: far, Next: far}}}
			return r, put, nil
		}); err != nil {
			t.Fatal(err)
		}
		w.e.set(nil)
		w.e.clear()
		w.start()
		after(time.Minute)
		if got := eventIDs(w.e.all("")); got != "e1" {
			t.Errorf("within a minute %q is delivered, want e1", got)
		}
	})
}

func TestCallbackHostHasOneSpelling(t *testing.T) {
	want := "https://[2606:4700::1111]:443"
	for _, text := range []string{"https://[2606:4700::1111]/h", "https://[2606:4700:0:0::1111]:443/h", "https://[2606:4700:0000::1111]/h", "https://[2606:4700::0.0.17.17]/"} {
		u, err := parseCallback(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := origin(u); got != want {
			t.Errorf("origin(%s) = %s, want %s", text, got, want)
		}
		if v, err := url.Parse(origin(u) + wellKnownPath); err != nil || v.Hostname() != callbackHost(u) {
			t.Errorf("the origin of %s is no URL: %v", text, err)
		}
	}
}

// A secret that nothing is signed with any more leaves the store.
func TestOldSecretsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		id := w.subscribe(map[string]any{"ttlMs": 86_400_000}).ID
		w.subscribe(map[string]any{"ttlMs": 86_400_000, "secret": nextSecret})
		after(time.Hour)
		r, err := w.store.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := decodeRecord(r.Value)
		if err != nil || len(rec.Secrets) != 1 || !secretOf(rec.Secrets[0].Key).Equal(mustSecret(t, nextSecret)) {
			t.Errorf("the record holds %d secrets (%v), want the new one alone", len(rec.Secrets), err)
		}
	})
}

// An envelope does not go before the time either that the endpoint asked for.
func TestEnvelopesWaitForTheEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(nil)
		w.e.set(status(429, "Retry-After", "600"))
		w.add("e1")
		settle()
		w.s.Withdraw("tick")
		after(599 * time.Second)
		if n := len(w.e.all("terminated")); n != 0 {
			t.Errorf("%d envelopes within the ten minutes, want none", n)
		}
		w.e.set(nil)
		after(2 * time.Second)
		if n := len(w.e.all("terminated")); n != 1 {
			t.Errorf("%d envelopes after them, want 1", n)
		}
	})
}
