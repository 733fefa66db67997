package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance"
	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

func TestOpenConfig(t *testing.T) {
	addr := servers.Redis(t).URL()
	for _, c := range []struct {
		name  string
		o     redis.Config
		field string
	}{
		{"no tag", redis.Config{Prefix: "attend:app:"}, "Prefix"},
		{"an empty tag, which is none", redis.Config{Prefix: "attend:{}:"}, "Prefix"},
		{"an empty tag before another", redis.Config{Prefix: "{}{app}:"}, "Prefix"},
		{"a tag that ends nowhere", redis.Config{Prefix: "attend:{app:"}, "Prefix"},
		{"braces the wrong way round", redis.Config{Prefix: "}app{"}, "Prefix"},
		{"a space", redis.Config{Prefix: "attend {app}"}, "Prefix"},
		{"a pattern", redis.Config{Prefix: "attend:{app}:*"}, "Prefix"},
		{"a newline", redis.Config{Prefix: "attend:{app}:\n"}, "Prefix"},
		{"too long", redis.Config{Prefix: "{app}" + strings.Repeat("x", 124)}, "Prefix"},
		{"a time below zero", redis.Config{Timeout: -1}, "Timeout"},
		{"a count below zero", redis.Config{Retain: attend.Retain{Count: -1}}, "Retain"},
	} {
		_, err := redis.Open(t.Context(), addr, c.o)
		if e, ok := errors.AsType[*attend.InvalidError](err); !ok || e.Field != c.field {
			t.Errorf("Open with %s: %v, want an *InvalidError for %s", c.name, err, c.field)
		}
		if _, err := redis.OpenEventLog(t.Context(), addr, c.o); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("OpenEventLog with %s: %v, want ErrInvalid", c.name, err)
		}
	}
	if _, err := redis.New(t.Context(), nil, redis.Config{}); err == nil {
		t.Error("New without a client: no error")
	}
	if _, err := redis.NewEventLog(t.Context(), nil, redis.Config{}); err == nil {
		t.Error("NewEventLog without a client: no error")
	}
}

func TestOpenHidesSecrets(t *testing.T) {
	s := servers.Redis(t)
	secret := password(t, s.URL())
	host := strings.SplitN(s.URL(), "@", 2)[1]
	ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
	defer end()
	for _, bad := range []string{
		"redis://default:hunter2hunter2@" + host,
		"redis://default:hunter2hunter2@127.0.0.1:1/0",
		"redis://default:hunter2hunter2@127.0.0.1:x/0",
		"redis://default:hunter2/hunter2@127.0.0.1:1/0",
		"redis://default:hunter2hunter2@127.0.0.1:1/hunter2",
		"redis://default:hunter2%zz@127.0.0.1:1/0",
		"postgres://default:hunter2hunter2@" + host,
		"redis://default:hunter2hunter2@127.0.0.1:1/0?dial_timeout=hunter2",
		"hunter2",
	} {
		_, err := redis.Open(ctx, bad, *quiet())
		if err == nil {
			t.Errorf("Open(%s): no error", bad)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), secret) {
			t.Errorf("Open(%s): the error holds a part of the URL: %v", bad, err)
		}
	}
}

