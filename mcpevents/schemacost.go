package mcpevents

import (
	"encoding/json"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"
)

// maxCheckedSchema is the largest schema of a server that is checked against.
const maxCheckedSchema = 256 << 10

// maxCostings bounds the estimate itself.
const maxCostings = 1 << 16

// What one application of a schema is worth, besides its own: the bytes of a value
// that an error quotes, the steps of a pattern.
const (
	bytesPerUnit        = 16
	instructionsPerUnit = 150
	maxInstructions     = 5000
)

// A costing adds up what it takes to apply a schema to one value: all that is
// reached without going into the value, and on each level below the dearest path.
type costing struct {
	root   any
	base   string         // the root's own $id
	nodes  map[string]int // by the place in the text
	memo   map[costKey]float64
	open   map[costKey]bool
	unique bool // there is uniqueItems
	failed bool

	anchors map[string]place // of an app's schema; nil for a peer's, which has none
}

type costKey struct{ node, depth int }

// The keywords whose schemas apply to the same value, and to what is inside it.
var (
	sameLists = []string{"allOf", "anyOf", "oneOf"}
	sameOnes  = []string{"not", "if", "then", "else"}
	sameMaps  = []string{"dependentSchemas", "dependencies"}
	innerOnes = []string{"additionalProperties", "unevaluatedProperties", "propertyNames", "additionalItems", "unevaluatedItems", "contains"}
)

// costOf estimates a schema. False is for one that has no bound, or is of a kind
// that is not worth the estimate: it is not checked against.
func costOf(text json.RawMessage) (schemaCost, bool) {
	if len(text) > maxCheckedSchema || tooDeep(text) {
		return schemaCost{}, false
	}
	var root map[string]any
	if json.Unmarshal(text, &root) != nil {
		return schemaCost{}, false
	}
	c := newCosting(root)
	patterns, ok := c.survey(root, true)
	if !ok {
		return schemaCost{}, false
	}
	var each []float64
	for depth := range maxDepth + 1 {
		sum := c.cost(root, "#", depth)
		if c.failed || sum > maxWork {
			break
		}
		each = append(each, sum)
	}
	return schemaCost{each: each, quote: 1.0/bytesPerUnit + patterns, unique: c.unique}, len(each) > 1 // data is an object, which nests
}

func newCosting(root map[string]any) *costing {
	c := &costing{root: root, nodes: map[string]int{}, memo: map[costKey]float64{}, open: map[costKey]bool{}}
	c.base, _ = root["$id"].(string)
	return c
}

// survey looks for what has no bound here: references whose target depends on
// where the check comes from, and patterns that are too dear. It returns the cost
// of all patterns for each byte.
func (c *costing) survey(v any, top bool) (patterns float64, ok bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			p, ok := c.survey(e, false)
			if patterns += p; !ok {
				return 0, false
			}
		}
	case map[string]any:
		for _, key := range []string{"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"} {
			if _, has := v[key].(string); has {
				return 0, false
			}
		}
		if _, has := v["$id"].(string); has && !top {
			return 0, false
		}
		if unique, _ := v["uniqueItems"].(bool); unique {
			c.unique = true
		}
		texts := []string{}
		if s, has := v["pattern"].(string); has {
			texts = append(texts, s)
		}
		if m, has := v["patternProperties"].(map[string]any); has {
			for s := range m {
				texts = append(texts, s)
			}
		}
		for _, s := range texts {
			p, ok := patternCost(s)
			if patterns += p; !ok {
				return 0, false
			}
		}
		for _, e := range v {
			p, ok := c.survey(e, false)
			if patterns += p; !ok {
				return 0, false
			}
		}
	}
	return patterns, true
}

// cost is that of the schema at a place, on a value that nests depth levels more.
func (c *costing) cost(v any, at string, depth int) float64 {
	s, ok := v.(map[string]any)
	if !ok {
		return 1
	}
	node, ok := c.nodes[at]
	if !ok {
		node = len(c.nodes)
		c.nodes[at] = node
	}
	key := costKey{node, depth}
	if sum, ok := c.memo[key]; ok {
		return sum
	}
	if len(c.memo) > maxCostings || c.open[key] { // too much to add up, or it comes back to itself on the same value
		c.failed = true
	}
	if c.failed {
		return 0
	}
	c.open[key] = true
	sum := 1 + c.same(s, at, depth)
	if depth > 0 && !c.failed {
		sum += c.inner(s, at, depth-1)
	}
	delete(c.open, key)
	c.memo[key] = sum
	if sum > maxWork {
		c.failed = true
	}
	return sum
}

