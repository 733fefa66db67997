package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOP47DataThatDoesNotConformIsFlagged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		typ := `{"name":"tick","delivery":["push"],"payloadSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9}},"required":["n"]}}`
		var trouble []error
		_, s := (&fakeServer{list: listOf(typ), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/event", event("good", "c1"))
			p.note(m, "events/event", strings.Replace(event("bad", "c2"), `{"n":1}`, `{"n":"secret"}`, 1))
		})}).connect(t, SessionConfig{})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{MaxEvents: 1, OnTrouble: func(err error) { trouble = append(trouble, err) }}), 2)
		if idsOf(got) != "good bad" || err != nil || got[0].Events[0].Mismatch || !got[1].Events[0].Mismatch {
			t.Errorf("%v, %v", got, err)
		}
		if len(trouble) != 1 {
			t.Fatalf("trouble %v", trouble)
		}
		if e, ok := errors.AsType[*MismatchError](trouble[0]); !ok || e.ID != "bad" || strings.Contains(e.Error(), "secret") {
			t.Errorf("trouble %v", trouble[0])
		}
	})
}

// doubling is a schema whose work doubles with each of n levels, by the way that
// one level refers to the next.
func doubling(n int, twice string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/n0","$defs":{`)
	for i := range n {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/n%d"}`, i+1)
		fmt.Fprintf(&b, `"n%d":%s,`, i, strings.ReplaceAll(twice, "REF", ref))
	}
	fmt.Fprintf(&b, `"n%d":{}}}`, n)
	return b.String()
}

func TestASchemaThatIsMeantToHarmIsNotApplied(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60)
	list := `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"x":1},`, 100_000), ",") + `]}`
	for name, one := range map[string]struct{ schema, data string }{
		"refers to itself":            {`{"$ref":"#"}`, `{}`},
		"refers to itself by a name":  {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `{}`},
		"refers to itself in allOf":   {`{"allOf":[{"$ref":"#"}]}`, `{}`},
		"refers to itself in not":     {`{"not":{"$ref":"#"}}`, `{}`},
		"refers to itself in if":      {`{"if":true,"then":{"$ref":"#"}}`, `{}`},
		"refers to itself by anchor":  {`{"$anchor":"x","$ref":"#x"}`, `{}`},
		"refers to itself dynamicly":  {`{"$dynamicAnchor":"x","allOf":[{"$dynamicRef":"#x"}]}`, `{}`},
		"refers to itself by its id":  {`{"$id":"https://x.test/s","$ref":"https://x.test/s"}`, `{}`},
		"dependent on itself":         {`{"dependentSchemas":{"a":{"$ref":"#"}}}`, `{"a":1}`},
		"doubles in allOf":            {doubling(40, `{"allOf":[REF,REF]}`), `{}`},
		"doubles in anyOf":            {doubling(40, `{"anyOf":[{"type":"string"},REF,REF]}`), `{}`},
		"doubles on the way down":     {doubling(60, `{"properties":{"a":{"allOf":[REF,REF]}}}`), nested},
		"doubles by two ways down":    {`{"patternProperties":{"a":{"$ref":"#"}},"additionalProperties":{"$ref":"#"},"properties":{"a":{"$ref":"#"}}}`, nested},
		"many for each value":         {`{"properties":{"a":{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"string"},`, 900), ",") + `,{}]}}}}`, list},
		"a pattern of many steps":     {`{"properties":{"a":{"pattern":"(((x{30}){30}){30})y"}}}`, `{"a":"` + strings.Repeat("x", 1<<19) + `"}`},
		"a long enum":                 {`{"properties":{"a":{"items":{"enum":[` + strings.TrimSuffix(strings.Repeat(`"e",`, 50_000), ",") + `,{"x":1}]}}}}`, list},
		"no schema at all":            {`{"type":7}`, `{}`},
		"a reference to nowhere":      {`{"$ref":"#/$defs/none"}`, `{}`},
		"a reference out of the text": {`{"$ref":"https://elsewhere.test/schema"}`, `{}`},
	} {
		start := time.Now()
		if c := newPayloadCheck(json.RawMessage(one.schema)); !c.conforms(json.RawMessage(one.data)) {
			t.Errorf("%s: is applied", name)
		}
		if d := time.Since(start); d > 20*time.Second { // it would be hours
			t.Errorf("%s: takes %v", name, d)
		}
	}
}

