package main

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

// A verb is what a line of the ingest form asks for.
type verb string

const (
	verbEvent verb = "event"
	verbFlush verb = "flush"
	verbEnd   verb = "end"
)

// A line is one line of the ingest form: an event with its scope, or a flush or
// an end of a scope.
type line struct {
	verb  verb
	scope attend.Scope
	at    time.Time    // zero: the line says none
	event attend.Event // for verbEvent; its id and name are not checked yet
}

// maxAt is the last millisecond of the year 9999.
const maxAt = 253402300799999

// decodeLine reads a line of the ingest form. Its fields are scope, id, at, name,
// data, text, flush and end, spelled so; any other is passed over, source and
// kind too, which are attend's own to set. null stands for a field that is not
// there, but for data, which may be any value. Of a field that comes twice the
// last counts. An error is an [*attend.InvalidError]. The line shares no memory
// with b.
func decodeLine(b []byte) (line, error) {
	var f fields
	if err := json.Unmarshal(b, &f); err != nil || f == nil {
		return line{}, &attend.InvalidError{Field: "line", Want: "one JSON object"}
	}
	v, err := f.verb()
	if err != nil {
		return line{}, err
	}
	l := line{verb: v}
	scope, err := f.name("scope")
	if err != nil {
		return line{}, err
	}
	l.scope = attend.Scope(scope)
	if err := l.scope.Check(); err != nil {
		return line{}, err
	}
	if l.at, err = f.moment("at"); err != nil || v != verbEvent {
		return l, err
	}
	e := attend.Event{At: l.at, Data: f["data"]}
	if e.ID, err = f.name("id"); err != nil {
		return line{}, err
	}
	if e.Name, err = f.name("name"); err != nil {
		return line{}, err
	}
	if e.Text, err = f.text("text"); err != nil {
		return line{}, err
	}
	l.event = e
	return l, nil
}

// A fields is a JSON object, by the exact names of its members.
type fields map[string]json.RawMessage

func (f fields) has(name string) bool {
	raw, ok := f[name]
	return ok && string(raw) != "null"
}

func (f fields) verb() (verb, error) {
	flush, err := f.boolean("flush")
	if err != nil {
		return "", err
	}
	end, err := f.boolean("end")
	if err != nil {
		return "", err
	}
	v := verbEvent
	switch {
	case flush && end:
		return "", &attend.InvalidError{Field: "end", Want: "either flush or end"}
	case flush:
		v = verbFlush
	case end:
		v = verbEnd
	}
	if v == verbEvent {
		return v, nil
	}
	for _, name := range [...]string{"id", "name", "data", "text"} {
		if f.has(name) || name == "data" && f[name] != nil { // null is a value, too
			return "", &attend.InvalidError{Field: name, Want: "no event beside flush or end"}
		}
	}
	return v, nil
}

func (f fields) boolean(name string) (bool, error) {
	switch string(f[name]) {
	case "true":
		return true, nil
	case "", "null", "false":
		return false, nil
	}
	return false, &attend.InvalidError{Field: name, Want: "true or false"}
}

// text is a string, empty where there is none.
func (f fields) text(name string) (string, error) {
	if !f.has(name) {
		return "", nil
	}
	var s string
	if json.Unmarshal(f[name], &s) != nil {
		return "", &attend.InvalidError{Field: name, Want: "a string"}
	}
	return s, nil
}

// name is text in which nothing may be mended: two names must not become one.
func (f fields) name(name string) (string, error) {
	s, err := f.text(name)
	if err == nil && s != "" && !wellFormed(f[name]) {
		err = &attend.InvalidError{Field: name, Want: "valid UTF-8"}
	}
	return s, err
}

func (f fields) moment(name string) (time.Time, error) {
	if !f.has(name) {
		return time.Time{}, nil
	}
	at, err := strconv.ParseInt(string(f[name]), 10, 64)
	if err != nil || at < 0 || at > maxAt {
		return time.Time{}, &attend.InvalidError{Field: name, Want: "Unix time in whole milliseconds, from 1970 to 9999"}
	}
	if at == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(at), nil
}

// wellFormed reports whether a JSON string, which json has checked, holds no
// broken byte and no lone surrogate, which json replaces without a word.
func wellFormed(raw []byte) bool {
	if !utf8.Valid(raw) {
		return false
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		r := escaped(raw[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if len(raw) < i+7 || raw[i+1] != '\\' || raw[i+2] != 'u' ||
			utf16.DecodeRune(r, escaped(raw[i+3:])) == utf8.RuneError {
			return false
		}
		i += 6
	}
	return true
}

// escaped is the four hex digits at the head of b.
func escaped(b []byte) rune {
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
