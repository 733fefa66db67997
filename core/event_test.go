package attend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

// names has strings and whether each may be an id, a name, a source or a scope,
// as far as the characters go.
var names = []struct {
	name  string
	value string
	want  string // of the error's Want; empty: it is allowed
}{
	{"letters", "build.finished", ""},
	{"one byte", "x", ""},
	{"spaces", " a b ", ""},
	{"letters beyond ASCII", "équipe/日本 🙂", ""},
	{"replacement character", "a\ufffdb", ""},
	{"line separator", "a\u2028b", ""},
	{"zero width joiner", "a\u200db", ""},
	{"no-break space, after C1", "a\u00a0b", ""},
	{"NUL", "a\x00b", "no control characters"},
	{"line feed", "a\nb", "no control characters"},
	{"tab", "\ta", "no control characters"},
	{"escape", "a\x1b", "no control characters"},
	{"unit separator, last of C0", "a\x1fb", "no control characters"},
	{"DEL", "a\x7fb", "no control characters"},
	{"U+0080, first of C1", "a\u0080b", "no control characters"},
	{"U+0085, next line", "a\u0085b", "no control characters"},
	{"U+009F, last of C1", "a\u009fb", "no control characters"},
	{"broken byte", "a\xffb", "valid UTF-8"},
	{"cut rune", "a\xe6\x97", "valid UTF-8"},
	{"surrogate in UTF-8", "\xed\xa0\x80", "valid UTF-8"},
	{"overlong NUL", "\xc0\x80", "valid UTF-8"},
	{"beyond Unicode", "\xf4\x90\x80\x80", "valid UTF-8"},
	{"C1 as a byte", "a\x85b", "valid UTF-8"},
}

// checkInvalid reports an error that is not the InvalidError wanted, or that
// quotes value.
func checkInvalid(t *testing.T, what string, err error, field, want, value string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s = %v, want nil", what, err)
		}
		return
	}
	invalid, ok := errors.AsType[*attend.InvalidError](err)
	if !ok || !errors.Is(err, attend.ErrInvalid) || invalid.Field != field || invalid.Want != want {
		t.Errorf("%s = %v, want field %s, %s", what, err, field, want)
		return
	}
	if len(value) > 2 && strings.Contains(err.Error(), value) {
		t.Errorf("%s = %v, which quotes the value", what, err)
	}
}

func TestNames(t *testing.T) {
	for _, test := range names {
		v := test.value
		checkInvalid(t, "Scope.Check of "+test.name, attend.Scope(v).Check(), "scope", test.want, v)
		_, err := attend.Event{ID: v, Name: "n"}.Clean()
		checkInvalid(t, "Clean with id of "+test.name, err, "id", test.want, v)
		_, err = attend.Event{ID: "1", Name: v}.Clean()
		checkInvalid(t, "Clean with name of "+test.name, err, "name", test.want, v)
		_, err = attend.Event{ID: "1", Name: "n", Source: v}.Clean()
		checkInvalid(t, "Clean with source of "+test.name, err, "source", test.want, v)
	}
}

func TestNameLimits(t *testing.T) {
	for _, field := range []struct {
		name  string
		limit int
		want  string
		empty bool // may be empty
		check func(s string) error
	}{
		{"scope", 512, "1 to 512 bytes", false, func(s string) error { return attend.Scope(s).Check() }},
		{"id", 256, "1 to 256 bytes", false, func(s string) error {
			_, err := attend.Event{ID: s, Name: "n"}.Clean()
			return err
		}},
		{"name", 256, "1 to 256 bytes", false, func(s string) error {
			_, err := attend.Event{ID: "1", Name: s}.Clean()
			return err
		}},
		{"source", 1024, "1 to 1024 bytes", true, func(s string) error {
			_, err := attend.Event{ID: "1", Name: "n", Source: s}.Clean()
			return err
		}},
	} {
		for _, test := range []struct {
			value string
			ok    bool
		}{
			{"", field.empty},
			{strings.Repeat("x", field.limit), true},
			{strings.Repeat("x", field.limit+1), false},
			{strings.Repeat("é", field.limit/2), true},
			{strings.Repeat("é", field.limit/2) + "x", false},
		} {
			want := field.want
			if test.ok {
				want = ""
			}
			checkInvalid(t, field.name+" of "+test.value, field.check(test.value), field.name, want, test.value)
		}
	}
}

