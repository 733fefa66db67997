package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/spf13/cobra"
)

// policy is what the engine makes of some flags.
func policy(t *testing.T, args ...string) any {
	t.Helper()
	c := engine.Config{Sink: attend.LogOnly, DeadLetter: attend.LogLetters}
	cmd := new(cobra.Command)
	settings(newFlags(cmd), &c)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	p, err := c.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return *p
}

// Each setting reaches the engine, and what help shows as its default is one.
func TestSettings(t *testing.T) {
	var names []string
	cmd := new(cobra.Command)
	f := newFlags(cmd)
	settings(f, new(engine.Config))
	for _, s := range f.list {
		name := s.name
		flag := cmd.Flags().Lookup(name)
		names = append(names, name)
		if got, want := policy(t, "--"+name, flag.DefValue), policy(t); !reflect.DeepEqual(got, want) {
			t.Errorf("--%s %s: policy %+v, want that of the default %+v", name, flag.DefValue, got, want)
		}
		other := map[string]string{"duration": "123ms", "count": "123", "number": "0.123", "list": "123ms,1s"}[flag.Value.Type()]
		if reflect.DeepEqual(policy(t, "--"+name, other), policy(t)) {
			t.Errorf("--%s %s changes nothing", name, other)
		}
	}
	if len(names) != 18 {
		t.Errorf("%d settings, want 18: %v", len(names), names)
	}
}

func TestSettingsOfNone(t *testing.T) {
	for _, args := range [][]string{
		{"--max-waits", "0"}, {"--recent-count", "0"}, {"--seen-count", "0"}, {"--retry-backoff", "none"}, {"--retry-backoff", "0s"},
	} {
		if reflect.DeepEqual(policy(t, args...), policy(t)) {
			t.Errorf("%v changes nothing", args)
		}
	}
}

func TestFlagsRefuse(t *testing.T) {
	const duration = "want a duration in whole milliseconds from 1ms to 100 years"
	for _, test := range []struct{ flag, value, want string }{
		{"closing-grace", "0", duration},
		{"closing-grace", "", "it is empty; leave it out for the default"},
		{"closing-grace", "5", duration},
		{"stream-gap", "-1s", duration},
		{"max-window", "100us", duration},
		{"max-window", "1.5ms", duration},
		{"idle-expiry", "876001h", duration},
		{"max-events", "0", "want a whole number from 1 to 2^30"},
		{"max-events", "1e3", "want a whole number from 1 to 2^30"},
		{"max-waits", "-1", "want a whole number from 0 to 2^30"},
		{"max-backlog", "1073741825", "want a whole number from 1 to 2^30"},
		{"act-threshold", "0", "want a number above 0 and up to 1, or off"},
		{"act-threshold", "1.01", "want a number above 0 and up to 1, or off"},
		{"act-threshold", "nan", "want a number above 0 and up to 1, or off"},
		{"max-acts-per-hour", "-1", "want a number from 0 on"},
		{"max-acts-per-hour", "inf", "want a number from 0 on"},
		{"max-acts-per-hour", "off", "want a number from 0 on"},
		{"retry-backoff", " ", "it is empty; leave it out for the default"},
		{"retry-backoff", "1s,x", "want durations with commas between them, such as 1s,4s,16s, or none"},
		{"retry-backoff", "1s" + strings.Repeat(",1s", 32), "want at most 32 durations"},
	} {
		var out, errOut bytes.Buffer
		code := run([]string{"replay", "--" + test.flag, test.value, "-"}, strings.NewReader(""), &out, &errOut)
		said := errOut.String()
		if code != exitUsage || out.Len() > 0 || strings.Count(said, "\n") != 1 ||
			!strings.Contains(said, "attend: --"+test.flag+": "+test.want) {
			t.Errorf("--%s %q: exit %d, %q on standard output, and says %q, want one line of %s", test.flag, test.value, code, &out, said, test.want)
		}
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 500 * time.Millisecond: "500ms", 10 * time.Second: "10s", time.Minute: "1m", 90 * time.Second: "1m30s",
		time.Hour: "1h", 30 * 24 * time.Hour: "720h", time.Hour + time.Second: "1h0m1s", 10 * time.Minute: "10m",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("shortDuration(%v) = %s, want %s", d, got, want)
		}
	}
}
