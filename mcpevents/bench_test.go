package mcpevents

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkFollowHTTP takes events of some 600 bytes from a server that does
// nothing but write them.
func BenchmarkFollowHTTP(b *testing.B) {
	pad := strings.Repeat("x", 400)
	f := &fakeWeb{list: listOf(pushType), serve: streamed(func(w sseWriter, r *http.Request) {
		w.note("events/active", `"cursor":"c0"`)
		var text strings.Builder
		for i := 1; r.Context().Err() == nil; i++ {
			fmt.Fprintf(&text, "data: %s\n\n", w.text("events/event", strings.Replace(event(fmt.Sprint("e", i), fmt.Sprint("c", i)), `{"n":1}`, `{"n":"`+pad+`"}`, 1)))
			if i%100 == 0 {
				w.raw(text.String())
				text.Reset()
			}
		}
	})}
	s := f.start(b, SessionConfig{})
	n := 0
	b.ReportAllocs()
	b.ResetTimer()
	for batch, err := range s.Follow(b.Context(), tick, FollowConfig{}) {
		if err != nil {
			b.Fatal(err)
		}
		if n += len(batch.Events); n >= b.N {
			break
		}
	}
	b.StopTimer()
}
