package conformance

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each rule is a sentence, or the part of one, that stands in the contract.
func TestRulesStandInTheContract(t *testing.T) {
	text := contract(t)
	for _, c := range Cases() {
		if !strings.Contains(text, fold(c.Rule)) {
			t.Errorf("%s quotes %q, which is no part of package attend's comments", c.Name, c.Rule)
		}
	}
}

// contract is every comment of package attend as one line.
func contract(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/attend-go/attend/core").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of package attend: %v", err)
	}
	var b strings.Builder
	fset := token.NewFileSet()
	for _, name := range files {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			b.WriteString(fold(group.Text()))
			b.WriteString(" ¶ ")
		}
	}
	return b.String()
}

var link = regexp.MustCompile(`\[(\*?[\w.]+)\]`)

// fold is s on one line, without the brackets of links.
func fold(s string) string {
	return strings.Join(strings.Fields(link.ReplaceAllString(s, "$1")), " ")
}

// A list names every case of its version, and nothing else. A version that has
// no list yet is not released; its cases are reported and don't count.
func TestRequirementsAreInStep(t *testing.T) {
	byVersion := make(map[string][]string)
	seen := make(map[string]bool)
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are named %s", c.Name)
		}
		seen[c.Name] = true
		byVersion[c.Since] = append(byVersion[c.Since], c.Name)
	}
	for _, v := range versions() {
		listed := Requirements(v)
		want := slices.Sorted(slices.Values(byVersion[v]))
		if !slices.IsSorted(listed) {
			t.Errorf("requirements/%s.txt is not sorted", v)
		}
		for _, name := range want {
			if !slices.Contains(listed, name) {
				t.Errorf("requirements/%s.txt does not list %s", v, name)
			}
		}
		for _, name := range listed {
			if !slices.Contains(want, name) {
				t.Errorf("requirements/%s.txt lists %s, which is no case since %s", v, name, v)
			}
		}
	}
}

func TestOutcomes(t *testing.T) {
	known := Cases()[0]
	newer := Case{Name: "scope/not-listed-anywhere", Rule: "r", Since: "v9.9"}
	broken := errors.New("it broke")
	for _, c := range []struct {
		name  string
		c     Case
		err   error
		waive string
		want  string
		fails bool
	}{
		{"passes", known, nil, "", "passed", false},
		{"fails", known, broken, "", "failed", true},
		{"fails and is waived", known, broken, "no disk", "waived", false},
		{"passes and is waived", known, nil, "no disk", "unneeded", true},
		{"does not apply", known, skip("no Waiter"), "", "skipped", false},
		{"does not apply and is waived", known, skip("no Waiter"), "no disk", "unneeded", true},
		{"fails and is not demanded yet", newer, broken, "", "pending", false},
		{"passes and is not demanded yet", newer, nil, "", "passed", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outcomeOf(c.c, c.err, c.waive, c.waive != "")
			if got.name != c.want || got.fails != c.fails {
				t.Errorf("outcomeOf = %+v, want %s, fails %v", got, c.want, c.fails)
			}
			if c.err != nil && !strings.Contains(got.text, c.err.Error()) && c.want != "unneeded" {
				t.Errorf("the text %q does not say what broke", got.text)
			}
		})
	}
}

func TestWaiversNameCases(t *testing.T) {
	for _, c := range []struct {
		waive map[string]string
		ok    bool
	}{
		{nil, true},
		{map[string]string{"log/wait-there": "it has no Waiter"}, true},
		{map[string]string{"log/wait-there": ""}, false},
		{map[string]string{"log/wait-their": "a slip of the pen"}, false},
		{map[string]string{"events/order": "of another kind of store"}, false},
	} {
		err := checkWaivers(c.waive, "scope", "log", "concurrent")
		if (err == nil) != c.ok {
			t.Errorf("checkWaivers(%v) = %v", c.waive, err)
		}
	}
}

func TestTryGivesUpOnAHang(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	hangs := Case{Run: func(context.Context, Env) error { <-block; return nil }}
	if err := hangs.Try(t.Context(), 10*time.Millisecond, Env{}); err == nil || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("Try of a case that hangs = %v", err)
	}
	panics := Case{Run: func(context.Context, Env) error { panic("ouch") }}
	if err := panics.Try(t.Context(), time.Minute, Env{}); err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Errorf("Try of a case that panics = %v", err)
	}
	quits := Case{Run: func(context.Context, Env) error { runtime.Goexit(); return nil }}
	if err := quits.Try(t.Context(), time.Minute, Env{}); err == nil {
		t.Error("Try of a case whose factory calls t.FailNow = nil, want an error")
	}
}

func TestSoak(t *testing.T) {
	for v, want := range map[string]time.Duration{"": 0, "0": 0, "1": 10 * time.Second, "3s": 3 * time.Second} {
		t.Setenv("ATTEND_SOAK", v)
		if d := soak(); d != want {
			t.Errorf("soak with ATTEND_SOAK=%q = %v, want %v", v, d, want)
		}
	}
}
