// Command rules checks what the compiler and the linter do not: the rules of style that can be read off the syntax tree.
// It needs no code that compiles. Run it at the root of the repository:
//
//	go run ./.ci/rules/*.go
//
// Where a line must break a rule, it or the line above says so and why. Such a comment that nothing needs is an error, too.
//
//	//check:allow RULE reason
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strings"
)

const root = "github.com/attend-go/attend"

// A rule looks at one node of one file.
type rule struct {
	name  string
	tests bool                         // applies to _test.go files, too
	where func(dir string) bool        // nil: everywhere
	find  func(*file, ast.Node) string // what is wrong, or ""
}

var rules = []rule{
	// calls.go
	{name: "clock", where: in("core/machine"), find: clock},
	{name: "commit", where: notIn(committers...), find: commit},
	{name: "context", tests: true, find: contextValue},
	{name: "astype", tests: true, find: asType},
	{name: "output", where: notIn("cmd/...", "examples/...", ".ci/..."), find: output},
	// errors.go
	{name: "sentinel", tests: true, find: sentinel},
	{name: "text", find: errorText},
	// style.go
	{name: "length", tests: true, find: length},
	{name: "init", find: initFunc},
	{name: "global", find: global},
	{name: "package", tests: true, find: packageName},
	{name: "option", find: option},
	{name: "methods", find: methods},
	{name: "spelled", tests: true, find: coreSpelled},
	{name: "skip", tests: true, find: skip},
	{name: "todo", tests: true, find: todo},
	// switch.go
	{name: "switch", find: exhaustive},
	// exported.go
	{name: "doc", find: undocumented},
	{name: "docfile", find: packageComment},
	{name: "example", find: constructor},
}

type finding struct {
	path string
	line int
	text string
}

func main() {
	files, err := load()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(2)
	}
	var found []finding
	for _, f := range files {
		found = append(found, check(f)...)
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.line, b.line), strings.Compare(a.text, b.text))
	})
	for _, f := range slices.Compact(found) {
		fmt.Printf("%s:%d: %s\n", f.path, f.line, f.text)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// check applies every rule to every node of f.
func check(f *file) []finding {
	var found []finding
	allows := f.allows()
	see := func(n ast.Node) {
		for _, r := range rules {
			if f.test && !r.tests || r.where != nil && !r.where(f.pkg.dir) {
				continue
			}
			text := r.find(f, n)
			if text == "" {
				continue
			}
			line := f.line(n)
			if i := slices.IndexFunc(allows, func(a *allow) bool {
				return a.rule == r.name && (a.line == line || a.line == line-1)
			}); i >= 0 {
				allows[i].used = true
				continue
			}
			found = append(found, finding{f.path, line, text + " [" + r.name + "]"})
		}
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if n != nil {
			see(n)
		}
		return true
	})
	for _, group := range f.tree.Comments {
		for _, c := range group.List {
			if group != f.tree.Doc {
				see(c)
			}
		}
	}
	for _, a := range allows {
		switch {
		case !slices.ContainsFunc(rules, func(r rule) bool { return r.name == a.rule }):
			found = append(found, finding{f.path, a.line, "check:allow of a rule that does not exist: " + a.rule})
		case a.reason == "":
			found = append(found, finding{f.path, a.line, "check:allow without a reason"})
		case !a.used:
			found = append(found, finding{f.path, a.line, "check:allow " + a.rule + " that nothing needs: drop it"})
		}
	}
	return found
}

func in(patterns ...string) func(string) bool {
	return func(dir string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			below, ok := strings.CutSuffix(p, "/...")
			return dir == p || ok && (dir == below || strings.HasPrefix(dir, below+"/"))
		})
	}
}

func notIn(patterns ...string) func(string) bool {
	return func(dir string) bool { return !in(patterns...)(dir) }
}
