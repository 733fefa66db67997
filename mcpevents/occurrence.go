package mcpevents

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a client takes of the strings that a server chooses.
const (
	maxTakenID     = 4 << 10
	maxTakenCursor = 64 << 10
	maxTakenTime   = 64
	maxTakenMeta   = 16 << 10
)

// An occurrence is an event as it came, and where it was.
type occurrence struct {
	event  Event
	cursor Cursor
	drop   Drop // why nobody gets it; empty: it is good
}

// parseOccurrence reads an event of the type name, whose data has at most limit
// bytes. A cursor that cannot be read is one that is not there.
func parseOccurrence(raw json.RawMessage, name string, limit int) occurrence {
	var m struct {
		ID        json.RawMessage `json:"eventId"`
		Name      json.RawMessage `json:"name"`
		Timestamp json.RawMessage `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
		Cursor    json.RawMessage `json:"cursor"`
		Meta      json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return occurrence{drop: DropMalformed}
	}
	o := occurrence{}
	o.cursor, _ = parseCursor(m.Cursor)
	v := Event{Data: m.Data, Cursor: o.cursor}
	id := json.Unmarshal(m.ID, &v.ID) == nil && v.ID != "" && len(v.ID) <= maxTakenID
	if id {
		o.event.ID = v.ID
	}
	switch {
	case !id, json.Unmarshal(m.Name, &v.Name) != nil, json.Unmarshal(m.Timestamp, &v.Timestamp) != nil, v.Timestamp == "", len(v.Timestamp) > maxTakenTime:
		o.drop = DropMalformed
	case v.Name != name:
		o.drop = DropForeign
	case len(m.Data) == 0 || m.Data[0] != '{': // it is valid JSON by now
		o.drop = DropMalformed
	case len(m.Data) > limit || tooDeep(m.Data):
		o.drop = DropOversize
	default:
		v.At = parseTime(v.Timestamp)
		if len(m.Meta) <= maxTakenMeta && !tooDeep(m.Meta) && json.Unmarshal(m.Meta, &v.Meta) == nil {
			delete(v.Meta, mcp.MetaKeySubscriptionID) // of the stream, not of the event
		}
		if len(v.Meta) == 0 {
			v.Meta = nil
		}
		o.event = v
	}
	return o
}

// parseCursor reads a cursor that is a string, null or absent; false is for
// anything else.
func parseCursor(raw json.RawMessage) (Cursor, bool) {
	if len(raw) == 0 {
		return "", true
	}
	var c Cursor
	if json.Unmarshal(raw, &c) != nil || len(c) > maxTakenCursor {
		return "", false
	}
	return c, true
}

// parseTime reads the forms of ISO 8601 that servers write; zero for what is none.
func parseTime(s string) time.Time {
	if len(s) > maxTakenTime {
		return time.Time{}
	}
	s = strings.Replace(strings.ToUpper(s), " ", "T", 1)
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999Z07", "2006-01-02T15:04:05.999999999",
		"2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly, "20060102T150405.999999999Z0700",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}
