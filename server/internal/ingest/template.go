package ingest

import (
	"strings"

	attend "github.com/attend-go/attend/core"
)

// DefaultScope is the template that makes the scope of a CloudEvent. Of an event
// without a subject it is the source alone.
const DefaultScope = "{source}/{subject}"

// A template makes a scope from a CloudEvent's attributes: text with their names
// in braces.
type template struct {
	parts  []templatePart
	tail   bool // the subject may be missing, with what stands before it
	wanted map[string]bool
}

type templatePart struct {
	text string // text as it is, or the name of an attribute
	attr bool
}

func parseTemplate(s string) (*template, error) {
	if s == "" {
		s = DefaultScope
	}
	invalid := func(want string) (*template, error) {
		return nil, &attend.InvalidError{Field: "Scope", Want: want}
	}
	t := &template{tail: s == DefaultScope, wanted: make(map[string]bool)}
	for rest := s; rest != ""; {
		text, after, brace := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return invalid("a template in which each } closes a {")
		}
		if text != "" {
			t.parts = append(t.parts, templatePart{text, false})
		}
		if !brace {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || !attributeName(name) || name == "data" {
			return invalid("a template with names of attributes in braces, such as {source}")
		}
		t.parts = append(t.parts, templatePart{name, true})
		t.wanted[name] = true
		rest = behind
	}
	if len(t.wanted) == 0 {
		return invalid("a template with an attribute in it, such as {source}")
	}
	return t, nil
}

// attributeName reports whether a CloudEvent may have an attribute of this name.
func attributeName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// scope adds the scope of an event to dst.
func (t *template) scope(dst []byte, attrs map[string]string) ([]byte, *reason) {
	if t.tail && attrs["subject"] == "" {
		return append(dst, attrs["source"]...), nil
	}
	for _, p := range t.parts {
		text := p.text
		if p.attr {
			if text = attrs[p.text]; text == "" {
				return dst, wants("scope", "the attribute "+p.text+" of the event, its scope is made from it")
			}
		}
		dst = append(dst, text...)
	}
	return dst, nil
}
