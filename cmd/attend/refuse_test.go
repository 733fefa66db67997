package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goodToken is one that is not weak.
const goodToken = "Zk3vQ8xW1pLr6TnB0yHs"

// What is wrong with the settings is one line on standard error, the same from
// serve and check, with exit code 2, and nothing was opened.
func TestServeRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		args  []string
		env   string // NAME=value
		file  string // of --config, if there is any
		other string // a file other.yaml
		bare  bool   // without the flags that any other has
		want  string
	}{
		{name: "unknown flag", args: []string{"--stroe", "memory"}, want: "unknown flag: --stroe; did you mean --store?"},
		{name: "unknown flag, nothing near", args: []string{"--xyzzy"}, want: "unknown flag: --xyzzy"},
		{name: "short flag", args: []string{"-token=" + goodToken}, want: "unknown short flag: -t; want flags as --name VALUE or --name=VALUE"},
		{name: "argument", args: []string{"now"}, want: `unknown command "now" for "attend `},
		{name: "empty flag", args: []string{"--token", ""}, want: "--token: it is empty; leave it out for the default"},
		{name: "blank flag", args: []string{"--guidance", " \n"}, want: "--guidance: it is empty; leave it out for the default"},
		{name: "empty variable", env: "ATTEND_TOKEN=", want: "ATTEND_TOKEN: it is empty; leave it out for the default"},
		{name: "misspelt variable", env: "ATTEND_TOKN=x", want: "ATTEND_TOKN: there is no such setting; did you mean ATTEND_TOKEN?"},
		{name: "wrong variable", bare: true, env: "ATTEND_PORT=http", want: "ATTEND_PORT: want a port from 0 to 65535"},
		{name: "wrong flag", args: []string{"--port", "65536"}, want: "--port: want a port from 0 to 65535"},
		{name: "duration too long", args: []string{"--judge-timeout", "9000h"}, want: "--judge-timeout: want a duration in whole milliseconds from 1ms to 8760h, such as "},
		{name: "boolean", args: []string{"--insecure=maybe"}, want: "--insecure: want true or false"},

		{name: "no file", args: []string{"--config", "no.yaml"}, want: "--config: open no.yaml: no such file"},
		{name: "unknown key", file: "stor: memory\n", want: `attend.yaml:1: unknown key "stor"; did you mean store?`},
		{name: "unknown key, nothing near", file: "\nxyzzy: 1\n", want: `attend.yaml:2: unknown key "xyzzy"`},
		{name: "another spelling", file: "closingGrace: 1s\n", want: `attend.yaml:1: unknown key "closingGrace"; did you mean closing-grace?`},
		{name: "key of the command", file: "config: a\n", want: `attend.yaml:1: unknown key "config"`},
		{name: "doubled key", file: "port: 1\nhost: localhost\nport: 1\n", want: "attend.yaml:3: port: it is on line 1 already"},
		{name: "empty key", file: "port: 0\ntoken:\n", want: "attend.yaml:2: token: it is empty; leave it out for the default"},
		{name: "null", file: "token: ~\n", want: "attend.yaml:1: token: it is empty; leave it out for the default"},
		{name: "wrong value", file: "# x\nport: many\n", want: "attend.yaml:2: port: want a port from 0 to 65535"},
		{name: "a list for a text", file: "port:\n  - 1\n", want: "attend.yaml:2: port: want one value, no list and no mapping"},
		{name: "a mapping for a text", file: "guidance: {a: b}\n", want: "attend.yaml:1: guidance: want one value, no list and no mapping"},
		{name: "empty in a list", file: "retry-backoff: [1s, '']\n", want: "attend.yaml:1: retry-backoff: want no empty value in the list"},
		{name: "reference", file: "host: &a localhost\nguidance: *a\n", want: "attend.yaml:2: guidance: want no reference to another value"},
		{name: "unknown reference", file: "token: *" + goodToken + "\n", want: "attend.yaml: this is not YAML: an unknown reference: put a value or a key that begins with * into quotes"},
		{name: "merge", file: "<<: {port: 1}\n", want: "attend.yaml:1: want a text as the key"},
		{name: "tag", file: "port: !!binary MQ==\n", want: "attend.yaml:1: port: want no tag before a value"},
		{name: "two documents", file: "port: 1\n---\nport: 2\n", want: "attend.yaml:2: want one document"},
		{name: "no mapping", file: "- port\n", want: "attend.yaml:1: want a mapping: lines of a key, a colon and a value"},
		{name: "broken", file: "port: [1\n", want: "attend.yaml: this is not YAML: line "},
		{name: "large", file: "# " + strings.Repeat("x", maxFile), want: "--config: attend.yaml: want at most 1048576 bytes"},
		{name: "wrong though a flag wins", file: "port: many\n", args: []string{"--port", "1"}, want: "attend.yaml:1: port: want a port from 0 to 65535"},

		{name: "unknown store", args: []string{"--store", "oracle:x"}, want: "--store: want memory, sqlite:FILE, bolt:FILE, postgres://… or redis://…"},
		{name: "store in a file", bare: true, file: "store: mem\n", want: "attend.yaml:1: store: want memory, "},
		{name: "memory with a file", args: []string{"--store", "memory:x"}, want: "--store: want memory, "},
		{name: "no store's file", args: []string{"--store", "bolt:"}, want: "--store: want memory, "},
		{name: "URL of another store", args: []string{"--store", "postgres:redis://localhost"}, want: "--store: want memory, "},
		{name: "URL that is none", args: []string{"--store", "postgres://me:se%cret@localhost/x"}, want: "--store: want a URL; in it the special characters of user and password are %-encoded"},
		{name: "bad URL", args: []string{"--store", "postgres://me:secret@:::/"}, want: "--store: want a connection string of PostgreSQL"},
		{name: "URL that the driver refuses", args: []string{"--store", "postgres://me:secret@localhost/x?sslmode=perhaps"}, want: "--store: want a connection string of PostgreSQL"},
		{name: "Redis URL that the driver refuses", args: []string{"--store", "redis://me:secret@localhost/x"}, want: "--store: want redis://user:password@host:port/db, "},
		{name: "tables' prefix", args: []string{"--store", "postgres://localhost/x", "--store-prefix", "1a"}, want: "--store-prefix: want 1 to 40 lower-case letters, "},
		{name: "keys' prefix", args: []string{"--store", "redis://localhost", "--store-prefix", "attend:"}, want: "--store-prefix: want a hash tag, "},
		{name: "prefix of a file", args: []string{"--store", "bolt:x.db", "--store-prefix", "a"}, want: "--store-prefix: only PostgreSQL and Redis have one"},
		{name: "listen", args: []string{"--store", "redis://localhost", "--store-listen", "redis://localhost"}, want: "--store-listen: only PostgreSQL has one"},
		{name: "listen URL", args: []string{"--store", "postgres://localhost/x", "--store-listen", "postgres://me:se%cret@localhost/x"}, want: "--store-listen: want a connection string of PostgreSQL; in a URL "},

		{name: "unknown judge", args: []string{"--judge", "ruler"}, want: `--judge: unknown judge "ruler"; this binary has rule`},
		{name: "hosted judge", args: []string{"--judge", "jev,rule"}, want: "--judge: this binary has no judge jev; it has rule"},
		{name: "hosted judge in the file", file: "judge: [rule, llm:openai]\n", want: "attend.yaml:1: judge: this binary has no judge llm:openai; it has rule"},
		{name: "judge twice", args: []string{"--judge", "rule,rule"}, want: "--judge: rule: named twice"},
		{name: "model of a judge without one", args: []string{"--judge-model", "x"}, want: "--judge-model: no judge of --judge has such a setting"},

		{name: "unknown kind", args: []string{"--kinds", `{"a":"act"}`}, want: `--kinds: "a": unknown kind "act", want closing, `},
		{name: "unknown kind of the file", file: "kinds:\n  a: closing\n  b: act\n", want: `attend.yaml:1: kinds: "b": unknown kind "act", want closing, `},
		{name: "kind twice", file: "kinds:\n  a: closing\n  a: flush\n", want: `attend.yaml:3: kinds: a: it is on line 2 already`},
		{name: "empty kind", file: "kinds:\n  a:\n", want: `attend.yaml:2: kinds: "a": it is empty`},
		{name: "kind in YAML", args: []string{"--kinds", "other.yaml"}, other: "a: flush\nb: act\n", want: `--kinds: other.yaml:2: "b": unknown kind "act", want closing, `},
		{name: "kinds of nothing", args: []string{"--kinds", "other.yaml"}, other: "# nothing\n", want: "--kinds: other.yaml: want one JSON object or YAML mapping of names and texts"},
		{name: "default kind", args: []string{"--default-kind", "act"}, want: "--default-kind: want closing, flush, continuous, passive, consequence or context"},
		{name: "guidance's file", args: []string{"--guidance", "@no.txt"}, want: "--guidance: open no.txt: no such file"},
		{name: "empty guidance", args: []string{"--guidance", "@other.yaml"}, other: " \n", want: "--guidance: other.yaml: there is nothing in it"},
		{name: "criteria", args: []string{"--criteria", "be nice"}, want: "--criteria: want a JSON object, or @FILE for one of JSON or YAML"},
		{name: "criterion of no route", args: []string{"--criteria", `{"sleep":"x"}`}, want: `--criteria: "sleep": unknown route, want interrupt, queue, note, ask, skip or wait`},
		{name: "criterion of no route in a file", args: []string{"--criteria", "@other.yaml"}, other: "skip: x\nsleep: x\n", want: `--criteria: other.yaml:2: "sleep": unknown route, want `},
		{name: "predicates", args: []string{"--predicates", `{"":"x"}`}, want: `--predicates: "": want a name of 1 to 256 bytes without control characters`},
		{name: "predicate that is no text", args: []string{"--predicates", `{"a":1}`}, want: `--predicates: "a": want a text`},

		{name: "port in the host", args: []string{"--host", "127.0.0.1:80"}, want: "--host: want a name or an address alone; the port is --port"},
		{name: "open to all", args: []string{"--host", "0.0.0.0"}, want: "--host: 0.0.0.0 is not a loopback address, and there is no token: give --token or --token-file, or --insecure to serve everybody who can reach it"},
		{name: "open to all, IPv6", args: []string{"--host", "[::]"}, want: "--host: :: is not a loopback address, and there is no token: "},
		{name: "open to all, by the file", file: "host: example.com\n", want: "attend.yaml:1: host: example.com is not a loopback address, and there is no token: "},
		{name: "socket", args: []string{"--socket", "/" + strings.Repeat("x", 103)}, want: "--socket: want a path of at most 103 bytes"},
		{name: "short token", args: []string{"--token", "Zk3vQ8xW1pLr6Tn"}, want: "--token: want 16 to 512 visible ASCII characters, such as "},
		{name: "long token", args: []string{"--token", strings.Repeat(goodToken, 26)}, want: "--token: want 16 to 512 visible ASCII characters, such as "},
		{name: "token with a space", env: "ATTEND_TOKEN=Zk3vQ8xW1p Lr6TnB0yHs", want: "ATTEND_TOKEN: want 16 to 512 visible ASCII characters, such as "},
		{name: "weak token", args: []string{"--token", "changemechangeme"}, want: "--token: it is easy to guess; take what openssl rand -hex 32 prints"},
		{name: "notice", args: []string{"--drain-notice", "10s"}, want: "--drain-notice: want less than the 10s of --drain, which it is part of"},
		{name: "host that is allowed", args: []string{"--allow-hosts", "example.com,a b"}, want: "--allow-hosts: want names of hosts without ports, or "},
		{name: "origin", file: "allow-origins: [example.com]\n", want: "attend.yaml:1: allow-origins: want origins, such as https://example.com"},
		{name: "scope of CloudEvents", args: []string{"--cloudevents-scope", "{source"}, want: "--cloudevents-scope: want a template with "},
		{name: "log", args: []string{"--log-format", "xml"}, want: "--log-format: want text or json"},
		{name: "window share", args: []string{"--window-share", "1.5"}, want: "--window-share: want a number above 0 and up to 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := []string{"--store", "bolt:made.db", "--port", "0"}
			if test.bare {
				args = nil
			}
			if test.file != "" {
				write(t, "attend.yaml", test.file, 0o600)
				args = append(args, "--config", "attend.yaml")
			}
			if test.other != "" {
				write(t, "other.yaml", test.other, 0o600)
			}
			if name, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(name, value)
			}
			args = append(args, test.args...)
			said := usageError(t, append([]string{"serve"}, args...), test.want)
			if again := usageError(t, append([]string{"check"}, args...), test.want); again != strings.ReplaceAll(said, "attend serve", "attend check") {
				t.Errorf("check says %q and serve %q", again, said)
			}
			if _, err := os.Stat("made.db"); err == nil {
				t.Error("the store was opened")
			}
		})
	}
}

// usageError wants a command to say one line that begins with want, and exit with 2.
func usageError(t *testing.T, args []string, want string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(args, strings.NewReader(""), &out, &errOut)
	said := errOut.String()
	if code != exitUsage || out.Len() > 0 || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "attend: "+want) {
		t.Errorf("attend %q: exit %d, prints %q, says %q, want exit %d and one line of %q", args, code, &out, said, exitUsage, want)
	}
	for _, secret := range []string{"secret", goodToken, "changeme"} {
		if strings.Contains(said, secret) {
			t.Errorf("attend %q says %q, with a secret in it", args, said)
		}
	}
	return said
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.FromSlash(name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