// same adds up what applies to the same value.
func (c *costing) same(s map[string]any, at string, depth int) float64 {
	sum := listed(s)
	for _, name := range []string{"$ref", "$dynamicRef"} {
		ref, ok := s[name].(string)
		if !ok {
			continue
		}
		target, place, ok := c.resolve(ref)
		if !ok {
			c.failed = true
			return 0
		}
		sum += c.cost(target, place, depth)
	}
	for _, name := range sameLists {
		list, _ := s[name].([]any)
		for i, v := range list {
			sum += c.cost(v, at+"/"+name+"/"+strconv.Itoa(i), depth)
		}
	}
	for _, name := range sameOnes {
		if v, ok := s[name]; ok {
			sum += c.cost(v, at+"/"+name, depth)
		}
	}
	for _, name := range sameMaps {
		m, _ := s[name].(map[string]any)
		for k, v := range m {
			sum += c.cost(v, at+"/"+name+"/"+escaped(k), depth)
		}
	}
	return sum
}

// listed is the work of what a schema lists.
func listed(s map[string]any) float64 {
	sum := 0.0
	for _, name := range []string{"enum", "required", "properties"} {
		switch v := s[name].(type) {
		case []any:
			sum += float64(len(v)) / 10
		case map[string]any:
			sum += float64(len(v)) / 10
		}
	}
	for _, name := range []string{"dependentRequired", "dependencies"} {
		m, _ := s[name].(map[string]any)
		for _, v := range m {
			list, _ := v.([]any)
			sum += float64(len(list)) / 10
		}
	}
	return sum
}

// inner adds up what may apply to one value inside, which has one name or place.
func (c *costing) inner(s map[string]any, at string, depth int) float64 {
	sum, dearest := 0.0, 0.0
	m, _ := s["properties"].(map[string]any)
	for k, v := range m {
		dearest = max(dearest, c.cost(v, at+"/properties/"+escaped(k), depth))
	}
	m, _ = s["patternProperties"].(map[string]any)
	for k, v := range m {
		sum += c.cost(v, at+"/patternProperties/"+escaped(k), depth)
	}
	for _, name := range []string{"prefixItems", "items"} {
		list, _ := s[name].([]any)
		for i, v := range list {
			dearest = max(dearest, c.cost(v, at+"/"+name+"/"+strconv.Itoa(i), depth))
		}
	}
	if v, ok := s["items"].(map[string]any); ok {
		dearest = max(dearest, c.cost(v, at+"/items", depth))
	}
	for _, name := range innerOnes {
		if v, ok := s[name]; ok {
			sum += c.cost(v, at+"/"+name, depth)
		}
	}
	return sum + dearest
}

func escaped(s string) string {
	if !strings.ContainsAny(s, "~/") {
		return s
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// resolve finds what a reference within the schema points at, and its place.
func (c *costing) resolve(ref string) (any, string, bool) {
	rest := ref
	if c.base != "" {
		rest = strings.TrimPrefix(ref, strings.TrimSuffix(c.base, "#"))
	}
	if rest != "" && rest[0] != '#' {
		return nil, "", false
	}
	pointer := strings.TrimPrefix(rest, "#")
	if pointer == "" {
		return c.root, "#", true
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, "", false
	}
	if p, ok := c.anchors[pointer]; ok {
		return p.v, p.at, true
	}
	if pointer == "" || pointer[0] != '/' {
		return nil, "", false
	}
	v, at := c.root, "#"
	for _, token := range strings.Split(pointer[1:], "/") {
		at += "/" + token
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch t := v.(type) {
		case map[string]any:
			next, ok := t[token]
			if !ok {
				return nil, "", false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(t) {
				return nil, "", false
			}
			v = t[i]
		default:
			return nil, "", false
		}
	}
	return v, at, true
}

// patternCost is the work of a peer's pattern for each byte that it looks at.
func patternCost(pattern string) (float64, bool) {
	if len(pattern) > 1<<10 {
		return 0, false
	}
	work := patternWork(pattern)
	return work, work > 0 && work <= maxInstructions/instructionsPerUnit
}

// patternWork is the same without a limit; zero is that of what is no pattern.
func patternWork(pattern string) float64 {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	return float64(len(prog.Inst)) / instructionsPerUnit
}
