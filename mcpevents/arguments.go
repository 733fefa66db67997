package mcpevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gowebpki/jcs"
)

// MaxArgumentsBytes is the most that the arguments of a subscription may have.
const MaxArgumentsBytes = 64 << 10

// maxDepth is how deep JSON of a peer may nest.
const maxDepth = 64

// Canonical returns arguments in the form that identifies a subscription: JSON
// by RFC 8785, {} for none. It refuses what is no JSON object, is over
// [MaxArgumentsBytes], or nests more than 64 levels; its text has nothing of the
// arguments.
func Canonical(arguments json.RawMessage) (json.RawMessage, error) {
	out, fault := canonical(arguments)
	if fault != "" {
		return nil, errors.New("mcpevents: arguments " + fault)
	}
	return out, nil
}

// canonical is Canonical that tells what is wrong, empty for nothing.
func canonical(arguments json.RawMessage) (out json.RawMessage, fault string) {
	if len(arguments) == 0 {
		return json.RawMessage("{}"), ""
	}
	if len(arguments) > MaxArgumentsBytes {
		return nil, fmt.Sprintf("have %d bytes, at most %d are taken", len(arguments), MaxArgumentsBytes)
	}
	if !isObject(arguments) {
		return nil, "are no JSON object"
	}
	if tooDeep(arguments) {
		return nil, fmt.Sprintf("nest more than %d levels", maxDepth)
	}
	out, err := jcs.Transform(arguments)
	if err != nil { // a key twice, half a surrogate pair, a number out of range
		return nil, "have no canonical form (RFC 8785)"
	}
	return out, ""
}

// isObject reports whether b is valid JSON and an object.
func isObject(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

// tooDeep reports whether valid JSON nests more than maxDepth levels.
func tooDeep(b []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
