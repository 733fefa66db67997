package attend_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestPrefixCovers(t *testing.T) {
	for _, test := range []struct {
		prefix attend.Prefix
		covers []attend.Scope
		not    []attend.Scope
	}{
		{"", []attend.Scope{"ops", "ops/db", ":", "/", ""}, nil},
		{"ops", []attend.Scope{"ops", "ops/", "ops/db", "ops:", "ops:x", "ops/db:x"}, []attend.Scope{"opsx", "op", "Ops", "x/ops", "ops.db", "ops-db", ""}},
		{"ops/", []attend.Scope{"ops/", "ops/db", "ops//", "ops/:"}, []attend.Scope{"ops", "ops:", "opsx", ""}},
		{"ops:", []attend.Scope{"ops:", "ops:x", "ops:/"}, []attend.Scope{"ops", "ops/x", ""}},
		{"ops/d", []attend.Scope{"ops/d", "ops/d/1", "ops/d:1"}, []attend.Scope{"ops/db", "ops/", "ops"}},
		{"/", []attend.Scope{"/", "/a", "//"}, []attend.Scope{"a/", ""}},
		{"a/b:", []attend.Scope{"a/b:c"}, []attend.Scope{"a/b/c", "a/b"}},
		{"é", []attend.Scope{"é", "é/x"}, []attend.Scope{"éa", "e"}},
	} {
		for _, s := range test.covers {
			if !test.prefix.Covers(s) {
				t.Errorf("Prefix(%q).Covers(%q) = false, want true", test.prefix, s)
			}
		}
		for _, s := range test.not {
			if test.prefix.Covers(s) {
				t.Errorf("Prefix(%q).Covers(%q) = true, want false", test.prefix, s)
			}
		}
	}
}

func TestQueryWants(t *testing.T) {
	all := []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict}
	for _, test := range []struct {
		types []attend.RowType
		want  []attend.RowType
	}{
		{nil, []attend.RowType{attend.RowDecision}},
		{[]attend.RowType{}, []attend.RowType{attend.RowDecision}},
		{[]attend.RowType{attend.RowDecision}, []attend.RowType{attend.RowDecision}},
		{[]attend.RowType{attend.RowVerdict}, []attend.RowType{attend.RowVerdict}},
		{[]attend.RowType{attend.RowVerdict, attend.RowLetter}, []attend.RowType{attend.RowLetter, attend.RowVerdict}},
		{[]attend.RowType{"another"}, nil},
	} {
		q := attend.Query{Types: test.types}
		for _, typ := range all {
			if got, want := q.Wants(typ), slices.Contains(test.want, typ); got != want {
				t.Errorf("Query of %q wants %s: %v, want %v", test.types, typ, got, want)
			}
		}
	}
}

func TestBoundsCheck(t *testing.T) {
	decisions := []attend.RowType{attend.RowDecision}
	letters := []attend.RowType{attend.RowLetter}
	verdicts := []attend.RowType{attend.RowVerdict}
	all := slices.Concat(decisions, letters, verdicts)
	trimmed := attend.Bounds{Epoch: "e", Newest: 100, Trimmed: 10, TrimmedVerdicts: 50}
	fresh := attend.Bounds{Epoch: "e"}
	reversed := attend.Bounds{Epoch: "e", Newest: 100, Trimmed: 50, TrimmedVerdicts: 10}
	for _, test := range []struct {
		name   string
		bounds attend.Bounds
		after  attend.LogCursor
		types  []attend.RowType
		oldest attend.Position
		ok     bool
	}{
		{"from the oldest kept", trimmed, attend.LogCursor{}, all, 0, true},
		{"from the oldest of an empty log", fresh, attend.LogCursor{}, all, 0, true},
		{"the start of an empty log", fresh, attend.LogCursor{Epoch: "e"}, all, 0, true},
		{"ahead of an empty log", fresh, attend.LogCursor{Epoch: "e", Position: 1}, nil, 0, false},
		{"at the newest", trimmed, attend.LogCursor{Epoch: "e", Position: 100}, all, 0, true},
		{"ahead of the newest", trimmed, attend.LogCursor{Epoch: "e", Position: 101}, nil, 10, false},
		{"another epoch", trimmed, attend.LogCursor{Epoch: "f", Position: 60}, all, 50, false},
		{"another epoch at 0", trimmed, attend.LogCursor{Epoch: "f"}, nil, 10, false},
		{"no epoch", trimmed, attend.LogCursor{Position: 60}, decisions, 10, false},
		{"decisions at their trim", trimmed, attend.LogCursor{Epoch: "e", Position: 10}, nil, 0, true},
		{"decisions by name at their trim", trimmed, attend.LogCursor{Epoch: "e", Position: 10}, decisions, 0, true},
		{"decisions before their trim", trimmed, attend.LogCursor{Epoch: "e", Position: 9}, nil, 10, false},
		{"letters share it", trimmed, attend.LogCursor{Epoch: "e", Position: 9}, letters, 10, false},
		{"letters at it", trimmed, attend.LogCursor{Epoch: "e", Position: 10}, letters, 0, true},
		{"the start of a trimmed log", trimmed, attend.LogCursor{Epoch: "e"}, nil, 10, false},
		{"verdicts at their trim", trimmed, attend.LogCursor{Epoch: "e", Position: 50}, verdicts, 0, true},
		{"verdicts before their trim", trimmed, attend.LogCursor{Epoch: "e", Position: 49}, verdicts, 50, false},
		{"all, between the two", trimmed, attend.LogCursor{Epoch: "e", Position: 49}, all, 50, false},
		{"verdicts, where decisions are trimmed further", reversed, attend.LogCursor{Epoch: "e", Position: 10}, verdicts, 0, true},
		{"all, where decisions are trimmed further", reversed, attend.LogCursor{Epoch: "e", Position: 49}, all, 50, false},
		{"no class at all", trimmed, attend.LogCursor{Epoch: "e", Position: 0}, []attend.RowType{"another"}, 0, true},
	} {
		err := test.bounds.Check(attend.Query{After: test.after, Types: test.types})
		if test.ok {
			if err != nil {
				t.Errorf("%s: Check = %v, want nil", test.name, err)
			}
			continue
		}
		truncated, ok := errors.AsType[*attend.TruncatedError](err)
		want := attend.LogCursor{Epoch: "e", Position: test.oldest}
		if !ok || !errors.Is(err, attend.ErrTruncated) || truncated.Oldest != want {
			t.Errorf("%s: Check = %#v, want truncated, oldest %v", test.name, err, want)
			continue
		}
		// Whoever goes on from there misses nothing that is kept.
		if err := test.bounds.Check(attend.Query{After: truncated.Oldest, Types: test.types}); err != nil {
			t.Errorf("%s: Check of the oldest = %v, want nil", test.name, err)
		}
	}
}

