package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A file is one parsed Go file and what a rule may ask about it.
type file struct {
	path    string
	test    bool
	lines   int
	tree    *ast.File
	fset    *token.FileSet
	imports map[string]string // name in this file to path
	pkg     *pack
	bare    map[ast.Node]string // see undocumented
	closed  *closedSets
}

// A pack is the files of one package.
type pack struct {
	dir      string
	files    []*file
	info     *types.Info // names of the package resolved; nothing is known of imports
	scope    *types.Scope
	examples map[string]bool // functions shown by an Example with output, in any test file of the folder
}

// An allow is one check:allow comment.
type allow struct {
	rule, reason string
	line         int
	used         bool
}

func (f *file) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

func (f *file) allows() []*allow {
	var list []*allow
	for _, group := range f.tree.Comments {
		for _, c := range group.List {
			if text, ok := strings.CutPrefix(c.Text, "//check:allow "); ok {
				name, reason, _ := strings.Cut(text, " ")
				list = append(list, &allow{rule: name, reason: strings.TrimSpace(reason), line: f.line(c)})
			}
		}
	}
	return list
}

// selector returns the import path and name behind n, if n is a name of another package.
func (f *file) selector(n ast.Node) (imp, name string) {
	if sel, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			if _, isPkg := f.pkg.info.Uses[x].(*types.PkgName); isPkg {
				return f.imports[x.Name], sel.Sel.Name
			}
		}
	}
	return "", ""
}

// load parses every file that is tracked or could be, but generated ones and testdata.
func load() ([]*file, error) {
	out, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "-z", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	fset := token.NewFileSet()
	var files []*file
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if name == "" || slices.Contains(strings.Split(name, "/"), "testdata") {
			continue
		}
		f, err := parse(fset, name)
		if errors.Is(err, fs.ErrNotExist) || f != nil && ast.IsGenerated(f.tree) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	group(fset, files)
	return files, collect(files)
}

func parse(fset *token.FileSet, name string) (*file, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	tree, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{
		path: name, test: strings.HasSuffix(name, "_test.go"), lines: bytes.Count(src, []byte("\n")),
		tree: tree, fset: fset, imports: make(map[string]string),
	}
	for _, spec := range tree.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		local := path.Base(imp)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		f.imports[local] = imp
	}
	f.bare = bareNames(f)
	return f, nil
}

// group finds the package of each file, and resolves its names.
func group(fset *token.FileSet, files []*file) {
	packs := make(map[string]*pack)
	tests := make(map[string][]*ast.File) // by folder
	for _, f := range files {
		key := path.Dir(f.path) + " " + f.tree.Name.Name
		if standalone(f.tree) {
			key = f.path
		}
		if packs[key] == nil {
			packs[key] = &pack{dir: path.Dir(f.path)}
		}
		f.pkg = packs[key]
		f.pkg.files = append(f.pkg.files, f)
		if f.test {
			tests[f.pkg.dir] = append(tests[f.pkg.dir], f.tree)
		}
	}
	for _, p := range packs {
		p.examples = make(map[string]bool)
		for _, ex := range doc.Examples(tests[p.dir]...) {
			p.examples[ex.Name] = p.examples[ex.Name] || ex.Output != "" || ex.EmptyOutput
		}
		p.info = &types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
		conf := types.Config{Importer: noImports{}, Error: func(error) {}, FakeImportC: true}
		var trees []*ast.File
		for _, f := range p.files {
			trees = append(trees, f.tree)
		}
		// The error is that of the missing imports; the names are resolved all the same.
		checked, _ := conf.Check(p.dir, fset, trees, p.info)
		p.scope = checked.Scope()
	}
}

// standalone reports whether a file is a program of its own, left out of its folder's package.
func standalone(tree *ast.File) bool {
	for _, group := range tree.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && expr.String() == "ignore" && c.Pos() < tree.Package {
				return true
			}
		}
	}
	return false
}

// noImports keeps the check to the package's own names, so that code is checked whether or not its imports compile.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not resolved") }
