package main

import (
	"slices"
	"testing"
	"time"
)

func TestLayout(t *testing.T) {
	var list []payload
	add := func(event, body string) {
		p := decode(t, event, body)
		p.place = len(list)
		list = append(list, p)
	}
	// In the package's order, which is not the day's.
	add("star", `{"action":"deleted","sender":{"login":"octocat"}}`)
	add("push", `{"ref":"refs/tags/v1","deleted":true,"sender":{"login":"octocat"}}`)
	add("star", `{"action":"created","sender":{"login":"octocat"}}`)
	add("star", `{"action":"created","sender":{"login":"octocat"}}`)
	add("push", `{"ref":"refs/heads/main","sender":{"login":"octocat"}}`)
	add("push", `{"ref":"refs/tags/v1","sender":{"login":"octocat"}}`)
	got, err := layout(list)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i, p := range got {
		ids = append(ids, p.id())
		if i > 0 && p.at.Before(got[i-1].at) {
			t.Errorf("%s comes at %v, before %v", p.id(), p.at, got[i-1].at)
		}
	}
	// The push of the morning, two rounds of passers-by, the tag, its deletion.
	want := []string{"push-4", "star-2", "star-0", "star-3", "push-5", "push-1"}
	if !slices.Equal(ids, want) {
		t.Errorf("layout = %v, want %v", ids, want)
	}
	if d := got[3].at.Sub(got[1].at); d < 17*time.Minute || d > 19*time.Minute {
		t.Errorf("the second round comes %v after the first, want about 18m", d)
	}
	again, err := layout(list)
	if err != nil || !slices.EqualFunc(got, again, func(a, b placed) bool { return a.at.Equal(b.at) && a.id() == b.id() }) {
		t.Errorf("layout differs the second time: %v, %v", again, err)
	}
}

func TestSpread(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for _, words := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"c", "ab"}} {
		d := spread(time.Minute, words...)
		if d < 0 || d >= time.Minute || seen[d] {
			t.Errorf("spread(1m, %q) = %v, want one below 1m that no other words had", words, d)
		}
		seen[d] = true
		if again := spread(time.Minute, words...); again != d {
			t.Errorf("spread(1m, %q) = %v, then %v", words, d, again)
		}
	}
	if d := spread(0, "a"); d != 0 {
		t.Errorf("spread(0) = %v, want 0", d)
	}
}

// TestDay: a role in two places would be played in the first alone.
func TestDay(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range day {
		if b.every <= 0 {
			t.Errorf("the burst of %s repeats every %v, want more than 0", b.steps[0].role, b.every)
		}
		for _, s := range b.steps {
			if seen[s.role] {
				t.Errorf("%s has two steps", s.role)
			}
			seen[s.role] = true
		}
	}
}
