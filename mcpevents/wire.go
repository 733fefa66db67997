package mcpevents

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Descriptor is what a server says of one type of event in events/list.
type Descriptor struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Delivery    []Mode          `json:"delivery"`                // a client keeps the three that it knows
	Input       json.RawMessage `json:"inputSchema,omitempty"`   // what arguments may hold; a client takes none as any object
	Payload     json.RawMessage `json:"payloadSchema,omitempty"` // what data holds; a client takes none as any object
	Meta        map[string]any  `json:"_meta,omitempty"`
}

// listParams and the other params and results are those of the wire. They embed
// the SDK's so that list, poll, subscribe and unsubscribe can be its custom
// methods. A params value serves one call: the SDK writes its metadata into it.
type listParams struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"` // of the pages of the catalogue, not of events
}

// listQuery is listParams as a server reads it.
type listQuery struct {
	mcp.ParamsBase
	Cursor json.RawMessage `json:"cursor,omitempty"`
}

type listResult struct {
	mcp.ResultBase
	ResultType string       `json:"resultType"`
	Events     []Descriptor `json:"events"`
	NextCursor string       `json:"nextCursor,omitempty"`
	TTL        int64        `json:"ttlMs"`
	CacheScope string       `json:"cacheScope"`
}

// pollParams are of events/poll, events/stream (without MaxEvents), and with a
// delivery of events/subscribe and events/unsubscribe. What is raw here is
// checked by who reads it, since absent, null and wrong differ.
type pollParams struct {
	mcp.ParamsBase
	Name      json.RawMessage `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Cursor    json.RawMessage `json:"cursor,omitempty"`
	MaxAge    json.RawMessage `json:"maxAgeMs,omitempty"`
	MaxEvents json.RawMessage `json:"maxEvents,omitempty"`
	Delivery  json.RawMessage `json:"delivery,omitempty"`
	TTL       json.RawMessage `json:"ttlMs,omitempty"`
}

type pollResult struct {
	mcp.ResultBase
	ResultType string      `json:"resultType"`
	Events     []wireEvent `json:"events"`
	Cursor     Cursor      `json:"cursor"`
	Truncated  bool        `json:"truncated"`
	More       bool        `json:"hasMore"`
	NextPoll   *int64      `json:"nextPollMs"`
}

// wireEvent is an event as it travels.
type wireEvent struct {
	ID        string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Cursor    *Cursor         `json:"cursor,omitempty"` // nil in polls
	Meta      map[string]any  `json:"_meta,omitempty"`
}

// wireError is an error inside a notification or an envelope.
type wireError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}
