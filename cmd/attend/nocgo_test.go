package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A binary that was built without cgo says so where SQLite is asked for, and has
// all the rest.
func TestWithoutCgo(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command once more")
	}
	program := filepath.Join(t.TempDir(), "attend.exe")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, command := range []string{"serve", "check", "replay"} {
		args := []string{command, "--store", "sqlite:attend.db"}
		if command == "replay" {
			args = append(args, "-")
		}
		var said bytes.Buffer
		c := exec.Command(program, args...)
		c.Dir, c.Stderr = t.TempDir(), &said
		err := c.Run()
		exit, ok := errors.AsType[*exec.ExitError](err)
		const want = "attend: --store: this binary was built without cgo, which SQLite's driver needs; bolt:FILE needs none\n"
		if !ok || exit.ExitCode() != exitUsage || said.String() != want {
			t.Errorf("%s: %v, says %q, want exit %d and %q", command, err, &said, exitUsage, want)
		}
	}
	out, err := exec.Command(program, "check", "--store", "bolt:attend.db", "--kinds", `{"a":"flush"}`).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("attend serve would start: store bolt,")) {
		t.Errorf("check of bolt: %v, says %s", err, out)
	}
	out, err = exec.Command(program, "version", "--json").Output()
	if err != nil || !bytes.Contains(out, []byte(`"stores":["memory","bolt","postgres","redis"]`)) {
		t.Errorf("version: %v, says %s", err, out)
	}
}
