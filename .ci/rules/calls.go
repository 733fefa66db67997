package main

import (
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"
)

// committers may call Commit on a store, beside tests: engine.Apply is the one way to change a scope, and stores, doubles
// and suites are below it.
var committers = []string{
	"core/engine", "core/memory", "core/attendtest", "conformance/...", "stores/...", "examples/customstore/...",
}

func clock(f *file, n ast.Node) string {
	if _, ok := n.(*ast.GoStmt); ok {
		return "go statement: the machine is pure, core/engine starts goroutines"
	}
	names := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	if imp, name := f.selector(n); imp == "time" && slices.Contains(names, name) {
		return "time." + name + ": time enters the machine as data"
	}
	return ""
}

// commit knows a store's Commit by its two arguments, a context and the writes: that of a transaction has none or one.
func commit(f *file, n ast.Node) string {
	if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 2 {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Commit" {
			return "call of a store's Commit: only core/engine commits; use engine.Apply"
		}
	}
	return ""
}

func contextValue(f *file, n ast.Node) string {
	if imp, name := f.selector(n); imp == "context" && name == "WithValue" {
		return "context.WithValue: data travels in arguments"
	}
	return ""
}

func asType(f *file, n ast.Node) string {
	if imp, name := f.selector(n); imp == "errors" && name == "As" {
		return "errors.As: use errors.AsType"
	}
	return ""
}

// output keeps standard output and error for commands: results there, and logs by log/slog.
func output(f *file, n ast.Node) string {
	if spec, ok := n.(*ast.ImportSpec); ok && spec.Path.Value == `"log"` {
		return "import of log: use log/slog"
	}
	if id, ok := n.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
		if _, builtin := f.pkg.info.Uses[id].(*types.Builtin); builtin {
			return id.Name + ": a library does not print"
		}
	}
	switch imp, name := f.selector(n); {
	case imp == "fmt" && strings.HasPrefix(name, "Print"), imp == "os" && (name == "Stdout" || name == "Stderr"):
		return path.Base(imp) + "." + name + ": a library does not print"
	}
	return ""
}
