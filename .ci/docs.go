//go:build ignore

// Docs checks that the Markdown pages say what the tree says. Run it at the root of the repository:
//
//	go run ./.ci/docs.go        check
//	go run ./.ci/docs.go -fix   write the blocks anew
//
// Go code on a page is cut from an Example, or is a whole file. The line above the block says which:
//
//	<!-- example: core/engine ExampleNew -->
//	<!-- file: examples/quickstart/main.go -->
//
// Code that can be neither, such as a type drawn in a design page, says why:
//
//	<!-- sketch: how the two types hang together; bodies left out -->
//
// Links to files must lead somewhere, and every file that docs/walk.md names must exist.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const walk = "docs/walk.md"

// A page is one Markdown file.
type page struct {
	path     string
	lines    []string
	changed  bool
	findings []string
}

func (p *page) report(line int, format string, args ...any) {
	p.findings = append(p.findings, fmt.Sprintf("%s:%d: ", p.path, line+1)+fmt.Sprintf(format, args...))
}

func main() {
	fix := flag.Bool("fix", false, "write the blocks anew")
	flag.Parse()

	out, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "-z", "*.md").Output()
	check(err)
	failed := false
	walked := false
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		src, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and git does not know yet
		}
		check(err)
		p := &page{path: name, lines: strings.Split(string(src), "\n")}
		p.blocks(*fix)
		p.links()
		if name == walk {
			walked = true
			p.named()
		}
		if p.changed {
			check(os.WriteFile(name, []byte(strings.Join(p.lines, "\n")), 0o666))
			fmt.Println("wrote", name)
		}
		for _, f := range p.findings {
			failed = true
			fmt.Println(f)
		}
	}
	if !walked {
		failed = true
		fmt.Println(walk + ": missing: it leads a reader through the files that one event passes")
	}
	if failed {
		os.Exit(1)
	}
}

func marker(line string) []string {
	return regexp.MustCompile(`^<!-- (example|file|sketch): (.+) -->$`).FindStringSubmatch(strings.TrimSpace(line))
}

// blocks compares each fenced block with what its marker names.
func (p *page) blocks(fix bool) {
	above, at := "", 0 // the last line that is not empty
	for i := 0; i < len(p.lines); i++ {
		lang, fence := strings.CutPrefix(p.lines[i], "```")
		m := marker(above)
		if !fence {
			if m != nil && strings.TrimSpace(p.lines[i]) != "" {
				p.report(at, "marker %q stands above no block", above)
			}
			if strings.TrimSpace(p.lines[i]) != "" {
				above, at = p.lines[i], i
			}
			continue
		}
		end := i + 1
		for end < len(p.lines) && p.lines[end] != "```" {
			end++
		}
		if end == len(p.lines) {
			p.report(i, "block is never closed")
			return
		}
		switch {
		case m == nil && lang == "go":
			p.report(i, "Go code without a marker: say which Example or file it is cut from")
		case m != nil && m[1] != "sketch":
			end = p.compare(i, end, m[1], m[2], fix)
		}
		above = ""
		i = end
	}
	if marker(above) != nil {
		p.report(at, "marker %q stands above no block", above)
	}
}

// compare checks the block between the fences at start and end, and returns where its end is now.
func (p *page) compare(start, end int, kind, name string, fix bool) int {
	want, err := source(kind, name)
	if err != nil {
		p.report(start, "%v", err)
		return end
	}
	got := p.lines[start+1 : end]
	if slices.Equal(got, want) {
		return end
	}
	if fix {
		p.lines = slices.Replace(p.lines, start+1, end, want...)
		p.changed = true
		return start + 1 + len(want)
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	p.report(start+1+i, "block differs from %s %s; run ./test --fix-docs and read the difference", kind, name)
	return end
}

// source returns the lines a block must have.
func source(kind, name string) ([]string, error) {
	if kind == "file" {
		src, err := os.ReadFile(name)
		return strings.Split(strings.TrimRight(string(src), "\n"), "\n"), err
	}
	dir, fn, ok := strings.Cut(name, " ")
	if !ok || !strings.HasPrefix(fn, "Example") {
		return nil, fmt.Errorf("marker wants a folder and an Example function, has %q", name)
	}
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, test := range tests {
		src, err := os.ReadFile(test)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, test, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Name.Name == fn && d.Recv == nil {
				body := string(src[fset.Position(d.Body.Lbrace).Offset+1 : fset.Position(d.Body.Rbrace).Offset])
				lines := strings.Split(strings.Trim(body, "\n"), "\n")
				for i := range lines {
					lines[i] = strings.TrimPrefix(lines[i], "\t")
				}
				return lines, nil
			}
		}
	}
	return nil, fmt.Errorf("%s has no %s", dir, fn)
}

// links checks the relative links outside of blocks.
func (p *page) links() {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	p.prose(func(i int, line string) {
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			if !exists(path.Join(path.Dir(p.path), target)) {
				p.report(i, "link to %s, which does not exist", target)
			}
		}
	})
}

// named checks the files named in code spans: from the root, or in the folder of the one named before.
func (p *page) named() {
	span := regexp.MustCompile("`([\\w./-]+(?:/|\\.(?:go|json|lua|md|ndjson|sql|trace|txt)))`")
	dir, count := ".", 0
	p.prose(func(i int, line string) {
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			name := m[1]
			if strings.Contains(name, "/") {
				dir = path.Dir(name)
			} else {
				name = path.Join(dir, name)
			}
			count++
			if !exists(name) {
				p.report(i, "names %s, which does not exist", name)
			}
		}
	})
	if count == 0 {
		p.report(0, "names no file: a step of the walk is a file in backquotes, such as `core/event.go`")
	}
}

// prose calls f for each line outside of fenced blocks.
func (p *page) prose(f func(i int, line string)) {
	fenced := false
	for i, line := range p.lines {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if !fenced {
			f(i, line)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(2)
	}
}
