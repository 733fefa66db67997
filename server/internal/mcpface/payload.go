package mcpface

import (
	"bytes"
	"encoding/json"
	"strconv"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/decisions"
)

// MaxPayload is the most bytes of a decision that cross MCP. Of a longer one the
// oldest events are left out and counted; GET /v1/decisions has all of them.
const MaxPayload = 128 << 10

// maxDepth is how deep an event's data may nest. MCP clients refuse messages that
// nest too deep, ours at 64 levels, of which the payload takes a few.
const maxDepth = 56

// payload is what crosses MCP of a decision. An event that can't cross is left out
// as if it were too large, with all older ones: the events that are there are
// always the newest.
func payload(it decisions.Item) (json.RawMessage, error) {
	events := it.Decision.Window.Events
	cut := 0
	for i := len(events) - 1; i >= 0 && cut == 0; i-- {
		if !crosses(events[i].Data) {
			cut = i + 1
		}
	}
	if cut == 0 {
		return it.Payload(MaxPayload)
	}
	notice, err := json.Marshal(attend.DefaultNotice(it.Decision))
	if err != nil {
		return nil, err
	}
	it.Decision.Window.Events = events[cut:]
	text, err := it.Payload(MaxPayload - len(notice))
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	more := 0
	if n, ok := members["eventsCut"]; ok {
		if err := json.Unmarshal(n, &more); err != nil {
			return nil, err
		}
	}
	members["eventsCut"] = json.RawMessage(strconv.Itoa(cut + more))
	members["notice"] = notice // of the whole decision
	return marshal(members)
}

// crosses reports whether an event's data, valid JSON, can be read at the other
// end: it does not nest too deep, and its numbers fit into a double.
func crosses(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		case c == '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(data) && bytes.IndexByte([]byte("+-.eE0123456789"), data[end]) >= 0 {
				end++
			}
			if number := data[i:end]; len(number) > 300 || bytes.ContainsAny(number, "eE") {
				if _, err := strconv.ParseFloat(string(number), 64); err != nil {
					return false
				}
			}
			i = end - 1
		}
	}
	return true
}

// marshal is json.Marshal, but leaves <, > and & as they are.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
