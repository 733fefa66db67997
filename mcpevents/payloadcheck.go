package mcpevents

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/google/jsonschema-go/jsonschema"
)

// A payloadCheck checks data against a schema that a server sent, which may be
// meant to harm: a schema that refers to itself without end would end the
// process, and a few hundred bytes can ask for any amount of work. So the work is
// bounded before it starts, and past the bound everything conforms.
type payloadCheck struct {
	text   json.RawMessage
	schema schema
	cost   schemaCost
	on     bool
}

// newPayloadCheck compiles a schema. One that cannot be compiled, or costs too
// much, checks nothing.
func newPayloadCheck(text json.RawMessage) payloadCheck {
	c := payloadCheck{text: text}
	if len(text) > 0 {
		c.schema, c.cost, c.on = compile(text)
	}
	return c
}

// compile compiles a schema whose work has a bound. The validator reads keywords
// in any case and merges members that come twice, so what is estimated and
// compiled is its own reading, written out again.
func compile(text json.RawMessage) (s schema, cost schemaCost, ok bool) {
	defer func() {
		if recover() != nil { // the validator's, which trusts schemas
			ok = false
		}
	}()
	if len(text) > maxCheckedSchema || tooDeep(text) {
		return schema{}, schemaCost{}, false
	}
	var read jsonschema.Schema
	if json.Unmarshal(text, &read) != nil {
		return schema{}, schemaCost{}, false
	}
	text, err := json.Marshal(&read)
	if err != nil {
		return schema{}, schemaCost{}, false
	}
	if cost, ok = costOf(text); !ok {
		return schema{}, schemaCost{}, false
	}
	s, err = newSchema(text)
	return s, cost, err == nil
}

// of reports whether the check is of that schema.
func (c payloadCheck) of(text json.RawMessage) bool { return bytes.Equal(c.text, text) }

// conforms reports whether data conforms, as far as that is checked.
func (c payloadCheck) conforms(data json.RawMessage) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = true
		}
	}()
	return !c.on || c.cost.of(data) > maxWork || c.schema.check(data) == nil
}

// maxWork bounds one check, in applications of a schema to a value, of which a
// million take about a second and a half.
const maxWork = 1 << 19

// A schemaCost is how much work a schema makes.
type schemaCost struct {
	// each has the applications for each value in the data, by how deep the data
	// nests. It ends where they have no bound, or one past maxWork: a schema that
	// refers to itself may take twice the work on each level.
	each  []float64
	quote float64 // for each of them, what it takes for each byte of the data
	// unique: lists are looked through for equal items. The validator's hash does
	// not tell all of them apart, so each may be compared with each.
	unique bool
}

// of estimates the work for data, which is valid JSON.
func (c schemaCost) of(data json.RawMessage) float64 {
	values, depth, deepest, quoted := 1.0, 0, 0, false
	for i := 0; i < len(data); i++ {
		b := data[i]
		switch {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			values++
			depth++
			deepest = max(deepest, depth)
		case b == ']' || b == '}':
			depth--
		case b == ',' || b == ':':
			values++
		}
	}
	if deepest >= len(c.each) {
		return math.Inf(1)
	}
	work := c.each[deepest] * (values + c.quote*float64(len(data)))
	if c.unique {
		work *= values
	}
	return work
}