func TestLogCursorText(t *testing.T) {
	for _, test := range []struct {
		cursor attend.LogCursor
		want   string
	}{
		{attend.LogCursor{}, ""},
		{attend.LogCursor{Epoch: "7f3a90c1", Position: 0}, "ADdmM2E5MGMx"},
		{attend.LogCursor{Epoch: "7f3a90c1", Position: 300}, "rAI3ZjNhOTBjMQ"},
		{attend.LogCursor{Epoch: "e", Position: 1<<64 - 1}, "____________AWU"},
	} {
		got := test.cursor.String()
		if got != test.want {
			t.Errorf("%+v.String() = %q, want %q", test.cursor, got, test.want)
		}
		back, err := attend.ParseLogCursor(got)
		if err != nil || back != test.cursor {
			t.Errorf("ParseLogCursor(%q) = %+v, %v, want %+v", got, back, err, test.cursor)
		}
	}
}

func TestParseLogCursorRefuses(t *testing.T) {
	b64 := base64.RawURLEncoding.EncodeToString
	for _, test := range []struct{ name, text string }{
		{"other characters", "secret cursor!"},
		{"padding", "rAI3ZjNhOTBjMQ=="},
		{"the other alphabet", "////////////AWU"},
		{"a line break inside", "rAI3\nZjNhOTBjMQ"},
		{"a line break behind", "rAI3ZjNhOTBjMQ\r\n"},
		{"loose bits at the end", "rAI3ZjNhOTBjMR"},
		{"a position alone", b64([]byte{5})},
		{"half a position", b64([]byte{0x80})},
		{"a position over 64 bits", b64(append([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "epoch"...))},
		{"a position in more bytes than it needs", b64([]byte("\x80\x00epoch"))},
		{"a long epoch", attend.LogCursor{Epoch: strings.Repeat("e", 256), Position: 1}.String()},
	} {
		_, err := attend.ParseLogCursor(test.text)
		checkInvalid(t, test.name, err, "cursor", "a cursor that this log gave out", test.text)
	}
}

var cursorText = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

func FuzzParseLogCursor(f *testing.F) {
	f.Add("", uint64(0))
	f.Add("rAI3ZjNhOTBjMQ", uint64(300))
	f.Add("rAI3ZjNhOTBjMQ\n", uint64(1<<64-1))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("\x80\x00epoch")), uint64(1))
	f.Fuzz(func(t *testing.T, text string, position uint64) {
		// Text from anywhere: refused, or exactly what its cursor is written as.
		c, err := attend.ParseLogCursor(text)
		if err != nil && !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("ParseLogCursor(%q) = %v, want ErrInvalid", text, err)
		}
		if err == nil && c.String() != text {
			t.Errorf("ParseLogCursor(%q) = %+v, which is written %q", text, c, c.String())
		}

		// Any cursor that a log can have: its text brings it back.
		c = attend.LogCursor{Epoch: text, Position: attend.Position(position)}
		n := len(binary.AppendUvarint(nil, position)) + len(text)
		if text == "" || n > 256 {
			return
		}
		if !cursorText.MatchString(c.String()) {
			t.Errorf("%+v.String() = %q, want letters, digits, dash and underscore", c, c.String())
		}
		back, err := attend.ParseLogCursor(c.String())
		if err != nil || back != c {
			t.Errorf("ParseLogCursor(%q) = %+v, %v, want %+v", c.String(), back, err, c)
		}
	})
}

func TestCursorIsText(t *testing.T) {
	c := attend.LogCursor{Epoch: "7f3a90c1", Position: 300}
	if got, want := fmt.Sprint(c), "rAI3ZjNhOTBjMQ"; got != want {
		t.Errorf("Sprint = %q, want %q", got, want)
	}
}
