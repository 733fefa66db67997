//go:build ignore

// Deps holds the picture of who may import whom, and checks the tree against it. Run it at the root of the repository:
//
//	go run ./.ci/deps.go
//
// What the picture does not allow is forbidden. When this fails, the code is moved first and the picture last: a row is
// changed because the design changed, never to get a build through.
//
// It looks at the import lines of every file, whatever its build constraints. Single edges are enough: each package has a
// row, so a forbidden path always has a first forbidden edge.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// root is the prefix of every module of the workspace.
const root = "github.com/attend-go/attend"

// A row says what one package may import of the workspace, beside itself. Paths are below root; one that ends in /...
// covers the folder and all below it. The most exact row counts.
type row struct {
	pkg     string
	may     []string // for all files
	tests   []string // for _test.go files, on top of may
	deny    []string // of the standard library, for files that are no tests; with everything below
	planned bool     // no such package yet; a row for a package that is gone is an error
	why     string
}

var picture = []row{
	{pkg: "core", tests: []string{"core/..."},
		why: "the words and contracts: whatever it imports reaches every user and every adapter"},
	{pkg: "core/vectors",
		why: "goldens as files, for readers in any language"},
	{pkg: "core/machine", may: []string{"core"}, tests: []string{"core/..."},
		deny: []string{"context", "crypto/rand", "log", "math/rand", "net", "os", "runtime", "sync", "syscall", "testing"},
		why:  "the pure reducer: time and chance enter as data, effects leave as data"},
	{pkg: "core/memory", may: []string{"core"}, tests: []string{"core/..."},
		why: "the reference store reads like an adapter's, which knows neither machine nor engine"},
	{pkg: "core/judgekit", may: []string{"core"}, tests: []string{"core/..."}, planned: true,
		why: "what judges share; they do not know the engine"},
	{pkg: "core/attendtest", may: []string{"core", "core/memory"}, tests: []string{"core/..."},
		why: "doubles for users' tests, which must not bring the engine along"},
	{pkg: "core/tune", may: []string{"core"}, tests: []string{"core/..."},
		why: "works on recorded judgments alone"},
	{pkg: "core/engine", may: []string{"core", "core/machine"}, tests: []string{"core/..."},
		why: "the shell around the machine; stores, judges and sinks reach it as interfaces"},

	{pkg: "conformance/...", may: []string{"core/...", "conformance/..."},
		why: "holds adapters to the contract; its imports reach every adapter's tests"},

	{pkg: "stores/journal", may: []string{"core"}, tests: []string{"core/...", "conformance/..."},
		why: "what the embedded stores share"},
	{pkg: "stores/...", may: []string{"core", "stores/journal"}, tests: []string{"core/...", "conformance/..."},
		why: "a store knows the contract and its driver, no other store and not the engine"},
	{pkg: "judges/...", may: []string{"core", "core/judgekit"}, tests: []string{"conformance/..."}, planned: true,
		why: "a judge knows the contract and its provider, no other judge and not the engine"},
	{pkg: "mcpevents/...", may: []string{"mcpevents/..."},
		why: "the protocol alone; it knows nothing of attend"},
	{pkg: "mcpsource", may: []string{"core", "mcpevents"}, tests: []string{"core/..."},
		why: "a source knows the contract and its protocol"},
	{pkg: "peers", may: []string{"core"}, planned: true,
		why: "verbs are values in and out; front ends are above"},
	{pkg: "peers/peersmcp", may: []string{"core", "peers"}, planned: true,
		why: "one front end of the verbs"},
	{pkg: "server/access", may: []string{"core"},
		why: "who may do what, apart from how it is asked"},
	{pkg: "server/...", may: []string{"core", "core/engine", "core/machine", "mcpevents", "server/..."}, tests: []string{"core/...", "conformance/...", "mcpevents/storetest", "mcpsource", "stores/bolt"},
		why: "one surface over an engine that it is handed"},

	{pkg: "cmd/attend/...", tests: []string{"conformance/..."},
		may: []string{"core/...", "stores/...", "judges/...", "mcpevents/...", "mcpsource", "peers/...", "server/...", "cmd/attend/..."},
		why: "the binary puts everything together; suites stay out of it"},
	{pkg: "examples/...", tests: []string{"conformance/..."},
		may: []string{"core/...", "stores/...", "judges/...", "mcpevents/...", "mcpsource", "peers/...", "server/...", "examples/..."},
		why: "shows everything, but only tests need suites"},
	{pkg: "examples/customstore/...", may: []string{"core", "examples/customstore/..."}, tests: []string{"conformance/..."},
		why: "a third party's store: the contract, and the suite in its tests"},
}

// A library is a third party's module that one module of ours may require.
type library struct {
	module, path string
	tests        bool // only _test.go files import it
	why          string
}

