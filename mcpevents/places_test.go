package mcpevents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Endpoints that answer just in time hold nobody up but their principal.
func TestSlowEndpointsHoldTheirPrincipalUpAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil) // 16 places
		w.e.set(func(p post) (int, http.Header, error) {
			if strings.Contains(p.url, "slow") {
				time.Sleep(4900 * time.Millisecond)
			}
			return 200, nil, nil
		})
		for i := range 100 {
			if _, err := w.s.webhooks.subscribe(as("mallory"), ask(map[string]any{"url": "https://slow.example.org/", "arguments": map[string]any{"n": i}})); err != nil {
				t.Fatal(err)
			}
		}
		w.subscribe(nil)
		settle()
		w.e.clear()
		began := time.Now()
		for i := range 32 {
			w.add(fmt.Sprint("e", i))
		}
		after(time.Second)
		n := 0
		for _, p := range w.e.all("") {
			if p.url == testURL {
				n++
			}
		}
		if n != 32 {
			t.Errorf("%d events reached the fast endpoint in a second, want 32", n)
		}
		if _, err := w.s.webhooks.subscribe(as("bob"), ask(nil)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("the challenge of another principal took %v", d)
		}
		w.end()
		if n := len(w.s.webhooks.places.of); n != 0 {
			t.Errorf("%d shares are left over, want none", n)
		}
	})
}

// What waits for a place has no body yet.
func TestBodiesAreMadeOnceThereIsAPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.w.Parallel, w.w.MaxPerPrincipal = 4, 500 })
		w.e.set(func(post) (int, http.Header, error) { time.Sleep(4 * time.Second); return 200, nil, nil })
		for i := range 300 {
			w.subscribe(map[string]any{"arguments": map[string]any{"n": i}})
		}
		settle()
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		if err := w.log.Append(Event{ID: "big", Data: json.RawMessage(`{"x":"` + strings.Repeat("x", 200<<10) + `"}`)}); err != nil {
			t.Fatal(err)
		}
		settle()
		if more := int64(heap()) - int64(before); more > 20<<20 {
			t.Errorf("300 subscriptions that wait with an event of 200 KiB take %d MiB", more>>20)
		}
	})
}
