//go:build unix

package interop_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The major versions of Node.js: the oldest that the packages run on, and the
// first that has global crypto, which they use, without asking for it.
const (
	oldestNode = 18
	cryptoNode = 20
)

// installed is the folder that has the packages, in node_modules.
var installed = sync.OnceValues(install)

// node is the major version of Node.js that is found.
var node = sync.OnceValues(nodeVersion)

// packages returns a folder that has the packages and the scripts. Where they
// cannot be had the test is skipped, but not in CI.
func packages(t testing.TB) string {
	t.Helper()
	dir, err := installed()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	// A script finds its packages from where it lies.
	run := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "node_modules"), filepath.Join(run, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(run, "scripts"), os.DirFS("scripts")); err != nil {
		t.Fatal(err)
	}
	return run
}

func install() (string, error) {
	if _, err := node(); err != nil {
		return "", err
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", fmt.Errorf("the packages come by npm: %w", err)
	}
	base, err := os.UserCacheDir()
	if err != nil { // no home
		base = os.TempDir()
	}
	base = filepath.Join(base, "attend-server-interop")
	files := []string{"package.json", "package-lock.json", ".npmrc"}
	sum := sha256.New()
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(b), b)
	}
	dir := filepath.Join(base, hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// A folder under its last name is complete, whoever else installs meanwhile.
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(base, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(fresh, name), b, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci")
	npm.Dir = fresh
	npm.WaitDelay = time.Second
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

func nodeVersion() (int, error) {
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("the packages run on Node.js: %w", err)
	}
	text := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < oldestNode {
		return 0, fmt.Errorf("node is %s, the packages need version %d or later", text, oldestNode)
	}
	return n, nil
}

// command is one that runs a script, in a folder of [packages].
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join("scripts", name)}, args...)...)
	cmd.Dir = dir
	cmd.Env = os.Environ()
	if n, err := node(); err == nil && n < cryptoNode {
		cmd.Env = append(cmd.Env, "NODE_OPTIONS=--experimental-global-webcrypto")
	}
	return cmd
}
