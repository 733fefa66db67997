package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// closedSets are the sets a switch must cover: constants of package attend by their type, and the inputs of the machine.
type closedSets struct {
	constants map[string][]string
	inputs    []string
}

// setTypes are the types of package attend whose constants are closed sets.
var setTypes = []string{"Kind", "Route", "Reason"}

// collect reads the closed sets off the packages that define them, and hands them to every file.
func collect(files []*file) error {
	sets := &closedSets{constants: make(map[string][]string)}
	for _, f := range files {
		f.closed = sets
		switch {
		case f.test:
		case f.path == "core/doc.go":
			for _, name := range f.pkg.scope.Names() {
				if c, ok := f.pkg.scope.Lookup(name).(*types.Const); ok && !f.inTest(c) {
					if named, ok := c.Type().(*types.Named); ok && slices.Contains(setTypes, named.Obj().Name()) {
						sets.constants[named.Obj().Name()] = append(sets.constants[named.Obj().Name()], name)
					}
				}
			}
		case f.path == "core/machine/doc.go":
			sets.inputs = implementers(f, "Input")
		}
	}
	for _, name := range setTypes {
		if len(sets.constants[name]) == 0 {
			return fmt.Errorf("package attend has no constants of type %s: .ci/rules/switch.go names a set that is gone", name)
		}
	}
	if len(sets.inputs) == 0 {
		return fmt.Errorf("core/machine has no types with Input's method: .ci/rules/switch.go names a set that is gone")
	}
	return nil
}

// implementers returns the exported types that implement one of their package's interfaces.
func implementers(f *file, iface string) []string {
	obj := f.pkg.scope.Lookup(iface)
	if obj == nil {
		return nil
	}
	it, ok := obj.Type().Underlying().(*types.Interface)
	if !ok || it.NumMethods() == 0 {
		return nil
	}
	var list []string
	for _, name := range f.pkg.scope.Names() {
		t, ok := f.pkg.scope.Lookup(name).(*types.TypeName)
		if ok && t.Exported() && !types.IsInterface(t.Type()) && types.Implements(types.NewPointer(t.Type()), it) && !f.inTest(t) {
			list = append(list, name)
		}
	}
	return list
}

func (f *file) inTest(obj types.Object) bool {
	return strings.HasSuffix(f.fset.Position(obj.Pos()).Filename, "_test.go")
}

// exhaustive wants a switch over a closed set to list all of it, or to say with a default that the rest is one case. The
// machine itself must list its inputs: a default there would swallow a new one.
func exhaustive(f *file, n ast.Node) string {
	switch n := n.(type) {
	case *ast.SwitchStmt:
		listed, hasDefault := f.cases(n.Body, "core")
		for _, name := range setTypes {
			set := f.closed.constants[name]
			if !hasDefault && overlaps(set, listed) {
				return missing("constants of type "+name, set, listed)
			}
		}
	case *ast.TypeSwitchStmt:
		listed, hasDefault := f.cases(n.Body, "core/machine")
		if overlaps(f.closed.inputs, listed) && (!hasDefault || f.pkg.dir == "core/machine") {
			return missing("inputs", f.closed.inputs, listed)
		}
	}
	return ""
}

// cases returns the names in a switch's cases that are of the given package.
func (f *file) cases(body *ast.BlockStmt, dir string) (names []string, hasDefault bool) {
	for _, stmt := range body.List {
		clause := stmt.(*ast.CaseClause)
		hasDefault = hasDefault || clause.List == nil
		for _, e := range clause.List {
			if star, ok := e.(*ast.StarExpr); ok {
				e = star.X
			}
			if id, ok := e.(*ast.Ident); ok && f.pkg.dir == dir {
				names = append(names, id.Name)
			}
			if imp, name := f.selector(e); imp == root+"/"+dir {
				names = append(names, name)
			}
		}
	}
	return names, hasDefault
}

func overlaps(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func missing(what string, set, listed []string) string {
	rest := slices.DeleteFunc(slices.Clone(set), func(s string) bool { return slices.Contains(listed, s) })
	if len(rest) == 0 {
		return ""
	}
	return "switch over " + what + " leaves out " + strings.Join(rest, ", ") + ": list them or write a default"
}
