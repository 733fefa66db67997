package memory

import (
	"slices"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// covering is every prefix that covers s, the slow way.
func covering(s attend.Scope) []attend.Prefix {
	var out []attend.Prefix
	for i := range len(s) + 1 {
		if p := attend.Prefix(s[:i]); p.Covers(s) {
			out = append(out, p)
		}
	}
	return out
}

func FuzzPrefixes(f *testing.F) {
	for _, s := range []string{"ops", "ops/db", "ops:x", "a//b", "/", "//", ":a:", "ops/db/", strings.Repeat("a/", 30), "ü/ö"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		scope := attend.Scope(s)
		got := slices.Collect(prefixes(scope))
		want := covering(scope)
		if n := min(len(want), maxLists); !slices.Equal(got, want[:n]) {
			t.Fatalf("prefixes(%q) = %q, want the first %d of %q", s, got, maxLists, want)
		}
		for _, p := range want {
			if list := listOf(p); !slices.Contains(got, list) || !strings.HasPrefix(string(p), string(list)) {
				t.Fatalf("listOf(%q) = %q, which is no list of %q", p, list, s)
			}
		}
	})
}
