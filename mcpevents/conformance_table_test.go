package mcpevents

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// conformancePage maps the lines of the checklists to tests. It is part of the
// repository, not of the module.
const conformancePage = "../docs/mcp-events-conformance.md"

// checklists are the lines that the page must have.
func checklists() []string {
	var ids []string
	for list, runs := range map[string][][2]int{"CE": {{1, 62}}, "SE": {{1, 62}, {70, 84}}} {
		for _, run := range runs {
			for i := run[0]; i <= run[1]; i++ {
				ids = append(ids, fmt.Sprint(list, "-", i))
			}
		}
	}
	slices.Sort(ids)
	return ids
}

var (
	rowPattern  = regexp.MustCompile(`(?m)^\| ((?:CE|SE|OP)-\d+) \| (.+) \| (.+) \|$`)
	lineStart   = regexp.MustCompile(`(?m)^\| *(?:CE|SE|OP)\b.*$`)
	spanPattern = regexp.MustCompile("`((?:Test|Fuzz)\\w*)`")
	idPattern   = regexp.MustCompile(`(?:^Test|And)(CE|SE|OP)(\d+)`)
)

// idsIn are the lines that a test's name carries.
func idsIn(test string) []string {
	var ids []string
	for rest := test; ; {
		m := idPattern.FindStringSubmatchIndex(rest)
		if m == nil {
			return ids
		}
		ids = append(ids, rest[m[2]:m[3]]+"-"+rest[m[4]:m[5]])
		rest = rest[m[1]:]
	}
}

// moduleTests are the names of all tests of this module.
func moduleTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				tests[fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// tableFaults are what is wrong with a page, given the tests there are.
func tableFaults(page string, tests map[string]bool) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	named := map[string][]string{} // of each row
	rows := rowPattern.FindAllStringSubmatch(page, -1)
	if n := len(lineStart.FindAllString(page, -1)); n != len(rows) {
		fault("%d rows, %d of which are not as they must be: id, sentence, tests", n, n-len(rows))
	}
	want := checklists()
	for _, row := range rows {
		id := row[1]
		if _, twice := named[id]; twice {
			fault("%s has two rows", id)
		}
		if !strings.HasPrefix(id, "OP-") && !slices.Contains(want, id) {
			fault("%s is no line of the checklists", id)
		}
		named[id] = []string{}
		for _, m := range spanPattern.FindAllStringSubmatch(row[3], -1) {
			if named[id] = append(named[id], m[1]); !tests[m[1]] {
				fault("%s names %s, which does not exist", id, m[1])
			}
		}
		reason := strings.HasPrefix(row[3], "App: ") || strings.HasPrefix(row[3], "attend: ")
		if reason == (len(named[id]) > 0) || reason && strings.HasPrefix(id, "OP-") {
			fault("%s has neither a test nor a reason, or both", id)
		}
	}
	for _, id := range want {
		if _, ok := named[id]; !ok {
			fault("%s has no row", id)
		}
	}
	for test := range tests {
		for _, id := range idsIn(test) {
			if !slices.Contains(named[id], test) {
				fault("%s is not in the row of %s", test, id)
			}
		}
	}
	slices.Sort(faults)
	return faults
}

func TestConformanceTable(t *testing.T) {
	page, err := os.ReadFile(conformancePage)
	if _, outside := os.Stat("../go.work"); errors.Is(err, fs.ErrNotExist) && errors.Is(outside, fs.ErrNotExist) {
		t.Skip("the module is tested outside of its repository, where the page is")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tableFaults(string(page), moduleTests(t)) {
		t.Errorf("%s: %s", conformancePage, f)
	}
}

func TestTableFaults(t *testing.T) {
	tests := map[string]bool{"TestCE1AndSE2Both": true, "TestOther": true, "FuzzOther": true}
	var rows []string
	for _, id := range checklists() {
		shown := "App: its own."
		if id == "CE-1" || id == "SE-2" {
			shown = "`TestCE1AndSE2Both`, `TestOther`"
		}
		rows = append(rows, "| "+id+" | A sentence. | "+shown+" |")
	}
	good := strings.Join(rows, "\n")
	for _, one := range []struct{ name, old, new, want string }{
		{"good", "", "", ""},
		{"a row is missing", rows[9] + "\n", "", "has no row"},
		{"a row comes twice", rows[9], rows[9] + "\n" + rows[9], "has two rows"},
		{"a test does not exist", "`TestOther`", "`TestNone`", "TestNone, which does not exist"},
		{"a test is in one of its two rows", "| SE-2 | A sentence. | `TestCE1AndSE2Both`, ", "| SE-2 | A sentence. | ", "TestCE1AndSE2Both is not in the row of SE-2"},
		{"an id that is none", "| CE-2 |", "| CE-63 |", "CE-63 is no line"},
		{"no test and no reason", "App: its own.", "later", "neither a test nor a reason"},
		{"a broken row", "| SE-84 | A sentence. |", "| SE-84 | A sentence.", "not as they must be"},
		{"an open point without a test", good, good + "\n| OP-1 | A choice. | App: its own. |", "OP-1 has neither"},
	} {
		faults := strings.Join(tableFaults(strings.Replace(good, one.old, one.new, 1), tests), "; ")
		if one.want == "" && faults != "" || !strings.Contains(faults, one.want) {
			t.Errorf("%s: %q, want %q", one.name, faults, one.want)
		}
	}
	if got := strings.Join(idsIn("TestCE29AndCE30AndOP5All"), " "); got != "CE-29 CE-30 OP-5" {
		t.Errorf("idsIn = %s", got)
	}
}
