package attend

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// checkName says why s can't be a name of 1 to limit bytes, or nil.
func checkName(field, s string, limit int) error {
	if len(s) == 0 || len(s) > limit {
		return &InvalidError{Field: field, Want: "1 to " + strconv.Itoa(limit) + " bytes"}
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return &InvalidError{Field: field, Want: "no control characters"}
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return &InvalidError{Field: field, Want: "valid UTF-8"}
		}
		if unicode.IsControl(r) {
			return &InvalidError{Field: field, Want: "no control characters"}
		}
		i += n
	}
	return nil
}

// validText returns s with every broken byte as U+FFFD, each on its own, as a
// decoder of JSON has it.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// validJSON returns one JSON value as attend keeps it: without space between
// tokens, its strings as mendStrings leaves them. Nothing else is changed, so
// numbers keep their digits and objects their order and duplicates. The result
// is a copy.
func validJSON(b []byte) (json.RawMessage, error) {
	if len(b) == 0 {
		return json.RawMessage("{}"), nil
	}
	var buf bytes.Buffer
	buf.Grow(len(b))
	if err := json.Compact(&buf, b); err != nil {
		return nil, &InvalidError{Field: "data", Want: "one JSON value"}
	}
	if tooDeep(buf.Bytes()) {
		return nil, &InvalidError{Field: "data", Want: "at most " + strconv.Itoa(MaxDataDepth) + " levels of nesting"}
	}
	return mendStrings(buf.Bytes()), nil
}

// tooDeep reports whether a valid JSON text nests deeper than MaxDataDepth.
func tooDeep(b []byte) bool {
	if len(b) <= 2*MaxDataDepth {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{', c == '[':
			if depth++; depth > MaxDataDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// mendStrings replaces broken bytes and lone surrogates in a valid JSON text,
// and undoes the escapes that package json adds to a RawMessage whenever it
// writes one: what went over a wire must be what stayed in process. It returns
// b itself where there is nothing to mend.
func mendStrings(b []byte) []byte {
	if utf8.Valid(b) && !bytes.Contains(b, []byte(`\u`)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '\\' && b[i+1] == 'u':
			if r := hex4(b[i+2 : i+6]); encoderEscapes(r) {
				out = utf8.AppendRune(out, r)
				i += 6
				continue
			}
			n := escapeLen(b[i:])
			if n == 0 {
				out = append(out, `\ufffd`...)
				i += 6
				continue
			}
			out = append(out, b[i:i+n]...)
			i += n
		case c == '\\':
			out = append(out, c, b[i+1])
			i += 2
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, n := utf8.DecodeRune(b[i:])
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return out
}

// encoderEscapes reports whether package json escapes r without need.
func encoderEscapes(r rune) bool {
	switch r {
	case '<', '>', '&', '\u2028', '\u2029':
		return true
	}
	return false
}

// escapeLen is the length of the \u escape at the start of b: 6, 12 for a pair
// of surrogates, 0 for a lone one.
func escapeLen(b []byte) int {
	hi := hex4(b[2:6])
	if !utf16.IsSurrogate(hi) {
		return 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' && utf16.DecodeRune(hi, hex4(b[8:12])) != unicode.ReplacementChar {
		return 12
	}
	return 0
}

func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b), 16, 32) // json.Compact has checked the digits
	return rune(n)
}

// escapeLine returns s with everything escaped that could begin a line of its
// own or turn the reading order around.
func escapeLine(s string) string {
	if strings.IndexFunc(s, breaksLine) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if breaksLine(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func breaksLine(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	case r == '\u061c', r == '\u200e', r == '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return true
	}
	return false
}

// Readable returns s as far as it can be a name of at most limit bytes: broken
// bytes and control characters as U+FFFD, cut between characters, "?" where
// nothing is left.
func Readable(s string, limit int) string {
	if len(s) > limit {
		n := limit
		for n > 0 && n > limit-utf8.UTFMax+1 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, validText(s))
	for len(s) > limit { // what was replaced has grown
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	if s == "" {
		return "?"
	}
	return s
}
