package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tested are the modules whose tests the check runs; the others are built and vetted, their tests included.
var tested = []string{"examples/customstore"}

// installed are the commands that the check installs by path and version.
var installed = []string{"cmd/attend"}

// kept are the files that tell the go command what a module requires.
var kept = []string{"go.mod", "go.sum"}

// outside works on copies of the modules in a folder that is below no go.work.
type outside struct {
	dir  string
	mods []*module
	env  []string
}

// newOutside makes an environment in which the go command takes our modules from the proxy of files, keeps them out of the
// user's module cache, where they would outlive an edit, and does not look for their sums in the public database.
func newOutside(dir string, mods []*module, tidying bool) (*outside, error) {
	for _, d := range slices.Concat(tested, installed) {
		if !slices.ContainsFunc(mods, func(m *module) bool { return m.dir == d }) {
			return nil, fmt.Errorf(".ci/proxy/outside.go names %s, which is no module of the workspace", d)
		}
	}
	out, err := output(".", "go", "env", "GOPROXY", "GOMODCACHE", "GOFLAGS", "GONOSUMDB")
	if err != nil {
		return nil, err
	}
	v := strings.Split(out, "\n")
	proxies := []string{"file://" + filepath.ToSlash(filepath.Join(dir, "proxy"))}
	if !tidying {
		// What was fetched once is not fetched again. Not for -tidy: it must see which versions there are now.
		proxies = append(proxies, "file://"+filepath.ToSlash(filepath.Join(v[1], "cache", "download")))
	}
	noSum := root + "/*"
	if v[3] != "" {
		noSum += "," + v[3]
	}
	return &outside{dir: dir, mods: mods, env: append(os.Environ(),
		"GOWORK=off",
		"GOPROXY="+strings.Join(append(proxies, v[0]), ","),
		"GONOPROXY=none",
		"GONOSUMDB="+noSum,
		"GOMODCACHE="+filepath.Join(dir, "modcache"),
		"GOBIN="+filepath.Join(dir, "bin"),
		"GOFLAGS="+strings.TrimSpace(v[2]+" -modcacherw -trimpath"),
	)}, nil
}

// tidyAll writes go.mod and go.sum of each module back into the tree, siblings first: what they require is part of what a
// module needs.
func (o *outside) tidyAll() (findings []string, err error) {
	for _, m := range o.mods {
		dir, finding, err := o.tidied(m)
		if err != nil {
			return nil, err
		}
		if finding != "" {
			return []string{finding}, nil
		}
		for _, name := range kept {
			if err := o.writeBack(m, dir, name); err != nil {
				return nil, err
			}
		}
		if err := m.list(); err != nil {
			return nil, err
		}
		if err := m.publish(filepath.Join(o.dir, "proxy")); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (o *outside) writeBack(m *module, dir, name string) error {
	now, old, err := o.read(m, dir, name)
	if err != nil || now == old {
		return err
	}
	file := filepath.Join(m.dir, name)
	fmt.Println("wrote", file)
	if now == "" {
		return os.Remove(file)
	}
	return os.WriteFile(file, []byte(now), 0o666)
}

// checkAll returns what a stranger would stumble over, one finding for each module.
func (o *outside) checkAll() (findings []string, err error) {
	if err := publishAll(o.mods, filepath.Join(o.dir, "proxy")); err != nil {
		return nil, err
	}
	for _, m := range o.mods {
		dir, finding, err := o.tidied(m)
		if err != nil {
			return nil, err
		}
		for _, name := range kept {
			now, old, err := o.read(m, dir, name)
			if err != nil {
				return nil, err
			}
			if finding == "" && now != old {
				finding = fmt.Sprintf("%s/%s is not tidy: run ./test --tidy", m.dir, name)
			}
		}
		if finding == "" {
			finding = o.use(m, dir)
		}
		if finding != "" {
			findings = append(findings, finding)
		}
	}
	return findings, nil
}

// use builds, vets, tests and installs what is to be, and returns what the first failure printed.
func (o *outside) use(m *module, dir string) (finding string) {
	steps := [][]string{{"build", "./..."}, {"vet", "./..."}}
	if slices.Contains(tested, m.dir) {
		steps = append(steps, []string{"test", "./..."})
	}
	if slices.Contains(installed, m.dir) {
		steps = append(steps, []string{"install", m.path + "@" + m.version})
	}
	for _, args := range steps {
		out, finding := o.goCommand(m, dir, args...)
		if finding != "" {
			return finding
		}
		if args[0] == "test" {
			fmt.Print(out)
		}
	}
	return ""
}

// tidied copies the module, as its zip has it, and runs go mod tidy there.
func (o *outside) tidied(m *module) (dir, finding string, err error) {
	// Not below each other, like in the tree: a module is found by looking upwards.
	dir = filepath.Join(o.dir, "copies", strings.ReplaceAll(m.dir, "/", "-"))
	err = m.each(func(name string, data []byte) error {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if name == "go.sum" {
			data = []byte(o.thirdParty(string(data)))
		}
		return os.WriteFile(file, data, 0o666)
	})
	if err != nil {
		return "", "", err
	}
	// A sibling that is not required yet would be looked for on the network under each part of its path.
	for _, s := range m.siblings {
		out, finding := o.goCommand(m, dir, "mod", "edit", "-json")
		if finding != "" {
			return "", finding, nil
		}
		if s.version != "" && !strings.Contains(out, `"`+s.path+`"`) {
			if _, finding = o.goCommand(m, dir, "mod", "edit", "-require="+s.path+"@"+s.version); finding != "" {
				return "", finding, nil
			}
		}
	}
	_, finding = o.goCommand(m, dir, "mod", "tidy")
	return dir, finding, nil
}

func (o *outside) goCommand(m *module, dir string, args ...string) (out, finding string) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, o.env
	printed, err := cmd.CombinedOutput()
	if err != nil {
		finding = fmt.Sprintf("%s, outside the workspace: go %s: %v\n%s", m.dir, strings.Join(args, " "), err, printed)
	}
	return string(printed), finding
}

// read returns a file as the copy in dir has it now, and as the tree has it: without the sums of our own, "" for no file.
func (o *outside) read(m *module, dir, name string) (now, old string, err error) {
	var text [2]string
	for i, d := range []string{dir, m.dir} {
		data, err := os.ReadFile(filepath.Join(d, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
		text[i] = string(data)
	}
	if name == "go.sum" {
		text[0] = o.thirdParty(text[0])
	}
	return text[0], text[1], nil
}

// thirdParty returns the lines of a go.sum that are not of modules the proxy serves.
func (o *outside) thirdParty(sums string) string {
	var b strings.Builder
	for line := range strings.Lines(sums) {
		if !slices.ContainsFunc(o.mods, func(m *module) bool {
			return m.version != "" && strings.HasPrefix(line, m.path+" "+m.version)
		}) {
			b.WriteString(line)
		}
	}
	return b.String()
}