func TestAnOrdinarySchemaIsApplied(t *testing.T) {
	tree := `{"$id":"https://x.test/tree","type":"object","required":["name"],"properties":{"name":{"type":"string","pattern":"^[a-z]+$"},"left":{"$ref":"#"},"right":{"$ref":"https://x.test/tree#"},"kids":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`
	nested := func(leaf string) string {
		return `{"name":"a","left":{"name":"b","right":{"name":"c","kids":[{"name":"d"},` + leaf + `]}}}`
	}
	// Each of these is tried on each level, so that the work doubles with it.
	expression := `{"properties":{"where":{"$ref":"#/$defs/e"}},"$defs":{"e":{"oneOf":[` +
		`{"properties":{"op":{"const":"and"},"left":{"$ref":"#/$defs/e"},"right":{"$ref":"#/$defs/e"}},"required":["left"]},` +
		`{"properties":{"op":{"const":"not"},"of":{"$ref":"#/$defs/e"}},"required":["of"]},` +
		`{"properties":{"op":{"const":"var"},"name":{"type":"string"}},"required":["name"]}]}}}`
	anything := `{"additionalProperties":{"$ref":"#/$defs/v"},"$defs":{"v":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/v"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/v"}}]}}}`
	wide := []string{}
	for i := range 200 {
		wide = append(wide, fmt.Sprintf(`"p%d":{"type":"integer","minimum":0}`, i))
	}
	for _, one := range []struct {
		schema, data string
		want         bool
	}{
		{tree, nested(`{"name":"e"}`), true},
		{tree, nested(`{"name":"E"}`), false},
		{tree, nested(`{}`), false},
		{tree, nested(`{"name":"e","other":1}`), false},
		{`{"properties":{` + strings.Join(wide, ",") + `}}`, `{"p199":1}`, true},
		{`{"properties":{` + strings.Join(wide, ",") + `}}`, `{"p199":-1}`, false},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1}`, true},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":1}`, false},
		{`{"$defs":{"a/b~c":{"type":"object"}},"properties":{"x":{"$ref":"#/$defs/a~1b~0c"}}}`, `{"x":1}`, false},
		{`{"properties":{"big":{"maxLength":300000}}}`, `{"big":"` + strings.Repeat("x", 400_000) + `"}`, false},
		{``, `{"anything":[1]}`, true},
		{expression, `{"where":{"op":"and","left":{"op":"var","name":"a"},"right":{"op":"not","of":{"op":"var","name":"b"}}}}`, true},
		{expression, `{"where":{"op":"and","left":{"op":"var","name":"a"},"right":{"op":"not","of":{"op":"var","name":7}}}}`, false},
		{anything, `{"a":["b",{"c":"d"}]}`, true},
		{anything, `{"a":["b",{"c":7}]}`, false},
	} {
		if got := newPayloadCheck(json.RawMessage(one.schema)).conforms(json.RawMessage(one.data)); got != one.want {
			t.Errorf("%.80s: %.60s conforms = %v, want %v", one.schema, one.data, got, one.want)
		}
	}
}

func FuzzPayloadCheckEnds(f *testing.F) {
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Add(`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, `{"a":{"a":{"a":{}}}}`)
	f.Add(`{"items":{"$ref":"#/items"}}`, `{"a":[1]}`)
	f.Add(`{"$defs":{"a":{"if":{"$ref":"#"},"else":{"$ref":"#/$defs/a/if"}}}}`, `{"a":[[]]}`)
	f.Fuzz(func(t *testing.T, schema, data string) {
		if !isObject([]byte(data)) || tooDeep([]byte(data)) {
			return
		}
		_ = newPayloadCheck(json.RawMessage(schema)).conforms(json.RawMessage(data))
	})
}

// TestASchemaDoesNotEndTheProcess tries each schema in a process of its own, since
// nothing recovers from a stack that is used up.
func TestASchemaDoesNotEndTheProcess(t *testing.T) {
	schemas := []string{
		`{"$REF":"#"}`,
		`{"AllOf":[{"$Ref":"#"}]}`,
		`{"If":{"$ref":"#"}}`,
		`{"not":{"$ref":"#"},"not":{}}`,
		`{"not":{"$ref":"#"},"not":true}`,
		`{"dependentSchemas":{"a":{"$ref":"#"}},"dependentSchemas":{}}`,
		`{"$ref":"#/additionalItems","additionalItems":null}`,
		`{"properties":{"a":null}}`,
		`{"allOf":[null]}`,
	}
	if i := os.Getenv("EVENTS_TEST_SCHEMA"); i != "" {
		debug.SetMaxStack(64 << 20)
		n, err := strconv.Atoi(i)
		if err != nil {
			t.Fatal(err)
		}
		newPayloadCheck(json.RawMessage(schemas[n])).conforms(json.RawMessage(`{"a":1}`))
		return
	}
	for i, text := range schemas {
		cmd := exec.Command(os.Args[0], "-test.run=^TestASchemaDoesNotEndTheProcess$")
		cmd.Env = append(os.Environ(), "EVENTS_TEST_SCHEMA="+strconv.Itoa(i))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s ends the process: %v, %.80q", text, err, out)
		}
	}
}

func TestTheEstimateOfASchemaHasABoundItself(t *testing.T) {
	var items, names, many strings.Builder
	s := strings.Repeat("x", 56)
	for i := range 56 * 56 { // one text in different cuts, which hash alike
		fmt.Fprintf(&items, `["%s","%s","%s"],`, s[:i/56], s[i/56:max(i/56, i%56)], s[max(i/56, i%56):])
	}
	for i := range 8000 {
		fmt.Fprintf(&many, `"%d":{"items":{"$ref":"#"}},`, i)
	}
	for i := range 35_000 {
		fmt.Fprintf(&names, `"%d",`, i%10)
	}
	list := func(b *strings.Builder) string { return strings.TrimSuffix(b.String(), ",") }
	for name, one := range map[string]struct{ schema, data string }{
		"unique items that hash alike": {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + list(&items) + `]}`},
		"many required names":          {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/a"},`, 2000), ",") + `],"$defs":{"a":{"dependentRequired":{"a":[` + list(&names) + `]}}}}`, `{"a":1}`},
		"many properties":              {`{"properties":{` + list(&many) + `}}`, strings.Repeat(`{"1":[`, 8) + strings.Repeat(`]}`, 8)},
	} {
		c := newPayloadCheck(json.RawMessage(one.schema))
		if c.on && c.cost.of(json.RawMessage(one.data)) <= maxWork {
			t.Errorf("%s: is held for cheap", name)
		}
	}
	c := newPayloadCheck(json.RawMessage(`{"properties":{"a":{"uniqueItems":true}}}`))
	if c.conforms(json.RawMessage(`{"a":[1,1]}`)) || !c.conforms(json.RawMessage(`{"a":[1,2]}`)) {
		t.Error("uniqueItems is not applied to a short list")
	}
}
