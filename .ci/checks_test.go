package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An archive is a text file that holds files: a comment, then "-- NAME --" lines with each file's text behind.
type archive struct {
	comment string
	files   map[string]string
}

func parseArchive(t *testing.T, file string) archive {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := archive{files: make(map[string]string)}
	marks := regexp.MustCompile(`(?m)^-- (\S+) --\n`)
	text := string(data)
	at := marks.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		a.files[text[m[2]:m[3]]] = text[m[1]:end]
	}
	a.comment, _, _ = strings.Cut(text, "\n-- ")
	return a
}

// take returns the lines of one of the archive's files that is no file of the workspace, and takes it out.
func (a archive) take(name string) []string {
	lines := strings.Split(strings.TrimSpace(a.files[name]), "\n")
	delete(a.files, name)
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

// newWorkspace lays out the workspace in which the checks find nothing, with the checks themselves, as a git checkout.
func newWorkspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, parseArchive(t, "testdata/workspace.txt").files)
	for _, glob := range []string{"../test", "*.go", "proxy/*.go", "rules/*.go"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", glob, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, map[string]string{filepath.Join(".ci", file): string(data)})
		}
	}
	if err := os.Chmod(filepath.Join(dir, "test"), 0o777); err != nil {
		t.Fatal(err)
	}
	run(t, dir, nil, "git", "init", "--quiet")
	return dir
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command that must succeed, and returns its standard output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	stdout, stderr, err := try(dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

func try(dir string, env []string, name string, args ...string) (stdout, stderr string, err error) {
	var out, errOut strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	cmd.Env = append(os.Environ(), env...)
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

func TestNothingIsFound(t *testing.T) {
	t.Parallel()
	args := []string{"--fuzz", "1s"}
	for _, step := range []string{"format", "deps", "rules", "docs", "vet", "lint", "tests", "outside", "fuzz", "clean"} {
		args = append(args, "--only", step)
	}
	out := run(t, newWorkspace(t), []string{"CI=true"}, "./test", args...)
	for _, want := range []string{
		"ok  \tgithub.com/attend-go/attend/core/engine",
		"ok  \tgithub.com/attend-go/attend/examples/customstore",
		"github.com/attend-go/attend/core FuzzDelivered\n",
		"== passed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("./test on a workspace without fault does not print %q:\n%s", want, out)
		}
	}
}

// exact are the steps whose findings are compared both ways: each one is wanted, and each wanted one is there.
var exact = map[string]bool{"deps": true, "rules": true, "docs": true}

// TestFaultsAreFound lays each file of testdata over the workspace, runs ./test with the file's first line as arguments,
// and compares with its lines under want: each is a part of a line that is printed.
func TestFaultsAreFound(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if name == "workspace" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := parseArchive(t, file)
			want, gone := a.take("want"), a.take("remove")
			dir := newWorkspace(t)
			write(t, dir, a.files)
			if name == "rules" {
				write(t, dir, map[string]string{
					"core/tune/long.go":      "package tune\n" + strings.Repeat("\n", 400),
					"core/tune/long_test.go": "package tune\n" + strings.Repeat("\n", 600),
				})
			}
			for _, f := range gone {
				if err := os.Remove(filepath.Join(dir, f)); err != nil {
					t.Fatal(err)
				}
			}
			line, _, _ := strings.Cut(a.comment, "\n")
			stdout, stderr, err := try(dir, []string{"CI=true"}, "./test", strings.Fields(line)...)
			if _, failed := errors.AsType[*exec.ExitError](err); !failed {
				t.Fatalf("./test %s: error %v, want a failure:\n%s%s", line, err, stdout, stderr)
			}
			step, _, _ := strings.Cut(name, "-")
			found := findings(stdout)
			for _, w := range want {
				if !strings.Contains(stdout+stderr, w) {
					t.Errorf("./test %s does not print %q", line, w)
				}
			}
			for _, f := range found {
				if exact[step] && !containsAny(f, want) {
					t.Errorf("./test %s prints %q, which is no fault", line, f)
				}
			}
			if exact[step] && len(found) > 0 && len(found) != len(want) {
				t.Errorf("./test %s prints %d findings, want %d", line, len(found), len(want))
			}
			if t.Failed() {
				t.Logf("it printed:\n%s%s", stdout, stderr)
			}
		})
	}
}

// findings returns the lines that ./test prints between the first line of a step and its advice.
func findings(stdout string) []string {
	_, rest, _ := strings.Cut(stdout, "\n")
	body, _, _ := strings.Cut(rest, "\n== ")
	lines := strings.Split(body, "\n")
	return lines[:len(lines)-1]
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

func TestFixDocs(t *testing.T) {
	t.Parallel()
	dir := newWorkspace(t)
	old, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.ReplaceAll(string(old), "engine.New()", "engine.Old()")
	write(t, dir, map[string]string{"README.md": broken})
	if _, _, err := try(dir, nil, "./test", "--only", "docs"); err == nil {
		t.Error("./test --only docs passes a page that differs")
	}
	run(t, dir, nil, "./test", "--fix-docs")
	now, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(now) != string(old) {
		t.Errorf("./test --fix-docs wrote\n%s\nwant\n%s", now, old)
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	dir := newWorkspace(t)
	want := make(map[string]string)
	for name, text := range parseArchive(t, "testdata/workspace.txt").files {
		if base := filepath.Base(name); base == "go.mod" {
			want[name] = text
			module, _, _ := strings.Cut(text, "\n\nrequire")
			write(t, dir, map[string]string{name: strings.TrimSpace(module) + "\n"})
		}
	}
	write(t, dir, map[string]string{
		"core/go.mod":        want["core/go.mod"] + "\nrequire github.com/attend-go/attend/conformance v0.1.0\n",
		"conformance/go.sum": "github.com/attend-go/attend/core v0.1.0 h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
	})
	run(t, dir, nil, "./test", "--tidy")
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != text {
			t.Errorf("./test --tidy wrote %s as\n%s\nwant\n%s", name, got, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "conformance/go.sum")); err == nil {
		t.Error("./test --tidy left a go.sum that holds but sums of our own")
	}
	run(t, dir, nil, "./test", "--only", "outside")
}

// TestProxyServesWhatTagsWill compares the sums of modules from the proxy with those that the go command works out from
// git tags: a stranger's go.sum must not change when a version is released.
func TestProxyServesWhatTagsWill(t *testing.T) {
	t.Parallel()
	dir := newWorkspace(t)
	git := func(args ...string) {
		run(t, dir, nil, "git", append([]string{"-c", "user.name=check", "-c", "user.email=check@example.org"}, args...)...)
	}
	git("add", "--all")
	git("commit", "--quiet", "--message=release")
	proxy := t.TempDir()
	files, err := filepath.Glob(filepath.Join(dir, ".ci/proxy/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, nil, "go", append(append([]string{"run"}, files...), proxy)...)

	for _, mod := range []string{"core", "examples", "examples/customstore"} {
		git("tag", mod+"/v0.1.0")
		sums := func(env ...string) []string {
			env = append(env, "GOWORK=off", "GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir())
			out := run(t, t.TempDir(), env, "go", "mod", "download", "-json", "github.com/attend-go/attend/"+mod+"@v0.1.0")
			return regexp.MustCompile(`"(Sum|GoModSum)": "[^"]*"`).FindAllString(out, -1)
		}
		got := sums("GOPROXY=file://" + proxy)
		want := sums("GOPROXY=direct", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=url.file://"+dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/attend-go/attend")
		if len(want) != 2 || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the proxy serves %s with %v, its tag has %v", mod, got, want)
		}
	}
}
