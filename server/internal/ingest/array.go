package ingest

import (
	"errors"
	"io"
	"net/http"

	"github.com/attend-go/attend/server/internal/problem"
)

// An array cuts a JSON body into items: the values of the list that it is, or
// the one value. It finds an item's end by its brackets; an item that is no JSON
// is for its format to see, and costs no other as long as it has an end.
type array struct {
	*source
	single bool // one value, whatever it is
	only   bool // a list, nothing else

	n                int
	begun, list, end bool
}

func (a *array) number() int { return a.n }

func (a *array) next() ([]byte, error) {
	if a.end {
		return nil, a.finish()
	}
	c, err := a.peek()
	if err != nil {
		return nil, a.lacks(err)
	}
	if !a.begun {
		a.begun = true
		if a.list = c == '[' && !a.single; a.list {
			a.from++
			if c, err = a.peek(); err != nil {
				return nil, a.lacks(err)
			}
			if c == ']' {
				a.from++
				return nil, a.finish()
			}
		} else if a.only {
			return nil, unreadable("the body is no JSON list")
		}
	} else {
		switch c {
		case ']':
			a.from++
			return nil, a.finish()
		case ',':
			a.from++
		default:
			return nil, unreadable("the list is broken: a comma or its end is missing")
		}
		if _, err = a.peek(); err != nil {
			return nil, a.lacks(err)
		}
	}
	b, err := a.value()
	a.end = !a.list
	return b, err
}

func ended(err error) bool { return errors.Is(err, io.EOF) }

func unreadable(detail string) error { return problem.With(http.StatusBadRequest, detail) }

func (a *array) lacks(err error) error {
	switch {
	case !ended(err):
		return err
	case !a.begun:
		return unreadable("the body is empty, a JSON value was expected")
	default:
		return unreadable("the body ends inside its JSON")
	}
}

// finish sees to it that nothing follows.
func (a *array) finish() error {
	a.end = true
	if _, err := a.peek(); err != nil {
		return err
	}
	return unreadable("something follows behind the end of the JSON")
}

// peek returns the next byte that is no space.
func (a *array) peek() (byte, error) {
	for {
		if a.from = space(a.buf[:a.to], a.from); a.from < a.to {
			return a.buf[a.from], nil
		}
		if !a.more() {
			return 0, a.err
		}
	}
}

// value returns the value at from.
func (a *array) value() ([]byte, error) {
	a.n++
	var v valueEnd
	looked, long := 0, false
	for {
		rest := a.buf[a.from:a.to]
		i, done := v.find(rest[looked:])
		if done {
			i += looked
			a.from += i
			if long || i > a.limit {
				return nil, a.tooLarge("item")
			}
			return rest[:i], nil
		}
		looked = len(rest)
		if long || looked > a.limit {
			long = true
			a.from, looked = a.to, 0
		}
		if a.more() {
			continue
		}
		if ended(a.err) && !a.list && v.depth == 0 && !v.quoted && v.begun { // a number has no end of its own
			a.from = a.to
			if long {
				return nil, a.tooLarge("item")
			}
			return rest, nil
		}
		return nil, a.lacks(a.err)
	}
}

// A valueEnd looks for the end of a JSON value, piece by piece.
type valueEnd struct {
	depth           int
	quoted, escaped bool
	begun           bool
}

// find returns where the value ends in a piece, and whether it does.
func (v *valueEnd) find(b []byte) (int, bool) {
	v.begun = v.begun || len(b) > 0
	for i := 0; i < len(b); i++ {
		if v.quoted {
			if v.escaped {
				v.escaped = false
				continue
			}
			for i < len(b) && b[i] != '"' && b[i] != '\\' {
				i++
			}
			if i == len(b) {
				break
			}
			if b[i] == '\\' {
				v.escaped = true
				continue
			}
			if v.quoted = false; v.depth == 0 {
				return i + 1, true
			}
			continue
		}
		switch b[i] {
		case '"':
			v.quoted = true
		case '{', '[':
			v.depth++
		case '}', ']':
			if v.depth == 0 {
				return i, true // of the list around it
			}
			if v.depth--; v.depth == 0 {
				return i + 1, true
			}
		case ',', ' ', '\t', '\r', '\n':
			if v.depth == 0 {
				return i, true
			}
		}
	}
	return 0, false
}

// An entire has one item, all of the body.
type entire struct {
	*source
	n int
}

func (e *entire) number() int { return e.n }

func (e *entire) next() ([]byte, error) {
	if e.n > 0 {
		return nil, io.EOF
	}
	long := false
	for {
		if !e.more() {
			break
		}
		if long = long || e.to-e.from > e.limit; long {
			e.from = e.to
		}
	}
	switch {
	case !ended(e.err):
		return nil, e.err
	case long:
		e.n++
		return nil, e.tooLarge("body")
	default:
		e.n++
		return e.buf[e.from:e.to], nil
	}
}
