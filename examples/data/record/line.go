package main

import (
	"encoding/json"
	"io"
	"time"
)

// An event is a line of the day in the form that attend takes in.
type event struct {
	Scope string         `json:"scope"`
	ID    string         `json:"id"`
	At    int64          `json:"at"` // Unix milliseconds
	Name  string         `json:"name"`
	Text  string         `json:"text"`
	Data  map[string]any `json:"data"`
}

// A control is a line that settles its scope's window. It happens with the
// event on the line before it.
type control struct {
	Scope string `json:"scope"`
	Flush bool   `json:"flush,omitempty"`
	End   bool   `json:"end,omitempty"`
}

// controls says which events have a line after them. A workflow that is over is
// the end of a unit of work, and so is a release that is out; who sends a
// dispatch by hand waits for the answer.
var controls = map[string]control{
	"workflow_run.completed":             {End: true},
	"release.released":                   {End: true},
	"repository_dispatch.on-demand-test": {Flush: true},
}

// record writes the day of the payloads to w.
func record(w io.Writer, list []payload) error {
	placed, err := layout(list)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, p := range placed {
		line, err := newEvent(p.payload, p.at)
		if err != nil {
			return err
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
		if c, ok := controls[p.name()]; ok {
			c.Scope = line.Scope
			if err := enc.Encode(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func newEvent(p payload, at time.Time) (event, error) {
	line, err := text(p)
	if err != nil {
		return event{}, err
	}
	return event{
		Scope: p.scope(),
		ID:    p.id(),
		At:    at.UnixMilli(),
		Name:  p.name(),
		Text:  line,
		Data:  extract(p),
	}, nil
}