func TestCleanText(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"plain", "Build 7 failed", "Build 7 failed"},
		{"NUL is kept", "a\x00b", "a\x00b"},
		{"control characters are kept", "a\r\n\t\x1b\x7f\u0085b", "a\r\n\t\x1b\x7f\u0085b"},
		{"noncharacters are kept", "\ufffe\uffff\U0010ffff", "\ufffe\uffff\U0010ffff"},
		{"a broken byte", "a\xffb", "a\ufffdb"},
		{"broken bytes, each on its own", "\xff\xfe", "\ufffd\ufffd"},
		{"a cut rune", "a\xe6\x97", "a\ufffd\ufffd"},
		{"a surrogate in UTF-8", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"an escape is text", `\ud800`, `\ud800`},
		{"a replacement character", "\ufffd", "\ufffd"},
	} {
		e, err := attend.Event{ID: "1", Name: "n", Text: test.text}.Clean()
		if err != nil || e.Text != test.want {
			t.Errorf("%s: Clean of %q = %q, %v, want %q", test.name, test.text, e.Text, err, test.want)
		}
	}
}

func TestCleanTime(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	for _, test := range []struct {
		name string
		at   time.Time
		want time.Time
		ok   bool
	}{
		{"zero", time.Time{}, time.Time{}, true},
		{"whole milliseconds", time.UnixMilli(1767225600123), time.UnixMilli(1767225600123), true},
		{"another zone", time.Date(2026, 1, 1, 1, 0, 0, 0, cet), time.UnixMilli(1767225600000), true},
		{"a fraction goes down", time.Unix(1767225600, 123_999_999), time.UnixMilli(1767225600123), true},
		{"a fraction before 1970 goes down", time.Unix(-1, 999_999), time.UnixMilli(-1000), true},
		{"Unix time 0 has no wire form of its own", time.Unix(0, 0), time.Time{}, true},
		{"a fraction after Unix time 0", time.Unix(0, 1), time.Time{}, true},
		{"a millisecond after Unix time 0", time.UnixMilli(1), time.UnixMilli(1), true},
		{"a fraction after the zero time", time.Time{}.Add(1), time.Time{}, true},
		{"the last moment", time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC), true},
		{"year 10000", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}, false},
		{"year 10000 in its zone alone", time.Date(10000, 1, 1, 0, 30, 0, 0, cet), time.Date(9999, 12, 31, 23, 30, 0, 0, time.UTC), true},
		{"year 0", time.Time{}.Add(-1), time.Time{}, false},
		{"far future", time.Unix(1<<61, 0), time.Time{}, false},
		{"far past", time.Unix(-1<<61, 0), time.Time{}, false},
	} {
		e, err := attend.Event{ID: "1", Name: "n", At: test.at}.Clean()
		if !test.ok {
			checkInvalid(t, test.name, err, "at", "a year from 1 to 9999", "")
			continue
		}
		if err != nil || !e.At.Equal(test.want) || e.At.IsZero() != test.want.IsZero() {
			t.Errorf("%s: Clean gives %v, %v, want %v", test.name, e.At, err, test.want)
		}
	}
}

// paddedEvent has the given size, its data a string of x.
func paddedEvent(t *testing.T, size int) attend.Event {
	t.Helper()
	e := attend.Event{ID: "1", Name: "n", Data: json.RawMessage(`""`)}
	e.Data = json.RawMessage(`"` + strings.Repeat("x", size-e.Size()) + `"`)
	if e.Size() != size {
		t.Fatalf("Size() = %d, want %d", e.Size(), size)
	}
	return e
}

