package attend

import (
	"bytes"
	"encoding/json"
	"time"
)

// The JSON forms. Times are Unix milliseconds, 0 and absent for the zero time;
// names are camelCase. They live here and nowhere else; core/vectors/wire holds
// an example of each.

type eventWire struct {
	ID     string          `json:"id"`
	At     int64           `json:"at,omitempty"`
	Name   string          `json:"name"`
	Data   json.RawMessage `json:"data,omitempty"`
	Text   string          `json:"text,omitempty"`
	Source string          `json:"source,omitempty"`
	Kind   Kind            `json:"kind,omitempty"`
}

// MarshalJSON writes the event's wire form. Data that is no JSON is left out, so
// that an event always has one.
func (e Event) MarshalJSON() ([]byte, error) {
	w := eventWire{e.ID, millis(e.At), e.Name, e.Data, e.Text, e.Source, e.Kind}
	b, err := marshal(w)
	if err != nil {
		w.Data = nil
		return marshal(w)
	}
	return b, nil
}

// UnmarshalJSON reads the event's wire form. It checks types alone; see
// [Event.Clean]. Data that Clean made comes back byte for byte, whatever escapes
// the encoder added.
func (e *Event) UnmarshalJSON(b []byte) error {
	var w eventWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Event{w.ID, moment(w.At), w.Name, mendStrings(w.Data), w.Text, w.Source, w.Kind}
	return nil
}

type windowWire struct {
	Reason  Reason  `json:"reason,omitempty"`
	Events  []Event `json:"events"`
	Opened  int64   `json:"opened,omitempty"`
	Settled int64   `json:"settled,omitempty"`
	Dropped int     `json:"dropped,omitempty"`
	Gap     bool    `json:"gap,omitempty"`
	Waits   int     `json:"waits,omitempty"`
}

func (w Window) wire() windowWire {
	events := w.Events
	if events == nil {
		events = []Event{}
	}
	return windowWire{w.Reason, events, millis(w.Opened), millis(w.Settled), w.Dropped, w.Gap, w.Waits}
}

func (w windowWire) window(scope Scope) Window {
	return Window{scope, w.Events, w.Reason, moment(w.Opened), moment(w.Settled), w.Waits, w.Dropped, w.Gap}
}

// MarshalJSON writes the window's wire form, without its scope.
func (w Window) MarshalJSON() ([]byte, error) { return marshal(w.wire()) }

// UnmarshalJSON reads the window's wire form; the scope stays empty.
func (w *Window) UnmarshalJSON(b []byte) error {
	var x windowWire
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	*w = x.window("")
	return nil
}

type judgmentWire struct {
	Route         Route              `json:"route,omitempty"`
	Probabilities map[Route]float64  `json:"probabilities,omitempty"`
	Predicates    map[string]float64 `json:"predicates,omitempty"`
	Confidence    float64            `json:"confidence,omitempty"`
}

// MarshalJSON writes the judgment's wire form.
func (j Judgment) MarshalJSON() ([]byte, error) { return marshal(judgmentWire(j)) }

// UnmarshalJSON reads the judgment's wire form. It checks types alone.
func (j *Judgment) UnmarshalJSON(b []byte) error {
	var w judgmentWire // not j itself: the maps would be added to
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*j = Judgment(w)
	return nil
}

type verdictWire struct {
	ID     DecisionID `json:"id"`
	At     int64      `json:"at"`
	Reason Reason     `json:"reason"`
	Events int        `json:"events"`
	judgmentWire
}

// MarshalJSON writes the verdict's wire form.
func (v Verdict) MarshalJSON() ([]byte, error) {
	return marshal(verdictWire{v.ID, millis(v.At), v.Reason, v.Events, judgmentWire(v.Judgment)})
}

// UnmarshalJSON reads the verdict's wire form.
func (v *Verdict) UnmarshalJSON(b []byte) error {
	var w verdictWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*v = Verdict{w.ID, moment(w.At), w.Reason, w.Events, Judgment(w.judgmentWire)}
	return nil
}

type decisionWire struct {
	ID     DecisionID `json:"id"`
	Scope  Scope      `json:"scope"`
	At     int64      `json:"at"`
	Window windowWire `json:"window"`
	judgmentWire
}

// MarshalJSON writes the decision's wire form.
func (d Decision) MarshalJSON() ([]byte, error) {
	return marshal(decisionWire{d.ID, d.Window.Scope, millis(d.At), d.Window.wire(), judgmentWire(d.Judgment)})
}

// UnmarshalJSON reads the decision's wire form.
func (d *Decision) UnmarshalJSON(b []byte) error {
	var w decisionWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*d = Decision{w.ID, moment(w.At), w.Window.window(w.Scope), Judgment(w.judgmentWire)}
	return nil
}

type letterWire struct {
	ID       DecisionID `json:"id"`
	Scope    Scope      `json:"scope"`
	Stage    Stage      `json:"stage"`
	Message  string     `json:"message"`
	Attempts int        `json:"attempts"`
	Window   windowWire `json:"window"`
	Decision *Decision  `json:"decision,omitempty"`
}

// MarshalJSON writes the dead letter's wire form.
func (l DeadLetter) MarshalJSON() ([]byte, error) {
	return marshal(letterWire{l.ID, l.Window.Scope, l.Stage, l.Message, l.Attempts, l.Window.wire(), l.Decision})
}

// UnmarshalJSON reads the dead letter's wire form.
func (l *DeadLetter) UnmarshalJSON(b []byte) error {
	var w letterWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*l = DeadLetter{w.ID, w.Stage, w.Message, w.Attempts, w.Window.window(w.Scope), w.Decision}
	return nil
}

type refWire struct {
	Source string `json:"source,omitempty"`
	ID     string `json:"id"`
}

type markWire struct {
	Step     Step       `json:"step"`
	At       int64      `json:"at"`
	ID       DecisionID `json:"id,omitempty"`
	Stage    Stage      `json:"stage,omitempty"`
	Reason   Reason     `json:"reason,omitempty"`
	From     Route      `json:"from,omitempty"`
	Why      Why        `json:"why,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	Events   []refWire  `json:"events,omitempty"`
	judgmentWire
}

// MarshalJSON writes the mark's wire form.
func (m Mark) MarshalJSON() ([]byte, error) {
	w := markWire{m.Step, millis(m.At), m.ID, m.Stage, m.Reason, m.From, m.Why, m.Attempts, nil, judgmentWire(m.Judgment)}
	for _, e := range m.Events {
		w.Events = append(w.Events, refWire(e))
	}
	return marshal(w)
}

// UnmarshalJSON reads the mark's wire form.
func (m *Mark) UnmarshalJSON(b []byte) error {
	var w markWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*m = Mark{w.Step, moment(w.At), w.ID, w.Stage, w.Reason, w.From, w.Why, w.Attempts, nil, Judgment(w.judgmentWire)}
	for _, e := range w.Events {
		m.Events = append(m.Events, EventRef(e))
	}
	return nil
}

// marshal is json.Marshal, but leaves <, > and & as they are: a row of the log
// holds what the producer sent.
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
