package machine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/attend-go/attend/core/vectors"
)

// Every rule of the machine has a trace, and so has every line of the review of
// its rules that a story can be told of. The first line of a trace names them:
//
//	# E12, review B8: what it tells

// traceElsewhere is what no trace proves, and where it belongs.
var traceElsewhere = map[string]string{
	"E15": "the engine's: how long a call may take; the length of a lease comes with its claim",
	"E19": "the judge's: what it declares",
	"E21": "the judge's: how a window is rendered",
	"E27": "package attend: DefaultNotice",
	"E30": "the engine's: what it does when it loses a write",
	"E36": "the engine's: sweeps",
	"E37": "the engine's: what stays in memory",
	"E38": "the engine's: Attach; what a batch does is E33",
	"E39": "the engine's: New; TestPolicyCheck has the machine's part",
	"E40": "the engine's: the observer",
	"E43": "package attend: Event.Clean; events are clean when they get here",
	"E49": "the engine's: which of the scopes is claimed first",
	"E50": "TestNewer and TestBytes: a story is told by one version of the rules",

	"A9":  "E50",
	"A11": "the engine's: a write of a group that fails",
	"A12": "the engine's: when a push is answered",
	"B16": "the engine's: backoff between conflicts",
	"B17": "the engine's: how long an answer is tried",
	"B19": "the engine's: sweeps",
	"B22": "the engine's: how many calls run",
	"B24": "the engine's: Facts",
	"B25": "the engine's: whose turn it is in a group",
	"B27": "conformance: the crash suite's sessions",
	"B29": "the store's: versions",
}

func TestTracesNameEveryRule(t *testing.T) {
	var rules []string
	for i := range 50 {
		rules = append(rules, fmt.Sprintf("E%d", i+1))
	}
	for i := range 15 {
		rules = append(rules, fmt.Sprintf("A%d", i+1))
	}
	for i := range 29 {
		rules = append(rules, fmt.Sprintf("B%d", i+1))
	}
	named := make(map[string][]string)
	for name, text := range traceFiles(t) {
		for _, rule := range traceNames(t, name, text) {
			named[rule] = append(named[rule], name)
		}
	}
	for _, rule := range rules {
		why, elsewhere := traceElsewhere[rule]
		switch traces := named[rule]; {
		case elsewhere && traces != nil:
			t.Errorf("%s is said to belong elsewhere (%s), but %s names it", rule, why, traces)
		case !elsewhere && traces == nil:
			t.Errorf("%s has no trace", rule)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(rules, rule) && rule[0] != 'C' {
			t.Errorf("%s names %s, which is no rule", named[rule], rule)
		}
	}
}

// Whoever reads vectors.FS finds every trace in it.
func TestTracesAreEmbedded(t *testing.T) {
	for name, text := range traceFiles(t) {
		b, err := vectors.FS.ReadFile("settle/" + name)
		if err != nil || !*traceUpdate && string(b) != text {
			t.Errorf("vectors.FS has %d bytes of %s, %v, want %d", len(b), name, err, len(text))
		}
	}
}

// traceNames reads the first line of a trace: rules, lines of the review, and
// what it tells.
func traceNames(t *testing.T, name, text string) []string {
	t.Helper()
	line, _, _ := strings.Cut(text, "\n")
	head, title, ok := strings.Cut(strings.TrimPrefix(line, "# "), ": ")
	if !ok || title == "" || !strings.HasPrefix(line, "# ") {
		t.Fatalf("%s begins with %q, want # E1, review A1: what it tells", name, line)
	}
	rules, review, _ := strings.Cut(head, ", review ")
	var names []string
	for _, list := range []struct{ text, form string }{{rules, `^E\d+$`}, {review, `^[ABC]\d+$`}} {
		if list.text == "" {
			continue
		}
		for word := range strings.SplitSeq(list.text, ", ") {
			if !regexp.MustCompile(list.form).MatchString(word) {
				t.Errorf("%s names %q, want %s", name, word, list.form)
			}
			names = append(names, word)
		}
	}
	return names
}
