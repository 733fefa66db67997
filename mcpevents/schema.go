package mcpevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSchemaBytes is the most that a schema of a peer may have.
const maxSchemaBytes = 1 << 20

// A schema checks JSON objects against JSON Schema, draft 2020-12. The zero one
// takes any object. References to other documents are not followed.
type schema struct {
	resolved *jsonschema.Resolved
	work     *schemaWork // nil: its checks are not bounded
	most     float64
}

// newSchema compiles a schema; nil is the schema of any object.
func newSchema(text json.RawMessage) (schema, error) {
	if len(text) == 0 {
		return schema{}, nil
	}
	if len(text) > maxSchemaBytes || !isObject(text) || tooDeep(text) {
		return schema{}, fmt.Errorf("mcpevents: a schema is a JSON object of at most %d bytes and %d levels", maxSchemaBytes, maxDepth)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return schema{}, fmt.Errorf("mcpevents: schema: %w", err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return schema{}, fmt.Errorf("mcpevents: schema: %w", err)
	}
	return schema{resolved: r}, nil
}

// errNotObject is the answer to JSON that is no object.
var errNotObject = errors.New("must be a JSON object")

// check checks one JSON object. The text of its error may quote the value: it
// must not leave the process it came to, nor reach a log.
func (s schema) check(data json.RawMessage) error {
	if !isObject(data) {
		return errNotObject
	}
	if tooDeep(data) {
		return fmt.Errorf("must nest at most %d levels", maxDepth)
	}
	if s.resolved == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // large integers stay whole
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return errNotObject
	}
	_, err := d.Token()
	if !errors.Is(err, io.EOF) {
		return errNotObject
	}
	for name, member := range v {
		if v[name], err = number(member); err != nil {
			return err
		}
	}
	if s.work != nil && s.work.exceeds(s.most, v) {
		return errTooMuchWork
	}
	return s.resolved.Validate(v)
}

// number makes the numbers of decoded JSON into Go's, integers as such where they
// fit: the validator takes a json.Number for a string.
func number(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, errors.New("must have numbers within the range of a double")
		}
		return f, nil
	case map[string]any:
		for name, member := range v {
			if v[name], err = number(member); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, member := range v {
			if v[i], err = number(member); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
