package main

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "write the outputs in docs/replay.md anew")

// The outputs in docs/replay.md are what the commands above them print.
func TestDocs(t *testing.T) {
	t.Chdir("../..")
	const page = "docs/replay.md"
	b, err := os.ReadFile(page)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("docs/replay.md is not beside this module")
	}
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```console\n\\$ (attend .*?)\n(.*?)```\n")
	n := 0
	got := blocks.ReplaceAllStringFunc(string(b), func(block string) string {
		n++
		m := blocks.FindStringSubmatch(block)
		out := shellOut(t, m[1])
		if out != m[2] && !*updateDocs {
			t.Errorf("%s says of %q\n%s\nand it prints\n%s", page, m[1], m[2], out)
		}
		return "```console\n$ " + m[1] + "\n" + out + "```\n"
	})
	if n != 5 {
		t.Errorf("%s has %d outputs, want 5", page, n)
	}
	if *updateDocs {
		if err := os.WriteFile(page, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// shellOut is what a command of the page prints: attend, and behind it head, tail
// or grep -E.
func shellOut(t *testing.T, command string) string {
	t.Helper()
	quoted := regexp.MustCompile(`'[^']*'|[^\s']+`)
	parts := regexp.MustCompile(` \| (head|tail|grep)\b`).ReplaceAllString(command, "\x00$1")
	var lines []string
	for i, part := range strings.Split(parts, "\x00") {
		words := quoted.FindAllString(part, -1)
		for i, w := range words {
			words[i] = strings.Trim(w, "'")
		}
		switch words[0] {
		case "attend":
			var out, errOut bytes.Buffer
			if code := run(words[1:], strings.NewReader(""), &out, &errOut); i != 0 || code != exitDone || errOut.Len() > 0 {
				t.Fatalf("%s: exit %d, says %s", command, code, &errOut)
			}
			lines = strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
			lines[len(lines)-1] += "\n"
		case "head":
			lines = lines[:min(len(lines), number(t, words[1]))]
		case "tail":
			lines = lines[max(0, len(lines)-number(t, words[1])):]
		case "grep":
			keep := regexp.MustCompile(words[2])
			lines = slices.DeleteFunc(lines, func(s string) bool { return !keep.MatchString(s) })
		}
	}
	return strings.Join(lines, "")
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(s, "-"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
