package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// dialect is the JSON Schema that is spoken here.
const dialect = "https://json-schema.org/draft/2020-12/schema"

var (
	typeNames = []string{"null", "boolean", "object", "array", "number", "string", "integer"}
	counts    = []string{
		"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
	}
	manyMaps = append([]string{"$defs", "definitions", "properties", "patternProperties"}, sameMaps...)
	manyOnes = append(append([]string{"items"}, innerOnes...), sameOnes...)
	manyAll  = append([]string{"prefixItems", "items"}, sameLists...)
)

// offeredSchema compiles a schema of the app's own. It refuses what the library
// would take for a schema and is none, and what would end the process. What would
// hang a request is refused when it comes: each check is bounded by most, before
// it starts.
func offeredSchema(text json.RawMessage, most float64) (schema, error) {
	s, err := newSchema(text)
	if err != nil || len(text) == 0 {
		return s, err
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return schema{}, fmt.Errorf("mcpevents: schema: %w", err)
	}
	if d, ok := root["$schema"]; ok && d != dialect && d != dialect+"#" {
		return schema{}, errors.New("mcpevents: schema: $schema is not that of draft 2020-12")
	}
	if t, ok := root["type"]; ok && !allows(t, "object") {
		return schema{}, errors.New("mcpevents: schema: its type is not object")
	}
	if err := sound(root, "#"); err != nil {
		return schema{}, err
	}
	if root, err = readAs(text); err != nil {
		return schema{}, err
	}
	c := newCosting(root)
	c.anchors = map[string]place{}
	if err := c.name(root, "#", true); err != nil {
		return schema{}, err
	}
	s.work, err = c.work()
	s.most = most
	return s, err
}

// readAs is a schema as the library reads it: keywords in any case, members that
// come twice as one.
func readAs(text json.RawMessage) (map[string]any, error) {
	var read jsonschema.Schema
	err := json.Unmarshal(text, &read)
	if err == nil {
		text, err = json.Marshal(&read)
	}
	var root map[string]any
	if err == nil && string(text) != "true" {
		err = json.Unmarshal(text, &root)
	}
	if err != nil {
		return nil, fmt.Errorf("mcpevents: schema: %w", err)
	}
	return root, nil
}

func allows(types any, name string) bool {
	list, _ := types.([]any)
	return types == name || slices.Contains(list, any(name))
}

// sound refuses keywords whose values mean nothing.
func sound(v any, at string) error {
	s, ok := v.(map[string]any)
	if !ok {
		return nil // true and false are schemas
	}
	fail := func(keyword string) error {
		return fmt.Errorf("mcpevents: schema: %s/%s is not as it must be", at, keyword)
	}
	if t, ok := s["type"]; ok {
		list, several := t.([]any)
		if !several {
			list = []any{t}
		}
		for i, t := range list {
			name, _ := t.(string)
			if !slices.Contains(typeNames, name) || slices.Contains(list[:i], t) {
				return fail("type")
			}
		}
		if len(list) == 0 {
			return fail("type")
		}
	}
	for _, name := range counts {
		if n, ok := s[name].(float64); ok && n < 0 {
			return fail(name)
		}
	}
	if n, ok := s["multipleOf"].(float64); ok && n <= 0 {
		return fail("multipleOf")
	}
	for _, name := range sameLists {
		if list, ok := s[name].([]any); ok && len(list) == 0 {
			return fail(name)
		}
	}
	if _, ok := s["items"].([]any); ok { // prefixItems, in this draft
		return fail("items")
	}
	return each(s, at, sound)
}

// each visits the schemas that are directly inside another.
func each(s map[string]any, at string, visit func(v any, at string) error) error {
	for _, name := range manyMaps {
		m, _ := s[name].(map[string]any)
		for k, v := range m {
			if err := visit(v, at+"/"+name+"/"+escaped(k)); err != nil {
				return err
			}
		}
	}
	for _, name := range manyOnes {
		if v, ok := s[name]; ok {
			if err := visit(v, at+"/"+name); err != nil {
				return err
			}
		}
	}
	for _, name := range manyAll {
		list, _ := s[name].([]any)
		for i, v := range list {
			if err := visit(v, at+"/"+name+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A place is a schema that an anchor names.
type place struct {
	v  any
	at string
}

// name collects the anchors. A schema with an id of its own inside another would
// make references mean something else there.
func (c *costing) name(v any, at string, top bool) error {
	s, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if _, ok := s["$id"].(string); ok && !top {
		return fmt.Errorf("mcpevents: schema: %s has an $id of its own", at)
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		name, ok := s[keyword].(string)
		if !ok {
			continue
		}
		if have, ok := c.anchors[name]; ok && have.at != at || strings.HasPrefix(name, "/") {
			return fmt.Errorf("mcpevents: schema: %s/%s is not as it must be", at, keyword)
		}
		c.anchors[name] = place{v, at}
	}
	return each(s, at, func(v any, at string) error { return c.name(v, at, false) })
}
