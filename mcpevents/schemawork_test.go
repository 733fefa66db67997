package mcpevents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// filters is the schema of filters within filters.
const filters = `{"type":"object","additionalProperties":false,"properties":{
	"field":{"type":"string"},"is":{"type":["string","number"]},
	"and":{"type":"array","items":{"$ref":"#"}},"or":{"type":"array","items":{"$ref":"#"}},"not":{"$ref":"#"}},
	"oneOf":[
		{"required":["field","is"]},
		{"required":["and"],"properties":{"and":{"items":{"$ref":"#"}}}},
		{"required":["or"],"properties":{"or":{"items":{"$ref":"#"}}}},
		{"required":["not"]}]}`

// within nests a filter.
func within(levels int, inner string) string {
	for i := range levels {
		inner = fmt.Sprintf([]string{`{"and":[%s]}`, `{"or":[%s]}`, `{"not":%s}`}[i%3], inner)
	}
	return inner
}

func TestFiltersWithinFilters(t *testing.T) {
	const leaf = `{"field":"level","is":3}`
	for name, one := range map[string]struct {
		arguments string
		fine      bool
	}{
		"leaf":           {leaf, true},
		"nested":         {within(7, leaf), true},
		"wide":           {`{"and":[` + strings.TrimSuffix(strings.Repeat(leaf+",", 1000), ",") + `]}`, true},
		"nested, wrong":  {within(7, `{"field":"level"}`), false},
		"wrong name":     {within(2, `{"field":"level","is":3,"other":1}`), false},
		"too much of it": {within(40, leaf), false}, // some 2^26 applications
	} {
		l := NewLog(LogConfig{})
		typ := rawType(l)
		typ.Input = json.RawMessage(filters)
		s, m := rawServer(t, ServerConfig{}, typ)
		p := rawDial(t, t.Context(), s, m)
		began := time.Now()
		answer := p.call(1, methodPoll, `"name":"alert","arguments":`+one.arguments+`,`)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		if one.fine {
			rawPoll(t, answer)
		} else {
			wantError(t, answer, -32602, "")
		}
	}
}

// A check of arguments that a client made up to be as much work as they can be.
func TestWorkOfArgumentsIsBounded(t *testing.T) {
	var alike []string // texts in different cuts, which the validator's hash takes for the same
	text := strings.Repeat("x", 40)
	for i := range len(text) {
		for j := i; j < len(text); j++ {
			alike = append(alike, fmt.Sprintf(`["%s","%s","%s"]`, text[:i], text[i:j], text[j:]))
		}
	}
	branches := strings.TrimSuffix(strings.Repeat(`{"type":"object"},`, 1000), ",")
	for name, one := range map[string]struct{ schema, arguments string }{
		"unique items":       {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + strings.Join(alike, ",") + `]}`},
		"doubling":           {`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, strings.Repeat(`{"a":`, 60) + `{}` + strings.Repeat(`}`, 60)},
		"doubling in names":  {`{"patternProperties":{"^a":{"$ref":"#"},"a$":{"$ref":"#"}}}`, strings.Repeat(`{"a":`, 60) + `{}` + strings.Repeat(`}`, 60)},
		"doubling in lists":  {`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"contains":{"$ref":"#/$defs/x"},"items":{"$ref":"#/$defs/x"}}}}`, `{"a":` + strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60) + `}`},
		"quoted many times":  {`{"properties":{"a":{"anyOf":[` + branches + `]}}}`, `{"a":"` + strings.Repeat("x", 60_000) + `"}`},
		"branches of each":   {`{"properties":{"a":{"items":{"anyOf":[` + branches + `,{}]}}}}`, `{"a":[` + strings.TrimSuffix(strings.Repeat("0,", 30_000), ",") + `]}`},
		"patterns":           {`{"properties":{"a":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"(x{50}){20}y"},`, 100), ",") + `]}}}`, `{"a":"` + strings.Repeat("x", 60_000) + `"}`},
		"names that are all": {`{"propertyNames":{"anyOf":[` + branches + `,{}]}}`, `{` + many(6000, `"k%d":0`) + `}`},
	} {
		s, err := offeredSchema(json.RawMessage(one.schema), maxArgumentsWork)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		arguments, fault := canonical(json.RawMessage(one.arguments))
		if fault != "" {
			t.Fatalf("%s: arguments %s", name, fault)
		}
		began := time.Now()
		if err := s.check(arguments); err == nil || err.Error() != errTooMuchWork.Error() {
			t.Errorf("%s: check = %.80v, want that it is too much work", name, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: that took %v", name, took)
		}
	}
}

// Ordinary arguments and data are checked, the large ones too.
func TestWorkOfWhatIsOrdinary(t *testing.T) {
	list := `{"properties":{"a":{"type":"array","uniqueItems":true,"items":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}}}`
	for name, one := range map[string]struct {
		schema, value string
		most          float64
	}{
		"names":        {`{"properties":{"a":{"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":20}}}}`, `{"a":[` + many(6000, `"n%d"`) + `]}`, maxArgumentsWork},
		"numbers":      {`{"properties":{"a":{"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"string"}]}}}}`, `{"a":[` + many(10_000, `%d`) + `]}`, maxArgumentsWork},
		"some objects": {list, `{"a":[` + many(300, `{"n":%d}`) + `]}`, maxArgumentsWork},
		"objects":      {list, `{"a":[` + many(2000, `{"n":%d}`) + `]}`, maxDataWork},
		"an event":     {list[:len(list)-1] + `,"type":"object"}`, `{"a":[{"n":1}],"text":"` + strings.Repeat("x", 4<<20) + `"}`, maxDataWork},
		"a tree":       {`{"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#"}}}}`, strings.Repeat(`{"c":[`, 30) + `{}` + strings.Repeat(`]}`, 30), maxArgumentsWork},
	} {
		s, err := offeredSchema(json.RawMessage(one.schema), one.most)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.check(json.RawMessage(one.value)); err != nil {
			t.Errorf("%s: check = %.80v", name, err)
		}
	}
}

// many is a list of n things.
func many(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ",")
}

// FuzzOfferedSchemaEnds: what is taken for a schema is checked against in time.
func FuzzOfferedSchemaEnds(f *testing.F) {
	f.Add(filters, within(7, `{"field":"a","is":1}`))
	f.Add(`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, `{"a":{"a":{"a":{}}}}`)
	f.Add(`{"patternProperties":{"^a":{"$ref":"#"}},"additionalProperties":{"$ref":"#"},"propertyNames":{"pattern":"a*"}}`, `{"a":{"ab":{"c":[]}}}`)
	f.Add(`{"$defs":{"a":{"$anchor":"x","items":{"$ref":"#x"},"contains":{"$ref":"#x"},"unevaluatedItems":{"$ref":"#x"}}},"properties":{"a":{"$ref":"#x"}}}`, `{"a":[[[[1]]]]}`)
	f.Add(`{"if":{"properties":{"a":{"$ref":"#"}}},"then":{"properties":{"a":{"$ref":"#"}}},"dependentSchemas":{"a":{"properties":{"a":{"$ref":"#"}}}}}`, `{"a":{"a":{"a":{}}}}`)
	f.Fuzz(func(t *testing.T, text, data string) {
		if len(text) > 4<<10 || len(data) > 4<<10 {
			return
		}
		began := time.Now()
		s, err := offeredSchema(json.RawMessage(text), maxArgumentsWork)
		if err == nil {
			_ = s.check(json.RawMessage(data))
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q against %q took %v", data, text, took)
		}
	})
}
