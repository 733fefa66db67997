package mcpevents

import (
	"errors"
	"testing"
	"time"
)

// A word from elsewhere that comes while the store is left alone, after it failed,
// waits until the store is asked again: the courier does not go round meanwhile,
// which would take a processor, and stop the clock of a bubble.
func TestAWordWhileTheStoreRests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &cutStore{SubscriptionStore: NewMemorySubscriptions()}
		w := newWorld(t, func(w *world) { w.store = cut })
		id := w.subscribe(map[string]any{"secret": testSecret}).ID
		settle()
		cut.set(errors.New("gone"))
		w.add("e1") // taken, which is to be written
		after(10*time.Second + 300*time.Millisecond)
		for range 10 {
			w.s.webhooks.poke(id)
			after(130 * time.Millisecond)
		}
		cut.set(nil)
		w.subscribe(map[string]any{"secret": nextSecret}) // the store is still left alone for a moment
		after(2 * time.Second)
		w.e.clear()
		w.add("e2")
		settle()
		if posts := w.e.all(""); len(posts) != 1 || !signed(t, posts[0], nextSecret) {
			t.Errorf("%d deliveries, want e2 signed by the new secret", len(posts))
		}
	})
}