func TestOpenServer(t *testing.T) {
	const fine = "redis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
	for _, c := range []struct {
		name, old, new, want string
	}{
		{"as it should be", "", "", ""},
		{"6.2", "7.0.15", "6.2.0", ""},
		{"10.1", "7.0.15", "10.1.0", ""},
		{"6.0", "7.0.15", "6.0.16", "6.2 or later"},
		{"no version", "redis_version", "x", "6.2 or later"},
		{"a replica", "master", "slave", `role is "slave"`},
		{"evicts, when a limit is set", "noeviction", "allkeys-lru", ""},
		{"evicts any key", "maxmemory:0\r\nmaxmemory_policy:noeviction", "maxmemory:9\r\nmaxmemory_policy:allkeys-lru", "allkeys-lru"},
		{"evicts what expires", "maxmemory:0\r\nmaxmemory_policy:noeviction", "maxmemory:9\r\nmaxmemory_policy:volatile-lru", ""},
		{"no run id", "run_id:abc", "", "run_id"},
	} {
		err := redis.CheckInfo(strings.ReplaceAll(fine, c.old, c.new))
		if c.old == "" {
			err = redis.CheckInfo(fine)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("a server that is %s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestOpenEviction(t *testing.T) {
	s := start(t, map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
	if _, err := redis.Open(t.Context(), s.URL(), *quiet()); err == nil || !strings.Contains(err.Error(), "maxmemory-policy") {
		t.Errorf("Open on a server that evicts: %v, want an error that names maxmemory-policy", err)
	}
}

func TestOpenNewer(t *testing.T) {
	url := servers.Redis(t).URL()
	c := connect(t, url)
	for _, c2 := range []struct {
		schema string
		want   error
	}{{"2", attend.ErrNewer}, {"0", attend.ErrCorrupt}, {"x", attend.ErrCorrupt}} {
		o := quiet()
		s := open(t, url, o)
		l := openEvents(t, url, o)
		put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{[]byte("a")}, Due: noon})
		c.do("HSET", o.Prefix+"head", "schema", c2.schema)
		c.do("HSET", o.Prefix+"events:head", "schema", c2.schema)
		if _, err := redis.Open(t.Context(), url, *o); !errors.Is(err, c2.want) || !strings.Contains(err.Error(), o.Prefix) {
			t.Errorf("Open of schema %s: %v, want %v, and the prefix named", c2.schema, err, c2.want)
		}
		if _, err := redis.OpenEventLog(t.Context(), url, *o); !errors.Is(err, c2.want) {
			t.Errorf("OpenEventLog of schema %s: %v, want %v", c2.schema, err, c2.want)
		}
		// A process of this release that still runs does no harm.
		if _, err := s.Commit(t.Context(), []attend.Write{{Scope: "new"}}); !errors.Is(err, c2.want) {
			t.Errorf("Commit in schema %s: %v, want %v", c2.schema, err, c2.want)
		}
		if _, err := s.Log().Bounds(t.Context()); !errors.Is(err, c2.want) {
			t.Errorf("Bounds in schema %s: %v, want %v", c2.schema, err, c2.want)
		}
		if _, err := s.Load(t.Context(), "ops"); !errors.Is(err, c2.want) {
			t.Errorf("Load in schema %s: %v, want %v", c2.schema, err, c2.want)
		}
		if err := s.Remove(t.Context(), "ops"); !errors.Is(err, c2.want) {
			t.Errorf("Remove in schema %s: %v, want %v", c2.schema, err, c2.want)
		}
		if n, err := c.do("EXISTS", o.Prefix+"s:ops").AsInt64(); err != nil || n != 1 {
			t.Errorf("after Remove in schema %s there are %d of the scope's keys, want 1 (%v)", c2.schema, n, err)
		}
		for _, err := range s.Due(t.Context(), noon) {
			if !errors.Is(err, c2.want) {
				t.Errorf("Due in schema %s: %v, want %v", c2.schema, err, c2.want)
			}
		}
		if err := s.Log().Trim(t.Context(), attend.Retain{Age: 1}, noon); !errors.Is(err, c2.want) {
			t.Errorf("Trim in schema %s: %v, want %v", c2.schema, err, c2.want)
		}
		if err := l.Append(t.Context(), "ops", []attend.Event{{ID: "a", Name: "b"}}); !errors.Is(err, c2.want) {
			t.Errorf("Append in schema %s: %v, want %v", c2.schema, err, c2.want)
		}
	}
}

func TestOpenSays(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		want     []string
	}{
		{"always", nil, []string{"level=INFO", "appendfsync=always", "crashLoses=nothing"}},
		{"pauses", map[string]string{"no-appendfsync-on-rewrite": "yes"}, []string{"level=WARN", "appendfsync=always", "no-appendfsync-on-rewrite"}},
		{"everysec", map[string]string{"appendfsync": "everysec"}, []string{"level=WARN", "appendfsync=everysec", "last second"}},
		{"no", map[string]string{"appendfsync": "no"}, []string{"level=WARN", "appendfsync=no"}},
		{"off", map[string]string{"appendonly": "no"}, []string{"level=WARN", "appendfsync=off", "RDB"}},
		{"CONFIG forbidden", map[string]string{"rename-command": "CONFIG \"\""}, []string{"level=WARN", "appendfsync=unknown", "CONFIG GET"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, c.settings)
			var b bytes.Buffer
			o := quiet()
			o.Logger = slog.New(slog.NewTextHandler(&b, nil))
			open(t, s.URL(), o)
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("the log line of a server with %s lacks %q: %s", c.name, want, b.String())
				}
			}
			if strings.Contains(b.String(), password(t, s.URL())) {
				t.Error("the log line holds the password")
			}
		})
	}
}

