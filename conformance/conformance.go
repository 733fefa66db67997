package conformance

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A Store tells the suites how to make the store under test.
type Store struct {
	// New returns an empty store, whose log keeps at least 10,000 rows of each
	// class. It is called for each case, by some of them more than once; on a
	// shared database each store lives under a prefix that nothing else uses.
	// Clean up with t.Cleanup. A store that is an [io.Closer] is closed by one
	// case, before its cleanup closes it again.
	New func(t testing.TB) attend.ScopeStore
	// Reopen returns a second handle on s's data, as another process would hold
	// it; s may be closed already. Nil: one process only. The crash suite opens
	// hundreds, one after the other; those that are io.Closers are closed when
	// their process is gone, before their cleanup closes them again.
	Reopen func(t testing.TB, s attend.ScopeStore) attend.ScopeStore
	// Waive maps a case's name to why it does not apply. A waiver for a case
	// that passes, or for one that there isn't, fails the run.
	Waive map[string]string
}

// Events tells the event-log suite how to make the log under test. New, Reopen
// and Waive are as in [Store].
type Events struct {
	New    func(t testing.TB) attend.EventLog
	Reopen func(t testing.TB, l attend.EventLog) attend.EventLog
	// Retain returns an empty log that keeps no more than keep says, give or
	// take what its steps leave. Nil: the log keeps everything.
	Retain func(t testing.TB, keep attend.Retain) attend.EventLog
	Waive  map[string]string
}

// All runs every suite for stores: [Scope], [Log], [Concurrent] and [Crash].
func All(t *testing.T, s Store) {
	t.Helper()
	s.check(t)
	for _, suite := range storeSuites() {
		run(t, suite, s.env, s.Waive)
	}
}

// Scope checks Load, Commit, Due and Remove.
func Scope(t *testing.T, s Store) {
	t.Helper()
	s.check(t)
	run(t, "scope", s.env, s.Waive)
}

// Log checks the decision log.
func Log(t *testing.T, s Store) {
	t.Helper()
	s.check(t)
	run(t, "log", s.env, s.Waive)
}

// Concurrent checks what many goroutines and several handles see.
func Concurrent(t *testing.T, s Store) {
	t.Helper()
	s.check(t)
	run(t, "concurrent", s.env, s.Waive)
}

// Crash checks what is left when a process dies at a commit, or when the answer
// is lost.
func Crash(t *testing.T, s Store) {
	t.Helper()
	s.check(t)
	run(t, "crash", s.env, s.Waive)
}

// EventLog checks an event log.
func EventLog(t *testing.T, l Events) {
	t.Helper()
	if err := checkWaivers(l.Waive, "events"); err != nil {
		t.Error(err)
	}
	run(t, "events", l.env, l.Waive)
}

// storeSuites are all suites but that of event logs, in their order.
func storeSuites() (suites []string) {
	for _, c := range Cases() {
		if s := c.Suite(); s != "events" && !slices.Contains(suites, s) {
			suites = append(suites, s)
		}
	}
	return suites
}

func (s Store) check(t *testing.T) {
	t.Helper()
	if err := checkWaivers(s.Waive, storeSuites()...); err != nil {
		t.Error(err)
	}
}

func (s Store) env(t testing.TB) Env {
	e := Env{Store: func() attend.ScopeStore { return s.New(t) }, Soak: soak(), Logf: t.Logf}
	if s.Reopen != nil {
		e.Reopen = func(a attend.ScopeStore) attend.ScopeStore { return s.Reopen(t, a) }
	}
	return e
}

func (l Events) env(t testing.TB) Env {
	e := Env{EventLog: func() attend.EventLog { return l.New(t) }, Soak: soak()}
	if l.Reopen != nil {
		e.ReopenLog = func(a attend.EventLog) attend.EventLog { return l.Reopen(t, a) }
	}
	if l.Retain != nil {
		e.Retaining = func(keep attend.Retain) attend.EventLog { return l.Retain(t, keep) }
	}
	return e
}

// soak is how long ATTEND_SOAK wants it: a duration, or 10 s for a plain yes.
func soak() time.Duration {
	v := os.Getenv("ATTEND_SOAK")
	if d, err := time.ParseDuration(v); err == nil {
		return d
	}
	if v == "" || v == "0" {
		return 0
	}
	return 10 * time.Second
}

// How long a case may take beside its soak. Those of the crash suite are some
// thousand commits.
const (
	hang      = 2 * time.Minute
	crashHang = 5 * time.Minute
)

func run(t *testing.T, suite string, env func(testing.TB) Env, waive map[string]string) {
	t.Helper()
	limit := hang
	if suite == "crash" {
		limit = crashHang
	}
	t.Run(suite, func(t *testing.T) {
		for _, c := range Cases() {
			if c.Suite() != suite {
				continue
			}
			t.Run(strings.TrimPrefix(c.Name, suite+"/"), func(t *testing.T) {
				e := env(t)
				err := c.Try(t.Context(), limit+2*e.Soak, e)
				why, waived := waive[c.Name]
				o := outcomeOf(c, err, why, waived)
				t.Attr("attend.case", c.Name)
				t.Attr("attend.rule", c.Rule)
				t.Attr("attend.since", c.Since)
				t.Attr("attend.outcome", o.name)
				switch {
				case o.fails:
					t.Fatal(o.text)
				case o.text != "":
					t.Skip(o.text)
				}
			})
		}
	})
}

// An outcome is what a report says of a case.
type outcome struct {
	name  string // passed, failed, waived, unneeded, skipped or pending
	text  string // empty: passed
	fails bool
}

func outcomeOf(c Case, err error, why string, waived bool) outcome {
	skipped, _ := errors.AsType[*SkipError](err)
	switch {
	case waived && (err == nil || skipped != nil):
		return outcome{"unneeded", "the waiver is not needed: take it out", true}
	case waived:
		return outcome{"waived", fmt.Sprintf("waived: %s\n%v", why, err), false}
	case err == nil:
		return outcome{"passed", "", false}
	case skipped != nil:
		return outcome{"skipped", skipped.Reason, false}
	case !slices.ContainsFunc(versions(), func(v string) bool { return slices.Contains(Requirements(v), c.Name) }):
		return outcome{"pending", fmt.Sprintf("no version demands this yet.\n  rule: %s\nbroken: %v", c.Rule, err), false}
	}
	return outcome{"failed", fmt.Sprintf("\n  rule: %s\nbroken: %v", c.Rule, err), true}
}

// checkWaivers refuses names that are no case of these suites.
func checkWaivers(waive map[string]string, suites ...string) error {
	for _, name := range slices.Sorted(maps.Keys(waive)) {
		known := slices.ContainsFunc(Cases(), func(c Case) bool { return c.Name == name && slices.Contains(suites, c.Suite()) })
		if !known {
			return fmt.Errorf("Waive names %q, which is no case of these suites", name)
		}
		if waive[name] == "" {
			return fmt.Errorf("Waive gives no reason for %q", name)
		}
	}
	return nil
}

//go:embed requirements/*.txt
var requirements embed.FS

// Requirements returns the names of the cases that a version demands, such as
// "v0.1"; none for a version that has no list.
func Requirements(version string) []string {
	b, err := requirements.ReadFile("requirements/" + version + ".txt")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// versions lists the versions that have a list.
func versions() []string {
	entries, err := requirements.ReadDir("requirements")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".txt"))
	}
	return out
}
