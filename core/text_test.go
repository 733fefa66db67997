package attend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

func cleanData(data []byte) (json.RawMessage, error) {
	e, err := attend.Event{ID: "1", Name: "n", Data: data}.Clean()
	return e.Data, err
}

func TestCleanData(t *testing.T) {
	for _, test := range []struct{ name, data, want string }{
		{"none", ``, `{}`},
		{"null", `null`, `null`},
		{"a number", ` 7 `, `7`},
		{"a string", `"x"`, `"x"`},
		{"space goes", "\t{ \"a\" : [ 1 ,\r\n2 ] }\n", `{"a":[1,2]}`},
		{"space in strings stays", `{"a b":" c "}`, `{"a b":" c "}`},
		{"digits", `[12345678901234567890.12345678901234567890e+400,-0,1E5,0.10]`, `[12345678901234567890.12345678901234567890e+400,-0,1E5,0.10]`},
		{"duplicate keys and their order", `{"b":1,"a":2,"b":3}`, `{"b":1,"a":2,"b":3}`},
		{"U+0000", `"a\u0000b"`, `"a\u0000b"`},
		{"other escapes", `"\"\\\/\b\f\n\r\t\u0041\u00e9"`, `"\"\\\/\b\f\n\r\t\u0041\u00e9"`},
		{"a pair", `"\ud83d\ude42"`, `"\ud83d\ude42"`},
		{"a pair in capitals", `"\uD83D\uDE42"`, `"\uD83D\uDE42"`},
		{"the first and the last pair", `"\ud800\udc00\udbff\udfff"`, `"\ud800\udc00\udbff\udfff"`},
		{"the code points beside the surrogates", `"\ud7ff\ue000"`, `"\ud7ff\ue000"`},
		{"a lone high surrogate", `"a\ud800b"`, `"a\ufffdb"`},
		{"a lone low surrogate", `"a\udc00b"`, `"a\ufffdb"`},
		{"a lone one at the end", `"\uDBFF"`, `"\ufffd"`},
		{"a pair the wrong way round", `"\ude42\ud83d"`, `"\ufffd\ufffd"`},
		{"two high ones and a low one", `"\ud800\ud83d\ude42"`, `"\ufffd\ud83d\ude42"`},
		{"a high one before an escape", `"\ud800\n"`, `"\ufffd\n"`},
		{"a high one before a letter", `"\ud800\u0041"`, `"\ufffd\u0041"`},
		{"a high one before a low one's digits", `"\ud800xudc00\ud800\ndc00\ud800xxdc00"`, `"\ufffdxudc00\ufffd\ndc00\ufffdxxdc00"`},
		{"a high one before a text like a low one", `"\ud800\\udc00"`, `"\ufffd\\udc00"`},
		{"in a key", `{"\ud800":"\udc00"}`, `{"\ufffd":"\ufffd"}`},
		{"keys that become the same", `{"\ud800":1,"\ud801":2}`, `{"\ufffd":1,"\ufffd":2}`},
		{"an escaped backslash before a u", `"\\ud800"`, `"\\ud800"`},
		{"two of them", `"\\\\ud800\\\ud800"`, `"\\\\ud800\\\ufffd"`},
		{"a broken byte", "\"a\xffb\"", "\"a\ufffdb\""},
		{"a surrogate in UTF-8", "{\"\xed\xa0\x80\":0}", "{\"\ufffd\ufffd\ufffd\":0}"},
		{"a broken byte behind an escape", "\"\\n\xff\\\\\xfe\"", "\"\\n\ufffd\\\\\ufffd\""},
		{"what encoding/json escapes without need", `"\u003c\u003E\u0026\u2028\u2029"`, "\"<>&\u2028\u2029\""},
		{"in a key as well", `{"\u003c":0}`, `{"<":0}`},
		{"an escaped backslash before it", `"\\u003c"`, `"\\u003c"`},
		{"quote and backslash stay escaped", `"\u0022\u005c"`, `"\u0022\u005c"`},
	} {
		got, err := cleanData([]byte(test.data))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: Clean of %s = %s, %v, want %s", test.name, test.data, got, err, test.want)
			continue
		}
		if again, err := cleanData(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: Clean of %s = %s, %v, want no change", test.name, got, again, err)
		}
	}
}

