package mcpsource

import (
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
)

// eventOf translates an event (C3). What is wrong with its data is left to the
// engine, which makes a dead letter of it.
func eventOf(v mcpevents.Event) attend.Event {
	e := attend.Event{ID: v.ID, At: v.At, Name: v.Name, Data: v.Data}
	if _, err := (attend.Event{ID: e.ID, Name: "x"}).Clean(); err != nil {
		e.ID = hashed(e.ID)
	}
	if y := e.At.UTC().Year(); y < 1 || y > 9999 {
		e.At = time.Time{}
	}
	return e
}