var libraries = []library{
	{module: "conformance", path: "github.com/google/go-cmp", why: "failures print differences to third parties"},
	{module: "cmd/attend", path: "github.com/modelcontextprotocol/go-sdk", why: "the demo's MCP server and session"},
	{module: "cmd/attend", path: "github.com/spf13/cobra", why: "commands, help and completion"},
	{module: "cmd/attend", path: "github.com/spf13/pflag", why: "what cobra's flags are made of; its errors, without the values they quote"},
	{module: "cmd/attend", path: "go.yaml.in/yaml/v3", why: "files of settings, kinds and tokens"},
	{module: "cmd/attend", path: "github.com/rogpeppe/go-internal", tests: true, why: "testscript, one script a behaviour"},
	{module: "cmd/attend", path: "github.com/google/go-cmp", tests: true, why: "differences in tests"},
	{module: "stores/sqlite", path: "github.com/mattn/go-sqlite3", why: "the driver; it brings SQLite along"},
	{module: "stores/bolt", path: "go.etcd.io/bbolt", why: "the driver"},
	{module: "stores/postgres", path: "github.com/jackc/pgx/v5", why: "the driver"},
	{module: "stores/redis", path: "github.com/redis/rueidis", why: "the driver"},
	{module: "mcpevents", path: "github.com/modelcontextprotocol/go-sdk", why: "the official SDK, which it sits beside"},
	{module: "mcpevents", path: "github.com/google/jsonschema-go", why: "JSON Schema; the SDK brings it along"},
	{module: "mcpevents", path: "github.com/gowebpki/jcs", why: "the canonical form of arguments, RFC 8785"},
	{module: "mcpevents", path: "github.com/standard-webhooks/standard-webhooks/libraries", tests: true, why: "the reference of the signatures"},
	{module: "mcpsource", path: "github.com/modelcontextprotocol/go-sdk", tests: true, why: "servers and sessions of tests"},
	{module: "server", path: "github.com/klauspost/compress", why: "zstd bodies, and a faster gzip"},
	{module: "server", path: "github.com/modelcontextprotocol/go-sdk", why: "the MCP server, its tools and transports"},
	{module: "server", path: "github.com/google/jsonschema-go", tests: true, why: "holds answers to the OpenAPI document"},
	{module: "server", path: "github.com/prometheus/client_golang", why: "metrics, in the form that everybody scrapes"},
	{module: "examples", path: "github.com/modelcontextprotocol/go-sdk", why: "the server of the MCP example"},
	{module: "examples", path: "github.com/google/go-cmp", tests: true, why: "differences in tests"},
	{module: "examples/customstore", path: "github.com/google/go-cmp", tests: true, why: "differences in tests"},
}

// closed lists the modules whose go.mod names nothing but what stands here, indirect requirements included.
var closed = map[string][]string{
	"core":        {},
	"conformance": {root + "/core", "github.com/google/go-cmp"},
}

type module struct {
	path, dir string // dir is relative to the root of the repository
}

// A checker collects what is wrong, so that one run shows all of it.
type checker struct {
	findings []string
}

func (c *checker) report(format string, args ...any) {
	c.findings = append(c.findings, fmt.Sprintf(format, args...))
}

func main() {
	c := new(checker)
	mods := c.modules()
	seen := make(map[string]bool) // rows that apply to a package
	for _, m := range mods {
		c.packages(m, seen)
	}
	for _, r := range picture {
		switch {
		case !seen[r.pkg] && !r.planned:
			c.report(".ci/deps.go: the picture has a row for %s, which does not exist: drop the row, or mark it planned", r.pkg)
		case seen[r.pkg] && r.planned:
			c.report(".ci/deps.go: %s exists: its row is not planned any more", r.pkg)
		}
	}
	c.modFiles(mods)

	slices.Sort(c.findings)
	for _, f := range slices.Compact(c.findings) {
		fmt.Println(f)
	}
	if len(c.findings) > 0 {
		os.Exit(1)
	}
}

// modules asks the go command, so that the list cannot differ from go.work.
func (c *checker) modules() []module {
	wd, err := os.Getwd()
	check(err)
	wd, err = filepath.EvalSymlinks(wd)
	check(err)
	var mods []module
	for line := range strings.Lines(string(output(".", "go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}"))) {
		p, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dir, err = filepath.EvalSymlinks(dir)
		check(err)
		rel, err := filepath.Rel(wd, dir)
		check(err)
		mods = append(mods, module{path: p, dir: filepath.ToSlash(rel)})
		if want := path.Join(root, filepath.ToSlash(rel)); p != want {
			c.report("%s/go.mod: module path is %s, want %s", filepath.ToSlash(rel), p, want)
		}
	}
	return mods
}

func (c *checker) packages(m module, seen map[string]bool) {
	// -find leaves imports unresolved: code that does not compile yet can be checked, and nothing is fetched.
	dec := json.NewDecoder(bytes.NewReader(output(m.dir, "go", "list", "-e", "-find", "-json", "./...")))
	for {
		var p struct {
			ImportPath                                                   string
			GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, root), "/")
		r, ok := rowFor(rel)
		if !ok {
			c.report("%s: the picture has no row for this package", rel)
			continue
		}
		seen[r.pkg] = true
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
			c.file(m, r, rel, path.Join(rel, name))
		}
	}
}

