package journal_test

import (
	"slices"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// Keys are in files: a release that made others would find nothing.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []journal.Entry
		want []journal.Key
	}{
		{"decision", journal.RowEntries(nil, 7, attend.RowDecision, "ops/db:x", "d-1"), []journal.Key{
			0xd1ea42f3a59ba0e7, 0x3d713904b7ebe132, 0xc896f038dce6ea6c, 0x2618f819edda8b75, 0xf3390a7aab62847, 0x66fba698b599005e}},
		{"verdict", journal.RowEntries(nil, 7, attend.RowVerdict, "a//b", "d-1"), []journal.Key{
			0xf90d04ecfd5d7af2, 0x78ddcbdcd895a803, 0x1523aa20498f81d8, 0x52ed458cbf101b67, 0xe6b5aa6b2ac0f177, 0x690b7998a954ab5d}},
		{"event", []journal.Entry{{Key: journal.ScopeKey("ops/db"), Pos: 7}, {Key: journal.EventKey("ops/db", "e-1"), Pos: 7}},
			[]journal.Key{0xb67d006af267f999, 0x88a3d5a1a4db4ead}},
	} {
		var got []journal.Key
		for _, e := range c.got {
			if got = append(got, e.Key); e.Pos != 7 {
				t.Errorf("%s: an entry's position is %d, want 7", c.name, e.Pos)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("keys of the %s are %#x, want %#x", c.name, got, c.want)
		}
	}
}

// A reader finds all rows of its prefix under its keys, each once, and no
// others: unless the prefix is very deep, when there may be others.
func TestPrefixKeys(t *testing.T) {
	const deep = "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18"
	scopes := []attend.Scope{"", "o", "ops", "ops/", "ops:", "ops/db", "ops:db", "ops/db:x", "ops:db/x", "opsx", "opsx/db", "//a", "a//b", "a//", "/", ":", "é/ü", deep, deep + "/x", deep + ":x", deep + "x"}
	for i := range len(deep) {
		scopes = append(scopes, attend.Scope(deep[:i]))
	}
	prefixes := []attend.Prefix{"ops/db/", "none", "none/"}
	for _, s := range scopes {
		for n := range len(s) + 1 {
			prefixes = append(prefixes, attend.Prefix(s[:n]))
		}
	}
	for _, scope := range scopes {
		entries := journal.RowEntries(nil, 1, attend.RowLetter, scope, "d")
		if len(entries) > 2+16 {
			t.Errorf("scope %q has %d entries, want at most 18", scope, len(entries))
		}
		if topics := journal.RowTopics(nil, attend.RowLetter, scope); len(topics) != len(entries)-2 {
			t.Errorf("scope %q has %d topics, want %d", scope, len(topics), len(entries)-2)
		}
		for _, p := range prefixes {
			n := 0
			for _, k := range journal.PrefixKeys(attend.RowLetter, p) {
				if slices.Contains(entries, journal.Entry{Key: k, Pos: 1}) {
					n++
				}
			}
			borders := strings.Count(string(p), "/") + strings.Count(string(p), ":")
			switch {
			case p.Covers(scope) && n != 1:
				t.Errorf("a row of scope %q is under %d keys of prefix %q, want one", scope, n, p)
			case !p.Covers(scope) && n != 0 && borders < 14:
				t.Errorf("a row of scope %q is under %d keys of prefix %q, which does not cover it", scope, n, p)
			}
		}
	}
}
