package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/spf13/cobra"
)

// planned is what serve would do with some flags, and the file if there is one.
func planned(t *testing.T, args ...string) (*plan, *flags) {
	t.Helper()
	root := new(cobra.Command)
	cmd := &cobra.Command{Use: "serve"}
	root.AddCommand(cmd)
	f := newFlags(cmd)
	s := serveTable(f)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := f.read(); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	p, err := s.plan(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return p, f
}

// fingerprint is all that a plan says.
func fingerprint(p *plan) string {
	q := *p
	kind := fmt.Sprint(q.engine.Kind(attend.Event{Name: "a.b"}), q.engine.Kind(attend.Event{Name: "z"}))
	tokens := 0
	if q.server.Tokens != nil {
		tokens = q.server.Tokens.Len()
	}
	q.engine.Kind, q.engine.Logger, q.server.Logger, q.server.Tokens, q.place.log = nil, nil, nil, nil, nil
	return fmt.Sprintf("%+v %s %d", q, kind, tokens)
}

// other is a value of each setting that is not its default. What stands before it
// is needed beside it.
func other() map[string][]string {
	long := []string{"--store", "postgres://localhost/x"}
	m := map[string][]string{
		"store": {"bolt:other.db"}, "store-prefix": append(long, "other_"), "store-listen": append(long, "none"),
		"retain-count": {"7"}, "retain-age": {"7h"},
		"kinds": {`{"a.*":"flush"}`}, "default-kind": {"flush"},
		"guidance": {"be quiet"}, "criteria": {`{"skip":"never"}`}, "predicates": {`{"angry":"Is somebody angry?"}`},
		"host": {"::1"}, "port": {"7"}, "socket": {"attend.sock"}, "token": {goodToken}, "token-file": {"tokens.yaml"},
		"insecure": {"true"}, "allow-hosts": {"example.com"}, "allow-origins": {"https://example.com"},
		"cloudevents-scope": {"{source}"}, "drain": {"7s"}, "drain-notice": {"1s"},
		"window-share": {"0.25"}, "record-verdicts": {"false"}, "act-threshold": {"0.5"}, "retry-backoff": {"1s,7s"},
	}
	return m
}

// Each setting reaches what it is for, from flag, variable and file, and a flag
// wins over a variable and that over the file.
func TestEverySetting(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "tokens.yaml", tokenFile, 0o600)
	_, f := planned(t)
	defaults, _ := planned(t)
	values := other()
	for _, s := range f.list {
		switch {
		case s.inner, strings.HasPrefix(s.name, "log-"):
			continue // not of the plan
		case s.name == "judge", strings.HasPrefix(s.name, "judge-") && s.name != "judge-timeout":
			continue // there is no other judge
		}
		words := values[s.name]
		if words == nil {
			words = []string{map[string]string{"duration": "123ms", "count": "123"}[s.kind]}
		}
		before, value := slices.Clip(words[:len(words)-1]), words[len(words)-1]
		base, _ := planned(t, before...)
		p, _ := planned(t, append(before, "--"+s.name+"="+value)...)
		want := fingerprint(p)
		if want == fingerprint(base) || want == fingerprint(defaults) {
			t.Errorf("--%s %s changes nothing", s.name, value)
		}
		t.Run(s.name, func(t *testing.T) {
			write(t, "attend.yaml", s.name+": '"+strings.ReplaceAll(value, "'", "''")+"'\n", 0o600)
			args := append(before, "--config", "attend.yaml")
			p, g := planned(t, args...)
			if got := fingerprint(p); got != want {
				t.Errorf("%s in the file: %s\nwant %s", s.name, got, want)
			}
			if place := g.setting(s.name).place; place != "attend.yaml:1: "+s.name {
				t.Errorf("%s in the file has the place %s", s.name, place)
			}
			if s.def == "" || s.name == "store" {
				return
			}
			t.Setenv(s.variable(), s.def)
			p, g = planned(t, args...)
			if got := fingerprint(p); got == want || g.setting(s.name).place != s.variable() {
				t.Errorf("%s=%s does not win over the file", s.variable(), s.def)
			}
			p, g = planned(t, append(args, "--"+s.name+"="+value)...)
			if got := fingerprint(p); got != want || g.setting(s.name).place != "--"+s.name {
				t.Errorf("--%s does not win over its variable", s.name)
			}
		})
	}
	for name := range values {
		f.setting(name) // panics where there is none
	}
}

