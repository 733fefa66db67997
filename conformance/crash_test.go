package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

// The stories touch every kind of input, in each lane, and each kind of write,
// with more than the sixty commits that they have to have.
func TestStoriesTouchEverything(t *testing.T) {
	teller := newTeller(Env{Store: func() attend.ScopeStore { return memory.New() }})
	for _, stories := range [][]*story{chapters(), crossings(), pairs()} {
		var sum crashSum
		for _, s := range stories {
			one, err := teller.tell(t.Context(), s)
			if err != nil {
				t.Fatalf("story %s: %v", s.name, err)
			}
			sum.add(one)
		}
		t.Logf("%d stories, %d commits: %v", len(stories), sum.commits, sum.saw)
		if stories[0].name != chapters()[0].name {
			continue
		}
		if sum.commits < 60 {
			t.Errorf("the chapters have %d commits, want at least 60", sum.commits)
		}
		for _, want := range []string{
			"Configure", "Arrive", "Flush", "End", "Tick", "Judged", "Forget",
			"Claim judge", "Claim decision", "Claim letter", "Failed judge", "Failed decision", "Failed letter",
			"Done decision", "Done letter", "GiveBack judge", "GiveBack decision", "GiveBack letter",
			"snapshot", "scope that ends",
		} {
			if sum.saw[want] == 0 {
				t.Errorf("the chapters have no %s", want)
			}
			delete(sum.saw, want)
		}
		for what := range sum.saw {
			t.Errorf("the chapters have a %s, which this test does not know", what)
		}
	}
}

// A window settles for each reason, every route is taken, events are dropped
// for each cause, and dead letters have each stage.
func TestStoriesTouchEveryOutcome(t *testing.T) {
	teller := newTeller(Env{Store: func() attend.ScopeStore { return memory.New() }})
	heard := make(map[string]bool)
	for _, s := range chapters() {
		_, h, err := teller.run(t.Context(), s, fault{})
		if err != nil {
			t.Fatalf("story %s: %v", s.name, err)
		}
		for _, line := range slices.Concat(h.Log, h.Marks, h.Letters) {
			for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" (),:", r) }) {
				heard[word] = true
			}
		}
	}
	want := []string{"gap", "count", "size", "stale", "expired", "intake", "judge", "sink", "skipped", "waited", "changed", "delivered", "taken"}
	for _, r := range attend.AllRoutes() {
		want = append(want, string(r))
	}
	for _, r := range attend.Reasons() {
		want = append(want, string(r))
	}
	for _, w := range want {
		if !heard[w] {
			t.Errorf("nothing in the chapters is %s; there is %q", w, slices.Sorted(maps.Keys(heard)))
		}
	}
}

// Where there is one handle, the suite does with that.
func TestCrashWithOneHandle(t *testing.T) {
	for _, c := range crashCases() {
		if c.Name == "crash/before" || c.Name == "crash/scopes" {
			continue // others are like them
		}
		if err := c.Run(t.Context(), Env{Store: func() attend.ScopeStore { return memory.New() }}); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// The suite leaves the store as it was, but for the log, and closes the handles
// that it opened.
func TestCrashCleansUp(t *testing.T) {
	store := memory.New()
	opened := 0
	var handles []*memory.Store
	e := Env{
		Store: func() attend.ScopeStore { return store },
		Reopen: func(s attend.ScopeStore) attend.ScopeStore {
			opened++
			again := s.(*memory.Store).Reopen()
			handles = append(handles, again)
			return again
		},
	}
	for _, c := range crashCases() {
		if c.Name != "crash/after" && c.Name != "crash/processes" && c.Name != "crash/groups" {
			continue
		}
		if err := c.Run(t.Context(), e); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	left, err := dueAt(t.Context(), store, farOff)
	if err != nil || len(left) > 0 {
		t.Errorf("the suite leaves scopes that are due: %q, %v", left, err)
	}
	alive := 0
	for _, h := range handles {
		if _, err := h.Log().Bounds(t.Context()); err == nil {
			alive++
		}
	}
	if alive > 0 || opened < 500 {
		t.Errorf("of %d handles %d are open at the end, want none of hundreds", opened, alive)
	}
}

// A story that says something else than what happens fails, and so does one
// whose runs differ.
func TestStoriesCanFail(t *testing.T) {
	const steps = `
		0s  repo push a1:flush
		5m  repo push l1:consequence
	`
	for _, c := range []struct{ name, text, want string }{
		{"right", steps + "want repo queue a1\n left repo l1", ""},
		{"no decision", steps + "left repo l1", "decisions and dead letters"},
		{"another route", steps + "want repo note a1\n left repo l1", "decisions and dead letters"},
		{"an event that settles", steps + "want repo queue a1", "no window has settled with"},
		{"no rest", "judge a1 later:40s\n 0s repo push a1:flush\n 5s repo push l1:consequence", "does not come to rest"},
		{"an event twice", "set IdleExpiry=24h\n 0s repo push a1:flush\n 30h repo push a1:flush\n want repo queue a1\n want repo queue a1", "came to 2 ends"},
		// Without rest between them, the crash moves a3 into a2's window.
		{"another window", "0s repo push a1:flush\n 500ms repo push a2:flush busy\n 700ms repo push a3:flush busy\n want repo queue a1\n want repo queue a2\n want repo queue a3", "otherwise than without a fault"},
	} {
		teller := newTeller(Env{Store: func() attend.ScopeStore { return memory.New() }}, anyFault...)
		_, err := teller.tell(t.Context(), tell(c.name, c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(fmt.Sprint(err), c.want)) {
			t.Errorf("a story with %s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestStoriesThatAreNone(t *testing.T) {
	for _, text := range []string{
		"soon repo push a1:flush", "0s repo", "0s repo dance", "0s repo push a1", "0s repo push a1:flush*many",
		"judge a1", "judge a1 perhaps", "judge a1 later:soon", "judge a1 skip(ask=often)",
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("tell(%q) does not panic", text)
				}
			}()
			tell("none", text)
		}()
	}
}
