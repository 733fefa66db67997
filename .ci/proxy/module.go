package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A module is one of the workspace.
type module struct {
	path, dir string    // dir is relative to the root of the repository
	version   string    // what the proxy serves it at; "": it is released, and comes from the network
	files     []string  // relative to dir
	siblings  []*module // those that its files import
}

// modules lists the workspace, each module behind its siblings.
func modules() ([]*module, error) {
	out, err := output(".", "go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}")
	if err != nil {
		return nil, err
	}
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var mods []*module
	for line := range strings.Lines(out) {
		p, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if strings.ToLower(p) != p {
			return nil, fmt.Errorf("%s: a proxy spells capitals in another way, and this one knows only small letters", p)
		}
		rel, err := filepath.Rel(wd, dir)
		if err != nil {
			return nil, err
		}
		mods = append(mods, &module{path: p, dir: filepath.ToSlash(rel)})
	}
	for _, m := range mods {
		if err := m.list(); err != nil {
			return nil, err
		}
	}
	for _, m := range mods {
		if err := m.findSiblings(mods); err != nil {
			return nil, err
		}
	}
	if err := setVersions(mods); err != nil {
		return nil, err
	}
	return sorted(mods)
}

// list finds what goes into the module's zip: files that are tracked or could be, but no links, no folders with a go.mod.
func (m *module) list() error {
	out, err := output(m.dir, "git", "ls-files", "-co", "--exclude-standard", "-z", ".")
	if err != nil {
		return err
	}
	m.files = nil
	var nested []string
	for name := range strings.SplitSeq(strings.TrimRight(out, "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(m.dir, name))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		m.files = append(m.files, name)
		if dir, base := path.Split(name); base == "go.mod" && dir != "" {
			nested = append(nested, dir)
		}
	}
	m.files = slices.DeleteFunc(m.files, func(name string) bool {
		return slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(name, dir) })
	})
	return nil
}

func (m *module) findSiblings(mods []*module) error {
	for _, name := range m.files {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(m.dir, name), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if s := owner(mods, imp); s != nil && s != m && !slices.Contains(m.siblings, s) {
				m.siblings = append(m.siblings, s)
			}
		}
	}
	return nil
}

// owner returns the module of the workspace that holds a package: the one with the longest path.
func owner(mods []*module, imp string) *module {
	var best *module
	for _, m := range mods {
		if (imp == m.path || strings.HasPrefix(imp, m.path+"/")) && (best == nil || len(m.path) > len(best.path)) {
			best = m
		}
	}
	return best
}

func setVersions(mods []*module) error {
	out, err := output(".", "go", "work", "edit", "-json")
	if err != nil {
		return err
	}
	var work struct {
		Replace []struct {
			Old struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal([]byte(out), &work); err != nil {
		return err
	}
	for _, m := range mods {
		required := slices.ContainsFunc(mods, func(n *module) bool { return slices.Contains(n.siblings, m) })
		if !required {
			m.version = firstVersion
		}
		for _, r := range work.Replace {
			if r.Old.Path == m.path {
				m.version = r.Old.Version
			}
		}
	}
	return nil
}

func sorted(mods []*module) ([]*module, error) {
	var done []*module
	for len(done) < len(mods) {
		before := len(done)
		for _, m := range mods {
			blocked := slices.ContainsFunc(m.siblings, func(s *module) bool { return !slices.Contains(done, s) })
			if !blocked && !slices.Contains(done, m) {
				done = append(done, m)
			}
		}
		if len(done) == before {
			return nil, errors.New("modules of the workspace import each other in a circle")
		}
	}
	return done, nil
}
