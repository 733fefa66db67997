//go:build unix

package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestReplaceFile(t *testing.T) {
	t.Chdir(t.TempDir())
	defer syscall.Umask(syscall.Umask(0o027))
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	check := func(name, want string, mode fs.FileMode) {
		t.Helper()
		b, err := os.ReadFile(name)
		info, statErr := os.Lstat(name)
		if err != nil || statErr != nil || string(b) != want || info.Mode() != mode {
			t.Errorf("%s has %q, %v, mode %v, want %q, mode %v", name, b, err, info.Mode(), want, mode)
		}
	}
	replace := func(name, s string) {
		t.Helper()
		if err := replaceFile(name, text(s)); err != nil {
			t.Error(err)
		}
	}
	replace("new.html", "one")
	check("new.html", "one", 0o640)

	// One that is there keeps its mode, also behind a link.
	write(t, "kept.html", "one", 0o600)
	if err := os.Symlink("kept.html", "link.html"); err != nil {
		t.Fatal(err)
	}
	replace("link.html", "two")
	check("kept.html", "two", 0o600)
	if to, err := os.Readlink("link.html"); to != "kept.html" {
		t.Errorf("the link leads to %q, %v", to, err)
	}

	// What is no file stays what it is.
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, _ := os.ReadFile("pipe")
		read <- string(b)
	}()
	replace("pipe", "three")
	if info, err := os.Lstat("pipe"); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is now %v, %v", info, err)
	}
	if got := <-read; got != "three" {
		t.Errorf("the pipe gave %q", got)
	}

	// A failure leaves what was there, and nothing beside it.
	bad := errors.New("no room")
	for _, name := range []string{"kept.html", "none.html"} {
		if err := replaceFile(name, func(io.Writer) error { return bad }); !errors.Is(err, bad) {
			t.Errorf("replaceFile = %v, want the writer's error", err)
		}
	}
	check("kept.html", "two", 0o600)
	if list, err := os.ReadDir("."); err != nil || len(list) != 4 {
		t.Errorf("%d files, %v, want 4", len(list), err)
	}
}
