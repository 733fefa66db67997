package machine

import (
	"fmt"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Every source of a scope is listed, whatever it has brought, and a reader may
// stop.
func TestCursors(t *testing.T) {
	at := time.UnixMilli(1_772_438_400_000)
	p := DefaultPolicy()
	s, _ := Step(State{}, Configure{At: at, Scope: "ops/db", Policy: &p})
	for i, source := range []string{"b", "a"} {
		s, _ = Step(s, Arrive{At: at, Writer: 1, Number: uint64(i + 1), Source: source, Cursor: attend.Cursor("at " + source)})
	}
	var got string
	for source, cursor := range s.Cursors() {
		got += fmt.Sprint(source, ": ", cursor, "; ")
	}
	if want := "a: at a; b: at b; "; got != want {
		t.Errorf("cursors %q, want %q", got, want)
	}
	for range s.Cursors() {
		break
	}
}
