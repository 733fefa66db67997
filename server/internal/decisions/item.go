package decisions

import (
	"bytes"
	"encoding/json"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// An Item is a decision in its place in the log.
type Item struct {
	Cursor   attend.LogCursor // to read on behind it
	Decision attend.Decision
}

// MarshalJSON writes the whole item: [Item.Payload] without a limit.
func (i Item) MarshalJSON() ([]byte, error) { return i.Payload(0) }

// Payload is what every reader gets of a decision: core's wire form of it (with
// its scope), its notice, and its cursor. Where it would be longer than limit
// bytes, the oldest events are cut from the window and counted in eventsCut; the
// notice stays whole. 0: no limit.
func (i Item) Payload(limit int) ([]byte, error) {
	notice := attend.DefaultNotice(i.Decision)
	b, err := payload(i.Decision, notice, i.Cursor, 0)
	if err != nil || limit <= 0 || len(b) <= limit {
		return b, err
	}
	d, over, cut := i.Decision, len(b)-limit, 0
	over += len(`,"eventsCut":1000000`)
	for events := d.Window.Events; cut < len(events) && over > 0; cut++ {
		text, err := marshal(events[cut])
		if err != nil {
			return nil, err
		}
		over -= len(text) + 1 // the comma
	}
	d.Window.Events = slices.Clone(d.Window.Events[cut:])
	return payload(d, notice, i.Cursor, cut)
}

// payload adds fields behind those of a decision's wire form.
func payload(d attend.Decision, notice string, cursor attend.LogCursor, cut int) ([]byte, error) {
	b, err := d.MarshalJSON()
	if err != nil {
		return nil, err
	}
	more, err := marshal(struct {
		EventsCut int    `json:"eventsCut,omitempty"`
		Notice    string `json:"notice"`
		Cursor    string `json:"cursor"`
	}{cut, notice, cursor.String()})
	if err != nil {
		return nil, err
	}
	b[len(b)-1] = ','
	return append(b, more[1:]...), nil
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