func TestCleanSize(t *testing.T) {
	largest := paddedEvent(t, attend.MaxEventBytes)
	spaced := largest
	spaced.Data = append(bytes.Repeat([]byte(" "), 1000), spaced.Data...)
	tooSpaced := largest
	tooSpaced.Data = append(bytes.Repeat([]byte(" "), attend.MaxEventBytes+1), tooSpaced.Data...)
	text := attend.Event{ID: "1", Name: "n", Text: strings.Repeat("\xff", attend.MaxEventBytes/2)}
	data := attend.Event{ID: "1", Name: "n", Data: json.RawMessage(`"` + strings.Repeat("\xff", attend.MaxEventBytes/2) + `"`)}
	escaped := attend.Event{ID: "1", Name: "n", Data: json.RawMessage(`"` + strings.Repeat(`\u003c`, attend.MaxEventBytes/4) + `"`)}
	for _, test := range []struct {
		name  string
		event attend.Event
		ok    bool
	}{
		{"at the limit", largest, true},
		{"a byte over", paddedEvent(t, attend.MaxEventBytes+1), false},
		{"over with space between tokens", spaced, true},
		{"over twice the limit", tooSpaced, false},
		{"escapes that shrink", escaped, true},
		{"text that grows when mended", text, false},
		{"data that grows when mended", data, false},
	} {
		e, err := test.event.Clean()
		if test.ok {
			if err != nil || e.Size() > attend.MaxEventBytes {
				t.Errorf("%s: Clean = event of %d bytes, %v, want nil", test.name, e.Size(), err)
			}
			continue
		}
		large, ok := errors.AsType[*attend.TooLargeError](err)
		if !ok || !errors.Is(err, attend.ErrTooLarge) || large.Field != "event" || large.Limit != attend.MaxEventBytes {
			t.Errorf("%s: Clean = %v, want the event's limit", test.name, err)
		}
	}
}

func TestSizeIsWireForm(t *testing.T) {
	full := attend.Event{
		ID: "build-4711", At: at(1767225600123), Name: "build.finished", Data: json.RawMessage(`{"a":[1,2]}`),
		Text: "Build “4711” failed", Source: "log:ci", Kind: attend.KindClosing,
	}
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := full.Size(), len(b)+32; got != want {
		t.Errorf("Size() = %d, want the wire form's %d", got, want)
	}
	bare := attend.Event{ID: "1", Name: "n"}
	cleaned, err := bare.Clean()
	if err != nil {
		t.Fatal(err)
	}
	if bare.Size() != cleaned.Size() {
		t.Errorf("Size() = %d before Clean and %d after, want the same", bare.Size(), cleaned.Size())
	}
}

func TestCleanKeepsTheRest(t *testing.T) {
	in := attend.Event{ID: "1", Name: "n", Source: "log:a", Kind: "anything", Data: json.RawMessage(`[1]`)}
	out, err := in.Clean()
	if err != nil || !sameEvent(out, in) {
		t.Errorf("Clean = %+v, %v, want %+v", out, err, in)
	}
	in.Data[1] = '2'
	if string(out.Data) != "[1]" {
		t.Errorf("data became %s with the caller's, want a copy", out.Data)
	}
}

// FuzzText says what becomes of any string: as a name it is taken or refused, as
// a text it is mended as encoding/json mends it.
func FuzzText(f *testing.F) {
	for _, test := range names {
		f.Add(test.value)
	}
	f.Add(strings.Repeat("é", 128))
	f.Add(strings.Repeat("x", 257))
	f.Fuzz(func(t *testing.T, s string) {
		named := len(s) >= 1 && len(s) <= 256 && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
		if _, err := (attend.Event{ID: s, Name: s}).Clean(); (err == nil) != named {
			t.Errorf("Clean with id and name %q = %v, want allowed: %v", s, err, named)
		}
		if err := attend.Scope(s).Check(); len(s) <= 256 && (err == nil) != named {
			t.Errorf("Scope(%q).Check() = %v, want allowed: %v", s, err, named)
		}

		// What can't be a name can be made one, and what can stays.
		readable := attend.Readable(s, attend.MaxIDBytes)
		if _, err := (attend.Event{ID: readable, Name: readable}).Clean(); err != nil {
			t.Errorf("Readable(%q) = %q, which Clean refuses: %v", s, readable, err)
		}
		if named && readable != s {
			t.Errorf("Readable(%q) = %q, want no change", s, readable)
		}

		e, err := attend.Event{ID: "1", Name: "n", Text: s}.Clean()
		if err != nil {
			if !errors.Is(err, attend.ErrTooLarge) {
				t.Errorf("Clean with text %q = %v, want nil", s, err)
			}
			return
		}
		var want string
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		if e.Text != want {
			t.Errorf("text %q became %q, want %q", s, e.Text, want)
		}
	})
}
