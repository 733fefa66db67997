package inspect

import (
	"encoding/json"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A Scope is what is in a scope now.
type Scope struct {
	Scope     attend.Scope
	At        time.Time // of its last input
	Due       time.Time // when it wants to be looked at; zero: never
	Open      attend.Window
	Held      *attend.Window // nil: none is held
	HeldUntil time.Time      // when it is judged again at the latest; zero where none is held
	Slot      *machine.Slot  // the window that is being judged, or waits for it; nil: there is none
	Decisions int            // that wait for the sink
	Letters   int            // dead letters that wait for their handler
	Recent    []attend.Verdict
	Cursors   []SourceCursor // of each source of the scope, by its key
}

// A SourceCursor is where a source is in a scope.
type SourceCursor struct {
	Source string
	Cursor attend.Cursor
}

// Of returns what is in a scope with this state, and false for the zero State,
// which is no scope.
func Of(s *machine.State) (Scope, bool) {
	if s.Scope() == "" {
		return Scope{}, false
	}
	x := Scope{Scope: s.Scope(), At: s.Now(), Due: s.Due(), Open: s.Window(), Recent: s.Recent()}
	if w, until, ok := s.Held(); ok {
		x.Held, x.HeldUntil = &w, until
	}
	if slot, ok := s.Slot(); ok {
		x.Slot = &slot
	}
	x.Decisions, x.Letters = len(s.Decisions()), len(s.Letters())
	for source, cursor := range s.Cursors() {
		x.Cursors = append(x.Cursors, SourceCursor{source, cursor})
	}
	return x, true
}

type scopeWire struct {
	Scope   attend.Scope     `json:"scope"`
	At      int64            `json:"at,omitempty"`
	Due     int64            `json:"due,omitempty"`
	Open    attend.Window    `json:"open"`
	Held    *heldWire        `json:"held,omitempty"`
	Slot    *slotWire        `json:"slot,omitempty"`
	Lanes   lanesWire        `json:"lanes"`
	Recent  []attend.Verdict `json:"recent"`
	Cursors []cursorWire     `json:"cursors"`
}

type heldWire struct {
	Window attend.Window `json:"window"`
	Until  int64         `json:"until"`
}

type slotWire struct {
	Window   attend.Window `json:"window"`
	Leased   int64         `json:"leased,omitempty"` // a judge is asked until then
	Ready    int64         `json:"ready,omitempty"`  // it may be asked from then
	Attempts int           `json:"attempts"`
	Message  string        `json:"message,omitempty"`
}

type lanesWire struct {
	Decisions int `json:"decisions"`
	Letters   int `json:"letters"`
}

type cursorWire struct {
	Source string        `json:"source"`
	Cursor attend.Cursor `json:"cursor"`
}

// MarshalJSON writes the wire form of what is in a scope.
func (x Scope) MarshalJSON() ([]byte, error) {
	w := scopeWire{
		Scope: x.Scope, At: millis(x.At), Due: millis(x.Due), Open: x.Open,
		Lanes: lanesWire{x.Decisions, x.Letters}, Recent: append([]attend.Verdict{}, x.Recent...), Cursors: []cursorWire{},
	}
	if x.Held != nil {
		w.Held = &heldWire{*x.Held, millis(x.HeldUntil)}
	}
	if s := x.Slot; s != nil {
		w.Slot = &slotWire{s.Window, millis(s.Leased), millis(s.Ready), s.Attempts, s.Message}
	}
	for _, c := range x.Cursors {
		w.Cursors = append(w.Cursors, cursorWire(c))
	}
	return marshal(w)
}

// UnmarshalJSON reads the wire form of what is in a scope.
func (x *Scope) UnmarshalJSON(b []byte) error {
	var w scopeWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	w.Open.Scope = w.Scope
	*x = Scope{
		Scope: w.Scope, At: moment(w.At), Due: moment(w.Due), Open: w.Open,
		Decisions: w.Lanes.Decisions, Letters: w.Lanes.Letters, Recent: w.Recent,
	}
	if w.Held != nil {
		w.Held.Window.Scope = w.Scope
		x.Held, x.HeldUntil = &w.Held.Window, moment(w.Held.Until)
	}
	if s := w.Slot; s != nil {
		s.Window.Scope = w.Scope
		x.Slot = &machine.Slot{Window: s.Window, Leased: moment(s.Leased), Ready: moment(s.Ready), Attempts: s.Attempts, Message: s.Message}
	}
	for _, c := range w.Cursors {
		x.Cursors = append(x.Cursors, SourceCursor(c))
	}
	return nil
}
