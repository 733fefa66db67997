package mcpevents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestOfferedSchemas(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&doubling, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"a40":{}}}`)
	for _, c := range []struct {
		text string
		fine bool
	}{
		{`{}`, true},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/x","type":["object","null"]}`, true},
		{`{"properties":{"a":{"$ref":"#"}}}`, true}, // goes into the value
		{`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, true},
		{filters, true},
		{`{"$ref":"#x","$defs":{"x":{"$anchor":"x"}}}`, true},
		{`{"properties":{"a":{"$dynamicRef":"#x"}},"$defs":{"x":{"$dynamicAnchor":"x","type":"string"}}}`, true},
		{`{"$ref":"#/$defs/a%20b","$defs":{"a b":{"type":"object"}}}`, true},
		{`{"properties":{"type":{"type":"string"},"items":{"enum":[]}},"default":{"type":"nonsense"}}`, true},

		{`{"$ref":"#"}`, false},
		{`{"$REF":"#"}`, false},
		{`{"allOf":[{"$ref":"#"}]}`, false},
		{`{"$ref":"#x","$anchor":"x"}`, false},
		{`{"$dynamicRef":"#x","$dynamicAnchor":"x"}`, false},
		{doubling.String(), false},
		{`{"$defs":{"x":{"$id":"https://example.com/x"}}}`, false},
		{`{"type":"array"}`, false},
		{`{"type":"nonsense"}`, false},
		{`{"type":[]}`, false},
		{`{"type":["object","object"]}`, false},
		{`{"properties":{"a":{"type":["string","bad"]}}}`, false},
		{`{"items":{"not":{"type":"bad"}}}`, false},
		{`{"definitions":{"a":{"type":"bad"}}}`, false},
		{`{"$schema":"http://json-schema.org/draft-04/schema#"}`, false},
		{`{"minLength":-1}`, false},
		{`{"minContains":-1}`, false},
		{`{"multipleOf":0}`, false},
		{`{"allOf":[]}`, false},
		{`{"properties":{"a":{"items":[{"type":"string"}]}}}`, false},
	} {
		for _, field := range []string{"Input", "Payload"} {
			typ := Type{Name: "a", Backend: NewLog(LogConfig{})}
			if field == "Input" {
				typ.Input = json.RawMessage(c.text)
			} else {
				typ.Payload = json.RawMessage(c.text)
			}
			_, err := NewServer(ServerConfig{Types: []Type{typ}})
			if (err == nil) != c.fine || err != nil && !strings.Contains(err.Error(), field) {
				t.Errorf("%s %.80s: %v, want it taken: %v", field, c.text, err, c.fine)
			}
		}
	}
}