func TestCleanDataRefuses(t *testing.T) {
	for _, test := range []struct{ name, data string }{
		{"space alone", " "},
		{"two values", "1 2"},
		{"half a value", `{"a":`},
		{"a trailing comma", `[1,]`},
		{"a bare word", `secret`},
		{"a line break in a string", "\"a\nb\""},
		{"NUL in a string", "\"a\x00b\""},
		{"an unknown escape", `"\x41"`},
		{"a short escape", `"\u00"`},
		{"a broken byte outside", "\xff1"},
		{"a byte order mark", "\ufeff{}"},
		{"nesting that encoding/json refuses", strings.Repeat("[", 10001) + strings.Repeat("]", 10001)},
	} {
		_, err := cleanData([]byte(test.data))
		checkInvalid(t, test.name, err, "data", "one JSON value", test.data)
	}
}

// What is taken in must be readable when it is wrapped into a decision and a
// letter: encoding/json reads 10,000 levels and no more, others fewer.
func TestCleanDataDepth(t *testing.T) {
	lists := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"[\"":`, n) + "0" + strings.Repeat("}", n) }
	for _, test := range []struct {
		name, data string
		ok         bool
	}{
		{"lists at the limit", lists(1000), true},
		{"lists over it", lists(1001), false},
		{"as deep as encoding/json reads", lists(10000), false},
		{"objects at the limit", objects(1000), true},
		{"objects over it", objects(1001), false},
		{"both", strings.Repeat(`[{"a":`, 500) + lists(1) + strings.Repeat("}]", 500), false},
		{"with space between", strings.Repeat("[ ", 1000) + strings.Repeat("]", 1000), true},
		{"many beside each other", "[" + strings.Repeat("[[]],", 3000) + "0]", true},
		{"in a string", `"` + strings.Repeat("[", 3000) + `"`, true},
		{"in a string behind an escaped quote", `"\"` + strings.Repeat("[", 3000) + `"`, true},
		{"behind a string that ends in a backslash", `["\\",` + lists(1000) + "]", false},
	} {
		data, err := cleanData([]byte(test.data))
		if !test.ok {
			checkInvalid(t, test.name, err, "data", "at most 1000 levels of nesting", "")
			continue
		}
		if err != nil {
			t.Errorf("%s: Clean = %v, want nil", test.name, err)
			continue
		}
		w := attend.Window{Events: []attend.Event{{ID: "1", Name: "n", Data: data}}}
		b, err := json.Marshal(attend.DeadLetter{Window: w, Decision: &attend.Decision{Window: w}})
		if err != nil {
			t.Errorf("%s: Marshal of a letter = %v, want nil", test.name, err)
			continue
		}
		var l attend.DeadLetter
		if err := json.Unmarshal(b, &l); err != nil || !bytes.Equal(l.Decision.Window.Events[0].Data, data) {
			t.Errorf("%s: Unmarshal of the letter = %v, want the data back", test.name, err)
		}
	}
}

func TestReadable(t *testing.T) {
	for _, test := range []struct {
		name, s string
		limit   int
		want    string
	}{
		{"a name", "équipe/日本", 64, "équipe/日本"},
		{"a name at the limit", "日本", 6, "日本"},
		{"cut", "abcdef", 3, "abc"},
		{"cut inside a character of two bytes", "aé", 2, "a"},
		{"cut inside one of three", "ab日本", 7, "ab日"},
		{"cut inside one of four", "a🙂", 4, "a"},
		{"control characters", "a\nb\x00\u0085c", 64, "a\ufffdb\ufffd\ufffdc"},
		{"broken bytes", "a\xff\xe6\x97b", 64, "a\ufffd\ufffd\ufffdb"},
		{"what grows is cut again", "a\n\nb", 5, "a\ufffd"},
		{"nothing", "", 64, "?"},
		{"nothing is left", "日", 2, "?"},
	} {
		if got := attend.Readable(test.s, test.limit); got != test.want {
			t.Errorf("%s: Readable(%q, %d) = %q, want %q", test.name, test.s, test.limit, got, test.want)
		}
	}
}

func FuzzCleanData(f *testing.F) {
	for _, seed := range []string{
		``, ` {"a" : [1, 2.50, -0, 1e400], "a":"\ud800\\ud800\udc00\ud83d\ude42" } `, "\"\xff\xed\xa0\x80\"",
		`{"\ud800":{"\u003c\u2028":null}}`, `"\u0000"`, `[`, `"\\\ud800\"`,
		strings.Repeat("[", 1001) + strings.Repeat("]", 1001), strings.Repeat(`[{"\\":`, 500) + "0" + strings.Repeat("}]", 500),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := slices.Clone(data)
		got, err := cleanData(data)
		if !bytes.Equal(in, data) {
			t.Fatalf("the argument became %q, want %q", data, in)
		}
		if err != nil {
			deep := deepest(data) > attend.MaxDataDepth
			if len(data) == 0 || json.Valid(data) && !deep && !errors.Is(err, attend.ErrTooLarge) {
				t.Errorf("Clean of %q = %v, want nil", data, err)
			}
			return
		}
		if len(data) == 0 {
			if string(got) != "{}" {
				t.Errorf("Clean of nothing = %s, want {}", got)
			}
			return
		}
		if d := deepest(got); d > attend.MaxDataDepth {
			t.Errorf("Clean of %q has %d levels", data, d)
		}
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("Clean of %q = %q, want valid JSON in valid UTF-8", data, got)
		}
		if at := loneSurrogate(got); at >= 0 {
			t.Errorf("Clean of %q = %q, which has a lone surrogate at %d", data, got, at)
		}
		again, err := cleanData(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("Clean of %q = %q, %v, want no change", got, again, err)
		}
		if want, got := tokens(t, data), tokens(t, got); !slices.Equal(got, want) {
			t.Errorf("Clean of %q has the tokens\n%q\nwant\n%q", data, got, want)
		}
	})
}

var escape = regexp.MustCompile(`\\(?:u([0-9a-fA-F]{4})|[^u])`)

// loneSurrogate returns the place of the first lone surrogate in a JSON text, or
// -1.
func loneSurrogate(text []byte) int {
	high := -2 // where a high surrogate ends that lacks its low one
	for _, m := range escape.FindAllSubmatchIndex(text, -1) {
		var r uint64
		if m[2] >= 0 {
			r, _ = strconv.ParseUint(string(text[m[2]:m[3]]), 16, 16)
		}
		low := r >= 0xdc00 && r < 0xe000
		if high >= 0 && (high != m[0] || !low) {
			return high - 6
		}
		if low && high != m[0] {
			return m[0]
		}
		high = -2
		if r >= 0xd800 && r < 0xdc00 {
			high = m[1]
		}
	}
	if high >= 0 {
		return high - 6
	}
	return -1
}

func TestLoneSurrogate(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{
		{`"abc"`, -1},
		{`"\ud83d\ude42"`, -1},
		{`"\\ud83d"`, -1},
		{`"\ud83d"`, 1},
		{`"a\ud83dx\ude42"`, 2},
		{`"\ude42"`, 1},
		{`"\ud83d\ud83d\ude42"`, 1},
		{`"\ud83d\n"`, 1},
	} {
		if got := loneSurrogate([]byte(test.text)); got != test.want {
			t.Errorf("loneSurrogate(%s) = %d, want %d", test.text, got, test.want)
		}
	}
}

// tokens lists what encoding/json reads in a text, duplicates and digits
// included.
func tokens(t *testing.T, text []byte) []string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var list []string
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("Token of %q = %v", text, err)
		}
		switch v := tok.(type) {
		case string:
			list = append(list, "string "+v)
		case json.Number:
			list = append(list, "number "+v.String())
		case json.Delim:
			list = append(list, v.String())
		case bool:
			list = append(list, strconv.FormatBool(v))
		case nil:
			list = append(list, "null")
		}
	}
}

// deepest is how many levels of a text encoding/json reads.
func deepest(text []byte) (most int) {
	dec := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return most
		}
		switch tok {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		most = max(most, depth)
	}
}