// rights are those that doc.go lists, for a prefix.
func rights(t *testing.T, prefix string) []string {
	t.Helper()
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)ACL SETUSER attend (.*?)\n//\n`).FindSubmatch(b)
	if text == nil {
		t.Fatal("doc.go lists no rights")
	}
	all := strings.NewReplacer("//", "", "attend:{app}:", prefix, ">SECRET", ">pw").Replace(string(text[1]))
	return strings.Fields(all)
}

func user(t *testing.T, of, name string) string {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "pw")
	return u.String()
}

// The rights that doc.go lists are enough, and each of them is tried, but for
// those of the last line.
func TestRights(t *testing.T) {
	s := start(t, nil)
	c := connect(t, s.URL())
	all := rights(t, "test:{")
	c.do(append([]string{"ACL", "SETUSER", "least"}, all...)...)
	st := suite(user(t, s.URL(), "least"))
	t.Run("store", func(t *testing.T) {
		conformance.Scope(t, st)
		conformance.Log(t, st)
	})
	t.Run("events", func(t *testing.T) { conformance.EventLog(t, eventSuite(user(t, s.URL(), "least"))) })
	free := slices.Index(all, "+evalsha") // where the last line begins
	for _, right := range all[:free] {
		if !strings.HasPrefix(right, "+") {
			continue
		}
		less := append([]string{"ACL", "SETUSER", "less", "reset"}, all...)
		c.do(append(less, "-"+right[1:])...)
		_, err := redis.Open(t.Context(), user(t, s.URL(), "less"), *quiet())
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), right[1:]) {
			t.Errorf("Open without %s: %v, want an error that names it", right, err)
		}
	}
	for _, key := range []string{"nokeys", "~other:*"} {
		c.do(append(append([]string{"ACL", "SETUSER", "elsewhere", "reset"}, all...), "resetkeys", "~other:*")...)
		if _, err := redis.Open(t.Context(), user(t, s.URL(), "elsewhere"), *quiet()); err == nil {
			t.Errorf("Open by a user with keys %s: no error", key)
		}
	}
}

// Without the right to subscribe, or to publish, a waiter still hears.
func TestRightsPolling(t *testing.T) {
	s := start(t, nil)
	c := connect(t, s.URL())
	for i, less := range []string{"-subscribe", "-publish", "resetchannels"} {
		name := fmt.Sprint("poll", i)
		c.do(append(append([]string{"ACL", "SETUSER", name}, rights(t, "test:{")...), less)...)
		o := quiet()
		a, b := open(t, user(t, s.URL(), name), o), open(t, user(t, s.URL(), name), o)
		woken := waiting(t, b, attend.Query{})
		put(t, a, attend.Write{Scope: "ops", Rows: []attend.Row{row("ops", "d1")}})
		select {
		case err := <-woken:
			if err != nil {
				t.Errorf("Wait with %s: %v", less, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("Wait with %s does not hear of another handle in 10 s", less)
		}
	}
}
