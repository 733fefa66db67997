package main

import (
	"go/ast"
	"go/token"
	"strings"
)

func sentinel(f *file, n ast.Node) string {
	var operands []ast.Expr
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			operands = []ast.Expr{n.X, n.Y}
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			return ""
		}
		for _, c := range n.Body.List {
			operands = append(operands, c.(*ast.CaseClause).List...)
		}
	}
	for _, e := range operands {
		name := ""
		switch e := e.(type) {
		case *ast.Ident:
			name = e.Name
		case *ast.SelectorExpr:
			name = e.Sel.Name
		}
		if name == "EOF" || len(name) > 3 && strings.HasPrefix(name, "Err") && ast.IsExported(name[3:]) {
			return "comparison with " + name + ": use errors.Is"
		}
	}
	return ""
}

func errorText(f *file, n ast.Node) string {
	var operands []ast.Expr
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			operands = []ast.Expr{n.X, n.Y}
		}
	case *ast.CallExpr:
		if imp, _ := f.selector(n.Fun); imp == "strings" || imp == "regexp" {
			operands = n.Args
		}
	}
	for _, e := range operands {
		if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 0 {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" {
				return "decision by the text of an error: use errors.Is or errors.AsType"
			}
		}
	}
	return ""
}
