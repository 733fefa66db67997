package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const servePage = "../../docs/serve.md"

// settingsMarkdown is the table of settings for the page.
func settingsMarkdown() string {
	f := newFlags(new(cobra.Command))
	serveTable(f)
	var b strings.Builder
	group := ""
	for _, s := range f.list {
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n**%s**\n\n| setting | takes | default | |\n| --- | --- | --- | --- |\n", group)
		}
		usage := strings.ReplaceAll(strings.Join(strings.Fields(s.usage), " "), "`", "")
		takes, def := s.kind, s.def
		if _, rest, ok := strings.Cut(s.usage, "`"); ok {
			takes, _, _ = strings.Cut(rest, "`")
		}
		if takes == kindBoolean {
			takes = "true or false"
		}
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, takes, def, usage)
	}
	return b.String() + "\n"
}

// What docs/serve.md says of settings is so: the table, the files, what check
// prints of them, and the names of flags in what it shows.
func TestServePage(t *testing.T) {
	b, err := os.ReadFile(servePage)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("docs/serve.md is not beside this module")
	}
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	table := regexp.MustCompile(`(?s)(<!-- settings -->\n).*?(<!-- end of settings -->)`)
	got := table.ReplaceAllStringFunc(page, func(string) string {
		return "<!-- settings -->\n" + settingsMarkdown() + "<!-- end of settings -->"
	})
	files := regexp.MustCompile("(?s)```yaml( tokens)?\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(files) != 2 || files[0][1] != "" || files[1][1] == "" {
		t.Fatalf("%d files of settings and tokens, want one of each", len(files))
	}
	t.Run("check", func(t *testing.T) {
		t.Chdir(t.TempDir())
		write(t, "attend.yaml", files[0][2], 0o600)
		write(t, "tokens.yaml", files[1][2], 0o600)
		var out, errOut bytes.Buffer
		if code := run([]string{"check", "--config", "attend.yaml"}, nil, &out, &errOut); code != exitDone || errOut.Len() > 0 {
			t.Errorf("the page's file: exit %d, says %s", code, &errOut)
		}
		console := regexp.MustCompile("(?s)(```console\n\\$ attend check --config attend.yaml\n).*?```")
		got = console.ReplaceAllStringFunc(got, func(s string) string {
			return console.FindStringSubmatch(s)[1] + out.String() + "```"
		})
		if code := run([]string{"check", "--token-file", "tokens.yaml"}, nil, &out, &errOut); code != exitDone {
			t.Errorf("the page's tokens: exit %d, says %s", code, &errOut)
		}
	})
	var known []string
	for _, cmd := range []*cobra.Command{newServe(), newMigrate(), newPush(), newTail(), newInspect(), newExplain()} {
		known = append(known, settingNames(group(cmd))...)
	}
	for _, m := range regexp.MustCompile("--([a-z][a-z-]*)").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(known, m[1]) && m[1] != "data-binary" {
			t.Errorf("the page has --%s, which is no flag", m[1])
		}
	}
	if got == page {
		return
	}
	if !*updateDocs {
		t.Fatalf("docs/serve.md is not current: go test -run TestServePage -update-docs")
	}
	if err := os.WriteFile(servePage, []byte(got), 0o666); err != nil {
		t.Fatal(err)
	}
}

func group(cmd *cobra.Command) *cobra.Command {
	root := new(cobra.Command)
	root.AddCommand(cmd)
	return root
}
