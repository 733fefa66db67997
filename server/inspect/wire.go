package inspect

import (
	"bytes"
	"encoding/json"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The JSON forms: camelCase, and times in Unix milliseconds, absent where there
// is none.

type explanationWire struct {
	Scope      attend.Scope `json:"scope"`
	Event      string       `json:"event"`
	At         int64        `json:"at,omitempty"`
	Lives      []Life       `json:"lives"`
	Trimmed    bool         `json:"trimmed"`
	Limited    bool         `json:"limited"`
	Since      int64        `json:"since,omitempty"`
	Unreadable int          `json:"unreadable,omitempty"`
}

// MarshalJSON writes the explanation's wire form.
func (x Explanation) MarshalJSON() ([]byte, error) {
	lives := x.Lives
	if lives == nil {
		lives = []Life{}
	}
	return marshal(explanationWire{x.Scope, x.Event, millis(x.At), lives, x.Trimmed, x.Limited, millis(x.Since), x.Unreadable})
}

// UnmarshalJSON reads the explanation's wire form.
func (x *Explanation) UnmarshalJSON(b []byte) error {
	var w explanationWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*x = Explanation{Question{w.Scope, w.Event}, w.Lives, moment(w.At), w.Trimmed, w.Limited, moment(w.Since), w.Unreadable}
	return nil
}

type lifeWire struct {
	Source string      `json:"source,omitempty"`
	Name   string      `json:"name,omitempty"`
	Kind   attend.Kind `json:"kind,omitempty"`
	Fate   Fate        `json:"fate"`
	Steps  []Step      `json:"steps"`
}

// MarshalJSON writes the life's wire form.
func (l Life) MarshalJSON() ([]byte, error) { return marshal(lifeWire(l)) }

// UnmarshalJSON reads the life's wire form.
func (l *Life) UnmarshalJSON(b []byte) error {
	var w lifeWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*l = Life(w)
	return nil
}

type stepWire struct {
	At            int64                    `json:"at,omitempty"`
	What          What                     `json:"what"`
	Text          string                   `json:"text"` // for people; Step has it not
	Window        attend.DecisionID        `json:"window,omitempty"`
	Reason        attend.Reason            `json:"reason,omitempty"`
	Events        int                      `json:"events,omitempty"`
	Place         int                      `json:"place,omitempty"`
	Dropped       int                      `json:"dropped,omitempty"`
	Gap           bool                     `json:"gap,omitempty"`
	Waits         int                      `json:"waits,omitempty"`
	Route         attend.Route             `json:"route,omitempty"`
	From          attend.Route             `json:"from,omitempty"`
	Why           attend.Why               `json:"why,omitempty"`
	Stage         attend.Stage             `json:"stage,omitempty"`
	Attempts      int                      `json:"attempts,omitempty"`
	Message       string                   `json:"message,omitempty"`
	Until         int64                    `json:"until,omitempty"`
	Asked         bool                     `json:"asked,omitempty"`
	Probabilities map[attend.Route]float64 `json:"probabilities,omitempty"`
	Predicates    map[string]float64       `json:"predicates,omitempty"`
	Confidence    float64                  `json:"confidence,omitempty"`
}

// MarshalJSON writes the step's wire form, with its sentence as text, whose times
// are in UTC.
func (s Step) MarshalJSON() ([]byte, error) {
	return marshal(stepWire{
		millis(s.At), s.What, s.sentence(time.UTC), s.Window, s.Reason, s.Events, s.Place, s.Dropped, s.Gap, s.Waits,
		s.Route, s.From, s.Why, s.Stage, s.Attempts, s.Message, millis(s.Until), s.Asked,
		s.Probabilities, s.Predicates, s.Confidence,
	})
}

// UnmarshalJSON reads the step's wire form, but not its text.
func (s *Step) UnmarshalJSON(b []byte) error {
	var w stepWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*s = Step{
		moment(w.At), w.What, w.Window, w.Reason, w.Events, w.Place, w.Dropped, w.Gap, w.Waits,
		w.From, w.Why, w.Stage, w.Attempts, w.Message, moment(w.Until), w.Asked,
		attend.Judgment{Route: w.Route, Probabilities: w.Probabilities, Predicates: w.Predicates, Confidence: w.Confidence},
	}
	return nil
}

// marshal is json.Marshal, but leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