// What help says of a default is so.
func TestEveryDefault(t *testing.T) {
	base, f := planned(t)
	want := fingerprint(base)
	for _, s := range f.list {
		if s.def == "" {
			continue
		}
		p, _ := planned(t, "--"+s.name+"="+s.def)
		// The engine has defaults of its own for what is zero.
		a, b := p.engine, base.engine
		if s.group == groupWindows {
			if x, y := decides(t, a), decides(t, b); x != y {
				t.Errorf("--%s=%s: %s\nwant %s", s.name, s.def, x, y)
			}
			continue
		}
		if s.group != groupRunning && fingerprint(p) != want {
			t.Errorf("--%s=%s: %s\nwant %s", s.name, s.def, fingerprint(p), want)
		}
	}
	for name, field := range map[string]any{
		"window-share": 0.5, "judge-timeout": 15 * time.Second, "delivery-timeout": 10 * time.Second, "capture-timeout": 500 * time.Millisecond,
		"sweep-interval": time.Second, "sweep-grace": 2 * time.Second, "sweep-limit": 100, "shutdown-grace": 10 * time.Second,
		"max-calls": 64, "resident-bytes": 67108864, "record-verdicts": true,
	} {
		want := fmt.Sprint(field)
		if d, ok := field.(time.Duration); ok {
			want = shortDuration(d)
		}
		if s := f.setting(name); s.def != want || s.group != groupRunning {
			t.Errorf("the default of %s is %s, want %s", name, s.def, want)
		}
	}
}

// decides is the policy that an engine makes of its settings.
func decides(t *testing.T, c engine.Config) string {
	t.Helper()
	p, err := c.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v", *p)
}

func TestMappingsInTheFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "attend.yaml", `
kinds:
  build.*: closing
  "*": context
  "say \"hi\"": flush
criteria:
  skip: |
    When it is <nothing>.
predicates: {angry: "Is somebody angry?"}
retry-backoff: [1s, 2s]
allow-hosts: [a.example, b.example]
judge: [rule]
record-verdicts: off
port: 0
`, 0o644)
	p, _ := planned(t, "--config", "attend.yaml")
	for name, want := range map[string]attend.Kind{"build.7": attend.KindClosing, "x": attend.KindContext, `say "hi"`: attend.KindFlush} {
		if got := p.engine.Kind(attend.Event{Name: name}); got != want {
			t.Errorf("%s is of kind %s, want %s", name, got, want)
		}
	}
	if got := fmt.Sprint(p.engine.Criteria, p.engine.Predicates, p.engine.RetryBackoff, p.server.Hosts, p.engine.OmitVerdicts); got !=
		"map[skip:When it is <nothing>.\n] map[angry:Is somebody angry?] [1s 2s] [a.example b.example] true" {
		t.Errorf("the file says %s", got)
	}
}

// A file of comments alone sets nothing, and texts may be in files of their own.
func TestTextsInFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "attend.yaml", "# nothing yet\n", 0o644)
	write(t, "guidance.txt", "Be quiet.\n", 0o644)
	write(t, "criteria.json", `{"skip":"never"}`, 0o644)
	write(t, "kinds.yaml", "a: flush\n", 0o644)
	p, _ := planned(t, "--config", "attend.yaml", "--guidance", "@guidance.txt", "--criteria", "@criteria.json", "--kinds", "kinds.yaml")
	if p.engine.Guidance != "Be quiet.\n" || p.engine.Criteria[attend.RouteSkip] != "never" || p.engine.Kind(attend.Event{Name: "a"}) != attend.KindFlush {
		t.Errorf("the files say %q, %v", p.engine.Guidance, p.engine.Criteria)
	}
}

// Kubernetes sets variables for a Service that is named attend.
func TestVariablesOfKubernetes(t *testing.T) {
	for name, value := range map[string]string{
		"ATTEND_PORT": "tcp://10.96.0.7:8787", "ATTEND_SERVICE_HOST": "10.96.0.7", "ATTEND_SERVICE_PORT": "8787",
		"ATTEND_PORT_8787_TCP": "tcp://10.96.0.7:8787", "ATTEND_PORT_8787_TCP_PORT": "8787", "ATTEND_TEST_POSTGRES": "x",
	} {
		t.Setenv(name, value)
	}
	if p, _ := planned(t); p.listen.Port != defaultPort {
		t.Errorf("port %d, want %d", p.listen.Port, defaultPort)
	}
	t.Setenv("ATTEND_PORT", "8080")
	if p, _ := planned(t); p.listen.Port != 8080 {
		t.Errorf("port %d, want 8080", p.listen.Port)
	}
}