func (c *checker) file(m module, r row, pkg, file string) {
	test := strings.HasSuffix(file, "_test.go")
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
	if f == nil {
		check(err)
	}
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		check(err)
		c.importOf(m, r, pkg, fmt.Sprintf("%s:%d", file, fset.Position(spec.Pos()).Line), imp, test)
	}
}

func (c *checker) importOf(m module, r row, pkg, at, imp string, test bool) {
	first, _, _ := strings.Cut(imp, "/")
	switch {
	case imp == root || strings.HasPrefix(imp, root+"/"):
		rel := strings.TrimPrefix(strings.TrimPrefix(imp, root), "/")
		if rel == pkg || anyMatch(r.may, rel) || test && anyMatch(r.tests, rel) {
			return
		}
		if anyMatch(r.tests, rel) {
			c.report("%s: %s may not import %s, which only its tests may (%s)", at, pkg, rel, r.why)
			return
		}
		c.report("%s: %s may not import %s (%s)", at, pkg, rel, r.why)
	case strings.Contains(first, "."):
		l, ok := libraryFor(m, imp)
		switch {
		case !ok:
			c.report("%s: %s may not import %s: module %s has no such library in its list", at, pkg, imp, m.dir)
		case l.tests && !test:
			c.report("%s: %s may not import %s, which only its tests may (%s)", at, pkg, imp, l.why)
		}
	default:
		if i := slices.IndexFunc(r.deny, func(d string) bool { return matches(d+"/...", imp) }); i >= 0 && !test {
			c.report("%s: %s may not import %s (%s)", at, pkg, imp, r.why)
		}
	}
}

// modFile is what go mod edit and go work edit print.
type modFile struct {
	Go        string
	Toolchain string
	Require   []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func (c *checker) modFiles(mods []module) {
	var work modFile
	check(json.Unmarshal(output(".", "go", "work", "edit", "-json"), &work))
	local := make(map[string]string) // versions that go.work takes from the tree
	for _, rep := range work.Replace {
		i := slices.IndexFunc(mods, func(m module) bool { return m.path == rep.Old.Path })
		if i < 0 || rep.Old.Version == "" || path.Clean(rep.New.Path) != mods[i].dir {
			c.report("go.work: replace of %s: want a module of the workspace at one version, replaced by its own folder", rep.Old.Path)
			continue
		}
		local[rep.Old.Path] = rep.Old.Version
	}
	for _, m := range mods {
		var mod modFile
		check(json.Unmarshal(output(m.dir, "go", "mod", "edit", "-json"), &mod))
		file := path.Join(m.dir, "go.mod")
		if mod.Go != work.Go {
			c.report("%s: go %s, but go.work says go %s: all modules have the same line", file, mod.Go, work.Go)
		}
		if mod.Toolchain != "" {
			c.report("%s: toolchain line: a library does not choose its users' toolchain", file)
		}
		if len(mod.Replace) > 0 {
			c.report("%s: replace: users of a module do not get it; put it in go.work", file)
		}
		for _, req := range mod.Require {
			if list, ok := closed[m.dir]; ok && !slices.Contains(list, req.Path) {
				c.report("%s: requires %s: this module's list is %v, and that is for good", file, req.Path, list)
				continue
			}
			if v, ok := local[req.Path]; ok && v != req.Version {
				c.report("%s: requires %s at %s, but go.work has it at %s", file, req.Path, req.Version, v)
			}
			ours := strings.HasPrefix(req.Path, root+"/")
			if _, ok := libraryFor(m, req.Path); !ok && !ours && !req.Indirect {
				c.report("%s: requires %s, which is not in the module's list of libraries", file, req.Path)
			}
		}
	}
	for file := range strings.Lines(string(output(".", "git", "ls-files", "-co", "--exclude-standard", "go.mod", "*/go.mod"))) {
		dir := path.Dir(strings.TrimSpace(file))
		in := slices.ContainsFunc(mods, func(m module) bool { return m.dir == dir })
		if !in && !strings.Contains(dir, "testdata") {
			c.report("%s/go.mod: not in go.work: it would never be tested with the rest", dir)
		}
	}
}

func rowFor(pkg string) (best row, ok bool) {
	for _, r := range picture {
		if matches(r.pkg, pkg) && len(r.pkg) > len(best.pkg) {
			best, ok = r, true
		}
	}
	return best, ok
}

func libraryFor(m module, imp string) (library, bool) {
	for _, l := range libraries {
		if l.module == m.dir && matches(l.path+"/...", imp) {
			return l, true
		}
	}
	return library{}, false
}

func anyMatch(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

func matches(pattern, pkg string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == dir || strings.HasPrefix(pkg, dir+"/")
	}
	return pattern == pkg
}

// output runs a command in dir and returns what it prints; a command that fails ends the check.
func output(dir, name string, args ...string) []byte {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		check(fmt.Errorf("in %s: %s %s: %w", dir, name, strings.Join(args, " "), err))
	}
	return out
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "deps:", err)
		os.Exit(2)
	}
}
