// Command proxy makes a module proxy out of the work tree, as files, and looks at each module through it as a stranger
// would: outside the workspace, with nothing but what go.mod and go.sum say. Run it at the root of the repository:
//
//	go run ./.ci/proxy/*.go         check: go.mod and go.sum are tidy, and the module builds, vets and tests
//	go run ./.ci/proxy/*.go -tidy   write go.mod and go.sum of every module anew (go mod tidy knows no workspace)
//	go run ./.ci/proxy/*.go DIR     make the proxy in DIR and leave it there
//
// A sibling that go.work replaces at a version is served at that version, and what no sibling requires at v0.1.0. Their
// sums are not kept in go.sum, where the next edit would make them wrong: the check works them out in its copy.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const (
	root         = "github.com/attend-go/attend"
	firstVersion = "v0.1.0"
)

func main() {
	tidying := flag.Bool("tidy", false, "write go.mod and go.sum of every module anew")
	flag.Parse()
	findings, err := run(*tidying, flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

func run(tidying bool, proxy string) (findings []string, err error) {
	mods, err := modules()
	if err != nil {
		return nil, err
	}
	if proxy != "" {
		return nil, publishAll(mods, proxy)
	}
	tmp, err := os.MkdirTemp("", "attend-proxy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	o, err := newOutside(tmp, mods, tidying)
	if err != nil {
		return nil, err
	}
	if tidying {
		return o.tidyAll()
	}
	return o.checkAll()
}

// output runs a command in the tree and returns what it prints on standard output.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("in %s: %s %s: %w", dir, name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
