package ingest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

// A member is one member of a JSON object. Its bytes are those of the text.
type member struct {
	key   []byte // between the quotes
	value []byte
	kind  byte // '"', '{', '[', 't', 'f', 'n', or '0' for a number
	plain bool // a string without escapes
}

// null reports whether the member is as good as absent.
func (m *member) null() bool { return m.kind == 'n' }

// inner is a string's bytes between the quotes.
func (m *member) inner() []byte { return m.value[1 : len(m.value)-1] }

// An object goes through the members of the JSON object that is all of a text.
// It checks everything but the inside of objects and lists, of which it only
// finds the end: package json looks at those once, where the engine takes data
// in.
type object struct {
	b   []byte
	i   int
	had bool   // a member was read
	bad int    // where the text broke, from 1; 0: it didn't
	too []byte // the key of the member that nests too deep, which it broke at
}

// begin goes into the object, and reports whether there is one.
func (o *object) begin(b []byte) bool {
	*o = object{b: b, i: space(b, 0)}
	if o.i < len(b) && b[o.i] == '{' {
		o.i = space(b, o.i+1)
		return true
	}
	return o.fail(o.i)
}

func (o *object) fail(at int) bool {
	o.bad = at + 1
	return false
}

// next reads the next member. It reports false at the object's end, and where
// the text is broken: then bad is set.
func (o *object) next(m *member) bool {
	b := o.b
	switch {
	case o.i >= len(b):
		return o.fail(o.i)
	case b[o.i] == '}':
		if end := space(b, o.i+1); end < len(b) {
			return o.fail(end)
		}
		o.i = len(b)
		return false
	case o.had:
		if b[o.i] != ',' {
			return o.fail(o.i)
		}
		o.i = space(b, o.i+1)
	}
	end, plain := stringEnd(b, o.i)
	if end < 0 {
		return o.fail(o.i)
	}
	m.key = b[o.i+1 : end-1]
	if !plain {
		key, ok, _ := unquote(make([]byte, 0, len(m.key)), m.key)
		if !ok {
			return o.fail(o.i)
		}
		m.key = key
	}
	o.i = space(b, end)
	if o.i >= len(b) || b[o.i] != ':' {
		return o.fail(o.i)
	}
	o.i = space(b, o.i+1)
	if !o.read(m) {
		return false
	}
	o.i = space(b, o.i)
	o.had = true
	return true
}

// read reads the value at i.
func (o *object) read(m *member) bool {
	b, i := o.b, o.i
	if i >= len(b) {
		return o.fail(i)
	}
	end := -1
	switch c := b[i]; c {
	case '"':
		m.kind = c
		end, m.plain = stringEnd(b, i)
	case '{', '[':
		m.kind = c
		if end = compositeEnd(b, i); end == tooDeep {
			o.too = m.key[:len(m.key):len(m.key)]
		}
	case 't', 'f', 'n':
		m.kind = c
		for _, word := range [...]string{"true", "false", "null"} {
			if bytes.HasPrefix(b[i:], []byte(word)) {
				end = i + len(word)
			}
		}
	default:
		m.kind = '0'
		end = numberEnd(b, i)
	}
	if end < 0 {
		return o.fail(i)
	}
	m.value = b[i:end]
	o.i = end
	return true
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// stringEnd is the place behind the string that begins at i, negative where
// there is none. Its escapes are not looked at.
func stringEnd(b []byte, i int) (end int, plain bool) {
	if i >= len(b) || b[i] != '"' {
		return -1, false
	}
	plain = true
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, plain
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return -1, false
		}
	}
	return -1, false
}

// tooDeep is where a value ends that nests deeper than an event's data may.
const tooDeep = -2

// compositeEnd is the place behind the object or list that begins at i, by its
// brackets alone; negative where there is none.
func compositeEnd(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if depth++; depth > attend.MaxDataDepth {
				return tooDeep
			}
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			end, _ := stringEnd(b, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		}
	}
	return -1
}

// numberEnd is the place behind the number that begins at i, negative where
// there is none.
func numberEnd(b []byte, i int) int {
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i++; !digits() {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}

// unquote adds the text of a JSON string, given without its quotes, to dst, and
// reports whether its escapes are right, and whether all of them are characters:
// a lone surrogate becomes U+FFFD. The text is no longer than the string.
func unquote(dst, s []byte) (_ []byte, ok, whole bool) {
	whole = true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			dst = append(dst, c)
			continue
		}
		if i++; i >= len(s) {
			return dst, false, false
		}
		switch c := s[i]; c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, good := hex4(s[i+1:])
			if !good {
				return dst, false, false
			}
			i += 4
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
					if low, good := hex4(s[i+3:]); good {
						pair = utf16.DecodeRune(r, low)
					}
				}
				if r = pair; r == utf8.RuneError {
					whole = false
				} else {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, false, false
		}
	}
	return dst, true, whole
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

// sound reports whether a value that nobody else will look at is JSON.
func (m *member) sound() bool {
	switch {
	case m.kind == '{' || m.kind == '[', m.kind == '"' && !m.plain:
		return json.Valid(m.value)
	default:
		return true
	}
}
