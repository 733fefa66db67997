package main

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const tokenFile = `
- token: ` + goodToken + `
  name: ops agent
  scopes: [ops, "dev:"]
  rights: [read]
- token: ` + goodToken + `2
  name: the app
  scopes: [""]
  rights: [ingest, read]
`

func TestTokenFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "tokens.yaml", tokenFile, 0o600)
	f := newFlags(new(cobra.Command))
	serveTable(f)
	tokens, err := loadTokens(f, goodToken+"3", "tokens.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := tokens.Len(); n != 3 {
		t.Errorf("%d tokens, want 3", n)
	}
	agent, app, all := tokens.Find(goodToken), tokens.Find(goodToken+"2"), tokens.Find(goodToken+"3")
	if agent == nil || agent.Name != "ops agent" || !agent.MayRead("ops/db") || !agent.MayRead("dev:x") || agent.MayRead("dev") || agent.MayIngest("ops") {
		t.Errorf("the first token stands for %+v", agent)
	}
	if app == nil || app.Name != "the app" || !app.MayRead("any") || !app.MayIngest("any") {
		t.Errorf("the second token stands for %+v", app)
	}
	if all == nil || all.Name != "token" || !all.MayRead("any") || !all.MayIngest("any") {
		t.Errorf("the token of --token stands for %+v", all)
	}
	if none, err := loadTokens(f, "", ""); none != nil || err != nil {
		t.Errorf("loadTokens of nothing = %v, %v", none, err)
	}
}

func TestTokenFileRefuses(t *testing.T) {
	entry := func(with ...string) string {
		lines := map[string]string{"token": goodToken, "name": "app", "scopes": "[ops]", "rights": "[read]"}
		for _, w := range with {
			key, value, ok := strings.Cut(w, ": ")
			if lines[key] = value; !ok {
				delete(lines, key)
			}
		}
		text, mark := "", "- "
		for _, key := range []string{"token", "name", "scopes", "rights", "until"} {
			if value, ok := lines[key]; ok {
				text += mark + key + ": " + value + "\n"
				mark = "  "
			}
		}
		return text
	}
	for _, test := range []struct{ name, file, want string }{
		{"nothing", "", "tokens.yaml: want a list of tokens, each with token, name, scopes and rights"},
		{"an empty list", "[]\n", "tokens.yaml: want a list of tokens, each with token, name, scopes and rights"},
		{"a mapping", "a: b\n", "tokens.yaml: want a list of tokens, "},
		{"a text in the list", entry() + "- secret\n", "tokens.yaml:5: want a mapping: "},
		{"unknown key", entry("until: tomorrow"), `tokens.yaml:5: unknown key "until", want token, name, scopes, rights`},
		{"misspelt key", strings.Replace(entry(), "scopes", "scope", 1), `tokens.yaml:3: unknown key "scope"; did you mean scopes?`},
		{"doubled key", entry() + "  name: b\n", "tokens.yaml:5: name: it is on line 2 already"},
		{"no token", entry("token"), "tokens.yaml:1: this entry has no token"},
		{"no name", entry("name"), "tokens.yaml:1: this entry has no name"},
		{"no scopes", entry("scopes"), "tokens.yaml:1: this entry has no scopes"},
		{"no rights", entry("rights"), "tokens.yaml:1: this entry has no rights"},
		{"short", entry("token: secret"), "tokens.yaml:1: token: want 16 to 512 visible ASCII characters, such as "},
		{"weak", entry("token: changemechangeme"), "tokens.yaml:1: token: it is easy to guess; "},
		{"token that is a list", entry("token: [" + goodToken + "]"), "tokens.yaml:1: token: want one value, "},
		{"token twice", entry() + entry("name: other"), "tokens.yaml:5: token: an entry before has it too"},
		{"empty name", entry("name: ''"), "tokens.yaml:2: name: want 1 to 256 bytes without control characters"},
		{"name with a tab", entry(`name: "a\tb"`), "tokens.yaml:2: name: want 1 to 256 bytes "},
		{"one scope", entry("scopes: ops"), `tokens.yaml:3: scopes: want a list of prefixes, [""] for all scopes`},
		{"no scope", entry("scopes: []"), `tokens.yaml:3: scopes: want a list of prefixes, `},
		{"scope of nothing", entry("scopes: [~]"), `tokens.yaml:3: scopes: want a prefix, "" for all scopes`},
		{"scope with a newline", entry(`scopes: ["a\n"]`), "tokens.yaml:3: scopes: want prefixes of up to 512 bytes "},
		{"reserved scope", entry("scopes: [$attend/x]"), "tokens.yaml:3: scopes: want no prefix of the server's own scopes"},
		{"unknown right", entry("rights: [write]"), "tokens.yaml:4: rights: want ingest or read, each once"},
		{"right twice", entry("rights: [read, read]"), "tokens.yaml:4: rights: want ingest or read, each once"},
		{"one right", entry("rights: read"), "tokens.yaml:4: rights: want a list of ingest, read or both"},
		{"broken", "- token: '" + goodToken + "\n", "tokens.yaml: this is not YAML: line "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "tokens.yaml", test.file, 0o600)
			usageError(t, []string{"check", "--token-file", "tokens.yaml"}, "--token-file: "+test.want)
		})
	}
}

// A file with a secret that others may read is refused, as ssh does it with a key:
// where it is this user's own.
func TestSecretsThatOthersMayRead(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "tokens.yaml", tokenFile, 0o600)
	write(t, "token.yaml", "token: "+goodToken+"\n", 0o600)
	write(t, "store.yaml", "store: postgres://me:secret@localhost/x\n", 0o600)
	write(t, "plain.yaml", "store: postgres://me@localhost/x\n", 0o644)
	if info, err := os.Stat("tokens.yaml"); err != nil || !owned(info) {
		t.Skip("this system does not say who may read a file")
	}
	checks := [][]string{
		{"check", "--token-file", "tokens.yaml"}, {"check", "--config", "token.yaml"}, {"check", "--config", "store.yaml"},
	}
	for _, args := range checks {
		if code := run(args, nil, discard{}, discard{}); code != exitDone {
			t.Errorf("attend %q: exit %d, want 0", args, code)
		}
		for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
			if err := os.Chmod(args[2], mode); err != nil {
				t.Fatal(err)
			}
			place := "--token-file: tokens.yaml: "
			if name, _, _ := strings.Cut(args[2], "."); args[1] == "--config" {
				place = args[2] + ":1: " + name + ": "
			}
			usageError(t, args, place+"a token or password is in this file, and others may read or change it (mode 0")
		}
	}
	if args := []string{"check", "--config", "plain.yaml"}; run(args, nil, discard{}, discard{}) != exitDone {
		t.Errorf("attend %q: a file without a secret is refused", args)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestWeakTokens(t *testing.T) {
	for _, s := range []string{
		"aaaaaaaaaaaaaaaa", "0123456789abcdef", "abcdefghijklmnopqrstuvwxyz", "9876543210987654", "passwordpassword",
		"secretsecretsecret", "changemechangeme", "1111222233334444", strings.Repeat("ab", 200),
	} {
		if !weak(s) {
			t.Errorf("%s is not weak", s)
		}
	}
	for range 1000 {
		b := make([]byte, 32)
		rand.Read(b)
		if s := hex.EncodeToString(b); weak(s) {
			t.Errorf("%s is weak", s)
		}
		if s := rand.Text(); weak(s) {
			t.Errorf("%s is weak", s)
		}
	}
}
