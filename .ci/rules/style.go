package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxLines     = 400
	maxTestLines = 600
	maxMethods   = 6
)

func length(f *file, n ast.Node) string {
	limit := maxLines
	if f.test {
		limit = maxTestLines
	}
	if _, ok := n.(*ast.File); ok && f.lines > limit {
		return fmt.Sprintf("%d lines, at most %d: one noun per file", f.lines, limit)
	}
	return ""
}

func initFunc(f *file, n ast.Node) string {
	if fn, ok := n.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
		return "func init: what a package needs is made by a constructor"
	}
	return ""
}

// global finds writes to package variables, and variables that exist to be changed.
func global(f *file, n ast.Node) string {
	var written []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		written = n.Lhs
	case *ast.IncDecStmt:
		written = []ast.Expr{n.X}
	case *ast.RangeStmt:
		written = []ast.Expr{n.Key, n.Value}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			written = []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
			written = n.Args[:1]
		}
	case *ast.ValueSpec:
		imp, name := f.selector(n.Type)
		obj := f.pkg.info.Defs[n.Names[0]]
		if obj != nil && obj.Parent() == f.pkg.scope && (imp == "sync" || imp == "sync/atomic") {
			return "package variable of type " + path.Base(imp) + "." + name + ": state belongs in a struct"
		}
	}
	for _, e := range written {
		id := base(e)
		if v, ok := f.pkg.info.Uses[id].(*types.Var); ok && v.Parent() == f.pkg.scope {
			return "package variable " + id.Name + " is written or its address taken: state belongs in a struct"
		}
	}
	return ""
}

// base returns the variable in front of fields and indexes, or nil.
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

func packageName(f *file, n ast.Node) string {
	bad := []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "shared"}
	if t, ok := n.(*ast.File); ok && slices.Contains(bad, strings.TrimSuffix(t.Name.Name, "_test")) {
		return "package " + t.Name.Name + ": a package is named for its reader"
	}
	return ""
}

func option(f *file, n ast.Node) string {
	fn, ok := n.(*ast.FuncDecl)
	if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "With") || fn.Type.Results == nil {
		return ""
	}
	for _, res := range fn.Type.Results.List {
		_, isFunc := res.Type.(*ast.FuncType)
		id, isName := res.Type.(*ast.Ident)
		if isFunc || isName && strings.HasSuffix(id.Name, "Option") {
			return "option function " + fn.Name.Name + ": settings are fields of Config or Options"
		}
	}
	return ""
}

func methods(f *file, n ast.Node) string {
	spec, ok := n.(*ast.TypeSpec)
	if !ok || !spec.Name.IsExported() {
		return ""
	}
	if it, ok := spec.Type.(*ast.InterfaceType); ok && it.Methods.NumFields() > maxMethods {
		return fmt.Sprintf("interface %s has %d methods, at most %d: what is optional is another interface",
			spec.Name.Name, it.Methods.NumFields(), maxMethods)
	}
	return ""
}

func skip(f *file, n ast.Node) string {
	if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 0 {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Skip" || sel.Sel.Name == "SkipNow") {
			return "skip without a reason"
		}
	}
	return ""
}

func todo(f *file, n ast.Node) string {
	if c, ok := n.(*ast.Comment); ok {
		return regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`).FindString(c.Text)
	}
	return ""
}

func coreSpelled(f *file, n ast.Node) string {
	spec, ok := n.(*ast.ImportSpec)
	if ok && spec.Path.Value == strconv.Quote(root+"/core") && (spec.Name == nil || spec.Name.Name != "attend") {
		return `import of core: its package is attend, spell it: attend "` + root + `/core"`
	}
	return ""
}
