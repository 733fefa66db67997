package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestKinds(t *testing.T) {
	k, err := readKinds(`{
		"build.*": "closing", "build.log": "consequence", "build.log.*": "passive",
		"b*": "continuous", "push": "flush", "push*": "context", "a*b": "flush"
	}`, "consequence")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]attend.Kind{
		"build.done":    attend.KindClosing,
		"build.":        attend.KindClosing,
		"build.log":     attend.KindConsequence,
		"build.logs":    attend.KindClosing,
		"build.log.one": attend.KindPassive,
		"build":         attend.KindContinuous,
		"b":             attend.KindContinuous,
		"push":          attend.KindFlush,
		"pushed":        attend.KindContext,
		"pus":           attend.KindConsequence,
		"a*b":           attend.KindFlush, // a star in the middle is a star
		"axb":           attend.KindConsequence,
		"Build.done":    attend.KindConsequence,
		"B":             attend.KindConsequence,
	} {
		if got := k.kind(attend.Event{Name: name}); got != want {
			t.Errorf("kind(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestKindsOfAllNames(t *testing.T) {
	k, err := readKinds(`{"*":"passive","x":"flush"}`, "context")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]attend.Kind{"x": attend.KindFlush, "y": attend.KindPassive} {
		if got := k.kind(attend.Event{Name: name}); got != want {
			t.Errorf("kind(%q) = %s, want %s", name, got, want)
		}
	}
}

// TestKindsAgainstSlow compares with a match that tries every pattern.
func TestKindsAgainstSlow(t *testing.T) {
	patterns := map[string]string{
		"*": "context", "a*": "closing", "aa*": "flush", "aab*": "passive", "ab": "continuous", "abab*": "consequence", "b*": "closing", "ba": "flush",
	}
	var text []string
	for p, kind := range patterns {
		text = append(text, `"`+p+`":"`+kind+`"`)
	}
	k, err := readKinds("{"+strings.Join(text, ",")+"}", "consequence")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 1 << 6 {
		name := ""
		for i := range 5 {
			name += string(rune('a' + n>>i&1))
		}
		name = name[:1+n%5]
		best, want := -1, ""
		for p, kind := range patterns {
			prefix, star := strings.CutSuffix(p, "*")
			if name == p || star && strings.HasPrefix(name, prefix) {
				if length := 2 * len(prefix); length > best || !star && length >= best {
					best, want = length, kind
				}
			}
		}
		if got := k.kind(attend.Event{Name: name}); string(got) != want {
			t.Errorf("kind(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestKindsRefuse(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(list, []byte(`["a"]`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, source, want string }{
		{"unknown kind", `{"a":"act"}`, `"a": unknown kind "act", want closing, `},
		{"kind of a number", `{"a":1}`, `"a": want a text`},
		{"no name", `{"":"flush"}`, `"": want the name of an event`},
		{"twice", `{"a*":"flush","a*":"flush"}`, `"a*": named twice`},
		{"twice, escaped", `{"a":"flush","\u0061":"flush"}`, `"a": named twice`},
		{"broken", `{"a":"flush",}`, `want one JSON object of names and texts`},
		{"two", `{"a":"flush"} {}`, `want one JSON object of names and texts`},
		{"a list", list, list + `: want one JSON object of names and texts`},
		{"no file", list + ".not", `open ` + list + `.not: `},
	} {
		if _, err := readKinds(test.source, "context"); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: readKinds: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestKindsWake(t *testing.T) {
	for _, test := range []struct {
		source, other string
		want          bool
	}{
		{"", "consequence", false},
		{"", "passive", true},
		{`{"a":"context"}`, "consequence", false},
		{`{"a":"closing"}`, "consequence", true},
		{`{"a*":"flush"}`, "context", true},
	} {
		k, err := readKinds(test.source, test.other)
		if err != nil {
			t.Fatal(err)
		}
		if got := k.wakes(); got != test.want {
			t.Errorf("kinds %s, else %s: wakes() = %v, want %v", test.source, test.other, got, test.want)
		}
	}
}
