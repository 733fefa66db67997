package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// undocumented finds exported names without a comment that starts with them.
func undocumented(f *file, n ast.Node) string { return f.bare[n] }

// bareNames returns what is wrong with the comments of f's exported names, by node. Of commands nobody imports anything.
func bareNames(f *file) map[ast.Node]string {
	bare := make(map[ast.Node]string)
	if f.test || f.tree.Name.Name == "main" {
		return bare
	}
	for _, decl := range f.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported()) {
				bare[d] = lacks(funcName(d), d.Name.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						bare[s] = lacks(s.Name.Name, s.Name.Name, pick(d, s.Doc))
						bareFields(bare, s, pick(d, s.Doc).Text())
					}
				case *ast.ValueSpec:
					bare[s] = bareValue(d, s)
				}
			}
		}
	}
	return bare
}

// bareValue takes a comment above a group of constants or variables, or one at the end of the line, as it is.
func bareValue(d *ast.GenDecl, s *ast.ValueSpec) string {
	i := slices.IndexFunc(s.Names, (*ast.Ident).IsExported)
	switch {
	case i < 0, s.Comment != nil, s.Doc == nil && d.Lparen.IsValid() && d.Doc != nil:
		return ""
	}
	return lacks(s.Names[i].Name, s.Names[i].Name, pick(d, s.Doc))
}

// bareFields looks at settings, whose fields state their default and what zero means, and at contracts, whose methods have a
// comment of their own or are named in that of the interface. The comment of another struct speaks for its fields.
func bareFields(bare map[ast.Node]string, spec *ast.TypeSpec, doc string) {
	name := spec.Name.Name
	switch t := spec.Type.(type) {
	case *ast.StructType:
		for _, field := range t.Fields.List {
			i := slices.IndexFunc(field.Names, (*ast.Ident).IsExported)
			settings := name == "Config" || strings.HasSuffix(name, "Options")
			if settings && i >= 0 && field.Doc == nil && field.Comment == nil {
				bare[field] = "exported field " + name + "." + field.Names[i].Name + " has no comment: its default, and what zero means"
			}
		}
	case *ast.InterfaceType:
		for _, field := range t.Methods.List {
			if len(field.Names) == 0 || !field.Names[0].IsExported() {
				continue
			}
			method := field.Names[0].Name
			named := regexp.MustCompile(`\b` + method + `\b`).MatchString(doc)
			if field.Doc != nil || t.Methods.NumFields() > 1 && !named {
				bare[field] = lacks(name+"."+method, method, field.Doc)
			}
		}
	}
}

// pick returns the comment of a declaration that is one spec without parentheses, or else that of the spec.
func pick(d *ast.GenDecl, doc *ast.CommentGroup) *ast.CommentGroup {
	if doc == nil && !d.Lparen.IsValid() {
		return d.Doc
	}
	return doc
}

// lacks says what is wrong with the comment of what, which is to start with name.
func lacks(what, name string, doc *ast.CommentGroup) string {
	if doc == nil {
		return "exported " + what + " has no comment"
	}
	words := strings.Fields(doc.Text())
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || strings.TrimRight(words[0], ",.:;") != name {
		return "the comment of exported " + what + " starts with another word"
	}
	return ""
}

func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return receiver(fn).Name + "." + fn.Name.Name
}

func receiver(fn *ast.FuncDecl) *ast.Ident {
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		default:
			return ast.NewIdent("_")
		}
	}
}

// packageComment wants a library to have a doc.go with its comment, and a command to have one somewhere.
func packageComment(f *file, n ast.Node) string {
	tree, ok := n.(*ast.File)
	if !ok || f.pkg.files[0] != f {
		return ""
	}
	name := tree.Name.Name
	has := slices.ContainsFunc(f.pkg.files, func(f *file) bool {
		inPlace := name == "main" || strings.HasSuffix("/"+f.path, "/doc.go")
		return inPlace && f.tree.Doc != nil && (name == "main" || strings.HasPrefix(f.tree.Doc.Text(), "Package "+name+" "))
	})
	switch {
	case has:
		return ""
	case name == "main":
		return "no file of this command has a package comment: what it is and for whom"
	}
	return "package " + name + ` has no doc.go with a comment that starts with "Package ` + name + ` "`
}

// constructor wants an Example with output for each function that makes the thing a package is about.
func constructor(f *file, n ast.Node) string {
	fn, ok := n.(*ast.FuncDecl)
	if !ok || fn.Recv != nil || fn.Type.Results == nil || f.tree.Name.Name == "main" {
		return ""
	}
	name := fn.Name.Name
	rest, isNew := strings.CutPrefix(name, "New")
	if !isNew {
		if rest, isNew = strings.CutPrefix(name, "Open"); !isNew {
			return ""
		}
	}
	if rest != "" && !token.IsExported(rest) {
		return ""
	}
	for example, hasOutput := range f.pkg.examples {
		if (hasOutput || served(f.pkg.dir)) && (example == name || strings.HasPrefix(example, name+"_")) {
			return ""
		}
	}
	if served(f.pkg.dir) {
		return "constructor " + name + " has no Example"
	}
	return "constructor " + name + " has no Example with output"
}

// served are the packages whose constructors reach for a server: no Example of
// theirs can be run.
var served = in("stores/postgres", "stores/redis")