// 0 keeps all, in the words of the setting and in those of a store.
func TestRetainAll(t *testing.T) {
	for args, want := range map[string]attend.Retain{
		"":                                 {Count: 100_000, Verdicts: 100_000, Age: 720 * time.Hour},
		"--retain-count=0 --retain-age=0s": {},
		"--retain-count=5 --retain-age=1h": {Count: 5, Verdicts: 5, Age: time.Hour},
	} {
		if p, _ := planned(t, strings.Fields(args)...); p.place.retain != want {
			t.Errorf("%q keeps %+v, want %+v", args, p.place.retain, want)
		}
	}
}

// Variables of this project's tests are none of the command's.
func TestVariablesOfOthers(t *testing.T) {
	others := []string{"ATTEND_KILLS=1", "ATTEND_SOAK=1", "ATTEND_SIM=1m", "ATTEND_POSTGRES_BIN=x", "ATTEND_REDIS_BIN=x", "ATTEND_TEST_REDIS=x", "PORT=x", "TOKN=x"}
	if err := misspelt(others, settingNames(newRoot())); err != nil {
		t.Error(err)
	}
}

func TestStoreNames(t *testing.T) {
	for name, want := range map[string]place{
		"memory": {kind: kindMemory}, "bolt:a.db": {kind: kindBolt, at: "a.db"}, "bolt:/a:b": {kind: kindBolt, at: "/a:b"},
		"postgres://h/x": {kind: kindPostgres, at: "postgres://h/x"}, "postgresql://h": {kind: kindPostgres, at: "postgresql://h"},
		"postgres:postgres://h/x": {kind: kindPostgres, at: "postgres://h/x"}, "postgres:///x?host=/run": {kind: kindPostgres, at: "postgres:///x?host=/run"},
		"redis://h": {kind: kindRedis, at: "redis://h"}, "rediss://h:1/2": {kind: kindRedis, at: "rediss://h:1/2"},
		"redis:rediss://h": {kind: kindRedis, at: "rediss://h"}, "redis:unix:///run/redis.sock": {kind: kindRedis, at: "unix:///run/redis.sock"},
	} {
		if got, err := placeOf(name); err != nil || got != want {
			t.Errorf("placeOf(%q) = %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{
		"", "memory:", "bolt", "bolt:", "postgres", "postgres:", "postgres:x", "postgres://", "redis:", "redis://", "redis:postgres://h",
		"unix:///run/redis.sock", "http://h", "mem", "redis:unix:", "postgres:redis://h", "rediss:redis://h",
	} {
		if got, err := placeOf(name); err == nil {
			t.Errorf("placeOf(%q) = %+v, want an error", name, got)
		}
	}
}

func TestShownURL(t *testing.T) {
	for name, want := range map[string]string{
		"memory": "memory", "bolt:a.db": "bolt:a.db", "postgres://h/x": "postgres://h/x", "postgres://me@h/x?sslmode=disable": "postgres://me@h/x?sslmode=disable",
		"postgres://me:secret@h/x": "postgres://me:xxxxx@h/x", "postgres:postgres://me:secret@h/x": "postgres:postgres://me:xxxxx@h/x",
		"redis://:secret@h": "redis://:xxxxx@h", "postgres://h/x?password=secret": "postgres://h/x?password=xxxxx",
		"postgres://h/x?sslpassword=secret&user=me": "postgres://h/x?sslpassword=xxxxx&user=me", "postgres://me:se%cret@h": "set",
	} {
		if got := shownURL(name); got != want {
			t.Errorf("shownURL(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestLogger(t *testing.T) {
	var b strings.Builder
	newServerLogger(&b, "", "info").Debug("no")
	newServerLogger(&b, "", "info").Info("yes")
	newServerLogger(&b, logText, "debug").Debug("too")
	if got := b.String(); strings.Contains(got, `"no"`) || !strings.HasPrefix(got, "{") || !strings.Contains(got, `"msg":"yes"`) || !strings.Contains(got, "level=DEBUG msg=too") {
		t.Errorf("the log is %s", got)
	}
	if f, err := os.Open(os.DevNull); err == nil {
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && !terminal(f) {
			t.Error("a device is no terminal")
		}
	}
}
