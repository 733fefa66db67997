package mcpevents

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// How much work one check against a schema of the app's may be, in applications
// of a schema to a value: arguments come from anybody, data from the app.
const (
	maxArgumentsWork = maxWork / 8
	maxDataWork      = maxWork * 4
	workPerByte      = 2 // that is added for each byte of the value
	pairsPerUnit     = 3 // of items that have to be compared with each other
)

var (
	errTooMuchWork = errors.New("takes too much work to check")
	errEndless     = errors.New("mcpevents: schema: it refers to itself without going into the value")
)

// quoting are the keywords whose errors have all of the value in their text.
var quoting = []string{"type", "enum", "const", "contains", "pattern", "minLength", "maxLength"}

// A schemaWork is a schema as far as it makes work.
type schemaWork struct {
	each   float64 // of one application
	byte   float64 // for each byte of the value: of patterns, and of errors that quote it
	unique bool

	same     []*schemaWork          // apply to the same value
	names    []*schemaWork          // to an object's names
	members  map[string]*schemaWork // to the member of that name
	first    []*schemaWork          // to a list's first items
	items    []*schemaWork          // to those behind them
	unlisted []*schemaWork          // to what is none of the last three
	inner    []*schemaWork          // to all that is inside
}

// A workshop makes them, of the schemas of one document.
type workshop struct {
	*costing // to resolve references
	made     map[string]*schemaWork
	err      error
}

// work measures a schema whose anchors are collected. It refuses one that does not
// come to an end, and one that is too much work whatever the value is.
func (c *costing) work() (*schemaWork, error) {
	w := &workshop{costing: c, made: map[string]*schemaWork{}}
	top := w.make(c.root, "#")
	if w.err != nil {
		return nil, w.err
	}
	ended := map[*schemaWork]bool{}
	for _, s := range w.made {
		if !s.ends(ended) {
			return nil, errEndless
		}
	}
	if top.exceeds(maxArgumentsWork, map[string]any{}) {
		return nil, fmt.Errorf("mcpevents: schema: it %w", errTooMuchWork)
	}
	return top, nil
}

// ends reports whether what applies to the same value comes to an end. Ended has
// what was looked at, and false for what is being looked at.
func (s *schemaWork) ends(ended map[*schemaWork]bool) bool {
	if known, looked := ended[s]; looked {
		return known
	}
	ended[s] = false
	for _, t := range s.same {
		if !t.ends(ended) {
			return false
		}
	}
	ended[s] = true
	return true
}

func (w *workshop) make(v any, at string) *schemaWork {
	if s := w.made[at]; s != nil {
		return s
	}
	s := &schemaWork{each: 1}
	w.made[at] = s
	m, ok := v.(map[string]any)
	if !ok {
		return s // true and false are schemas
	}
	s.each += listed(m)
	if slices.ContainsFunc(quoting, func(name string) bool { return m[name] != nil }) {
		s.byte = 1.0 / bytesPerUnit
	}
	s.unique, _ = m["uniqueItems"].(bool)
	if text, ok := m["pattern"].(string); ok {
		s.byte += patternWork(text)
	}
	for _, name := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := m[name].(string); ok {
			target, place, ok := w.resolve(ref)
			if !ok {
				w.err = fmt.Errorf("mcpevents: schema: %s/%s refers to what is not in it", at, name)
				return s
			}
			s.same = append(s.same, w.make(target, place))
		}
	}
	for _, name := range sameLists {
		s.same = append(s.same, w.list(m, at, name)...)
	}
	for _, name := range sameOnes {
		s.same = append(s.same, w.one(m, at, name)...)
	}
	for _, name := range sameMaps {
		for _, t := range w.named(m, at, name) {
			s.same = append(s.same, t)
		}
	}
	for pattern, t := range w.named(m, at, "patternProperties") {
		s.byte += patternWork(pattern)
		s.inner = append(s.inner, t)
	}
	s.inner = append(s.inner, w.one(m, at, "contains")...)
	s.names = w.one(m, at, "propertyNames")
	s.members = w.named(m, at, "properties")
	s.first = w.list(m, at, "prefixItems")
	s.items = w.one(m, at, "items")
	for _, name := range []string{"additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems"} {
		s.unlisted = append(s.unlisted, w.one(m, at, name)...)
	}
	return s
}

// one, list and named make the schemas under a keyword.
func (w *workshop) one(m map[string]any, at, name string) []*schemaWork {
	v, ok := m[name]
	if !ok {
		return nil
	}
	return []*schemaWork{w.make(v, at+"/"+name)}
}

func (w *workshop) list(m map[string]any, at, name string) (all []*schemaWork) {
	list, _ := m[name].([]any)
	for i, v := range list {
		all = append(all, w.make(v, at+"/"+name+"/"+strconv.Itoa(i)))
	}
	return all
}

func (w *workshop) named(m map[string]any, at, name string) map[string]*schemaWork {
	inside, _ := m[name].(map[string]any)
	all := make(map[string]*schemaWork, len(inside))
	for k, v := range inside {
		all[k] = w.make(v, at+"/"+name+"/"+escaped(k))
	}
	return all
}

// A workValue is a value as far as it makes work.
type workValue struct {
	size   float64  // in bytes, roughly
	names  []string // an object's
	inside []workValue
	nested float64 // how many of those are lists or objects
}

func workOf(v any) workValue {
	out := workValue{size: 8}
	add := func(v any) {
		one := workOf(v)
		out.size += one.size
		switch v.(type) {
		case []any, map[string]any:
			out.nested++
		}
		out.inside = append(out.inside, one)
	}
	switch v := v.(type) {
	case string:
		out.size = float64(len(v))
	case []any:
		out.inside = make([]workValue, 0, len(v))
		for _, e := range v {
			add(e)
		}
	case map[string]any:
		for name, e := range v {
			out.names, out.size = append(out.names, name), out.size+float64(len(name))
			add(e)
		}
	}
	return out
}

// exceeds reports whether to check a value is more work than most, and what its
// size allows for.
func (s *schemaWork) exceeds(most float64, v any) bool {
	value := workOf(v)
	left := most + workPerByte*value.size
	return !s.apply(&value, &left)
}

// apply takes what the check of a value can take at most, and reports whether that
// much was left.
func (s *schemaWork) apply(v *workValue, left *float64) bool {
	*left -= s.each + s.byte*v.size
	if s.unique { // the validator's hash does not tell all of them apart
		*left -= v.nested * v.nested / pairsPerUnit
	}
	if *left < 0 || !applyAll(s.same, v, left) {
		return false
	}
	for i := range v.inside {
		one := &v.inside[i]
		apply := s.unlisted
		switch {
		case v.names != nil:
			if t := s.members[v.names[i]]; t != nil {
				apply = []*schemaWork{t}
			}
			if !applyAll(s.names, &workValue{size: float64(len(v.names[i]))}, left) {
				return false
			}
		case i < len(s.first):
			apply = s.first[i : i+1]
		case len(s.items) > 0:
			apply = s.items
		}
		if !applyAll(apply, one, left) || !applyAll(s.inner, one, left) {
			return false
		}
	}
	return true
}

func applyAll(all []*schemaWork, v *workValue, left *float64) bool {
	for _, s := range all {
		if !s.apply(v, left) {
			return false
		}
	}
	return true
}
